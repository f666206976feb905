//! Ending a job hurts no other process: not its twin, not a stranger with the pid of a dead process, not a job inside it.
//!
//! Proves S4-32 (only what the job started), S3-77 (a reused pid is not the process that had it) and
//! S0-73 (ending one never breaks the rest), at every containment level that the machine has, by root and by an ordinary
//! user.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use outlive_sys::identity::ProcessId;
use outlive_tests::{
    Done, Home, LIMIT, User, end, end_within, everywhere, finish, is_running, lacks, pid, registered, until,
};
use serde_json::Value;

/// Starts the same tree twice from one shell, which stays: once as it is, and once as a job.
const TWINS: &str = r#"(cd twin && exec "$@" >/dev/null 2>&1) &
cd job && outlive run --containment "$0" --grace 200ms -- "$@"
read -r end"#;

#[test]
fn a_twin_of_the_whole_tree_lives_on() {
    everywhere(|home, level| {
        let name = format!("twins-{}", level.word());
        let place = home.make_dir(&name);
        let [twin, job] = ["twin", "job"].map(|of| home.make_dir(&format!("{name}/{of}")).join("tree"));
        let mut command = home.command("sh");
        command.args(["-c", TWINS, level.word()]).arg(home.program("zoo")).args(["tree", "menagerie"]);
        let command = command.current_dir(&place).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let mut id = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut id).unwrap();
        for file in [&twin, &job] {
            until("the tree is complete", || registered(file).len() == 21);
        }
        // Where a bare process group is all there is, the answer names the processes that got away.
        let killed = home.run(["--json", "kill", id.trim_end()]);
        assert!(matches!(killed.code, 0 | 1), "{}", killed.error());
        let twins = registered(&twin);
        let hurt: Vec<_> = twins.iter().filter(|member| !member.is_alive()).collect();
        let left: Vec<_> = registered(&job).into_iter().filter(|member| member.is_alive()).collect();
        twins.iter().chain(&left).copied().for_each(end);
        drop(shell.stdin.take());
        assert!(end_within(&mut shell, LIMIT).is_some());
        assert!(hurt.is_empty(), "{} as {:?}: {hurt:?} of the twin were hurt", level.word(), home.user());
        assert!(killed.code == 1 || left.is_empty(), "{left:?} are left of the job");
        until("both trees are gone", || twins.iter().chain(&left).all(|member| !member.is_alive()));
    });
}

#[test]
fn a_job_inside_a_job_outlives_it_whatever_holds_the_two() {
    for user in User::all() {
        let home = Home::of(user);
        let levels = home.levels();
        for (outer, inner) in levels.iter().flat_map(|outer| levels.iter().map(move |inner| (outer, inner))) {
            let (outer, inner) = (outer.word(), inner.word());
            let what = format!("{inner} in {outer} as {user:?}");
            let line = format!(
                "outlive run --containment {inner} --name inner -- sleep 300; echo ready; sleep 300 & wait"
            );
            let job = home.start_with(&["--containment", outer], ["sh", "-c", &line]);
            home.wait_for_output(&job, "ready");
            let shown = home.show("inner");
            let command = ProcessId::of(pid(&shown, "pid")).unwrap();
            let keeper = ProcessId::of(pid(&shown, "keeper_pid")).unwrap();
            assert_eq!(shown["parent"], *job, "{what}");
            let killed = home.json(["kill", &job])[0].take();
            assert_eq!(killed["survivors"], Value::Array(Vec::new()), "{what}");
            assert!(home.show(&job)["closed_at"].is_string(), "{what}: it does not linger for the inner one");
            assert!(command.is_alive() && keeper.is_alive(), "{what}: the inner job was hurt");
            assert_eq!(home.show("inner")["status"], "running", "{what}");
            // Its keeper serves it as before.
            assert_eq!(home.json(["kill", "inner"])[0]["status"], "killed", "{what}");
            assert!(!command.is_alive(), "{what}");
            home.run(["remove", "inner", &job]).ok();
        }
    }
}

/// The group for keepers goes with the last of them, also between the two steps of a keeper that enters it.
#[test]
fn a_job_inside_a_job_leaves_its_groups_while_the_one_for_keepers_comes_and_goes() {
    const JOBS: usize = 20;
    let home = Home::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // As keepers do that end; a group with a process in it stays.
        scope.spawn(|| {
            let groups = groups_for_keepers();
            while !is_over.load(Ordering::Relaxed) {
                groups.iter().for_each(|group| drop(fs::remove_dir(group)));
            }
        });
        let inside: Vec<String> =
            home.levels().iter().flat_map(|level| inside(&home, level.word(), JOBS)).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(inside.is_empty(), "{inside:#?}");
    });
}

