//! Other machines, by the system's own ssh: a server of the test's own on loopback, with another store behind it.
//!
//! Proves: nothing has to be installed there; `HOST/ID` works as an id does here; a connection that is cut loses no byte and repeats none;
//! a machine that cannot be reached is shown as such, with what was known of it.

mod agent;
mod cut;
mod keys;
mod link;
mod project;
mod shared;
mod slurm;
mod window;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use outlive_sys::identity::{Handle, ProcessId, Stat};
use outlive_sys::signal::Signal;
use outlive_tests::{Done, Home, LIMIT, end_within, finish, lacks, signal, until};

use self::link::Link;

const SSHD: &str = "/usr/sbin/sshd";

/// A machine that ssh reaches: another home behind a server of the system's own package.
struct Machine {
    name: &'static str,
    there: Home,
    here: Arc<Home>,
    dir: PathBuf,
    /// The network that it is in; none: loopback.
    link: Option<Link>,
    sshd: Option<Child>,
}

fn keygen(file: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file).status();
    assert!(made.expect("ssh-keygen runs").success());
}

impl Machine {
    /// Starts one; `None`: the system lacks the server.
    fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// Starts one where these variables, written as `NAME=value`, are set.
    fn start_with(variables: &str) -> Option<Self> {
        Self::start_at("gpu1", Arc::new(Home::new()), None, variables)
    }

    /// Starts two, each in a network of its own.
    fn pair() -> Option<[Self; 2]> {
        let here = Arc::new(Home::new());
        let start = |name| Self::start_at(name, Arc::clone(&here), Some(Link::make()?), "");
        Some([start("gpu1")?, start("gpu2")?])
    }

