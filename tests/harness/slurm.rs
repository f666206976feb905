//! A Slurm of the test's own on loopback, from the system's packages: three nodes on one machine, one of them in another pid namespace.
//!
//! With `OUTLIVE_TEST_ENGINE=1`, which the program `with-slurm` sets, every `run` of a test is placed by one that all tests share, so that
//! tests written for the local command line prove the other one, too.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{Done, Home, all_processes, finish, lacks, signal, until};

const PROGRAMS: [&str; 4] =
    ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/sbatch"];

/// The nodes; the last is in a pid namespace of its own, so that its jobs are elsewhere for this one.
pub const NODES: [&str; 3] = ["n1", "n2", "far"];

/// What the engine of a shared cluster is called in a home's configuration.
const SHARED: &str = "engine";

/// A cluster; it ends when this is dropped.
#[derive(Debug)]
pub struct Slurm {
    dir: PathBuf,
    munged: Option<Child>,
    controller: Option<Child>,
    nodes: Vec<(&'static str, Child)>,
}

/// Tells whether what tests start is placed by a cluster that they share.
pub fn is_placed() -> bool {
    std::env::var_os("OUTLIVE_TEST_ENGINE").is_some_and(|flag| flag == "1")
}

/// Lets a command know of the shared cluster, and one that starts a job be placed by it; returns whether it is.
pub(crate) fn place(home: &Home, command: &mut Command) -> bool {
    if !is_placed() {
        return false;
    }
    let conf = std::env::var_os("SLURM_CONF").expect("with-slurm sets it");
    // The nodes whose processes this machine sees.
    command.env("SLURM_CONF", conf).env("SBATCH_PARTITION", "near");
    let is_run = command
        .get_args()
        .find(|word| !word.as_encoded_bytes().starts_with(b"-"))
        .is_some_and(|verb| verb == "run");
    let names_one = command.get_args().any(|word| word == "--host" || word == "--on" || word == "--engine");
    if !is_run || names_one || !home.store().is_dir() && fs::create_dir_all(home.store()).is_err() {
        return false;
    }
    let file = home.store().join("config.toml");
    let mut text = fs::read_to_string(&file).unwrap_or_default();
    let section = format!("[hosts.{SHARED}]\n");
    if !text.contains(&section) {
        text += &format!("\n{section}engine = \"slurm\"\n");
        fs::write(&file, text).expect("written");
    }
    command.env("OUTLIVE_HOST", SHARED);
    true
}

/// Waits until a node has begun the job that was submitted: a test that starts one expects it to run.
pub(crate) fn await_start(home: &Home, done: &Done) {
    let text = String::from_utf8_lossy(&done.stdout);
    let object: Option<Value> = serde_json::from_str(&text).ok();
    let id = match &object {
        Some(object) => object["job"].as_str().unwrap_or_default().to_owned(),
        None => text.trim().to_owned(),
    };
    if done.code != 0 || id.is_empty() || id.contains(char::is_whitespace) {
        return;
    }
    until("a node has begun it", || {
        let shown = finish(home.outlive(["--json", "show", &id]), b"");
        let job: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
        job["status"] != "queued" && job["status"] != "starting"
    });
}

impl Slurm {
    /// Starts one below a directory; `None`: the system lacks the packages, or this user the rights.
    pub fn start(dir: PathBuf) -> Option<Self> {
        let is_root =
            fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        // A cluster takes its time, and `./test` has little: `./test machines` asks for it.
        let is_asked = std::env::var_os("OUTLIVE_TEST_SLURM").is_some();
        if !is_asked || !is_root || !PROGRAMS.iter().all(|program| Path::new(program).is_file()) {
            lacks(
                "Slurm of the packages slurmctld, slurmd, slurm-client and munge, and root: `./test machines`",
            );
            return None;
        }
        // munged and slurmd want directories that nobody else can write to.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("set");
        for name in ["run", "state", "log", "spool/n1", "spool/n2", "spool/far"] {
            fs::create_dir_all(dir.join(name)).expect("made");
        }
        let mut key = vec![0; 1024];
        std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").expect("it is there"), &mut key)
            .expect("read");
        fs::write(dir.join("key"), key).expect("written");
        fs::set_permissions(dir.join("key"), fs::Permissions::from_mode(0o600)).expect("set");
        let mut cluster = Self { dir, munged: None, controller: None, nodes: Vec::new() };
        cluster.configure();
        cluster.munge();
        cluster.control();
        for node in NODES {
            cluster.add(node);
        }
        until("all nodes are idle", || {
            let listed =
                cluster.said(&["sinfo", "--noheader", "--Node", "--partition=all", "--format=%N %t"]);
            listed.lines().filter(|line| line.ends_with(" idle")).count() == NODES.len()
        });
        Some(cluster)
    }

    /// Returns the file that tells Slurm's commands of it.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("slurm.conf")
    }

