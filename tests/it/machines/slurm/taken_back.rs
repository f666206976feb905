//! What a real Slurm seldom does, with stand-ins for its commands: it kills what it knows to be left, so that a node's own look is seldom
//! needed, and it takes a job in a few milliseconds.
//!
//! Proves: a node that learns that it has lost its place ends the job, and says why. A job whose starter is killed while it submits it is
//! told as never started by the first front end that looks, and not before.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use outlive_tests::{Done, Home, finish, until};

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
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
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
