//! Jobs that are kept in a store of their node's own.
//!
//! Proves: without a store that the nodes share, a job is read and written to on its node while it runs, and its record is brought home when
//! it is over, byte for byte; one whose node cannot be reached is never called ended, and is when it can; it is begun once.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use outlive_tests::{Done, LIMIT, end_within, finish, until};

use super::cluster::Cluster;
use crate::machines::collect;

/// A cluster whose nodes have a store that the submitter does not look into, and an ssh that leads to them.
struct Apart {
    cluster: Cluster,
    /// The store of the nodes: they are one machine.
    there: PathBuf,
    bin: PathBuf,
}

impl Apart {
    fn start() -> Option<Self> {
        let cluster = Cluster::start()?;
        let (bin, there) = (cluster.home.make_dir("bin"), cluster.home.path().join("node-store"));
        cluster.home.configure(&format!(
            "[hosts.cluster]\nengine = \"slurm\"\nnode_store = \"{}\"\n",
            there.display()
        ));
        let apart = Self { cluster, there, bin };
        apart.connect(true);
        Some(apart)
    }

    /// Lets ssh lead to the nodes, or not. What it is given last is the line to run; to remove something takes a moment.
    fn connect(&self, is_connected: bool) {
        let text = match is_connected {
            true => {
                "#!/bin/sh\nfor line; do :; done\ncase $line in *' rm '*) sleep 1;; esac\nexec sh -c \"$line\"\n"
            }
            false => "#!/bin/sh\necho 'ssh: connect to host: No route to host' >&2; exit 255\n",
        };
        let file = self.bin.join("ssh");
        fs::write(self.bin.join("new"), text).expect("written");
        fs::set_permissions(self.bin.join("new"), fs::Permissions::from_mode(0o755)).expect("set");
        fs::rename(self.bin.join("new"), file).expect("renamed");
    }

    fn outlive(&self, arguments: &[&str]) -> Command {
        let mut command = self.cluster.outlive(arguments);
        let path = std::env::var("PATH").expect("there is one");
        command.env("PATH", format!("{}:{path}", self.bin.display()));
        command
    }

    #[must_use = "a test that does not look proves nothing"]
    fn run(&self, arguments: &[&str]) -> Done {
        finish(self.outlive(arguments), b"")
    }

    fn submit(&self, options: &[&str], line: &str) -> String {
        let arguments = [&["run", "--on", "cluster"], options, &[line]].concat();
        self.run(&arguments).ok().text().trim_end().to_owned()
    }

    fn show(&self, job: &str) -> serde_json::Value {
        self.run(&["--json", "show", job]).ok().json()
    }

    fn listed(&self, job: &str) -> serde_json::Value {
        let jobs = self.run(&["--json", "list", "--all"]).ok().json();
        let mut jobs = jobs.as_array().expect("a list").clone();
        jobs.retain(|listed| listed["job"] == job);
        jobs.pop().expect("it is listed")
    }
}

