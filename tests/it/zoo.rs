//! Trees that are hard to end, each ended with nothing left and no other process hurt, at every containment level that the
//! machine has, by root and by an ordinary user.
//!
//! Proves S4-32 and S4-33 (not the process alone but all that it started), S2-41 (TERM, then KILL) and, for what escapes a
//! process group, S0-106. Beside every tree runs a bystander: the same command line, of the same user and the same parent
//! shell. It must live on.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use outlive::Level;
use outlive_sys::identity::{ProcessId, Stat};
use outlive_tests::{Home, LIMIT, User, binary, end, end_within, everywhere, lacks, registered, until};
use serde_json::Value;

/// How long a tree has before it is killed the hard way.
const GRACE: Duration = Duration::from_millis(300);

/// Starts a bystander and then the job, both from one shell, which stays.
const PARENT: &str = r#"ZOO_BYSTANDER=1 "$@" >/dev/null 2>&1 & echo $!
outlive run --containment "$0" --grace 300ms -- "$@"
read -r end"#;

/// How often the test checks whether a file still grows; each check takes as long as reading all of `/proc`.
const LOOKS: usize = 20;

/// A tree in a job, and a bystander beside it.
struct Cage<'a> {
    home: &'a Home,
    level: Level,
    /// What all of its processes are registered in.
    file: PathBuf,
    shell: Child,
    bystander: ProcessId,
    job: String,
}

impl<'a> Cage<'a> {
    /// Starts `zoo FILE KIND NUMBER` twice: as a bystander and as a job.
    fn start(home: &'a Home, level: Level, kind: &str, number: &str) -> Self {
        let file = home.make_dir(&format!("{kind}-{}", level.word())).join("tree");
        let mut command = home.command("sh");
        command.args(["-c", PARENT, level.word()]).arg(home.program("zoo")).arg(&file).args([kind, number]);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(shell.stdout.take().unwrap()).lines();
        let mut line = || said.next().expect("the shell says what it started").unwrap();
        let (pid, job): (i32, String) = (line().parse().unwrap(), line());
        let place = file.with_extension("bystander");
        until("the bystander is what it is to be", || !registered(&place).is_empty());
        let bystander = registered(&place)[0];
        assert!(bystander.pid == pid && bystander.is_alive());
        Self { home, level, file, shell, bystander, job }
    }

    fn what(&self) -> String {
        format!("{} as {:?}", self.file.display(), self.home.user())
    }

    /// Waits until this many have registered, and returns them.
    fn complete(&self, count: usize) -> Vec<ProcessId> {
        until(&format!("{}: {count} are there", self.what()), || registered(&self.file).len() >= count);
        registered(&self.file)
    }

    /// Lists what still runs of the job, seen in two ways: by the register, and by the home's environment.
    fn left(&self) -> Vec<ProcessId> {
        let others = [self.bystander.pid, i32::try_from(self.shell.id()).unwrap()];
        let unregistered = self.home.processes_of_jobs().into_iter().filter(|pid| !others.contains(pid));
        let mut left: Vec<ProcessId> = unregistered.filter_map(ProcessId::of).collect();
        left.extend(registered(&self.file));
        left.sort_unstable_by_key(|process| (process.pid, process.start_time));
        left.dedup();
        left.retain(|process| process.is_alive());
        left
    }

    /// Ends the job; asserts that nothing is left, or, where that may be, that the answer says so. It would go on for longer than
    /// any command of a test may take; how soon it is gone is measured by `bench/`, against a floor.
    fn kill(&self, options: &[&str]) -> Ended {
        let what = self.what();
        let mut arguments = vec!["--json", "kill"];
        arguments.extend(options);
        arguments.push(&self.job);
        let asked = Instant::now();
        let done = self.home.run(arguments);
        let took = asked.elapsed();
        let left = self.left();
        let answer = done.json()[0].take();
        let survivors = answer["survivors"].as_array().cloned().unwrap_or_default();
        assert!(survivors.is_empty() || self.level == Level::Group, "{what}: {answer}");
        assert_eq!(done.code, i32::from(!survivors.is_empty()), "{what}: {answer}");
        for survivor in &survivors {
            let why = survivor["why"].as_str().unwrap_or_default();
            assert!(survivor["pid"].is_i64() && !why.is_empty(), "{what}: {survivor}");
        }
        if survivors.is_empty() {
            let states: Vec<_> = left.iter().map(|process| Stat::read(process.pid)).collect();
            assert!(left.is_empty(), "{what}: the answer came before these were gone: {states:?}");
            let shown = self.home.show(&self.job);
            assert!(shown["closed_at"].is_string() && shown["lingering"] == false, "{what}: {shown}");
        }
        Ended { what, took, left, survivors }
    }

    /// Asserts that no process is found; and that none goes on that is too fast to be found: it would register.
    fn assert_still(&self, ended: &Ended) {
        let length = || std::fs::metadata(&self.file).unwrap().len();
        let before = length();
        for _ in 0..LOOKS {
            assert!(self.left().is_empty(), "{}", ended.what);
        }
        assert_eq!(length(), before, "{}: it goes on", ended.what);
    }