/// Starts so many jobs from inside a job; returns those groups that they had in common with it.
fn inside(home: &Home, level: &str, jobs: usize) -> Vec<String> {
    // Each is over before the next: the group for keepers is empty when its keeper comes.
    let line =
        "for i in $(seq \"$0\"); do outlive run --wait -- cat /proc/self/cgroup; done; echo ready; sleep 300";
    let job = home.start_with(&["--containment", level], ["sh", "-c", line, &jobs.to_string()]);
    home.wait_for_output(&job, "ready");
    let outer = fs::read_to_string(format!("/proc/{}/cgroup", pid(&home.show(&job), "pid"))).unwrap();
    let own: Vec<&str> =
        outer.lines().filter_map(|line| line.split('/').find(|part| part.starts_with("job-"))).collect();
    let printed = home.run(["logs", &job]).text();
    assert_eq!(printed.lines().filter(|line| line.starts_with("0:")).count(), jobs, "{printed}");
    home.run(["kill", &job]).ok();
    printed.lines().filter(|line| own.iter().any(|own| line.contains(own))).map(str::to_owned).collect()
}

/// Returns where the groups for keepers of this user can be.
fn groups_for_keepers() -> Vec<PathBuf> {
    let mounts = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let name = format!("outlive-{}/keepers", rustix::process::geteuid().as_raw());
    mounts.chain([PathBuf::from("/sys/fs/cgroup")]).map(|mount| mount.join(&name)).collect()
}

/// A pid namespace of its own, in which the next pid can be chosen; all in it ends with it.
struct Namespace<'a> {
    home: &'a Home,
    unshare: Child,
    init: i32,
}

impl<'a> Namespace<'a> {
    /// Makes one; `None`, with a note, where that is not permitted.
    fn new(home: &'a Home) -> Option<Self> {
        // The shell is init there: it reaps all, or a number would never be free again.
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", "echo; sleep 300; :"]);
        let mut unshare =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(unshare.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let parent = unshare.id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let Some(init) = children.ok().and_then(|children| children.trim().parse().ok()) else {
            unshare.wait().unwrap();
            lacks("CAP_SYS_ADMIN, to make a pid namespace");
            return None;
        };
        let namespace = Self { home, unshare, init };
        if namespace.shell("test -w /proc/sys/kernel/ns_last_pid", false).code != 0 {
            lacks("/proc/sys/kernel/ns_last_pid, to choose the next pid");
            return None;
        }
        Some(namespace)
    }

    /// Runs a program inside, with the environment of the home; as its user, or as root, which made the namespace.
    fn enter(&self, is_user: bool) -> Command {
        let mut command = Command::new("nsenter");
        let like = self.home.command("true");
        let variables = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(variables).current_dir(self.home.path()).stdin(Stdio::null());
        command.args(["--target", &self.init.to_string(), "--pid", "--mount", "--"]);
        if is_user && self.home.user() == User::Nobody {
            command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command
    }

    fn shell(&self, line: &str, is_user: bool) -> Done {
        let mut command = self.enter(is_user);
        command.args(["sh", "-c", line]);
        finish(command, b"")
    }

    fn outlive(&self, arguments: &[&str]) -> Done {
        let mut command = self.enter(true);
        // The mount namespace is another one, and so is the directory that nsenter leaves us in.
        command.arg(self.home.program("outlive")).args(arguments);
        finish(command, b"")
    }

    /// Starts a stranger, of the same user, with the pid of a dead process; returns its identity inside the namespace.
    fn stranger(&self, number: i32) -> Stranger<'_> {
        let as_user = if self.home.user() == User::Nobody {
            "setpriv --reuid=65534 --regid=65534 --clear-groups"
        } else {
            ""
        };
        let line = format!(
            "echo {} >/proc/sys/kernel/ns_last_pid; {as_user} sleep 271828 >/dev/null 2>&1 & echo $!",
            number - 1
        );
        until("the number is free", || self.state(number).is_none());
        let started = self.shell(&line, false).ok().text();
        assert_eq!(started.trim().parse::<i32>().unwrap(), number, "the next pid can be chosen");
        let stranger = Stranger { namespace: self, number };
        until("it is what it is to be", || stranger.lives());
        stranger
    }

    /// Returns the command line of a process as it is seen inside; none if there is no such process.
    fn state(&self, number: i32) -> Option<String> {
        let path = format!("/proc/{}/root/proc/{number}/cmdline", self.init);
        fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        self.unshare.kill().ok();
        self.unshare.wait().ok();
        until("the namespace is gone", || !is_running(self.init));
    }
}

struct Stranger<'a> {
    namespace: &'a Namespace<'a>,
    number: i32,
}

