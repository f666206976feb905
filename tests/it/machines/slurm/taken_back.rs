//! A place that the engine takes back, with stand-ins for Slurm's commands: a real Slurm kills what it knows to be left, so that the node's
//! own look is seldom needed.
//!
//! Proves: a node that learns that it has lost its place ends the job, and says why.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use outlive_tests::{Home, finish, until};

#[test]
fn a_node_that_has_lost_its_place_ends_its_job() {
    let home = Home::new();
    let (bin, dir) = (home.make_dir("bin"), home.make_dir("slurm"));
    let sbatch = "for word; do case $word in --job-name=*) echo \"$$|${word#*=}|RUNNING|None\" >$dir/job;; esac; done\n\
                  cat >$dir/script\nSLURM_JOB_ID=$$ SLURMD_NODENAME=n1 setsid sh $dir/script </dev/null >/dev/null 2>&1 &\necho $$\n";
    let squeue = "[ -e $dir/gone ] || cat $dir/job\n";
    for (name, text) in [("sbatch", sbatch), ("squeue", squeue), ("scancel", "")] {
        let file = bin.join(name);
        fs::write(&file, format!("#!/bin/sh\ndir={}\n{text}", dir.display())).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("set");
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("there is one"));
    let run = |arguments: &[&str]| {
        let mut command = home.outlive(arguments);
        command.env("PATH", &path);
        finish(command, b"")
    };
    let line = "trap 'echo bye; exit 3' TERM; echo there; sleep 300 & wait";
    let job = run(&["run", "--engine", "slurm", "--cutoff", "4s", line]).ok().text().trim_end().to_owned();
    until("it prints", || run(&["logs", &job]).ok().text() == "there\n");
    fs::write(dir.join("gone"), "").expect("written");
    let waited = run(&["wait", &job]).code(7);
    assert!(waited.text().contains("slurm has taken its place back"), "{}", waited.text());
    assert_eq!(run(&["logs", &job]).ok().text(), "there\nbye\n");
}