    fn configure(&self) {
        let ports: Vec<u16> = (0..=NODES.len()).map(|_| crate::free_port()).collect();
        let dir = self.dir.display();
        let mut text = format!(
            "ClusterName=one\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={dir}/run/munge\nStateSaveLocation={dir}/state\n\
             SlurmdSpoolDir={dir}/spool/%n\nSlurmdPidFile={dir}/run/%n.pid\nSlurmctldPidFile={dir}/run/ctld.pid\n\
             SlurmdLogFile={dir}/log/%n\nSlurmctldLogFile={dir}/log/ctld\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nMpiDefault=none\nReturnToService=2\nSlurmdTimeout=30\n\
             JobRequeue=0\nMinJobAge=300\nMessageTimeout=10\nKillWait=5\nSlurmdParameters=config_overrides\nSchedulerParameters=sched_interval=1,sched_min_interval=10000\n",
            ports[0]
        );
        for (node, port) in NODES.iter().zip(&ports[1..]) {
            text += &format!(
                "NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=20 RealMemory=1000 State=UNKNOWN\n"
            );
        }
        text += "PartitionName=all Nodes=n1,n2,far Default=YES MaxTime=INFINITE State=UP\n";
        text += "PartitionName=near Nodes=n1 State=UP\nPartitionName=far Nodes=far State=UP\n";
        fs::write(self.dir.join("slurm.conf"), text).expect("written");
    }

    /// Returns a command with the cluster's configuration.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.conf()).stdin(Stdio::null());
        command
    }

    fn daemon(&self, mut command: Command, log: &str) -> Child {
        let log = fs::File::create(self.dir.join("log").join(format!("{log}.out"))).expect("made");
        let out = log.try_clone().expect("a descriptor");
        command.stdout(out).stderr(log).spawn().expect("it starts")
    }

    fn munge(&mut self) {
        let mut command = self.command(PROGRAMS[0]);
        let path = |name: &str| self.dir.join(name).display().to_string();
        command.args(["--foreground", "--force", "--key-file", &path("key"), "--socket", &path("run/munge")]);
        command.args([
            "--pid-file",
            &path("run/munged.pid"),
            "--log-file",
            &path("log/munged"),
            "--seed-file",
            &path("run/seed"),
        ]);
        self.munged = Some(self.daemon(command, "munged"));
        until("munged listens", || self.dir.join("run/munge").exists());
    }

    /// Starts the controller, which goes on with what it has written down.
    pub fn control(&mut self) {
        let mut command = self.command(PROGRAMS[1]);
        command.arg("-D");
        self.controller = Some(self.daemon(command, "ctld"));
        until("the controller answers", || self.is_answered(&["scontrol", "ping"]));
    }

    fn is_answered(&self, words: &[&str]) -> bool {
        let done = self.command(words[0]).args(&words[1..]).output().expect("it runs");
        done.status.success() && !String::from_utf8_lossy(&done.stdout).contains("DOWN")
    }

    /// Kills the controller: what it has not written down is gone.
    pub fn kill_controller(&mut self) {
        let mut controller = self.controller.take().expect("it runs");
        controller.kill().and_then(|()| controller.wait()).expect("our child");
    }

    /// Stops the controller or lets it go on: it is there, and answers nobody.
    pub fn signal_controller(&self, name: &str) {
        signal(self.controller.as_ref().expect("it runs").id().cast_signed(), name);
    }

    /// Starts a node.
    pub fn add(&mut self, node: &'static str) {
        let mut command = match node {
            "far" => {
                let mut command = self.command("unshare");
                command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--", PROGRAMS[2]]);
                command
            }
            _ => self.command(PROGRAMS[2]),
        };
        command.args(["-D", "-N", node]);
        let child = self.daemon(command, node);
        self.nodes.push((node, child));
    }

    /// Ends a node with all that runs on it, as a machine does that loses its power.
    pub fn lose_far(&mut self) {
        let place = self.nodes.iter().position(|(node, _)| *node == "far").expect("it runs");
        let (_, mut child) = self.nodes.remove(place);
        child.kill().and_then(|()| child.wait()).expect("our child");
    }

    /// Returns what a command of Slurm's prints.
    pub fn said(&self, words: &[&str]) -> String {
        let done = self.command(words[0]).args(&words[1..]).output().expect("it runs");
        String::from_utf8(done.stdout).expect("text")
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if self.controller.is_some() {
            self.signal_controller("CONT");
            // Whatever a failed test has left in the queue.
            self.command("scancel").arg("--user=root").output().ok();
            if !std::thread::panicking() {
                // A step that cannot tell the controller of its end tries it for minutes.
                until("the queue is empty", || self.said(&["squeue", "--noheader"]).is_empty());
            }
        }
        let conf = self.dir.join("slurm.conf").display().to_string().into_bytes();
        let daemons = self.nodes.drain(..).map(|(_, child)| child);
        for mut child in daemons.chain(self.controller.take()).chain(self.munged.take()) {
            child.kill().and_then(|()| child.wait()).ok();
        }
        let is_left = |pid: &i32| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|pair| pair.ends_with(&conf)))
        };
        // Its step daemons end with their jobs.
        let left = || {
            all_processes()
                .into_iter()
                .filter(|pid| *pid != std::process::id().cast_signed())
                .filter(is_left)
                .collect::<Vec<i32>>()
        };
        if std::thread::panicking() {
            left().into_iter().for_each(|pid| signal(pid, "KILL"));
        } else {
            until("nothing of Slurm is left", || left().is_empty());
        }
    }
}