impl Stranger<'_> {
    fn lives(&self) -> bool {
        self.namespace.state(self.number).is_some_and(|line| line == "sleep\x00271828\0")
    }

    /// Ends a job in every way, and asserts that the answer is that it had ended.
    fn assert_spared(&self, job: &str, what: &str) {
        for options in [["kill"].as_slice(), &["kill", "--force"], &["kill", "--signal", "TERM"]] {
            let arguments = [&["--json"], options, &[job]].concat();
            let killed = self.namespace.outlive(&arguments).ok().json()[0].take();
            assert_eq!(
                (&killed["already_ended"], &killed["signalled"]),
                (&true.into(), &0.into()),
                "{what}: {killed}"
            );
            assert!(self.lives(), "{what}: a stranger was signalled");
        }
        let text = self.namespace.outlive(&["kill", job]).ok().text();
        assert!(text.contains("had already ended"), "{what}: {text}");
        assert!(self.lives(), "{what}: a stranger was signalled");
    }
}

/// Runs a test in a pid namespace for every user and level.
fn in_namespaces(test: impl Fn(&Namespace<'_>, &str)) {
    for user in User::all() {
        let home = Home::of(user);
        let levels = home.levels();
        let Some(namespace) = Namespace::new(&home) else { return };
        for level in levels {
            test(&namespace, level.word());
        }
    }
}

#[test]
fn a_stranger_with_the_number_of_a_dead_job_is_spared() {
    in_namespaces(|namespace, level| {
        let start = |argv: &[&str]| {
            let arguments = [&["run", "--containment", level, "--"], argv].concat();
            namespace.outlive(&arguments).ok().text().trim_end().to_owned()
        };
        let show = |job: &str| namespace.outlive(&["--json", "show", job]).ok().json();

        // One that ended well.
        let job = start(&["true"]);
        let shown =
            namespace.outlive(&["--json", "wait", "--timeout", "50s", &job]).ok().json()["jobs"][0].take();
        namespace.stranger(pid(&shown, "pid")).assert_spared(&job, level);

        // A job that died with its keeper: its end is not recorded, and a stranger has the pid of each.
        let numbers = ["pid", "keeper_pid"];
        for number in numbers {
            let job = start(&["sleep", "300"]);
            let shown = show(&job);
            let [command, keeper] = numbers.map(|number| pid(&shown, number));
            let guard = pid(&shown, "guard_pid");
            // Stopped, the keeper makes no other guard.
            let line = format!("kill -STOP {keeper}; kill -KILL {guard} {keeper} {command}");
            namespace.shell(&line, false).ok();
            until("both are gone", || [keeper, command].iter().all(|&dead| namespace.state(dead).is_none()));
            namespace.stranger(pid(&shown, number)).assert_spared(&job, &format!("{level}, {number}"));
            assert_eq!(show(&job)["status"], "lost", "{level}");
        }
    });
}

#[test]
fn a_stranger_with_the_number_of_the_main_process_is_spared_when_its_survivors_are_ended() {
    in_namespaces(|namespace, level| {
        // In a session of its own: the kernel does not reuse the number of a group or session with members.
        let line = "setsid sleep 300 >/dev/null 2>&1 & echo $!";
        let started = namespace.outlive(&["run", "--containment", level, "--", "sh", "-c", line]).ok();
        let job = started.text().trim_end().to_owned();
        let ended =
            namespace.outlive(&["--json", "wait", "--timeout", "50s", &job]).ok().json()["jobs"][0].take();
        assert_eq!(ended["lingering"], true, "{level}");
        let survivor: i32 = namespace.outlive(&["logs", &job]).ok().text().trim().parse().unwrap();
        until("it has left", || namespace.state(survivor).is_some_and(|line| line.starts_with("sleep")));
        let stranger = namespace.stranger(pid(&ended, "pid"));
        let killed = namespace.outlive(&["--json", "kill", "--grace", "100ms", &job]);
        assert!(stranger.lives(), "{level}: a stranger was signalled");
        if killed.code == 0 {
            let answer = killed.json()[0].take();
            assert_eq!(
                (&answer["already_ended"], &answer["signalled"]),
                (&false.into(), &1.into()),
                "{level}"
            );
            let is_gone = namespace.state(survivor).is_none_or(|line| line.is_empty());
            assert!(is_gone, "{level}: the survivor is left");
            stranger.assert_spared(&job, level);
        } else {
            // It left the group, and that is all that holds the job together.
            let answer = killed.code(1).json()[0].take();
            assert_eq!((level, &answer["survivors"][0]["pid"]), ("group", &survivor.into()), "{answer}");
        }
    });
}
