//! The process of Slurm's script is the guard of the job's keeper.
//!
//! Proves: what Slurm has started is the job's guard, and goes on as its keeper when that is killed, with every line and the exit code; what
//! Slurm asks for, of all processes or of the script's alone, ends the job by its own words, once; Slurm calls the job over when its
//! on-exit command has ended, and its exit code is the job's.

use std::fs;

use outlive_tests::{signal, until};

use super::cluster::Cluster;

impl Cluster {
    /// Returns the pid of the process that Slurm has started for a job.
    fn script(&self, job: &str) -> i64 {
        let placed = fs::read(self.home.job_dir(job).join("placed")).expect("it is placed");
        let placed: serde_json::Value = serde_json::from_slice(&placed).expect("JSON");
        placed["process"]["pid"].as_i64().expect("a pid")
    }

    /// Waits until Slurm says that a job is over, and returns its exit code as Slurm tells it.
    fn code_when_over(&self, job: &str) -> String {
        let shown = || self.said(&["scontrol", "show", "job", &self.number(job)]);
        let is_over = |shown: &str| {
            ["COMPLETED", "FAILED", "CANCELLED"]
                .iter()
                .any(|word| shown.contains(&format!("JobState={word} ")))
        };
        until("Slurm says that it is over", || is_over(&shown()));
        let shown = shown();
        let code = shown.split_whitespace().find_map(|word| word.strip_prefix("ExitCode="));
        code.expect("it has one").to_owned()
    }
}

/// Returns the name of the parent of a process.
fn parent_of(pid: i64) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let parent =
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).expect("it has one").to_owned();
    fs::read_to_string(format!("/proc/{parent}/comm")).expect("it lives").trim_end().to_owned()
}

#[test]
fn a_keeper_that_is_killed_is_followed_by_the_process_of_the_script() {
    let Some(cluster) = Cluster::start() else { return };
    let go = cluster.home.path().join("go");
    let line = format!(
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; done; until [ -e {} ]; do sleep 0.05; done; \
         while [ $i -lt 6000 ]; do i=$((i+1)); echo line $i; done; exit 7",
        go.display()
    );
    let job = cluster.submit(&["--partition", "near"], &line);
    cluster.until_running(&job);
    until("it prints", || !cluster.run(&["logs", &job]).ok().text().is_empty());
    let script = cluster.script(&job);
    let shown = cluster.show(&job);
    assert_eq!(shown["guard_pid"], script, "{shown}");
    assert!(parent_of(script).starts_with("slurmstepd"), "{}", parent_of(script));
    let keeper = shown["keeper_pid"].as_i64().expect("a pid");
    assert_ne!(keeper, script);
    signal(keeper as i32, "KILL");
    until("the script's process is the keeper", || cluster.show(&job)["keeper_pid"] == script);
    fs::write(go, "").expect("written");
    let waited = cluster.run(&["wait", &job]).code(7);
    assert!(waited.text().contains("exited with 7"), "{}", waited.text());
    let expected: String = (1..=6000).map(|number| format!("line {number}\n")).collect();
    let printed = cluster.run(&["logs", &job]).ok().text();
    assert!(printed == expected, "{} bytes", printed.len());
    assert_eq!(cluster.code_when_over(&job), "7:0");
}

#[test]
fn what_slurm_asks_for_ends_the_job_by_its_own_words() {
    let Some(cluster) = Cluster::start() else { return };
    let line = "trap 'echo bye; exit 9' TERM; echo there; sleep 300 & wait";
    for (words, name) in [
        (&["scancel"][..], "SIGTERM"),
        // Of the script's process alone.
        (&["scancel", "--signal=TERM", "--batch"], "SIGTERM"),
        (&["scancel", "--signal=INT", "--batch"], "SIGINT"),
    ] {
        let job = cluster.submit(&["--partition", "near"], line);
        until("it prints", || cluster.run(&["logs", &job]).ok().text() == "there\n");
        cluster.said(&[words, &[cluster.number(&job).as_str()]].concat());
        let waited = cluster.run(&["wait", &job]).code(7);
        assert!(waited.text().contains(&format!("killed by slurm ({name})")), "{words:?}: {}", waited.text());
        assert_eq!(cluster.show(&job)["exit_code"], 9, "{words:?}");
        assert_eq!(cluster.run(&["logs", &job]).ok().text(), "there\nbye\n", "{words:?}");
        cluster.code_when_over(&job);
    }
    // One that ends of the signal itself, and one that does not end of it.
    for (line, signal) in
        [("echo there; exec sleep 300", "SIGTERM"), ("trap '' TERM; echo there; sleep 300", "SIGKILL")]
    {
        let job = cluster.submit(&["--partition", "near", "--grace", "1s"], line);
        until("it prints", || cluster.run(&["logs", &job]).ok().text() == "there\n");
        cluster.said(&["scancel", &cluster.number(&job)]);
        let waited = cluster.run(&["wait", &job]).code(7);
        assert!(waited.text().contains("killed by slurm (SIGTERM)"), "{}", waited.text());
        assert_eq!(cluster.show(&job)["signal"], signal);
        cluster.code_when_over(&job);
    }
}

