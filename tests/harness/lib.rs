//! The base of every test: a temporary home, the real `outlive`, and a check that nothing is left behind.
//!
//! A [`Home`] has a store of its own and a cleared environment. Every command that it runs has a hard limit. When it is
//! dropped, it ends its jobs by id and then asserts that no process of any of them is left.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on must stop loudly")]

mod cgroups;
pub mod counts;
mod disk;
mod host;
mod mcp;
mod ports;
mod proofs;
mod random;
mod slurm;
mod terminal;
mod user;
mod weather;
mod workspace;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlive::Config;
use outlive_sys::identity::ProcessId;
use serde_json::Value;

pub use cgroups::cgroups;
pub use disk::{FragileDisk, SmallDisk};
pub use host::{HostServer, is_over_host};
pub use mcp::{Answer, ERAS, Era, Mcp};
pub use outlive_test_pattern as pattern;
pub use ports::free_port;
pub use proofs::{dialogue_names, shown};
pub use random::Random;
pub use slurm::{NODES, Slurm, is_placed};
pub use terminal::{Terminal, on_terminal};
pub use user::{User, everywhere};
pub use weather::{millis, processor_time, soon, with_enough_time};
pub use workspace::{python_client, sources, use_fixture, workspace};

/// No command of a test may take longer.
pub const LIMIT: Duration = Duration::from_secs(180);

/// A temporary home with a store of its own.
#[derive(Debug)]
pub struct Home {
    dir: Option<tempfile::TempDir>,
    path: PathBuf,
    user: User,
    /// Where this home's user finds our programs.
    binaries: PathBuf,
    /// With `OUTLIVE_TEST_HOST=1`: what its verbs are called through.
    server: HostServer,
}

/// The result of a command.
#[derive(Debug)]
pub struct Done {
    /// The exit code; 128 + n for signal n.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// The command.
    pub what: String,
}

impl Home {
    /// Makes one, in the fastest place that takes sockets and locks.
    pub fn new() -> Self {
        Self::in_dir(&std::env::temp_dir())
    }

    /// Makes one below a directory.
    pub fn in_dir(parent: &Path) -> Self {
        Self::make(parent, User::Myself)
    }

    /// Makes one that belongs to a user, which runs all its commands.
    pub fn of(user: User) -> Self {
        Self::make(&std::env::temp_dir(), user)
    }

    fn make(parent: &Path, user: User) -> Self {
        let dir = tempfile::Builder::new().prefix("outlive-").tempdir_in(parent).unwrap();
        let path = dir.path().canonicalize().unwrap();
        user.give(&path);
        let binaries = user.binaries(&path);
        Self { dir: Some(dir), path, user, binaries, server: HostServer::default() }
    }

    /// Returns its user.
    pub fn user(&self) -> User {
        self.user
    }

    /// Makes a directory in it, of its user.
    pub fn make_dir(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir(&path).unwrap();
        self.user.give(&path);
        path
    }

    /// Returns a program of this build where this home's user can execute it.
    pub fn program(&self, name: &str) -> PathBuf {
        let path = self.binaries.join(name);
        assert!(path.is_file(), "{} is not built: cargo build --workspace --bins", path.display());
        path
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the store's directory.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Returns the directory of a job.
    pub fn job_dir(&self, job: &str) -> PathBuf {
        self.store().join("jobs").join(job)
    }

    /// Writes the store's configuration.
    pub fn configure(&self, toml: &str) {
        let file = self.store().join("config.toml");
        std::fs::create_dir_all(self.store()).unwrap();
        std::fs::write(&file, toml).unwrap();
        [self.store(), file].iter().for_each(|path| self.user.give(path));
    }

    /// Opens the store through the library, with the real keeper.
    pub fn open(&self) -> outlive::Store {
        let config = Config::load(&self.store().join("config.toml")).unwrap();
        outlive::Store::open_at(&self.store(), config).unwrap().with_keeper(binary("outlive-keeper"))
    }

    /// Returns a command with the environment of this home: nothing of the caller's but what is needed to run.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut directories = vec![self.binaries.clone()];
        directories.extend(std::env::split_paths(&path));
        command
            .env_clear()
            .env("PATH", std::env::join_paths(directories).unwrap())
            .env("HOME", &self.path)
            .env("OUTLIVE_HOME", self.store())
            .env("LC_ALL", "C")
            .current_dir(&self.path)
            .stdin(Stdio::null());
        self.user.run(&mut command);
        command
    }