    fn start_at(name: &'static str, here: Arc<Home>, link: Option<Link>, variables: &str) -> Option<Self> {
        if !Path::new(SSHD).is_file() {
            lacks("sshd of the package openssh-server");
            return None;
        }
        let there = Home::new();
        let (dir, common) = (here.path().join(format!("ssh-{name}")), here.path().join("ssh"));
        let address = link.as_ref().map_or(Ipv4Addr::LOCALHOST, |link| link.there);
        for dir in [&dir, &common, &here.path().join("run")] {
            fs::create_dir_all(dir).expect("made");
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("set");
        }
        keygen(&dir.join("host"));
        keygen(&dir.join("user"));
        fs::copy(dir.join("user.pub"), dir.join("authorized")).expect("copied");
        let port = outlive_tests::free_port();
        let shown = dir.display();
        // With SHLVL, bash reads no file of the user's own: these may do anything, and are cut short by this test.
        let (store, home) = (there.store(), there.path());
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/authorized\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nLogLevel ERROR\nPrintMotd no\n\
             SetEnv OUTLIVE_HOME={} HOME={} SHLVL=1 {variables}\n",
            store.display(),
            home.display()
        );
        fs::write(dir.join("sshd_config"), config).expect("written");
        let config = format!(
            "Host {name}\n  HostName {address}\n  Port {port}\n  IdentityFile {shown}/user\n  IdentitiesOnly yes\n  BatchMode yes\n  \
             UserKnownHostsFile {shown}/known\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"
        );
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(common.join("ssh_config")).expect("made");
        file.write_all(config.as_bytes()).expect("written");
        // The user's own configuration is that of the password database's home; a test has one of its own.
        let wrapper = format!("#!/bin/sh\nexec /usr/bin/ssh -F {}/ssh_config \"$@\"\n", common.display());
        fs::write(common.join("ssh"), wrapper).expect("written");
        fs::set_permissions(common.join("ssh"), fs::Permissions::from_mode(0o755)).expect("set");
        // The second of two machines adds to what the first has configured.
        let names: &[&str] = if name == "gpu1" { &["gpu1"] } else { &["gpu1", name] };
        here.configure(
            &names
                .iter()
                .map(|name| format!("[hosts.{name}]\naddress = \"ssh://{name}\"\n"))
                .collect::<String>(),
        );
        let mut machine = Self { name, there, here, dir, link, sshd: None };
        machine.listen();
        Some(machine)
    }

    /// Starts its server.
    fn listen(&mut self) {
        // As root the server wants a directory that the system makes at its start.
        fs::create_dir_all("/run/sshd").ok();
        let mut command = match &self.link {
            Some(link) => link.inside(SSHD),
            None => Command::new(SSHD),
        };
        let sshd = command.args(["-D", "-f"]).arg(self.dir.join("sshd_config")).stdin(Stdio::null());
        self.sshd = Some(sshd.spawn().expect("sshd runs"));
        until("it listens", || self.ssh(&[self.name, "true"]).status().is_ok_and(|status| status.success()));
    }

    fn ssh(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.here.path().join("ssh/ssh"));
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Cuts it off: its server and all connections end, and no new one is taken. Jobs there are not touched.
    fn cut(&mut self) {
        let of_server = self.servers();
        of_server.iter().for_each(|pid| signal(*pid, "KILL"));
        self.sshd.take().expect("it runs").wait().expect("our child");
    }

    /// Cuts it off without a word, as a cable does that is pulled: nothing answers, and nothing ends. `ssh` notices by itself.
    fn cut_silently(&mut self) {
        let stopped: Vec<ProcessId> = self.servers().into_iter().filter_map(ProcessId::of).collect();
        stopped.iter().for_each(|id| signal(id.pid, "STOP"));
        let shared = self.here.path().join("run/outlive");
        let is_socket = |entry: fs::DirEntry| {
            let kind = entry.file_type();
            kind.is_ok_and(|kind| std::os::unix::fs::FileTypeExt::is_socket(&kind))
        };
        until("ssh gives the connection up", || {
            !fs::read_dir(&shared).expect("it is there").flatten().any(is_socket)
        });
        self.cut();
        // One that has executed the user's command since it was listed is no server any more: it goes on, and finds that it is alone.
        for left in stopped.into_iter().filter_map(Handle::open) {
            left.signal(Signal::CONT).ok();
        }
    }

    /// Lists the processes of its server.
    fn servers(&self) -> Vec<i32> {
        let mut of_server = vec![self.sshd.as_ref().expect("it runs").id().cast_signed()];
        loop {
            let is_child = |pid: &i32| {
                !of_server.contains(pid)
                    && Stat::read(*pid).is_some_and(|stat| of_server.contains(&stat.parent))
            };
            let children: Vec<i32> = all_sshd().into_iter().filter(is_child).collect();
            if children.is_empty() {
                return of_server;
            }
            of_server.extend(children);
        }
    }

    /// Returns `outlive` here, not yet run.
    fn outlive(&self, arguments: &[&str]) -> Command {
        let mut command = self.here.outlive(arguments);
        command.envs(self.variables());
        command
    }

    /// Returns the variables by which the machine is found.
    fn variables(&self) -> [(&'static str, String); 2] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let paths = [
            self.here.path().join("ssh"),
            self.here.program("outlive").parent().expect("a folder").to_owned(),
        ];
        let paths = paths.into_iter().chain(std::env::split_paths(&path));
        let path = std::env::join_paths(paths).expect("paths").into_string().expect("text");
        [("PATH", path), ("XDG_RUNTIME_DIR", self.here.path().join("run").display().to_string())]
    }

    #[must_use = "a test that does not look proves nothing"]
    fn run(&self, arguments: &[&str]) -> Done {
        finish(self.outlive(arguments), b"")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The shared connection that ssh keeps.
        let path = self.here.path().join("run/outlive/%C");
        self.ssh(&["-o", &format!("ControlPath={}", path.display()), "-O", "exit", self.name]).status().ok();
        if self.sshd.is_some() {
            self.cut();
        }
    }
}

/// Lists the processes of ssh servers.
fn all_sshd() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("it is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("sshd"))
    })
    .collect()
}

