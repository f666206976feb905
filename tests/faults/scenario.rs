//! The scenario, and whom the fault hits in it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outlive_sys::fault::Point;
use outlive_tests::{Done, Home, LIMIT, binary, finish, signal};
use serde_json::Value;

use crate::world;

/// What is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Play {
    /// One job's life, and what is done with jobs.
    Life,
    /// Sessions, readiness, and all who are told of ends.
    Telling,
    /// A job in a terminal.
    Terminals,
    /// A job that is started again by itself.
    Reruns,
    /// A job that the process beside it replaces with another run.
    Replaced,
    /// Jobs that belong together, brought up and taken down.
    Projects,
    /// Jobs that wait for their turn.
    Queues,
    /// The same, and their guards die meanwhile.
    Unguarded,
    /// A job whose health is lost and regained.
    Health,
    /// A job that reads another one, and one that is restarted when a file changes.
    Companions,
    /// A list of many jobs.
    Lists,
    /// A job with a schedule, by a clock that is set.
    Schedules,
    /// Jobs on another machine, and jobs that an engine places.
    Machines,
}

impl Play {
    /// Returns the one that comes to a point.
    pub(crate) fn of(point: Point) -> Self {
        let telling = [
            "starter.owed.",
            "starter.watch.",
            "reader.watch",
            "parting.",
            "deliver.",
            "reader.settings.",
            "reader.transfer",
            "reader.name.",
            "reader.reconcile",
            "reader.readers.",
            "reader.inbox.",
            "reader.presence.",
            "reader.told.",
            "reader.probe.",
            "reader.ready",
            "reader.task",
        ];
        let is_of = |parts: &[&str]| parts.iter().any(|part| point.name().starts_with(part));
        let queues =
            ["starter.queue", "starter.waiting.", "keeper.ticket.", "keeper.slot.", "keeper.waiting."];
        let schedules = ["starter.planned.", "keeper.planned.", "keeper.plan.", "parting.plan"];
        let machines = [
            "starter.submitted.",
            "starter.engine",
            "placer.",
            "reader.cancelled.",
            "reader.engine.",
            "reader.node",
            "reader.home",
            "caller.",
            "served.",
        ];
        if is_of(&machines) {
            Self::Machines
        } else if is_of(&schedules) {
            Self::Schedules
        } else if is_of(&queues) {
            Self::Queues
        } else if is_of(&["project.", "starter.name."]) {
            Self::Projects
        } else if is_of(&["reader.replace.", "keeper.replace.", "keeper.forgo."]) {
            Self::Replaced
        } else if is_of(&["reader.fed.", "reader.change-event"]) {
            Self::Companions
        } else if is_of(&["reader.health", "keeper.prober.", "keeper.notice."]) {
            Self::Health
        } else if is_of(&["keeper.queued.", "keeper.turn.", "keeper.next-run.", "parting.gave-up"]) {
            Self::Reruns
        } else if is_of(&telling) {
            Self::Telling
        } else if is_of(&["keeper.terminal.", "keeper.screen.", "keeper.typed.", "reader.screen.", "screen."])
        {
            Self::Terminals
        } else if is_of(&["reader.jobs-cache."]) {
            Self::Lists
        } else {
            Self::Life
        }
    }
}

/// One thing that goes wrong.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) point: Point,
    pub(crate) moment: String,
    pub(crate) action: String,
    pub(crate) play: Play,
}

impl Fault {
    pub(crate) fn name(&self) -> String {
        format!("{}@{}={}", self.point.name(), self.moment, self.action)
    }

    pub(crate) fn hits(&self, actor: &str) -> bool {
        self.point.name().starts_with(actor)
    }

    /// Tells whether it can take a keeper, as nothing else may.
    pub(crate) fn is_of_keeper(&self) -> bool {
        self.hits("keeper")
    }
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) violations: Vec<String>,
    pub(crate) reached: BTreeSet<String>,
    /// What was to go wrong did.
    pub(crate) has_fired: bool,
}

/// A run of the scenario.
pub(crate) struct Scenario<'a> {
    pub(crate) home: Home,
    pub(crate) fault: &'a Fault,
    binaries: PathBuf,
    pub(crate) violations: Vec<String>,
}

/// No step may take longer, whatever went wrong: it is the time in which every front end must have an answer.
const STEP_LIMIT: Duration = Duration::from_secs(50);

/// No look may take longer while another program is stopped: it would be for as long as that one is.
const LOOK_LIMIT: Duration = Duration::from_secs(30);

/// The lines that the command prints beyond those that the scenario waits for.
const BURST: usize = 800;