    /// Returns the real `outlive` with arguments, not yet run.
    pub fn outlive<T: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = T>) -> Command {
        let mut command = self.command(self.program("outlive"));
        command.args(arguments);
        command
    }

    /// Runs `outlive` to its end.
    #[must_use = "a test that does not look proves nothing"]
    pub fn run<T: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = T>) -> Done {
        self.finish(self.outlive(arguments), b"")
    }

    /// Runs a command of this home to its end; with `OUTLIVE_TEST_HOST=1` through a server, where that can be, and with
    /// `OUTLIVE_TEST_ENGINE=1` placed by Slurm.
    fn finish(&self, mut command: Command, input: &[u8]) -> Done {
        self.server.address(self, &mut command);
        let is_placed = slurm::place(self, &mut command);
        let done = finish(command, input);
        if is_placed {
            slurm::await_start(self, &done);
        }
        done
    }

    /// Runs `outlive` with this on its standard input.
    #[must_use = "a test that does not look proves nothing"]
    pub fn run_with_input<T: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = T>,
        input: &[u8],
    ) -> Done {
        self.finish(self.outlive(arguments), input)
    }

    /// Runs `outlive --json`, which must succeed, and returns what it printed.
    pub fn json<T: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = T>) -> Value {
        let mut command = self.outlive(["--json"]);
        command.args(arguments);
        self.finish(command, b"").ok().json()
    }

    /// Starts a program as it is and returns the job's id.
    pub fn start<T: AsRef<OsStr>>(&self, argv: impl IntoIterator<Item = T>) -> String {
        self.start_with(&[], argv)
    }

    /// Starts a program with options of `run`, and returns the job's id.
    pub fn start_with<T: AsRef<OsStr>>(&self, options: &[&str], argv: impl IntoIterator<Item = T>) -> String {
        let mut command = self.outlive(["run"]);
        command.args(options).arg("--").args(argv);
        self.finish(command, b"").ok().text().trim_end().to_owned()
    }

    /// Starts a line for the shell and returns the job's id.
    pub fn start_line(&self, line: &str) -> String {
        self.run(["run", line]).ok().text().trim_end().to_owned()
    }

    /// Waits for the end of a job and returns its object.
    pub fn wait(&self, job: &str) -> Value {
        let waited = self.run(["--json", "wait", "--timeout", "170s", job]);
        let object = waited.json()["jobs"][0].take();
        waited.code(if object["status"] == "completed" { 0 } else { 7 });
        object
    }

    /// Returns the object of a job.
    pub fn show(&self, job: &str) -> Value {
        self.json(["show", job])
    }

    /// Kills the keeper of a job and its guard, so that the job is an orphan; returns the command's pid.
    pub fn orphan(&self, job: &str) -> i32 {
        let shown = self.show(job);
        let keeper = pid(&shown, "keeper_pid");
        kill_with_guard(keeper);
        until("its keeper is gone", || !is_running(keeper));
        pid(&shown, "pid")
    }

    /// Returns all that a job printed.
    pub fn logs(&self, job: &str) -> Vec<u8> {
        self.run(["logs", job]).ok().stdout
    }

    /// Waits until a job's output contains this text.
    pub fn wait_for_output(&self, job: &str, text: &str) {
        let contains = || {
            let logs = self.logs(job);
            logs.windows(text.len()).any(|window| window == text.as_bytes())
        };
        until(&format!("{job} prints {text:?}"), contains);
    }

    /// Lists the live processes that belong to this home: keepers of its store and all that has its environment, but no guards.
    pub fn processes(&self) -> Vec<i32> {
        self.with_guards().into_iter().filter(|pid| !is_guard(*pid)).collect()
    }

    fn with_guards(&self) -> Vec<i32> {
        let mine = [Some(std::process::id().cast_signed()), self.server.pid()];
        all_processes().into_iter().filter(|pid| !mine.contains(&Some(*pid)) && self.owns(*pid)).collect()
    }

    /// Returns the processes that are neither a keeper nor a guard. A guard that was let go is on its way out, and no longer to be told
    /// by its files.
    pub fn processes_of_jobs(&self) -> Vec<i32> {
        let keepers = self.keepers();
        let is_ours = |pid: i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with("outlive")
        };
        let processes = self.processes().into_iter();
        processes.filter(|&pid| !keepers.contains(&pid) && !is_ours(pid)).collect()
    }

    /// Lists the keepers of this home's store.
    pub fn keepers(&self) -> Vec<i32> {
        keepers_of(&self.store())
    }

    fn owns(&self, pid: i32) -> bool {
        let wanted = format!("OUTLIVE_HOME={}", self.store().display());
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        is_keeper_of(&self.store(), pid)
            || environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
    }

    fn end_jobs(&self) {
        let live = finish(self.outlive(["--json", "list", "--live"]), b"");
        let jobs: Vec<Value> = serde_json::from_slice(&live.stdout).unwrap_or_default();
        let ids: Vec<&str> = jobs.iter().filter_map(|job| job["job"].as_str()).collect();
        for ids in ids.chunks(100) {
            let mut command = self.outlive(["kill", "--force"]);
            command.args(ids);
            drop(finish(command, b""));
        }
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.server.stop();
        if self.store().join("version").exists() {
            self.end_jobs();
        }
        if std::thread::panicking() {
            // The test has failed already: its home stays for an inspection, its processes do not.
            self.keepers().into_iter().for_each(kill_with_guard);
            for pid in self.processes() {
                signal(pid, "KILL");
            }
            let kept = self.dir.take().map(tempfile::TempDir::keep);
            report(&format!("the home of the failed test stays in {kept:?}"));
            return;
        }
        until("nothing is left, and no guard", || self.with_guards().is_empty());
    }
}