#[test]
fn a_job_on_another_machine_is_used_as_one_here() {
    let Some(machine) = Machine::start() else { return };
    let started = machine
        .run(&[
            "run",
            "--on",
            "gpu1",
            "--name",
            "train",
            "--stdin",
            "open",
            "--cwd",
            "/",
            "read a; echo got $a; pwd; exit 3",
        ])
        .ok();
    assert!(started.error().contains("copying outlive to gpu1"), "{}", started.error());
    let id = started.text().trim_end().to_owned();
    let bare = id.strip_prefix("gpu1/").expect("the machine's name is in the id").to_owned();
    assert_eq!(machine.there.show("train")["job"], bare.as_str());
    let shown = machine.run(&["--json", "show", &id]).ok();
    assert_eq!(shown.error(), "", "it is copied once");
    assert_eq!(shown.json()["status"], "running");
    machine.run(&["send", &id, "hello"]).ok();
    let waited = machine.run(&["wait", &id]).code(7);
    assert!(waited.text().contains("exited with 3"), "{}", waited.text());
    assert_eq!(machine.run(&["logs", &id]).ok().text(), "got hello\n/\n");
    assert!(machine.run(&["--host", "gpu1", "list"]).ok().text().contains(&id));
    let streamed = finish(
        machine.outlive(&["--host", "ssh://gpu1", "run", "--wait", "cat; echo bad >&2; exit 5"]),
        b"in",
    )
    .code(5);
    assert_eq!((streamed.text().as_str(), streamed.error().as_str()), ("in", "bad\n"));
    let other = machine.run(&["run", "--on", "gpu1", "sleep 300"]).ok().text().trim_end().to_owned();
    machine.run(&["pause", &other]).ok();
    machine.run(&["resume", &other]).ok();
    assert!(machine.run(&["kill", &other]).ok().text().contains("ended"));
    machine.run(&["rm", &id, &other]).ok();
    machine.run(&["show", &id]).code(3);
    // Two machines in one command.
    let local = machine.here.start(["true"]);
    machine.here.wait(&local);
    machine.run(&["wait", &local, &id]).code(2);
    // Nothing is copied where that is forbidden.
    machine.here.configure("[hosts.gpu1]\naddress = \"ssh://gpu1\"\ncopy = false\n");
    let refused = machine.run(&["run", "--on", "gpu1", "true"]).code(1);
    assert!(refused.error().contains("not in the PATH"), "{}", refused.error());
    let nobody = machine.run(&["--host", "ssh://nobody.invalid", "list"]).code(1);
    assert!(nobody.error().contains("nobody.invalid"), "{}", nobody.error());
    until("nothing runs there but keepers", || machine.there.processes().is_empty());
}

/// Collects the lines of a command.
fn collect(child: &mut Child) -> (Arc<Mutex<String>>, std::thread::JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let (shared, stdout) = (Arc::clone(&text), child.stdout.take().expect("piped"));
    let thread = std::thread::spawn(move || {
        let (mut from, mut line) = (BufReader::new(stdout), String::new());
        while from.read_line(&mut line).expect("text") > 0 {
            shared.lock().expect("no panic").push_str(&line);
            line.clear();
        }
    });
    (text, thread)
}