impl<'a> Scenario<'a> {
    pub(crate) fn run(fault: &'a Fault) -> Ran {
        let binaries =
            std::env::var_os("OUTLIVE_FAULT_BIN").expect("OUTLIVE_FAULT_BIN says where the binaries are");
        let mut run = Self { home: Home::new(), fault, binaries: binaries.into(), violations: Vec::new() };
        match fault.play {
            Play::Life => run.play(),
            Play::Telling => crate::telling::play(&mut run),
            Play::Terminals => crate::terminals::play(&mut run),
            Play::Reruns => crate::reruns::play(&mut run),
            Play::Replaced => crate::replaced::play(&mut run),
            Play::Projects => crate::projects::play(&mut run),
            Play::Queues => crate::queues::play(&mut run),
            Play::Unguarded => crate::queues::play_unguarded(&mut run),
            Play::Health => crate::health::play(&mut run),
            Play::Companions => crate::companions::play(&mut run),
            Play::Lists => crate::lists::play(&mut run),
            Play::Schedules => crate::schedules::play(&mut run),
            Play::Machines => crate::machines::play(&mut run),
        }
        let log = std::fs::read_to_string(run.log()).unwrap_or_default();
        Ran {
            has_fired: run.home.path().join("fault.fired").exists(),
            reached: log.lines().map(str::to_owned).collect(),
            violations: std::mem::take(&mut run.violations),
        }
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.home.path().join("fault")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.home.path().join("ledger")
    }

    pub(crate) fn violation(&mut self, text: impl Into<String>) {
        self.violations.push(text.into());
    }

    /// Returns a command of the build with fault points, with the fault in its environment if it is to hit this actor.
    pub(crate) fn outlive(&self, actor: &str, arguments: &[&str]) -> Command {
        let mut command = self.home.command(self.binaries.join("outlive"));
        command.args(arguments).env("OUTLIVE_FAULT_LOG", self.log());
        // Whoever is started by it, and its jobs' last acts, inherit the fault.
        if ["parting", "deliver", actor].iter().any(|actor| self.fault.hits(actor)) {
            command.env("OUTLIVE_FAULT", self.fault.name());
        }
        if self.fault.hits("keeper") {
            command.env("OUTLIVE_KEEPER_FAULT", self.fault.name());
        }
        if self.fault.hits("screen") {
            command.env("OUTLIVE_SCREEN_FAULT", self.fault.name());
        }
        command
    }

    /// Runs a front end to its end. Where a fault stops somebody, a fresh front end must get its answers all the same; then the
    /// one who was stopped goes on.
    pub(crate) fn front_end(&mut self, actor: &str, arguments: &[&str]) -> Done {
        let command = self.outlive(actor, arguments);
        self.finish(command)
    }

    pub(crate) fn finish(&mut self, command: Command) -> Done {
        let begun = Instant::now();
        let done = self.attend(move || finish(command, b""));
        self.judge(&done, begun.elapsed());
        done
    }

