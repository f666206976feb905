//! What Slurm loses, starts again or gives out twice.
//!
//! Proves: one copy of a job, no exit code that nobody saw, and no stranger cancelled.

use std::fs;

use outlive_tests::until;

use super::cluster::Cluster;

#[test]
fn a_job_that_an_administrator_requeues_is_not_begun_twice() {
    let Some(cluster) = Cluster::start() else { return };
    let job = cluster.submit(&["--partition", "near"], "echo begun >&2; sleep 300");
    cluster.until_running(&job);
    let number = cluster.number(&job);
    cluster.said(&["scontrol", "update", &format!("JobId={number}"), "Requeue=1"]);
    cluster.said(&["scontrol", "requeue", &number]);
    let waited = cluster.run(&["wait", &job]).code(7);
    assert!(waited.text().contains("killed by slurm"), "{}", waited.text());
    until("the second attempt is over", || {
        // A node that has just killed it may refuse it (`credential revoked`), and then Slurm has given it up without an attempt.
        let state = cluster.said(&["squeue", "--noheader", "--states=all", "--job", &number, "--format=%T"]);
        if state.trim() == "FAILED" {
            cluster.said(&["scontrol", "requeue", &number]);
        }
        // It would wait for two minutes.
        cluster.said(&["scontrol", "update", &format!("JobId={number}"), "StartTime=now"]);
        let log = fs::read_to_string(cluster.home.job_dir(&job).join("engine.log")).unwrap_or_default();
        log.contains("is not begun twice")
    });
    assert_eq!(cluster.run(&["logs", &job]).ok().text(), "begun\n");
    assert_eq!(cluster.show(&job)["status"], "killed");
}

#[test]
fn a_stranger_that_has_the_number_of_a_job_is_not_cancelled() {
    let Some(cluster) = Cluster::start() else { return };
    let stranger = cluster.said(&[
        "sbatch",
        "--parsable",
        "--output=/dev/null",
        "--cpus-per-task=20",
        "--partition=near",
        "--wrap",
        "sleep 300",
    ]);
    let stranger = stranger.trim();
    let job = cluster.submit(&["--cpus", "20", "--partition", "near"], "true");
    // As after a controller that forgot the job and gave its number out again.
    let own = cluster.number(&job);
    fs::write(cluster.home.job_dir(&job).join("engine_job"), stranger).expect("written");
    cluster.run(&["kill", &job]).ok();
    assert_eq!(cluster.show(&job)["status"], "killed");
    let state = cluster.said(&["squeue", "--noheader", "--job", stranger, "--format=%T"]);
    assert!(matches!(state.trim(), "RUNNING" | "PENDING"), "{state}");
    // Ours is still in Slurm's queue under its own number, and is not begun when its turn comes.
    cluster.said(&["scancel", stranger]);
    until("its turn has come", || {
        let state = cluster.said(&["squeue", "--noheader", "--states=all", "--job", &own, "--format=%T"]);
        state.trim() == "FAILED" || state.trim() == "CANCELLED"
    });
    assert!(!cluster.home.job_dir(&job).join("placed").exists());
    assert_eq!(cluster.show(&job)["status"], "killed");
}

#[test]
fn a_controller_that_is_killed_after_a_submit_loses_no_outcome() {
    let Some(mut cluster) = Cluster::start() else { return };
    let job = cluster.submit(&["--partition", "near"], "sleep 1; echo done; exit 5");
    cluster.kill_controller();
    // Whatever it remembers: what is not known is not called an end.
    let shown = cluster.run(&["--json", "show", &job]).ok().json();
    assert_eq!(shown["exit_code"], serde_json::Value::Null, "{shown}");
    cluster.control();
    let is_begun = cluster.home.job_dir(&job).join("placed").exists();
    let number = cluster.number(&job);
    let other = cluster.submit(&["--partition", "near"], "sleep 300");
    match cluster
        .said(&["squeue", "--noheader", "--states=all", "--job", &number, "--format=%j"])
        .contains("outlive-")
        || is_begun
    {
        true => {
            let is_same = cluster.number(&other) == number;
            if !is_same || is_begun {
                drop(cluster.run(&["wait", &job]).code(7));
                assert_eq!(cluster.show(&job)["exit_code"], 5);
            } else {
                // Forgotten, and its number given out again: it is unknown, and not the other job.
                let shown = cluster.show(&job);
                assert_eq!(shown["status"], "queued", "{shown}");
                assert!(
                    shown["waits_for"].as_str().is_some_and(|text| text.contains("does not know it")),
                    "{shown}"
                );
                cluster.run(&["kill", &job]).ok();
            }
        }
        false => {
            let shown = cluster.show(&job);
            assert_eq!(shown["status"], "queued", "{shown}");
            cluster.run(&["kill", &job]).ok();
        }
    }
    cluster.until_running(&other);
    cluster.run(&["kill", &other]).ok();
}

#[test]
fn a_node_that_does_not_reach_the_engine_ends_its_job_after_the_cutoff() {
    let Some(cluster) = Cluster::start() else { return };
    let job = cluster.submit(
        &["--partition", "near", "--cutoff", "4s"],
        "trap 'echo cut off; exit 3' TERM; sleep 300 & wait",
    );
    let other = cluster.submit(&["--partition", "near"], "sleep 300");
    cluster.until_running(&job);
    cluster.until_running(&other);
    cluster.signal_controller("STOP");
    let waited = cluster.run(&["wait", &job]).code(7);
    assert!(waited.text().contains("has not reached slurm"), "{}", waited.text());
    assert_eq!(cluster.run(&["logs", &job]).ok().text(), "cut off\n");
    // Without a cutoff a job goes on.
    assert_eq!(cluster.show(&other)["status"], "running");
    cluster.signal_controller("CONT");
    cluster.run(&["kill", &other]).ok();
}

#[test]
fn a_node_that_loses_its_power_leaves_a_job_that_is_lost_and_never_successful() {
    let Some(mut cluster) = Cluster::start() else { return };
    let job = cluster.submit(&["--partition", "far"], "echo begun; sleep 300");
    until("it prints", || cluster.run(&["logs", &job]).ok().text() == "begun\n");
    cluster.lose_far();
    let waited = cluster.run(&["wait", &job]).code(7);
    assert!(waited.text().contains("lost"), "{}", waited.text());
    let shown = cluster.show(&job);
    assert_eq!(
        (&shown["status"], &shown["exit_code"]),
        (&"lost".into(), &serde_json::Value::Null),
        "{shown}"
    );
    assert_eq!(cluster.run(&["logs", &job]).ok().text(), "begun\n");
}