#[test]
fn a_follow_and_a_wait_go_on_over_a_connection_that_is_cut() {
    let Some(mut machine) = Machine::start() else { return };
    let stop = machine.there.path().join("stop");
    let line = format!(
        "i=0; while [ ! -e {} ]; do i=$((i+1)); echo line $i; sleep 0.002; done; exit 6",
        stop.display()
    );
    let id = machine.run(&["run", "--on", "gpu1", &line]).ok().text().trim_end().to_owned();
    let spawn = |arguments: &[&str]| {
        let mut command = machine.outlive(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
    };
    let (mut following, mut waiting) = (spawn(&["logs", "-f", &id]), spawn(&["--json", "wait", &id]));
    let (text, reading) = collect(&mut following);
    let (answer, answering) = collect(&mut waiting);
    let lines = || text.lock().expect("no panic").lines().count();
    for is_silent in [false, true] {
        let before = lines();
        until("it follows", || lines() > before + 50);
        if is_silent {
            machine.cut_silently()
        } else {
            machine.cut()
        }
        let known = machine.run(&["list", "--host", "all"]).ok();
        assert!(known.text().contains("gpu1:\nunreachable"), "{}", known.text());
        machine.run(&["show", &id]).code(1);
        machine.listen();
    }
    let before = lines();
    until("it goes on", || lines() > before + 50);
    machine.cut();
    fs::write(&stop, "").expect("written");
    let bare = id.strip_prefix("gpu1/").expect("a machine").to_owned();
    machine.there.wait(&bare);
    machine.listen();
    assert_eq!(end_within(&mut waiting, LIMIT), Some(7));
    assert_eq!(end_within(&mut following, LIMIT), Some(0));
    reading.join().expect("read");
    answering.join().expect("read");
    let printed = String::from_utf8(machine.there.logs(&bare)).expect("text");
    assert!(*text.lock().expect("no panic") == printed, "{} and {} lines", lines(), printed.lines().count());
    assert_eq!(answer.lock().expect("no panic").lines().count(), 1, "the waiter is told once");
}

#[test]
fn what_was_known_of_a_machine_is_shown_with_its_age() {
    let Some(mut machine) = Machine::start() else { return };
    let unknown = {
        machine.cut();
        let shown = machine.run(&["list", "--host", "all"]).ok().text();
        machine.listen();
        shown
    };
    assert!(unknown.contains("nothing is known of it yet"), "{unknown}");
    let live = machine
        .run(&["run", "--on", "gpu1", "--name", "live", "sleep 300"])
        .ok()
        .text()
        .trim_end()
        .to_owned();
    let ended =
        machine.run(&["run", "--on", "gpu1", "--name", "ended", "exit 1"]).ok().text().trim_end().to_owned();
    machine.run(&["wait", &ended]).code(7);
    let local = machine.here.start(["sleep", "300"]);
    let all = machine.run(&["list", "--host", "all"]).ok().text();
    for job in [&live, &ended, &local] {
        assert!(all.contains(job.as_str()), "{job}: {all}");
    }
    let objects = machine.run(&["--json", "list", "--host", "all"]).ok().json();
    let hosts: Vec<&str> =
        objects.as_array().expect("a list").iter().filter_map(|job| job["host"].as_str()).collect();
    assert_eq!(hosts.iter().filter(|host| **host == "gpu1").count(), 2, "{objects}");
    machine.cut();
    let known = machine.run(&["list", "--host", "all"]).ok().text();
    let row = |job: &str| known.lines().find(|line| line.starts_with(job)).unwrap_or_default().to_owned();
    assert!(row(&live).contains("unreachable, running"), "{known}");
    assert!(row(&ended).contains("failed") && !row(&ended).contains("unreachable"), "{known}");
    let objects = machine.run(&["--json", "list", "--host", "all"]).ok().json();
    let is_known = |job: &serde_json::Value| job["host"] == "gpu1" && job["unreachable_ms"].is_u64();
    assert_eq!(
        objects.as_array().expect("a list").iter().filter(|job| is_known(job)).count(),
        2,
        "{objects}"
    );
    machine.listen();
}

#[test]
fn a_directory_is_copied_and_the_job_starts_in_the_copy() {
    let Some(machine) = Machine::start() else { return };
    let project = machine.here.make_dir("shop");
    fs::write(project.join("data"), "one\n").expect("written");
    fs::write(project.join(".env"), "PASSWORD=x\n").expect("written");
    fs::write(project.join(".gitignore"), ".env\n").expect("written");
    let project = project.display().to_string();
    let run = |line: &str| {
        let arguments = ["run", "--on", "gpu1", "--sync", &project, "--wait", line];
        let mut command = machine.outlive(&arguments);
        command.stdin(Stdio::null());
        finish(command, b"")
    };
    let listed = run("cat data; ls -A").ok().text();
    assert!(listed.starts_with("one\n") && !listed.lines().any(|name| name == ".env"), "{listed}");
    // Again: what has changed is copied, and what was made there stays.
    fs::write(format!("{project}/data"), "two\n").expect("written");
    drop(run("echo kept >made").ok());
    assert_eq!(run("cat data made").ok().text(), "two\nkept\n");
    machine.run(&["run", "--on", "gpu1", "--sync", "/nowhere", "true"]).code(1);
    machine.run(&["run", "--sync", &project, "true"]).code(2);
}