#[test]
fn a_job_is_read_on_its_node_and_brought_home_when_it_is_over() {
    let Some(apart) = Apart::start() else { return };
    let line = "echo on $SLURMD_NODENAME; read x; echo got $x; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; echo err $i >&2; done; exit 7";
    let job = apart.submit(&["--partition", "far", "--stdin", "open", "--name", "train"], line);
    let mut following = apart
        .outlive(&["logs", "-f", "cluster/train"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let (text, reading) = collect(&mut following);
    until("it is followed on its node", || *text.lock().expect("no panic") == "on far\n");
    // Here is only the intent, and there all of it.
    assert!(apart.there.join("jobs").join(&job).is_dir());
    assert_eq!(fs::metadata(apart.cluster.home.job_dir(&job).join("out.idx")).expect("it is there").len(), 0);
    assert_eq!(apart.listed(&job)["status"], "running");
    assert!(apart.show("train")["placed_by"].as_str().is_some_and(|text| text.ends_with("on far")));
    apart.run(&["pause", "train"]).ok();
    apart.run(&["resume", "train"]).ok();
    apart.run(&["send", "train", "hello"]).ok();
    let waited = apart.run(&["wait", "train"]).code(7);
    assert!(waited.text().contains("exited with 7"), "{}", waited.text());
    assert_eq!(end_within(&mut following, LIMIT), Some(0));
    reading.join().expect("read");
    let expected: String = (1..=3000).map(|number| format!("line {number}\n")).collect();
    let printed = apart.run(&["logs", "--stream", "stdout", &job]).ok().text();
    assert!(printed == format!("on far\ngot hello\n{expected}"), "{} bytes", printed.len());
    // What was followed is the log: no byte is missing and none came twice.
    let whole = apart.run(&["logs", &job]).ok().text();
    assert!(*text.lock().expect("no panic") == whole, "{} bytes", whole.len());
    let shown = apart.show(&job);
    assert_eq!((&shown["status"], &shown["exit_code"]), (&"failed".into(), &7.into()), "{shown}");
    assert!(shown["runtime_ms"].is_u64(), "{shown}");
    // The program that brought it home removes it there, beside the one that saw it come.
    until("nothing stays on the node", || !apart.there.join("jobs").join(&job).exists());
    // The wait has told of it; of one that no command waited for the inbox tells.
    let other = apart.submit(&["--partition", "far"], "exit 3");
    let mut told = String::new();
    until("the inbox tells of it", || {
        told += &apart.run(&["inbox"]).ok().text();
        told.contains(&other)
    });
    assert!(told.contains("exited with 3") && !told.contains(&job), "{told}");
    // A wait that alone brings it home goes on until it is removed there.
    let last = apart.submit(&["--partition", "far"], "exit 4");
    apart.run(&["wait", &last]).code(7);
    assert!(!apart.there.join("jobs").join(&last).exists(), "{last} stays on the node");
}

#[test]
fn a_record_that_cannot_be_reached_is_no_end() {
    let Some(apart) = Apart::start() else { return };
    apart.connect(false);
    let job = apart.submit(&["--partition", "far"], "echo there; exit 3");
    let told = || apart.listed(&job)["waits_for"].as_str().unwrap_or_default().to_owned();
    until("Slurm says that it is over", || told().contains("slurm says FAILED"));
    assert!(told().contains("No route to host"), "{}", told());
    assert_eq!(
        (&apart.listed(&job)["status"], &apart.listed(&job)["exit_code"]),
        (&"running".into(), &serde_json::Value::Null)
    );
    apart.connect(true);
    let waited = apart.run(&["wait", &job]).code(7);
    assert!(waited.text().contains("exited with 3"), "{}", waited.text());
    assert_eq!(apart.run(&["logs", &job]).ok().text(), "there\n");
}

#[test]
fn a_job_is_ended_on_its_node_and_before_it_has_one() {
    let Some(apart) = Apart::start() else { return };
    let first = apart.submit(
        &["--partition", "far", "--cpus", "20"],
        "trap 'echo bye; exit 9' TERM; echo there; sleep 300 & wait",
    );
    until("it prints", || apart.run(&["logs", &first]).text() == "there\n");
    let second = apart.submit(&["--partition", "far", "--cpus", "20"], "echo never");
    apart.run(&["kill", &second]).ok();
    let shown = apart.show(&second);
    assert_eq!(
        (&shown["status"], &shown["exit_code"]),
        (&"killed".into(), &serde_json::Value::Null),
        "{shown}"
    );
    apart.run(&["kill", &first]).ok();
    let shown = apart.show(&first);
    assert_eq!((&shown["status"], &shown["exit_code"]), (&"killed".into(), &9.into()), "{shown}");
    assert_eq!(apart.run(&["logs", &first]).ok().text(), "there\nbye\n");
    // One that an administrator starts again was begun before, whichever node it comes to.
    let third = apart.submit(&["--partition", "near"], "echo begun; sleep 300");
    until("it prints", || apart.run(&["logs", &third]).text() == "begun\n");
    let number = apart.cluster.number(&third);
    apart.cluster.said(&["scontrol", "update", &format!("JobId={number}"), "Requeue=1"]);
    apart.cluster.said(&["scontrol", "requeue", &number]);
    until("the second attempt is over", || {
        // It would wait for two minutes.
        apart.cluster.said(&["scontrol", "update", &format!("JobId={number}"), "StartTime=now"]);
        let state =
            apart.cluster.said(&["squeue", "--noheader", "--states=all", "--job", &number, "--format=%T"]);
        state.trim() == "FAILED"
    });
    let waited = apart.run(&["wait", &third]).code(7);
    assert!(waited.text().contains("killed by slurm"), "{}", waited.text());
    assert_eq!(apart.run(&["logs", &third]).ok().text(), "begun\n");
}
