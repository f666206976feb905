//! `list_shells`: all processes.

use outlive::{Blank, Job, State, Timestamp};
use serde_json::{Value, json};

use super::{LINES, delivers, last_words, processes, word};
use crate::profiles::{pid, started, without_nulls};
use crate::reply::{Failure, Reply};
use crate::tools::{Call, Hints, Tool};

pub(super) static TOOL: Tool = Tool {
    name: "list_shells",
    title: "List shells",
    description: "List all background shell processes (running and recent completed)",
    parameters: &[],
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    waits: false,
    call,
};

/// A command that is longer than this is cut.
const WIDTH: usize = 50;

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let now = Timestamp(outlive_sys::clock::wall_us());
    let processes = processes(call)?;
    let rows: Vec<Value> = processes.iter().map(|(job, state)| row(job, state, now)).collect();
    let reply = Reply::json(&rows.into());
    Ok(processes.into_iter().fold(reply, |reply, (job, state)| delivers(call, reply, job, &state)))
}

fn row(job: &Job, state: &State, now: Timestamp) -> Value {
    let started = started(job, state);
    // A job that was removed meanwhile counts no lines.
    let [stdout, mut stderr] = job.count_nonblank(Blank::Whitespace, LINES as u64).unwrap_or_default();
    stderr += u64::from(last_words(job, state).is_some());
    without_nulls(json!({
        "id": job.id().as_str(),
        "command": short(&job.spec().command_line()),
        "status": word(job, state),
        "startedAt": started.to_string(),
        "runtime": runtime(now.0.saturating_sub(started.0) / 1_000_000),
        "outputLines": stdout,
        "errorLines": stderr.min(LINES as u64),
        "pid": pid(state),
    }))
}

/// Cuts a command, counted as JavaScript does, and never in the middle of a character.
fn short(command: &str) -> String {
    if command.encode_utf16().count() <= WIDTH {
        return command.to_owned();
    }
    let (mut short, mut width) = (String::new(), 0);
    for c in command.chars() {
        width += c.len_utf16();
        if width > WIDTH - 3 {
            break;
        }
        short.push(c);
    }
    short + "..."
}

fn runtime(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S1-74..76: the three forms of a time, at their borders.
    #[test]
    fn a_time_has_its_two_largest_parts() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m 0s"),
            (65, "1m 5s"),
            (3599, "59m 59s"),
            (3600, "1h 0m"),
            (3661, "1h 1m"),
            (90_000, "25h 0m"),
        ] {
            assert_eq!(runtime(seconds), text);
        }
    }

    /// S1-78: more than 50 characters are cut to 47 and three dots.
    #[test]
    fn a_long_command_is_cut() {
        assert_eq!(short(&"x".repeat(50)), "x".repeat(50));
        assert_eq!(short(&"x".repeat(51)), "x".repeat(47) + "...");
        // A character outside the first plane counts as two, and is not cut in half.
        assert_eq!(short(&"😀".repeat(26)), "😀".repeat(23) + "...");
    }
}