impl Done {
    /// Asserts success.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Asserts an exit code.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\nstdout: {}\nstderr: {}", self.what, self.text(), self.error());
        self
    }

    /// Returns standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns standard error as text.
    pub fn error(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, self.text()))
    }

    /// Returns standard error as JSON.
    #[track_caller]
    pub fn error_json(&self) -> Value {
        serde_json::from_slice(&self.stderr)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, self.error()))
    }
}

/// Returns a binary of this build: `outlive`, `outlive-keeper` or one of the fake programs.
pub fn binary(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let directory = here.ancestors().find(|path| path.join("outlive-keeper").is_file());
    let path = directory.expect("build the binaries first: cargo build --workspace --bins").join(name);
    assert!(path.is_file(), "{} is not built: cargo build --workspace --bins", path.display());
    path
}

/// Runs a command to its end, with this on its standard input; one that takes longer than [`LIMIT`] is killed.
#[must_use = "a test that does not look proves nothing"]
pub fn finish(command: Command, input: &[u8]) -> Done {
    finish_within(command, input, LIMIT)
}

/// Runs a command to its end as [`finish`] does, for as long as it may take.
#[must_use = "a test that does not look proves nothing"]
pub fn finish_within(mut command: Command, input: &[u8], limit: Duration) -> Done {
    let what = format!("{command:?}");
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take().map(|mut stdin| {
        let input = input.to_vec();
        // A program that does not read its input may end before it is written.
        std::thread::spawn(move || drop(stdin.write_all(&input)))
    });
    let collect = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            bytes
        })
    };
    let stdout = collect(Box::new(child.stdout.take().unwrap()));
    let stderr = collect(Box::new(child.stderr.take().unwrap()));
    let code = end_within(&mut child, limit).unwrap_or_else(|| panic!("{what} takes longer than {limit:?}"));
    if let Some(thread) = input {
        thread.join().unwrap();
    }
    Done { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap(), what }
}

/// Waits for a child; kills it and returns `None` if it takes longer.
pub fn end_within(child: &mut Child, limit: Duration) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
        }
        if Instant::now() >= deadline {
            child.kill().ok();
            child.wait().ok();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Checks a condition until it holds; panics if it does not within [`LIMIT`].
#[track_caller]
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(is_within(is_so), "not within {LIMIT:?}: {what}");
}

/// Checks a condition until it holds; `false` if it does not within [`LIMIT`].
fn is_within(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Looks until what is seen is as it should be; panics with what was seen last if it is not within [`LIMIT`].
pub fn until_seen(what: &str, mut look: impl FnMut() -> String, is_so: impl Fn(&str) -> bool) {
    let mut seen = String::new();
    let is_in_time = is_within(|| {
        seen = look();
        is_so(&seen)
    });
    assert!(is_in_time, "not within {LIMIT:?}: {what}. It is:\n{seen}");
}

/// Tells whether a process runs: it is there and has not ended, with all of its threads. One that is killed while a thread waits for
/// the disk has its locks until then.
pub fn is_running(pid: i32) -> bool {
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    outlive_sys::identity::Stat::read(pid).is_some_and(|stat| !stat.has_ended() || threads() > 1)
}

/// Lists the keepers of a store.
pub fn keepers_of(store: &Path) -> Vec<i32> {
    all_processes().into_iter().filter(|&pid| is_keeper_of(store, pid) && !is_guard(pid)).collect()
}

/// Tells whether a process is the guard of a keeper.
pub fn is_guard(pid: i32) -> bool {
    let has_name = std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "outlive\n");
    has_name && outlive_sys::keeper::is_keeper(pid)
}

