//! The last lines of a log, by `outlive logs` and by `tail`, in turns.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use outlive::{Job, Store};

use crate::{Failure, Samples, go_on, judge};

/// How many lines are wanted.
const LINES: &str = "100";

/// The longest time, as a multiple of that of `tail`, by the medians.
const BOUND: f64 = 2.0;

/// Compares both for each log, which is called by its name; tells whether the bound was kept.
///
/// # Errors
///
/// If one of the programs fails, or they do not print the same.
pub fn compare(
    outlive: &Path,
    store: &Store,
    logs: &[(&str, &Job)],
    rounds: u64,
    all_kept: &mut bool,
) -> Result<(), Failure> {
    println!(
        "\n{:<32}{:>10}{:>8}{:>8}{:>10}{:>8}{:>8}",
        "", "outlive µs", "p50", "p95", "tail µs", "p50", "p95"
    );
    for (name, job) in logs {
        let (mut ours, mut floor) = (Samples::default(), Samples::default());
        let file = job.log_file()?;
        for round in 0..rounds {
            go_on()?;
            let mut logs = Command::new(outlive);
            logs.args(["logs", "-n", LINES, job.id().as_str()]).env("OUTLIVE_HOME", store.root());
            logs.env_remove("OUTLIVE_CONFIG").env_remove("OUTLIVE_SESSION");
            let mut tail = Command::new("tail");
            tail.args(["-n", LINES]).arg(&file);
            let (printed, wanted) = if round % 2 == 0 {
                (timed(logs, &mut ours)?, timed(tail, &mut floor)?)
            } else {
                let wanted = timed(tail, &mut floor)?;
                (timed(logs, &mut ours)?, wanted)
            };
            // A last line that was cut has no newline.
            if printed.trim_ascii_end() != wanted.trim_ascii_end() {
                return Err(format!("{name}: outlive logs and tail print different lines").into());
            }
        }
        let ratio = ours.median() / floor.median();
        println!(
            "{:<32}{:>10.0}{:>8.0}{:>8.0}{:>10.0}{:>8.0}{:>8.0}  {ratio:>5.2}  {} (≤ {BOUND})",
            format!("last {LINES} lines of {name}"),
            ours.best(),
            ours.median(),
            ours.quantile(0.95),
            floor.best(),
            floor.median(),
            floor.quantile(0.95),
            judge(ratio <= BOUND, all_kept),
        );
    }
    Ok(())
}

/// Runs a program to its end, adds the microseconds that it took, and returns what it printed.
fn timed(mut command: Command, samples: &mut Samples) -> Result<Vec<u8>, Failure> {
    let asked = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    samples.add(asked.elapsed().as_secs_f64() * 1e6);
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().into())
    }
}