#[test]
fn slurm_calls_a_job_over_when_its_on_exit_command_has_ended() {
    let Some(cluster) = Cluster::start() else { return };
    let (go, done) = (cluster.home.path().join("go"), cluster.home.path().join("done"));
    let line = format!(
        "until [ -e {} ]; do sleep 0.05; done; echo $OUTLIVE_EXIT_CODE >{}",
        go.display(),
        done.display()
    );
    let job = cluster.submit(&["--partition", "near", "--on-exit", &line], "echo there; exit 5");
    let waited = cluster.run(&["wait", &job]).code(7);
    assert!(waited.text().contains("exited with 5"), "{}", waited.text());
    // Nobody waits for that, but Slurm does.
    let state = cluster.said(&["squeue", "--noheader", "--job", &cluster.number(&job), "--format=%T"]);
    assert_eq!(state.trim(), "RUNNING");
    assert!(!done.exists());
    fs::write(go, "").expect("written");
    assert_eq!(cluster.code_when_over(&job), "5:0");
    assert_eq!(fs::read_to_string(done).expect("it has ended"), "5\n");
    // One that a signal ends has the code that shells give it.
    let killed = cluster.submit(&["--partition", "near"], "kill -USR1 $$; sleep 300");
    cluster.run(&["wait", &killed]).code(7);
    assert_eq!(cluster.code_when_over(&killed), "138:0");
    let left = || fs::read_dir(cluster.home.store().join("waiting")).map_or(0, Iterator::count);
    assert_eq!(left(), 0, "the mark of a place is left");
}

#[test]
fn a_keeper_that_is_upgraded_stays_below_the_process_of_the_script() {
    let Some(cluster) = Cluster::start() else { return };
    let line = "trap 'echo bye; exit 9' TERM; echo there; sleep 300 & wait";
    let job = cluster.submit(&["--partition", "near"], line);
    until("it prints", || cluster.run(&["logs", &job]).ok().text() == "there\n");
    let script = cluster.script(&job);
    let role = || fs::read(format!("/proc/{script}/cmdline")).unwrap_or_default();
    assert!(role().ends_with(b"\0foreground\0"), "{:?}", String::from_utf8_lossy(&role()));
    let said = cluster.run(&["--json", "upgrade", "--force", &job]).ok().json()["jobs"][0].clone();
    assert_eq!((&said["result"], &said["with_guard"]), (&"upgraded".into(), &true.into()), "{said}");
    assert_eq!(cluster.show(&job)["guard_pid"], script);
    assert!(!role().ends_with(b"\0foreground\0"));
    // It still hears what Slurm asks of the script's process, and still ends with the job.
    cluster.said(&["scancel", "--signal=TERM", "--batch", &cluster.number(&job)]);
    let waited = cluster.run(&["wait", &job]).code(7);
    assert!(waited.text().contains("killed by slurm (SIGTERM)"), "{}", waited.text());
    assert_eq!(cluster.run(&["logs", &job]).ok().text(), "there\nbye\n");
    assert_eq!(cluster.code_when_over(&job), "9:0");
}

#[test]
fn a_command_that_cannot_be_executed_fails_for_slurm_too() {
    let Some(cluster) = Cluster::start() else { return };
    let done = cluster.run(&["run", "--on", "cluster", "--partition", "near", "--", "/none/such", "word"]);
    let job = done.ok().text().trim_end().to_owned();
    cluster.run(&["wait", &job]).code(7);
    let shown = cluster.show(&job);
    assert_eq!(shown["cause"], "never_started", "{shown}");
    assert_eq!(cluster.code_when_over(&job), "1:0");
}