/// Returns the guard of a keeper: its parent, or a child of it.
pub fn guard_of(keeper: i32) -> Option<i32> {
    let parent = outlive_sys::identity::Stat::read(keeper)?.parent;
    let is_below = |&pid: &i32| {
        is_guard(pid) && outlive_sys::identity::Stat::read(pid).is_some_and(|stat| stat.parent == keeper)
    };
    if is_guard(parent) { Some(parent) } else { all_processes().into_iter().find(is_below) }
}

/// Kills a keeper and its guard, so that neither can go on for the other.
pub fn kill_with_guard(keeper: i32) {
    signal(keeper, "STOP");
    let is_stopped =
        || outlive_sys::identity::Stat::read(keeper).is_none_or(|stat| "TZX".contains(stat.state));
    until("the keeper stands still", is_stopped);
    if let Some(guard) = guard_of(keeper) {
        signal(guard, "KILL");
        until("its guard is gone", || !is_running(guard));
    }
    signal(keeper, "KILL");
}

fn is_keeper_of(store: &Path, pid: i32) -> bool {
    outlive_sys::tree::descriptor(pid, outlive_sys::keeper::LOCK_FD)
        .is_some_and(|path| path.starts_with(store) && path.file_name() == Some(OsStr::new("lock")))
}

/// Lists all processes that run.
pub fn all_processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| is_running(pid))
        .collect()
}

/// Sends a signal by name to one process of the test's own.
pub fn signal(pid: i32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, "--", &pid.to_string()]).stderr(Stdio::null()).status();
    sent.unwrap();
}

/// Ends one process of the test's own, and never another process with the same pid.
pub fn end(process: ProcessId) {
    if let Some(handle) = outlive_sys::identity::Handle::open(process) {
        // It may end by itself meanwhile.
        handle.signal(outlive_sys::signal::Signal::KILL).ok();
    }
}

/// Returns the processes that the program `zoo` registered in a file.
pub fn registered(file: &Path) -> Vec<ProcessId> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let parse = |line: &str| {
        let (pid, start_time) = line.split_once(' ')?;
        Some(ProcessId { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
    };
    // The last line may be half written.
    text.split_inclusive('\n').filter_map(|line| parse(line.strip_suffix('\n')?)).collect()
}

/// Returns a field of a JSON object as a pid.
#[track_caller]
pub fn pid(object: &Value, field: &str) -> i32 {
    i32::try_from(object[field].as_i64().unwrap_or_else(|| panic!("no {field} in {object}"))).unwrap()
}

/// Tells whether a process sleeps in the kernel and has a file of this name open: a waiter that has begun to wait.
pub fn waits_with_open(pid: i32, name: &str) -> bool {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let is_open = links.any(|link| link.as_os_str().to_string_lossy().contains(name));
    is_open && outlive_sys::identity::Stat::read(pid).is_some_and(|stat| stat.state == 'S')
}

/// Returns how often the threads of a process went to sleep or were put to sleep, and how long they ran, in ticks: a number that
/// stays the same while nothing wakes the process.
pub fn activity(pid: i32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it is there");
    let of_task = |path: PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let stat = std::fs::read_to_string(path.join("stat")).ok()?;
        let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
        let switches = switches.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok());
        // After the name, which may hold anything, come the state and then numbers; 12 and 13 are the times.
        let rest = stat.rsplit_once(')')?.1;
        let times = rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
        Some(switches.chain(times).sum::<u64>())
    };
    // A thread may end meanwhile.
    tasks.flatten().filter_map(|task| of_task(task.path())).sum()
}

/// Prints a line to the test's own output.
pub fn report(text: &str) {
    let mut stderr = std::io::stderr().lock();
    writeln!(stderr, "{text}").ok();
}

/// Names what a test needs and this machine or user lacks: here, and in the file of `OUTLIVE_TEST_LACKS` for the summary.
/// The test then does nothing.
pub fn lacks(what: &str) {
    report(&format!("skipped, for want of {what}"));
    if let Some(path) = std::env::var_os("OUTLIVE_TEST_LACKS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        file.write_all(format!("{test}: for want of {what}\n").as_bytes()).unwrap();
    }
}