    /// Asserts that no other process was hurt, and ends what is left, one by one.
    fn empty(mut self, ended: &Ended) {
        let is_unhurt = self.bystander.is_alive();
        ended.left.iter().copied().for_each(end);
        end(self.bystander);
        drop(self.shell.stdin.take());
        assert!(end_within(&mut self.shell, LIMIT).is_some());
        assert!(is_unhurt, "{}: a bystander was hurt", ended.what);
        until(&format!("{}: nothing is left", ended.what), || self.left().is_empty());
    }
}

impl Drop for Cage<'_> {
    /// Ends a chain of a test that failed; it could not be ended by pid.
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::fs::write(self.file.with_extension("stop"), "").ok();
        }
    }
}

/// The result of a kill.
struct Ended {
    what: String,
    took: Duration,
    left: Vec<ProcessId>,
    survivors: Vec<Value>,
}

impl Ended {
    /// Asserts that all processes that are left are in the answer.
    fn assert_named(&self) {
        let is_named = |process: &&ProcessId| {
            let mut named = self.survivors.iter().filter(|named| named["pid"] == process.pid);
            named.any(|named| named["command"].as_str().is_some_and(|command| !command.is_empty()))
        };
        let unnamed: Vec<_> = self
            .left
            .iter()
            .filter(|process| !is_named(process))
            .map(|process| Stat::read(process.pid))
            .collect();
        assert!(unnamed.is_empty(), "{}: {unnamed:?} are left and not in {:?}", self.what, self.survivors);
    }
}

/// Lets a tree grow to `count`, ends it everywhere, and asserts what must be so after any kill.
fn end_everywhere(kind: &str, number: &str, count: usize, has_grown: impl Fn(&[ProcessId]) -> bool) {
    everywhere(|home, level| {
        let cage = Cage::start(home, level, kind, number);
        let members = cage.complete(count);
        assert_eq!(members.len(), count);
        until(&format!("{} is as it is to be", cage.what()), || has_grown(&members));
        let ended = cage.kill(&[]);
        ended.assert_named();
        cage.empty(&ended);
    });
}

fn count_in_state(members: &[ProcessId], state: char) -> usize {
    let stats = members.iter().filter_map(|member| Stat::read(member.pid));
    stats.filter(|stat| stat.state == state).count()
}

#[test]
fn those_who_ignore_term_are_gone_after_the_grace() {
    everywhere(|home, level| {
        let cage = Cage::start(home, level, "stubborn", "0");
        cage.complete(3);
        let ended = cage.kill(&[]);
        assert!(ended.took >= GRACE, "{}: it did not get its grace: {:?}", ended.what, ended.took);
        assert!(ended.left.is_empty(), "{}: they are all in one group", ended.what);
        cage.empty(&ended);
    });
}

#[test]
fn two_hundred_children_are_gone() {
    end_everywhere("many", "200", 201, |_| true);
}

#[test]
fn those_who_left_for_another_session_are_gone() {
    end_everywhere("session", "0", 3, |_| true);
}

#[test]
fn a_double_forked_daemon_is_gone() {
    end_everywhere("daemon", "0", 2, |_| true);
}

#[test]
fn a_stopped_child_is_gone() {
    end_everywhere("stopped", "0", 2, |members| count_in_state(members, 'T') == 1);
}

#[test]
fn those_who_stand_still_in_a_tracers_hand_are_gone() {
    end_everywhere("traced", "0", 4, |members| count_in_state(members, 't') == 2);
}

#[test]
fn twenty_one_of_all_kinds_are_gone() {
    end_everywhere("menagerie", "0", 21, |_| true);
}

#[test]
fn a_storm_of_forks_is_over() {
    for options in [["--force"].as_slice(), &[]] {
        everywhere(|home, level| {
            // 191 at most at a time, of which 64 are always new.
            let cage = Cage::start(home, level, "storm", "6");
            cage.complete(40);
            let ended = cage.kill(options);
            assert!(ended.left.is_empty(), "{}: they are all in one group", ended.what);
            cage.assert_still(&ended);
            cage.empty(&ended);
        });
    }
}

#[test]
fn a_child_that_holds_the_pipe_after_the_main_process_is_gone() {
    everywhere(|home, level| {
        let cage = Cage::start(home, level, "pipe", "0");
        cage.complete(2);
        assert_eq!(home.wait(&cage.job)["lingering"], true, "{}", cage.what());
        let ended = cage.kill(&[]);
        ended.assert_named();
        cage.empty(&ended);
    });
}

/// Ends a chain whose members fork and exit all the time.
fn end_chain(kind: &str) {
    for options in [["--force"].as_slice(), &[]] {
        everywhere(|home, level| {
            let cage = Cage::start(home, level, kind, "3");
            assert_eq!(home.wait(&cage.job)["lingering"], true, "{}: it is on its way", cage.what());
            cage.complete(100);
            let mut ended = cage.kill(options);
            if ended.survivors.is_empty() {
                cage.assert_still(&ended);
            } else {
                // The processes that were named have long forked and exited.
                std::fs::write(cage.file.with_extension("stop"), "").unwrap();
                ended.left.clear();
            }
            cage.empty(&ended);
        });
    }
}

