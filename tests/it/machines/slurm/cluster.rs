//! A Slurm of the test's own on loopback, from the system's packages: three nodes on one machine, one of them in another pid namespace.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use outlive_tests::{Done, Home, all_processes, finish, lacks, signal, until};

const PROGRAMS: [&str; 4] =
    ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/sbatch"];

/// The nodes; the last is in a pid namespace of its own, so that its jobs are elsewhere for this one.
pub(super) const NODES: [&str; 3] = ["n1", "n2", "far"];

/// A home whose configuration has the cluster as `cluster`.
pub(super) struct Cluster {
    pub(super) home: Home,
    dir: PathBuf,
    munged: Option<Child>,
    controller: Option<Child>,
    nodes: Vec<(&'static str, Child)>,
}

impl Cluster {
    /// Starts one; `None`: the system lacks the packages, or this user the rights.
    pub(super) fn start() -> Option<Self> {
        let is_root =
            fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        if !is_root || !PROGRAMS.iter().all(|program| Path::new(program).is_file()) {
            lacks("Slurm of the packages slurmctld, slurmd, slurm-client and munge, and root to run it");
            return None;
        }
        let home = Home::new();
        home.configure("[hosts.cluster]\nengine = \"slurm\"\n");
        let dir = home.make_dir("slurm");
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
        let mut cluster = Self { home, dir, munged: None, controller: None, nodes: Vec::new() };
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

    fn configure(&self) {
        let sockets: Vec<TcpListener> =
            (0..=NODES.len()).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let ports: Vec<u16> =
            sockets.iter().map(|socket| socket.local_addr().expect("an address").port()).collect();
        let dir = self.dir.display();
        let mut text = format!(
            "ClusterName=one\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={dir}/run/munge\nStateSaveLocation={dir}/state\n\
             SlurmdSpoolDir={dir}/spool/%n\nSlurmdPidFile={dir}/run/%n.pid\nSlurmctldPidFile={dir}/run/ctld.pid\n\
             SlurmdLogFile={dir}/log/%n\nSlurmctldLogFile={dir}/log/ctld\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nMpiDefault=none\nReturnToService=2\nSlurmdTimeout=30\n\
             JobRequeue=0\nMinJobAge=300\nMessageTimeout=2\nKillWait=5\nSlurmdParameters=config_overrides\nSchedulerParameters=sched_interval=1,sched_min_interval=10000\n",
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
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.dir.join("slurm.conf")).stdin(Stdio::null());
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
    pub(super) fn control(&mut self) {
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
    pub(super) fn kill_controller(&mut self) {
        let mut controller = self.controller.take().expect("it runs");
        controller.kill().and_then(|()| controller.wait()).expect("our child");
    }

    /// Stops the controller or lets it go on: it is there, and answers nobody.
    pub(super) fn signal_controller(&self, name: &str) {
        signal(self.controller.as_ref().expect("it runs").id().cast_signed(), name);
    }

    /// Starts a node.
    pub(super) fn add(&mut self, node: &'static str) {
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
    pub(super) fn lose_far(&mut self) {
        let place = self.nodes.iter().position(|(node, _)| *node == "far").expect("it runs");
        let (_, mut child) = self.nodes.remove(place);
        child.kill().and_then(|()| child.wait()).expect("our child");
    }

    /// Returns what a command of Slurm's prints.
    pub(super) fn said(&self, words: &[&str]) -> String {
        let done = self.command(words[0]).args(&words[1..]).output().expect("it runs");
        String::from_utf8(done.stdout).expect("text")
    }

    #[must_use = "a test that does not look proves nothing"]
    pub(super) fn run(&self, arguments: &[&str]) -> Done {
        finish(self.outlive(arguments), b"")
    }

    pub(super) fn outlive(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.outlive(arguments);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        command
    }

    /// Submits a line with these options, and returns the id.
    pub(super) fn submit(&self, options: &[&str], line: &str) -> String {
        let arguments: Vec<&str> =
            ["run", "--on", "cluster"].iter().chain(options).chain([&line]).copied().collect();
        self.run(&arguments).ok().text().trim_end().to_owned()
    }

    pub(super) fn show(&self, job: &str) -> serde_json::Value {
        self.run(&["--json", "show", job]).ok().json()
    }

    /// Waits until a job runs on a node.
    pub(super) fn until_running(&self, job: &str) {
        until("it runs", || self.show(job)["status"] == "running");
    }

    /// Returns the engine's number of a job.
    pub(super) fn number(&self, job: &str) -> String {
        fs::read_to_string(self.home.job_dir(job).join("engine_job")).expect("it was submitted")
    }
}

impl Drop for Cluster {
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
