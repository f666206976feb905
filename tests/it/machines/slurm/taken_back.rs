//! What a real Slurm seldom does, with stand-ins for its commands: it kills what it knows to be left, so that a node's own look is seldom
//! needed, and it takes a job in a few milliseconds.
//!
//! Proves: a node that learns that it has lost its place ends the job, and says why. A job whose starter is killed while it submits it is
//! told as never started by the first front end that looks, and not before. What Slurm says of a job that waits is told over MCP and HTTP, too,
//! and a wait there ends with a job that is gone without a record. A second copy, on a node whose store knows nothing of the first, is
//! cancelled and never taken for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use outlive_remote::{Client, Filter};
use outlive_tests::{Done, Era, Home, LIMIT, Mcp, end_within, finish, signal, until};
use serde_json::json;

/// Commands in place of Slurm's; they share a directory, `$dir`.
struct StandIns {
    home: Home,
    dir: PathBuf,
    path: String,
}

impl StandIns {
    fn new(commands: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let (bin, dir) = (home.make_dir("bin"), home.make_dir("slurm"));
        for (name, text) in commands {
            let file = bin.join(name);
            fs::write(&file, format!("#!/bin/sh\ndir={}\n{text}", dir.display())).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("set");
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("there is one"));
        Self { home, dir, path }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.home.outlive(arguments);
        command.env("PATH", &self.path);
        command
    }

    #[must_use = "a test that does not look proves nothing"]
    fn run(&self, arguments: &[&str]) -> Done {
        finish(self.command(arguments), b"")
    }
}

#[test]
fn a_node_that_has_lost_its_place_ends_its_job() {
    let sbatch = "for word; do case $word in --job-name=*) echo \"$$|${word#*=}|RUNNING|None\" >$dir/job;; esac; done\n\
                  cat >$dir/script\nSLURM_JOB_ID=$$ SLURMD_NODENAME=n1 setsid sh $dir/script </dev/null >/dev/null 2>&1 &\necho $$\n";
    let squeue = "[ -e $dir/gone ] || cat $dir/job\n";
    let slurm = StandIns::new(&[("sbatch", sbatch), ("squeue", squeue), ("scancel", "")]);
    let line = "trap 'echo bye; exit 3' TERM; echo there; sleep 300 & wait";
    let job =
        slurm.run(&["run", "--engine", "slurm", "--cutoff", "4s", line]).ok().text().trim_end().to_owned();
    until("it prints", || slurm.run(&["logs", &job]).ok().text() == "there\n");
    fs::write(slurm.dir.join("gone"), "").expect("written");
    let waited = slurm.run(&["wait", &job]).code(7);
    assert!(waited.text().contains("slurm has taken its place back"), "{}", waited.text());
    assert_eq!(slurm.run(&["logs", &job]).ok().text(), "there\nbye\n");
}