    /// Lets something happen, and looks on while somebody is stopped in it.
    pub(crate) fn attend<T: Send + 'static>(&mut self, act: impl FnOnce() -> T + Send + 'static) -> T {
        if self.fault.action == "pause" && !self.released().exists() {
            let running = std::thread::spawn(act);
            while !running.is_finished() && !self.paused().exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
            if self.paused().exists() {
                self.look_while_paused();
                std::fs::write(self.released(), b"").unwrap();
            }
            running.join().unwrap()
        } else {
            act()
        }
    }

    fn judge(&mut self, done: &Done, took: Duration) {
        if took > STEP_LIMIT {
            self.violation(format!("{} took {took:?}", done.what));
        }
        if done.code == 128 + 6 || done.error().contains("panicked") {
            self.violation(format!("{} panicked: {}", done.what, done.error()));
        }
    }

    /// Runs a front end that no fault hits; it must succeed.
    pub(crate) fn must(&mut self, arguments: &[&str]) -> Done {
        let done = self.home.run(arguments);
        if done.code != 0 {
            self.violation(format!("{arguments:?} comes to {}: {}", done.code, done.error()));
        }
        done
    }

    pub(crate) fn paused(&self) -> PathBuf {
        self.home.path().join("fault.paused")
    }

    pub(crate) fn released(&self) -> PathBuf {
        self.home.path().join("fault.release")
    }

    /// Waits until something is so; `false` if it does not come. A process that the fault has stopped goes on after a look at the store.
    pub(crate) fn comes(&mut self, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            if self.paused().exists() && !self.released().exists() {
                self.look_while_paused();
                std::fs::write(self.released(), b"").unwrap();
            }
            if is_so(self) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    pub(crate) fn look_while_paused(&mut self) {
        for arguments in [&["--json", "list"][..], &["--json", "doctor"]] {
            let begun = Instant::now();
            let done = self.home.run(arguments);
            // What is damaged on purpose is a finding, and finding it is no failure.
            let is_well = done.code == 0 || (done.code == 1 && arguments.contains(&"doctor"));
            if !is_well || begun.elapsed() > LOOK_LIMIT {
                let error = done.error();
                self.violation(format!(
                    "while one is stopped, {arguments:?} took {:?}: {error} {}",
                    begun.elapsed(),
                    done.text()
                ));
            }
        }
    }

    fn play(&mut self) {
        self.front_end("opener", &["list"]);
        // Something for readers to remove and to recover, made without faults.
        if self.must(&["run", "--wait", "--name", "to-remove", "--", "echo", "gone"]).code != 0 {
            return;
        }
        let widow = self.home.start_with(&["--name", "widow", "--containment", "sweep"], ["sleep", "300"]);
        let command = self.home.orphan(&widow);
        signal(command, "KILL");
        outlive_tests::until("the widow is gone", || !outlive_tests::is_running(command));

        // Its outcome is known, somebody of it is left, and its keeper is gone.
        let left = self.home.start_with(&["--name", "left"], ["sh", "-c", "sleep 300 & exit 7"]);
        self.home.wait(&left);
        outlive_tests::until("the end of its main process is told", || self.is_told_ended(&left));
        self.home.orphan(&left);

        let id = self.start();
        let waiter = id.as_ref().map(|id| self.begin_to_wait(id));
        if let Some(id) = &id {
            self.upgrade(id);
            self.feed(id);
            self.front_end("reader", &["logs", "--cursor", "me", id]);
        }
        self.front_end("reader", &["list"]);
        self.clear();
        self.register();
        self.front_end("reader", &["remove", "to-remove"]);
        self.front_end("reader", &["pause", "left"]);
        self.front_end("reader", &["kill", "--force", "left"]);
        self.front_end("reader", &["show", "left"]);
        self.start_in_vain();
        self.damage();
        self.front_end("reader", &["gc"]);
        self.front_end("reader", &["doctor", "--fix"]);
        if let Some(id) = &id {
            self.front_end("reader", &["wait", "--timeout", "10s", id]);
        }
        // Whoever is still stopped goes on now.
        std::fs::write(self.released(), b"").unwrap();
        if let Some(waiter) = waiter {
            let (done, took) = waiter.join().unwrap();
            self.judge(&done, took);
        }
        world::check(self, id.as_deref());
    }

    fn is_told_ended(&self, id: &str) -> bool {
        let events = std::fs::read_to_string(self.home.store().join("sessions/default/events")).unwrap();
        events.lines().any(|line| line.contains(id) && line.contains("exited"))
    }

    /// Lets somebody wait for the job while all the rest happens; returns when that one does.
    fn begin_to_wait(&self, id: &str) -> JoinHandle<(Done, Duration)> {
        let command = self.outlive("waiter", &["wait", "--timeout", "10s", id]);
        let waiter = std::thread::spawn(move || {
            let begun = Instant::now();
            (finish(command, b""), begun.elapsed())
        });
        let waits =
            || std::fs::read_to_string(self.log()).unwrap_or_default().contains(Point::WaitPoll.name());
        while !waits() && !waiter.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        waiter
    }

    /// Notes that an agent runs, and is done: it is noted as a whole, or not at all.
    fn register(&mut self) {
        let register = ["agent", "register", "explorer", "--type", "explore", "--output", "/nowhere"];
        self.front_end("reader", &register);
        if self.home.run(["agent", "status", "explorer"]).code != 0 {
            self.must(&register);
        }
        self.front_end("reader", &["agent", "done", "explorer"]);
        self.must(&["agent", "done", "explorer"]);
        let listed = self.must(&["agent", "list"]).text();
        if listed.lines().count() != 2 || !listed.contains("completed") {
            self.violation(format!("an agent is half noted: {listed}"));
        }
    }

    /// Empties the output of an ended job; once that has succeeded, nothing of it is left.
    fn clear(&mut self) {
        self.front_end("reader", &["clear", "to-remove"]);
        self.must(&["clear", "to-remove"]);
        let left = self.must(&["logs", "--raw", "to-remove"]);
        if !left.stdout.is_empty() {
            self.violation(format!("cleared output is still there: {}", left.text()));
        }
    }

    /// Starts what cannot be started: a program that is not there, and a job whose keeper is not there.
    fn start_in_vain(&mut self) {
        let arguments = ["run", "--name", "never", "--", "/nowhere/program"];
        self.front_end("starter", &arguments);
        let mut unkept = self.outlive("starter", &["run", "--name", "never", "--", "true"]);
        unkept.env("OUTLIVE_KEEPER", "/nowhere/keeper");
        self.finish(unkept);
    }

    /// Leaves what only damage, crashes and time leave: a job without an intent, an old directory in `new/`, the mark of a
    /// job that is not there, and more events than are kept.
    fn damage(&self) {
        let place = |path: &str| {
            let place = self.home.store().join(path);
            std::fs::create_dir(&place).unwrap();
            place
        };
        std::fs::write(place("jobs/broken-0000").join("spec.json"), b"{").unwrap();
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(7200);
        File::open(place("new/stale-0000")).unwrap().set_modified(long_ago).unwrap();
        File::create(self.home.store().join("live/gone-0000@default")).unwrap();
        File::create(place("sessions/old").join("events")).unwrap().set_len(3 << 20).unwrap();
    }

    /// Starts the command, and again if the first attempt was hit; returns the job that runs or ran.
    fn start(&mut self) -> Option<String> {
        let ledger = self.ledger().display().to_string();
        let program = binary("canonical").display().to_string();
        let burst = BURST.to_string();
        let arguments =
            ["--json", "run", "--stdin", "open", "--output-cap", "32K", "--name", "canonical", "--"];
        // Every other run takes the longer way to the end, on which a process outlives the main one.
        let leaves = self.fault.point == Point::ClosedWrite || self.fault.name().len().is_multiple_of(2);
        let left = if leaves { "leave-behind" } else { "leave-nothing" };
        let arguments = [&arguments[..], &[&program, &ledger, &burst, left]].concat();
        self.start_named("canonical", "starter", &arguments)
    }

    /// Starts a job, and again if the first attempt was hit; returns the one that runs or ran.
    pub(crate) fn start_named(&mut self, name: &str, actor: &str, arguments: &[&str]) -> Option<String> {
        for attempt in 0..2 {
            let done = self.front_end(actor, arguments);
            if done.code == 0 {
                return done.json()["job"].as_str().map(str::to_owned);
            }
            // A starter that was killed may have left a job that runs all the same.
            if let Some(job) = self.started_all_the_same(name) {
                return Some(job);
            }
            if attempt == 1 {
                self.violation(format!("the next job does not start: {}", done.error()));
            }
        }
        None
    }

    /// Finds the job of a start that failed, once it is clear whether it runs.
    fn started_all_the_same(&mut self, name: &str) -> Option<String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let listed = self.home.run(["--json", "list"]);
            let jobs: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            let job = jobs.iter().find(|job| job["name"] == name)?;
            match job["status"].as_str() {
                Some("running") => return job["job"].as_str().map(str::to_owned),
                Some("starting") if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(3)),
                Some("starting") => {
                    self.violation(format!("it neither starts nor fails: {job}"));
                    return None;
                }
                _ => return None,
            }
        }
    }

    /// Upgrades the keeper where that is what is to go wrong; whatever became of it, the next one succeeds.
    fn upgrade(&mut self, id: &str) {
        if !self.fault.point.name().starts_with("keeper.upgrade.") {
            return;
        }
        self.until_ledger("e000002");
        let arguments = ["upgrade", "--force", id];
        // The first one may have been taken back, and a guard below its keeper needs the kernel's help for a second.
        if self.front_end("reader", &arguments).code == 0 || outlive_sys::exit::can_tell() {
            self.must(&arguments);
        }
    }

    /// Gives the command its line and its signal, trying again as a user would.
    fn feed(&mut self, id: &str) {
        self.until_ledger("e000002");
        self.repeat(&["send", id, "hello"], id, "o000003");
        self.repeat(&["kill", "--signal", "INT", id], id, "e000003");
    }

    /// Asks for something until it shows in the ledger, or it is too late.
    fn repeat(&mut self, arguments: &[&str], id: &str, line: &str) {
        for _ in 0..4 {
            let done = self.front_end("reader", arguments);
            // One that failed may have been heard all the same.
            let limit = Duration::from_millis(if done.code == 0 { 2000 } else { 200 });
            if self.until_ledger_within(line, limit) || self.is_over(id) {
                break;
            }
        }
    }

    fn is_over(&self, id: &str) -> bool {
        let shown = self.home.run(["--json", "show", id]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
        shown["status"] != "running" && shown["status"] != "starting"
    }

    fn until_ledger(&mut self, line: &str) {
        if !self.until_ledger_within(line, LIMIT) {
            self.violation(format!("the command does not come to {line}"));
        }
    }

    fn until_ledger_within(&self, line: &str, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let is_there = || std::fs::read_to_string(self.ledger()).is_ok_and(|text| text.contains(line));
        while !is_there() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        true
    }
}