#[test]
fn a_chain_that_forks_on_while_it_is_killed_is_gone() {
    end_chain("chain");
}

#[test]
fn a_chain_with_a_new_session_at_each_link_is_gone() {
    end_chain("setsid-chain");
}

#[test]
fn a_chain_is_of_the_job_until_its_last_link_is_gone() {
    everywhere(|home, level| {
        let cage = Cage::start(home, level, "setsid-chain", "1");
        assert_eq!(home.wait(&cage.job)["lingering"], true, "{}: it is on its way", cage.what());
        cage.complete(600);
        let shown = home.show(&cage.job);
        let length = || std::fs::metadata(&cage.file).unwrap().len();
        let before = length();
        until("the chain goes on", || length() > before);
        assert_eq!(
            (&shown["lingering"], &shown["closed_at"]),
            (&true.into(), &Value::Null),
            "{}",
            cage.what()
        );
        std::fs::write(cage.file.with_extension("stop"), "").unwrap();
        until("it is closed", || home.show(&cage.job)["closed_at"].is_string());
        let ended =
            Ended { what: cage.what(), took: Duration::ZERO, left: cage.left(), survivors: Vec::new() };
        assert!(ended.left.is_empty(), "{}", ended.what);
        cage.empty(&ended);
    });
}

#[test]
fn a_child_in_another_group_is_gone_and_its_port_is_free() {
    everywhere(|home, level| {
        let cage = Cage::start(home, level, "port", "0");
        let members = cage.complete(2);
        let stats: Vec<Stat> = members.iter().filter_map(|member| Stat::read(member.pid)).collect();
        assert!(stats.len() == 2 && stats[0].group != stats[1].group, "{stats:?}");
        let port = std::fs::read_to_string(cage.file.with_extension("port")).unwrap();
        let port: u16 = port.parse().unwrap();
        let connects = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(connects(), "{}", cage.what());
        let ended = cage.kill(&[]);
        ended.assert_named();
        assert_eq!(connects(), !ended.left.is_empty(), "{}: port {port}", ended.what);
        cage.empty(&ended);
    });
}

#[test]
fn one_who_has_become_another_user_is_named() {
    for user in User::all().into_iter().filter(|&user| user == User::Nobody) {
        let home = Home::of(user);
        // Set-user-ID root; only this home's user can reach it.
        let program = home.path().join("becomes-owner");
        std::fs::copy(binary("becomes-owner"), &program).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        for level in home.levels() {
            let file = home.make_dir(&format!("owner-{}", level.word())).join("pid");
            let line = format!("{} {}; exit 9", program.display(), file.display());
            let options = ["--containment", level.word(), "--grace", "100ms"];
            let job = home.start_with(&options, ["sh", "-c", &line]);
            let root =
                || std::fs::read_to_string(&file).ok()?.trim_end().parse().ok().and_then(ProcessId::of);
            until("it is root, or could not become it", || {
                root().is_some() || !home.logs(&job).is_empty() || home.show(&job)["status"] == "failed"
            });
            let Some(root) = root() else {
                lacks("a temporary directory where a program can be set-user-id");
                return;
            };
            let killed = home.run(["--json", "kill", &job]).code(1);
            let answer = killed.json()[0].take();
            let is_alive = root.is_alive();
            end(root);
            assert!(is_alive, "{}: an ordinary user cannot end it", level.word());
            let named = answer["survivors"].as_array().unwrap();
            assert!(named.len() == 1 && named[0]["pid"] == root.pid, "{answer}");
            assert!(named[0]["command"].as_str().unwrap().contains("becomes-owner"), "{answer}");
            assert!(named[0]["why"].as_str().unwrap().contains("may not be signalled"), "{answer}");
            assert!(killed.error().contains(&root.pid.to_string()), "{}", killed.error());
            until("the job is closed", || home.show(&job)["closed_at"].is_string());
        }
    }
}

#[test]
fn show_names_the_level_that_was_forced_and_the_best_one_without() {
    everywhere(|home, level| {
        let job = home.start_with(&["--containment", level.word()], ["sleep", "300"]);
        assert_eq!(home.show(&job)["containment"], level.word(), "{:?}", home.user());
        let free = home.start(["sleep", "300"]);
        // Where orphans can be adopted, the worst level that outlive chooses is sweep; at most one of cgroup2 and hybrid is the best.
        let best = home.show(&free)["containment"].as_str().unwrap().to_owned();
        let levels: Vec<&str> = home.levels().into_iter().map(Level::word).collect();
        assert!(levels[..levels.len() - 1].contains(&best.as_str()), "{best} of {levels:?}");
        if levels.len() > 2 {
            assert_ne!(best, "sweep", "of {levels:?}");
        }
        home.run(["kill", "--force", &job, &free]).ok();
    });
}