#[test]
fn a_job_whose_starter_is_killed_while_it_submits_is_never_started() {
    // The engine's command goes on without the starter, and is then killed, too.
    let sbatch = "echo $$ >$dir/pid; cat >$dir/script; until [ -e $dir/go ]; do sleep 0.02; done; exit 1\n";
    let slurm = StandIns::new(&[("sbatch", sbatch), ("squeue", ""), ("scancel", "")]);
    let mut starter = slurm
        .command(&["run", "--engine", "slurm", "--name", "early", "echo never"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    until("it is being submitted", || slurm.dir.join("script").metadata().is_ok_and(|file| file.len() > 0));
    let status = || slurm.run(&["--json", "show", "early"]).ok().json();
    assert_eq!(status()["status"], "queued", "its starter is at work");
    starter.kill().and_then(|()| starter.wait()).expect("our child");
    assert_eq!(status()["status"], "queued", "the engine may still take it");
    fs::write(slurm.dir.join("go"), "").expect("written");
    until("that is over", || status()["status"] != "queued");
    let shown = status();
    assert_eq!((&shown["status"], &shown["cause"]), (&"failed".into(), &"never_started".into()), "{shown}");
    let reason = "it was not started: its starter was killed before it knew that slurm has it";
    assert_eq!(shown["reason"], reason, "{shown}");
    // Whatever the engine starts later finds it given up.
    let late = finish(
        {
            let mut command = std::process::Command::new("sh");
            command.arg(slurm.dir.join("script")).env("SLURM_JOB_ID", "7").env("SLURMD_NODENAME", "n1");
            command
        },
        b"",
    );
    assert_ne!(late.code, 0, "{}", late.text());
    assert!(late.error().contains("it is not begun twice"), "{}", late.error());
    assert_eq!(slurm.run(&["logs", "early"]).ok().text(), "");
}

#[test]
fn a_copy_that_slurm_begins_again_on_another_node_is_cancelled() {
    let sbatch = "for word; do case $word in --job-name=*) echo \"7|${word#*=}|RUNNING|None|n1\" >$dir/job;; esac; done\n\
         cat >/dev/null\necho 7\n";
    let slurm = StandIns::new(&[
        ("sbatch", sbatch),
        ("squeue", "cat $dir/job\n"),
        ("scancel", "echo \"$*\" >>$dir/cancelled\n"),
    ]);
    let there = slurm.dir.join("there").display().to_string();
    let run = ["run", "--engine", "slurm", "--node-store", &there, "sleep 300"];
    let job = slurm.run(&run).ok().text().trim_end().to_owned();
    let shown = || slurm.run(&["--json", "list", "--all"]).ok().json()[0].clone();
    assert_eq!(shown()["status"], "running");
    let noted = fs::read_to_string(slurm.dir.join("job")).expect("Slurm has it");
    let name = noted.split('|').nth(1).expect("it has a name").to_owned();
    assert!(!slurm.dir.join("cancelled").exists());
    // The controller has forgotten where it runs.
    fs::write(slurm.dir.join("job"), noted.replace("|n1", "|n2")).expect("written");
    let again = shown();
    assert_eq!((&again["job"], &again["status"]), (&job.into(), &"running".into()), "{again}");
    let waits = again["waits_for"].as_str().unwrap_or_default();
    assert_eq!(waits, "slurm began it again on n2, and that copy was cancelled; n1 has it");
    let cancelled = fs::read_to_string(slurm.dir.join("cancelled")).expect("it was cancelled");
    assert_eq!(cancelled, format!("--name={name} 7\n"));
}

#[test]
fn a_record_that_is_brought_home_in_part_is_no_end() {
    // The node is this machine: its keeper is gone, and that must not be taken for the end.
    let sbatch = "for word; do case $word in --job-name=*) echo \"7|${word#*=}|RUNNING|None|n1\" >$dir/job;; esac; done\n\
                  cat >$dir/script\nSLURM_JOB_ID=7 SLURMD_NODENAME=n1 setsid sh $dir/script </dev/null >/dev/null 2>&1 &\necho 7\n";
    let ssh = "for line; do :; done; exec sh -c \"$line\"\n";
    let slurm =
        StandIns::new(&[("sbatch", sbatch), ("squeue", "cat $dir/job\n"), ("scancel", ""), ("ssh", ssh)]);
    let there = slurm.dir.join("there");
    let node_store = there.display().to_string();
    let run = ["run", "--engine", "slurm", "--node-store", &node_store, "echo there; exit 3"];
    let job = slurm.run(&run).ok().text().trim_end().to_owned();
    let shown = || slurm.run(&["--json", "list", "--all"]).ok().json()[0].clone();
    assert_eq!(shown()["status"], "running");
    let on_node = there.join("jobs").join(&job);
    until("the node has made it", || on_node.exists());
    let mut wait = slurm.command(&["wait", &job]);
    wait.env("OUTLIVE_HOME", &there);
    finish(wait, b"").code(7);
    fs::write(on_node.join("ready"), "").expect("written");
    // It cannot be written here.
    let hindrance = slurm.home.path().join("store/jobs").join(&job).join("ready");
    fs::create_dir_all(hindrance.join("in the way")).expect("made");
    let noted = fs::read_to_string(slurm.dir.join("job")).expect("Slurm has it");
    fs::write(slurm.dir.join("job"), noted.replace("RUNNING", "FAILED")).expect("written");
    for _ in 0..2 {
        let shown = shown();
        assert_eq!(shown["status"], "running", "{shown}");
        let waits = shown["waits_for"].as_str().unwrap_or_default();
        assert!(waits.starts_with("slurm says FAILED; n1, which has its record: "), "{waits}");
    }
    fs::remove_dir_all(&hindrance).expect("removed");
    // It would be tried again after half a minute.
    fs::remove_file(hindrance.with_file_name("unreached")).expect("removed");
    let waited = slurm.run(&["wait", &job]).code(7);
    assert!(waited.text().contains("exited with 3"), "{}", waited.text());
    assert_eq!(slurm.run(&["logs", &job]).ok().text(), "there\n");
    assert!(!on_node.exists(), "it was removed there");
}

#[test]
fn what_needs_a_keeper_says_that_no_node_has_begun_the_job() {
    let sbatch = "cat >/dev/null; echo 7\n";
    let slurm = StandIns::new(&[("sbatch", sbatch), ("squeue", ""), ("scancel", "")]);
    let job = slurm.run(&["run", "--engine", "slurm", "--pty", "cat"]).ok().text().trim_end().to_owned();
    let waits = format!("job {job} waits for slurm, and no node has begun it");
    let next = format!("`outlive show {job}` says what it waits for; try again when it runs");
    for arguments in [
        &["send", &job, "hello"][..],
        &["pause", &job],
        &["resume", &job],
        &["resize", &job, "80x24"],
        &["kill", "--signal", "USR1", &job],
    ] {
        let refused = slurm.run(&[&["--json"], arguments].concat()).code(1).error_json()["error"].clone();
        assert_eq!(refused["code"], "not_begun", "{arguments:?}: {refused}");
        assert!(refused["message"].as_str().is_some_and(|text| text.contains(&waits)), "{refused}");
        assert_eq!(refused["hint"], next, "{arguments:?}");
    }
    slurm.run(&["kill", &job]).ok();
}

#[test]
fn what_the_engine_says_is_told_by_every_front_end() {
    let sbatch = "for word; do case $word in --job-name=*) echo \"${word#*=}\" >$dir/name;; esac; done\ncat >/dev/null; echo 7\n";
    let squeue = "echo \"7|$(cat $dir/name)|$(cat $dir/word)\"\n";
    let slurm = StandIns::new(&[("sbatch", sbatch), ("squeue", squeue), ("scancel", "")]);
    let say = |word: &str| fs::write(slurm.dir.join("word"), word).expect("written");
    say("PENDING|Resources");
    let job = slurm
        .run(&["--session", "s", "run", "--engine", "slurm", "echo never"])
        .ok()
        .text()
        .trim_end()
        .to_owned();
    let mut agent = Mcp::of(slurm.command(&["mcp", "--session", "s"]), Era::Stateless, json!({}), &[]);
    let listed = agent.call("list_jobs", json!({})).ok().text;
    assert!(listed.contains("slurm: Resources"), "{listed}");
    let mut server = slurm.command(&["--json", "serve"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("piped")).read_line(&mut line).expect("it says where");
    let address = format!("unix://{}", slurm.home.store().display());
    let client = Client::new(address.parse().expect("an address"));
    let jobs = client.jobs(&Filter::default()).expect("a list").jobs;
    let reasons: Vec<_> = jobs.iter().map(|job| job.more["waits_for"].as_str()).collect();
    assert_eq!(reasons, [Some("slurm: Resources")]);
    // Gone without a record of ours: a wait that has begun ends.
    let waiting = agent.send_call("wait", json!({ "jobs": [job] }));
    say("CANCELLED|None");
    let told = agent.tool_answer(waiting).ok().text;
    assert!(told.contains("slurm says CANCELLED"), "{told}");
    assert_eq!(client.wait(&job, None).expect("an answer").job.status, "failed");
    assert_eq!(agent.end(), 0);
    signal(server.id() as i32, "TERM");
    assert_eq!(end_within(&mut server, LIMIT), Some(0));
}
