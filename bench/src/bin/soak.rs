//! Everything at once, for minutes: starts, floods of output, input, kills, removals, collections, front ends and keepers that
//! are killed at any moment, a disk that is full now and then. Afterwards every job is checked.
//!
//! Each command counts on both streams (`tests/programs/counts.rs`), so that its log can be checked to the byte: it must be
//! the beginning of what was written, and all of it where the command ended by itself. Each outcome must be what happened: a
//! keeper or its guard is killed, never both at once, and the other goes on. What the design does not allow makes the exit status 1,
//! with or without `--check`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::{
    Cause, Config, ControlError, Job, Kill, Output, Piece, Request, Signal, StartError, State, Stdin, Store,
    Stream, Until, WaitStatus,
};
use outlive_bench::{
    Failure, Keeper, Options, World, beside, conclude, end, go_on, guard_of, keeper_of, sum_of_lines,
};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_tests::counts::{Checker, Counted};
use outlive_tests::{Random, SmallDisk, end_within};

/// Threads that start and end jobs at the same time.
const USERS: u64 = 6;

/// At most about so many jobs live at the same time.
const MOST: usize = 60;

/// Jobs that are never killed, to see whether keepers grow.
const SENTINELS: usize = 5;

/// The limit of any single wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Growth of a keeper that is allowed: buffers that it gives back when it is idle.
const KEEPER_GROWTH_KIB: i64 = 256;

/// The same for this program, which checks gigabytes: a piece of output for each thread, and what the allocator keeps.
const OWN_GROWTH_KIB: i64 = 32 << 10;

/// Exit statuses that a start may have: started, refused by the disk, or by a limit.
const RUN_CODES: [i32; 3] = [0, 1, 5];

/// Exit statuses of a request that comes too late or too early, and of a wait for a job that failed; see `docs/reference/exit-status.md`.
const OTHER_CODES: [i32; 6] = [0, 1, 3, 4, 5, 7];

fn main() -> ExitCode {
    conclude(run)
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    /// Counts to a number and exits with a code.
    Counts { lines: u64, pause_us: u64, width: usize, code: u8 },
    /// Counts until it is told to stop, and repeats what it is told.
    Talks { width: usize, code: u8 },
    /// Sleeps until it is killed.
    Sleeps,
}

/// What was done to a job, as far as this program knows. A number in the job's name identifies it.
#[derive(Debug, Clone)]
struct Entry {
    deed: Deed,
    place: usize,
    id: Option<String>,
    is_started: bool,
    is_stopped: bool,
    is_killed: bool,
    /// How often its keeper or guard was killed.
    deaths: u32,
    is_removed: bool,
    /// Its input, and whether the front end confirmed it.
    told: Vec<(String, bool)>,
    /// The part of it that the log must have if the job ended by itself.
    must: Vec<String>,
}

/// One store.
struct Place {
    store: Store,
    /// Its disk is full now and then, and its oldest jobs are collected.
    is_small: bool,
}

struct Soak<'a> {
    places: Vec<Place>,
    options: &'a Options,
    keeper: &'a Keeper,
    counts: PathBuf,
    entries: Mutex<BTreeMap<u64, Entry>>,
    next: AtomicU64,
    done: Mutex<BTreeMap<&'static str, u64>>,
    wrong: Mutex<Vec<String>>,
    outcomes: Mutex<BTreeMap<String, u64>>,
    bytes: AtomicU64,
    dropped: AtomicU64,
    groups: Mutex<HashSet<PathBuf>>,
    is_over: AtomicBool,
    killing: Mutex<()>,
}

fn run() -> Result<bool, Failure> {
    let (options, [minutes, seed]) = Options::parse([("minutes", 2), ("seed", Random::seed() >> 1)])?;
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    println!("soak: {minutes} minutes, --seed {seed}; {} keeper; {}", keeper.label, world.describe());
    let mut places = vec![Place { store: world.store(keeper)?, is_small: false }];
    let disk = SmallDisk::mount("48m");
    match &disk {
        Some(disk) => places.push(Place { store: small_store(disk.path(), keeper)?, is_small: true }),
        None => println!("no full disk: this user may not mount a small one"),
    }
    let soak = Soak {
        places,
        options: &options,
        keeper,
        counts: beside("counts")?,
        entries: Mutex::default(),
        next: AtomicU64::new(0),
        done: Mutex::default(),
        wrong: Mutex::default(),
        outcomes: Mutex::default(),
        bytes: AtomicU64::new(0),
        dropped: AtomicU64::new(0),
        groups: Mutex::default(),
        is_over: AtomicBool::new(false),
        killing: Mutex::new(()),
    };
    let mut before = vec![soak.own_size()?];
    let sentinels = soak.sentinels()?;
    before.extend(soak.sizes(&sentinels)?);
    soak.rage(Duration::from_secs(60 * minutes), seed, disk.as_ref())?;
    let mut after = soak.sizes(&sentinels)?;
    soak.finish(&sentinels)?;
    after.insert(0, soak.own_size()?);
    soak.leftovers()?;
    soak.print(&before, &after)
}

fn small_store(path: &Path, keeper: &Keeper) -> Result<Store, Failure> {
    let root = path.join("store");
    fs::create_dir(&root)?;
    fs::write(root.join("config.toml"), "[retention]\nmax_jobs = 40\n[job]\noutput_cap = \"64M\"\n")?;
    let config = Config::load(&root.join("config.toml"))?;
    Ok(Store::open_at(&root, config)?.with_keeper(&keeper.path))
}

impl Soak<'_> {
    fn note(&self, deed: &'static str) {
        if let Ok(mut done) = self.done.lock() {
            *done.entry(deed).or_default() += 1;
        }
    }

    fn complain(&self, what: String) {
        if let Ok(mut wrong) = self.wrong.lock() {
            wrong.push(what);
        }
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Entry)) {
        if let Ok(mut entries) = self.entries.lock() {
            entries.entry(number).and_modify(change);
        }
    }

    fn entry(&self, number: u64) -> Option<Entry> {
        self.entries.lock().ok()?.get(&number).cloned()
    }

    /// Picks one of the jobs that fit.
    fn pick(&self, random: &mut Random, fits: impl Fn(&Entry) -> bool) -> Option<(u64, Entry)> {
        let entries = self.entries.lock().ok()?;
        let fitting: Vec<_> = entries.iter().filter(|(_, entry)| entry.id.is_some() && fits(entry)).collect();
        if fitting.is_empty() {
            return None;
        }
        let (number, entry) = *random.one_of(&fitting);
        Some((*number, entry.clone()))
    }

    fn argv(&self, deed: Deed) -> Vec<String> {
        let program = self.counts.display().to_string();
        let words = |lines: u64, pause: u64, width: usize, code: u8| {
            vec![program.clone(), lines.to_string(), pause.to_string(), width.to_string(), code.to_string()]
        };
        match deed {
            Deed::Counts { lines, pause_us, width, code } => words(lines, pause_us, width, code),
            Deed::Talks { width, code } => words(0, 20_000, width, code),
            Deed::Sleeps => vec!["sleep".to_owned(), "3600".to_owned()],
        }
    }

    fn sentinels(&self) -> Result<Vec<u64>, Failure> {
        let deed = Deed::Talks { width: 64, code: 9 };
        let numbers = (0..SENTINELS).map(|_| self.register(deed, 0)).collect::<Vec<u64>>();
        for &number in &numbers {
            self.start_here(number)?;
            // The pipe that holds input is kept as long as a job prints: from the beginning, so that it is no growth.
            let Some(id) = self.entry(number).and_then(|entry| entry.id) else { continue };
            let store = &self.places[0].store;
            store.write_stdin(&store.find(&id, None)?, b"begin\n", PATIENCE)?;
            self.change(number, |entry| entry.told.push(("begin".to_owned(), true)));
        }
        Ok(numbers)
    }

    fn register(&self, deed: Deed, place: usize) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            deed,
            place,
            id: None,
            is_started: false,
            is_stopped: false,
            is_killed: false,
            deaths: 0,
            is_removed: false,
            told: Vec::new(),
            must: Vec::new(),
        };
        if let Ok(mut entries) = self.entries.lock() {
            entries.insert(number, entry);
        }
        number
    }

    /// Starts a job through the library.
    fn start_here(&self, number: u64) -> Result<(), Failure> {
        let Some(entry) = self.entry(number) else { return Ok(()) };
        let stdin = if matches!(entry.deed, Deed::Talks { .. }) { Stdin::Open } else { Stdin::Null };
        let request = Request::argv(self.argv(entry.deed)).name(format!("soak-{number}")).stdin(stdin);
        let place = &self.places[entry.place];
        let started = match place.store.start(&request) {
            // A full disk and a limit are expected; any other failure is not.
            Err(error @ (StartError::Store(..) | StartError::Limit(_))) if place.is_small => {
                return Err(error.into());
            }
            Err(error) => {
                self.complain(format!("soak-{number} was not started: {error:?}"));
                return Err(error.into());
            }
            Ok(started) => started,
        };
        let id = started.job.id().to_string();
        self.change(number, |entry| (entry.id, entry.is_started) = (Some(id), true));
        Ok(())
    }

    /// Runs `outlive`, and kills it at some moment or not. Returns its exit code and what it said; none if it was killed.
    fn outlive(
        &self,
        place: usize,
        arguments: &[&str],
        random: &mut Random,
    ) -> Result<Option<(i32, String)>, Failure> {
        let mut command = Command::new(&self.options.outlive);
        command.args(arguments).env("OUTLIVE_HOME", self.places[place].store.root());
        command.env("OUTLIVE_KEEPER", &self.keeper.path).env_remove("OUTLIVE_CONFIG");
        let is_run = arguments.first() == Some(&"run");
        let said = || if is_run { Stdio::piped() } else { Stdio::null() };
        let mut child = command.stdin(Stdio::null()).stdout(said()).stderr(said()).spawn()?;
        let never_ends = arguments.contains(&"-f");
        if never_ends || random.below(2) == 0 {
            std::thread::sleep(Duration::from_micros(random.below(15_000)));
            child.kill()?;
        } else if end_within(&mut child, PATIENCE).is_none() {
            self.complain(format!("{arguments:?} takes longer than {PATIENCE:?}"));
        }
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match (output.status.signal(), output.status.code()) {
            (Some(9), _) => {
                self.note("front end killed");
                Ok(None)
            }
            (_, Some(code)) => {
                let allowed = if is_run { &RUN_CODES[..] } else { &OTHER_CODES[..] };
                let is_refused = is_run && code != 0 && !self.places[place].is_small;
                if !allowed.contains(&code) || is_refused {
                    let why = String::from_utf8_lossy(&output.stderr).into_owned();
                    self.complain(format!("{arguments:?} exited with {code}: {why}"));
                }
                Ok(Some((code, said)))
            }
            (signal, _) => {
                self.complain(format!("{arguments:?} was ended by signal {signal:?}"));
                Ok(None)
            }
        }
    }

    /// Lets all of them go on for a time.
    fn rage(&self, time: Duration, seed: u64, disk: Option<&SmallDisk>) -> Result<(), Failure> {
        let deadline = Instant::now() + time;
        std::thread::scope(|scope| {
            let users: Vec<_> = (0..USERS)
                .map(|number| {
                    scope.spawn(move || {
                        let mut random = Random::new(seed.wrapping_add(number));
                        while Instant::now() < deadline && !outlive_sys::signal::interrupted() {
                            if let Err(failure) = self.act(&mut random) {
                                // A job may be gone before it is asked for; its outcome is checked later.
                                self.note("refused");
                                drop(failure);
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(move || {
                let mut random = Random::new(!seed);
                while let Some(disk) = disk.filter(|_| !self.is_over.load(Ordering::Relaxed)) {
                    let filler = disk.fill();
                    self.note("disk full");
                    std::thread::sleep(Duration::from_millis(200 + random.below(800)));
                    fs::remove_file(filler).ok();
                    std::thread::sleep(Duration::from_millis(1000 + random.below(2000)));
                }
            });
            users.into_iter().for_each(|user| drop(user.join()));
            self.is_over.store(true, Ordering::Relaxed);
        });
        go_on()
    }

    /// Does one thing.
    fn act(&self, random: &mut Random) -> Result<(), Failure> {
        match random.below(100) {
            0..30 => self.start(random),
            30..45 => self.tell(random),
            45..60 => self.kill(random),
            60..63 => self.kill_keeper(random),
            63..80 => self.look(random),
            80..83 => self.collect(random),
            _ => self.remove(random),
        }
    }

    fn start(&self, random: &mut Random) -> Result<(), Failure> {
        let live = |place: &Place| fs::read_dir(place.store.root().join("live")).map_or(0, Iterator::count);
        if self.places.iter().map(live).sum::<usize>() >= MOST {
            return Ok(());
        }
        let place = if random.below(4) == 0 { self.places.len() - 1 } else { 0 };
        let width = 24 + usize::try_from(random.below(200))?;
        let code = if random.below(3) == 0 { 0 } else { 10 + u8::try_from(random.below(100))? };
        let deed = match random.below(10) {
            0..4 => Deed::Counts { lines: random.below(300), pause_us: 0, width, code },
            4 => Deed::Counts { lines: 1 + random.below(100), pause_us: 5000, width, code },
            5 => Deed::Counts { lines: 5000 + random.below(40_000), pause_us: 0, width, code },
            6..9 => Deed::Talks { width, code },
            _ => Deed::Sleeps,
        };
        // Counting to zero means counting until told to stop.
        let deed = match deed {
            Deed::Counts { lines: 0, .. } => Deed::Sleeps,
            deed => deed,
        };
        let number = self.register(deed, place);
        self.note("start");
        if random.below(2) == 0 {
            return self.start_here(number);
        }
        let name = format!("soak-{number}");
        let argv = self.argv(deed);
        let stdin = if matches!(deed, Deed::Talks { .. }) { "open" } else { "null" };
        let mut arguments = vec!["run", "--name", &name, "--stdin", stdin, "--"];
        arguments.extend(argv.iter().map(String::as_str));
        match self.outlive(place, &arguments, random)? {
            Some((0, id)) => {
                self.change(number, |entry| (entry.id, entry.is_started) = (Some(id), true));
            }
            Some(_) => self.note("refused"),
            // Whether it was started is not known here; its name will tell.
            None => {
                let found = self.places[place].store.find(&name, None);
                self.change(number, |entry| entry.id = found.ok().map(|job| job.id().to_string()));
            }
        }
        Ok(())
    }

    fn tell(&self, random: &mut Random) -> Result<(), Failure> {
        let talks = |entry: &Entry| matches!(entry.deed, Deed::Talks { .. }) && !entry.is_stopped;
        let Some((number, entry)) = self.pick(random, talks) else { return Ok(()) };
        let id = entry.id.as_deref().unwrap_or_default();
        // Jobs that must run to the end of the soak get input only, never the word to stop.
        if number >= SENTINELS as u64 && random.below(3) == 0 {
            self.change(number, |entry| {
                entry.is_stopped = true;
                entry.must =
                    entry.told.iter().filter(|(_, is_told)| *is_told).map(|(text, _)| text.clone()).collect();
            });
            self.note("stop");
            self.outlive(entry.place, &["send", id, "stop"], random)?;
            return Ok(());
        }
        let text = random.draw().to_string();
        self.change(number, |entry| entry.told.push((text.clone(), false)));
        self.note("send");
        if matches!(self.outlive(entry.place, &["send", id, &text], random)?, Some((0, _))) {
            self.change(number, |entry| {
                entry
                    .told
                    .iter_mut()
                    .filter(|(told, _)| *told == text)
                    .for_each(|(_, is_told)| *is_told = true);
            });
        }
        Ok(())
    }

    fn kill(&self, random: &mut Random) -> Result<(), Failure> {
        let Some((number, entry)) = self.pick(random, |entry| !entry.is_killed) else { return Ok(()) };
        // Jobs that end by themselves are mostly left to do so.
        if number < SENTINELS as u64 || (entry.deed != Deed::Sleeps && random.below(3) > 0) {
            return Ok(());
        }
        self.change(number, |entry| entry.is_killed = true);
        self.note("kill");
        let id = entry.id.as_deref().unwrap_or_default();
        if random.below(2) == 0 {
            let store = &self.places[entry.place].store;
            let job = store.find(id, None)?;
            store.kill(
                &job,
                &Kill { force: random.below(2) == 0, by: "soak".to_owned(), ..Kill::default() },
            )?;
        } else {
            let arguments = [&["kill", id][..], &["kill", "--force", id]];
            let chosen = *random.one_of(&arguments);
            self.outlive(entry.place, chosen, random)?;
        }
        Ok(())
    }

    /// Kills the keeper of a job, or its guard, while it has both.
    fn kill_keeper(&self, random: &mut Random) -> Result<(), Failure> {
        let Some((number, entry)) = self.pick(random, |_| true) else { return Ok(()) };
        let store = &self.places[entry.place].store;
        let job = store.find(entry.id.as_deref().unwrap_or_default(), None)?;
        if number < SENTINELS as u64 {
            return Ok(());
        }
        // Until it is gone, no other thread takes the other one of the two.
        let _killing = self.killing.lock();
        let both = [keeper_of(store, &job), guard_of(store, &job)].map(|id| id.and_then(Handle::open));
        let [Some(keeper), Some(guard)] = both else { return Ok(()) };
        self.change(number, |entry| entry.deaths += 1);
        let is_keeper = random.below(2) == 0;
        let killed = if is_keeper { keeper } else { guard };
        killed.signal(Signal::KILL)?;
        while !killed.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.note(if is_keeper { "keeper killed" } else { "guard killed" });
        Ok(())
    }

    fn look(&self, random: &mut Random) -> Result<(), Failure> {
        let Some((_, entry)) = self.pick(random, |_| true) else { return Ok(()) };
        let id = entry.id.as_deref().unwrap_or_default();
        let arguments = [
            &["list"][..],
            &["list", "--live", "--json", "--usage"],
            &["show", id],
            &["logs", id],
            &["logs", "-f", id],
            &["logs", "-n", "3", id],
            &["logs", "--cursor", "soak", id],
            &["wait", "--timeout", "20ms", id],
            &["events"],
            &["doctor"],
        ];
        let chosen = *random.one_of(&arguments);
        self.note("look");
        self.outlive(entry.place, chosen, random)?;
        Ok(())
    }

    fn collect(&self, random: &mut Random) -> Result<(), Failure> {
        let place = usize::try_from(random.below(self.places.len() as u64))?;
        self.note("gc");
        if random.below(2) == 0 {
            self.places[place].store.collect()?;
        } else {
            self.outlive(place, &["gc"], random)?;
        }
        Ok(())
    }

    /// Removes a job that has ended, after checking it.
    fn remove(&self, random: &mut Random) -> Result<(), Failure> {
        let Some((number, entry)) = self.pick(random, |entry| !entry.is_removed) else { return Ok(()) };
        let store = &self.places[entry.place].store;
        let job = store.find(entry.id.as_deref().unwrap_or_default(), None)?;
        let state = job.state(store);
        if state.is_live() || state.is_removed() {
            return Ok(());
        }
        let mut is_first = false;
        self.change(number, |entry| is_first = !std::mem::replace(&mut entry.is_removed, true));
        if !is_first {
            return Ok(());
        }
        self.examine(number, &job, &state);
        self.note("remove");
        if random.below(2) == 0 {
            store.remove(&job)?;
        } else {
            self.outlive(entry.place, &["remove", job.id().as_str()], random)?;
        }
        Ok(())
    }

    /// Checks that an ended job is what happened.
    fn examine(&self, number: u64, job: &Job, state: &State) {
        let Some(entry) = self.entry(number) else { return };
        let word = state.status.to_string();
        match self.judge(&entry, job, state) {
            Ok(()) => {}
            // The small store's oldest jobs may be collected by any front end.
            Err(_) if job.is_removed() => return,
            Err(error) => {
                self.complain(format!("soak-{number} {}: {error}: {entry:?}: {:?}", job.id(), state.outcome))
            }
        }
        if let Ok(mut outcomes) = self.outcomes.lock() {
            let cause = match state.outcome.as_ref().map(|outcome| &outcome.cause) {
                Some(Cause::NeverStarted(_)) => " (never started)",
                Some(Cause::Lost { .. }) => " (its keepers were killed)",
                _ => "",
            };
            *outcomes.entry(format!("{word}{cause}")).or_default() += 1;
        }
        let contained = state.meta.as_ref().and_then(|meta| meta.containment.as_ref());
        if let (Some(contained), Ok(mut groups)) = (contained, self.groups.lock()) {
            let all =
                [&contained.group, &contained.memory_group, &contained.pids_group, &contained.cpu_group];
            groups.extend(all.into_iter().flatten().map(PathBuf::from));
        }
    }

    fn judge(&self, entry: &Entry, job: &Job, state: &State) -> Result<(), String> {
        let outcome = state.outcome.as_ref().ok_or("it has no outcome")?;
        let expected = match entry.deed {
            Deed::Counts { code, .. } => Some(code),
            Deed::Talks { code, .. } if entry.is_stopped => Some(code),
            Deed::Talks { .. } | Deed::Sleeps => None,
        };
        let exited = match outcome.wait_status {
            WaitStatus::Exited { code } => Some(code),
            WaitStatus::Signaled { .. } | WaitStatus::Unknown => None,
        };
        let ended_by_itself = exited.is_some() && exited == expected.map(i32::from);
        let is_right = match &outcome.cause {
            Cause::Natural => ended_by_itself,
            Cause::Kill { .. } => {
                let by_signal = matches!(outcome.wait_status, WaitStatus::Signaled { signal: 9 | 15, .. });
                entry.is_killed && (by_signal || ended_by_itself)
            }
            // Earlier kernels tell a guard below the keeper no exit status.
            Cause::Lost { .. } => entry.deaths > 1 && !outlive_sys::exit::can_tell(),
            Cause::NeverStarted(_) => !entry.is_started,
            Cause::Timeout | Cause::Overlap | Cause::Oom | Cause::Newer(_) => false,
        };
        if !is_right {
            return Err("that is not what happened".to_owned());
        }
        let mut output = Output::open(job).map_err(|error| error.to_string())?;
        let totals = state.closed.map_or(outcome.totals, |closed| closed.totals);
        if totals.bytes != output.end() {
            return Err(format!("{} bytes are claimed and {} there", totals.bytes, output.end()));
        }
        self.bytes.fetch_add(output.end(), Ordering::Relaxed);
        self.dropped.fetch_add(totals.dropped_bytes, Ordering::Relaxed);
        if totals.dropped_bytes > 0 && !self.places[entry.place].is_small {
            return Err(format!("{} bytes were dropped, and the disk was not full", totals.dropped_bytes));
        }
        let width = match entry.deed {
            Deed::Counts { width, .. } | Deed::Talks { width, .. } => width,
            Deed::Sleeps => {
                return if output.end() == 0 { Ok(()) } else { Err("it is not silent".to_owned()) };
            }
        };
        let [out, err] = read(&mut output, width)?;
        let is_whole = ended_by_itself && totals.dropped_bytes == 0;
        for counted in [&out, &err] {
            let limit = match entry.deed {
                Deed::Counts { lines, .. } => lines,
                _ => u64::MAX,
            };
            let is_short = counted.lines < limit && limit != u64::MAX;
            if counted.lines > limit || (is_whole && (!counted.is_whole || is_short)) {
                return Err(format!("a stream ends after {} lines", counted.lines));
            }
        }
        let heard: HashSet<&String> = out.echoes.iter().collect();
        if heard.len() != out.echoes.len() {
            return Err("it was told something twice".to_owned());
        }
        // Where bytes were dropped, two lines may read as one that was never sent.
        let is_known = |text: &String| entry.told.iter().any(|(told, _)| told == text);
        if totals.dropped_bytes == 0 && !heard.iter().all(|text| is_known(text)) {
            return Err(format!("it heard what nobody told it: {:?}", out.echoes));
        }
        match entry.must.iter().find(|text| is_whole && !heard.contains(text)) {
            Some(missing) => Err(format!("it never heard {missing}")),
            None => Ok(()),
        }
    }

    /// Ends everything, and checks all jobs that are left.
    fn finish(&self, sentinels: &[u64]) -> Result<(), Failure> {
        for &number in sentinels {
            self.change(number, |entry| {
                entry.is_stopped = true;
                entry.must =
                    entry.told.iter().filter(|(_, is_told)| *is_told).map(|(text, _)| text.clone()).collect();
            });
            let Some(entry) = self.entry(number) else { continue };
            let store = &self.places[entry.place].store;
            let job = store.find(entry.id.as_deref().unwrap_or_default(), None)?;
            store.write_stdin(&job, b"stop\n", PATIENCE)?;
            store.wait(std::slice::from_ref(&job), Until::All, Some(PATIENCE));
        }
        let mut found = HashMap::new();
        for (place, of) in self.places.iter().enumerate() {
            let listing = of.store.list(None)?;
            for damaged in &listing.damaged {
                self.complain(format!("{:?} is damaged: {}", damaged.name, damaged.error));
            }
            for job in listing.jobs {
                let name = job.spec().options.name.as_deref().and_then(|name| name.strip_prefix("soak-"));
                match name.and_then(|number| number.parse::<u64>().ok()) {
                    Some(number) => drop(found.insert(number, (place, job))),
                    None => self.complain(format!("{} is nobody's", job.id())),
                }
            }
        }
        for (number, (place, job)) in &found {
            let store = &self.places[*place].store;
            if job.state(store).is_live() {
                self.change(*number, |entry| entry.is_killed = true);
                self.end(store, job)?;
            }
            let state = job.state(store);
            if !self.entry(*number).is_some_and(|entry| entry.is_removed) {
                self.examine(*number, job, &state);
            }
        }
        let entries = self.entries.lock().map_err(|_| "a user has panicked")?.clone();
        for (number, entry) in entries {
            let may_be_gone = entry.is_removed || !entry.is_started || self.places[entry.place].is_small;
            if !found.contains_key(&number) && !may_be_gone {
                self.complain(format!("soak-{number} is gone: {entry:?}"));
            }
        }
        Ok(())
    }

    /// Ends one job, also one without a keeper.
    fn end(&self, store: &Store, job: &Job) -> Result<(), Failure> {
        let kill = Kill { force: true, by: "soak".to_owned(), ..Kill::default() };
        match store.kill(job, &kill) {
            Ok(_) => {}
            Err(ControlError::Orphaned(_)) => {
                let command = job.state(store).meta.and_then(|meta| meta.command);
                let handle = command
                    .map(|command| ProcessId { pid: command.pid, start_time: command.start_time })
                    .and_then(Handle::open);
                if let Some(handle) = handle {
                    self.note("orphan ended");
                    handle.signal(Signal::KILL)?;
                }
            }
            Err(error) => self.complain(format!("{} cannot be ended: {error}", job.id())),
        }
        let deadline = Instant::now() + PATIENCE;
        while job.state(store).is_live() {
            if Instant::now() >= deadline {
                self.complain(format!("{} does not end", job.id()));
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Checks that no process, mark, control group or quarantined job is left.
    fn leftovers(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut processes = self.processes();
        while !processes.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
            processes = self.processes();
        }
        for process in processes {
            self.complain(format!("process {process} is left"));
        }
        for place in &self.places {
            place.store.collect()?;
            let count = |name: &str| fs::read_dir(place.store.root().join(name)).map_or(0, Iterator::count);
            if count("live") > 0 {
                self.complain(format!("{} marks are left in live/", count("live")));
            }
            println!(
                "{}: {} jobs left, {} directories in new/ of front ends that died (collected after an hour), {} in quarantine/",
                if place.is_small { "small disk" } else { "disk" },
                count("jobs"),
                count("new"),
                count("quarantine")
            );
            for entry in fs::read_dir(place.store.root().join("quarantine"))?.flatten() {
                let names = fs::read_dir(entry.path()).into_iter().flatten().flatten();
                let names: Vec<_> = names.map(|name| name.file_name()).collect();
                self.complain(format!("{:?} is in quarantine, with {names:?}", entry.file_name()));
            }
        }
        let groups = self.groups.lock().map_err(|_| "a user has panicked")?;
        let left: Vec<_> = groups.iter().filter(|group| group.exists()).collect();
        println!("control groups: {} were used, {} are left", groups.len(), left.len());
        if !left.is_empty() {
            self.complain(format!("control groups are left: {left:?}"));
        }
        Ok(())
    }

    /// Lists keepers of these stores, and processes with the environment of one of their jobs.
    fn processes(&self) -> Vec<i32> {
        let Ok(entries) = self.entries.lock() else { return Vec::new() };
        let ids: HashSet<String> = entries
            .values()
            .filter_map(|entry| Some(format!("OUTLIVE_JOB={}", entry.id.as_ref()?)))
            .collect();
        let is_ours = |pid: &i32| {
            let lock = outlive_sys::tree::descriptor(*pid, outlive_sys::keeper::LOCK_FD).unwrap_or_default();
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split(|&byte| byte == 0);
            self.places.iter().any(|place| lock.starts_with(place.store.root()))
                || variables.any(|variable| ids.contains(String::from_utf8_lossy(variable).as_ref()))
        };
        outlive_tests::all_processes().into_iter().filter(is_ours).collect()
    }

    /// Measures this program, which has the stores open all the time, while no job is live: of live jobs it keeps files open, and closes them
    /// when it lists the jobs after their end.
    fn own_size(&self) -> Result<(String, [i64; 2]), Failure> {
        for place in &self.places {
            place.store.list_states(None, |_| true)?;
        }
        Ok(("this front end".to_owned(), size("self")?))
    }

    /// Measures the keepers of the jobs that are never killed.
    fn sizes(&self, sentinels: &[u64]) -> Result<Vec<(String, [i64; 2])>, Failure> {
        // A keeper gives its buffer back after a second.
        std::thread::sleep(Duration::from_secs(2));
        let mut sizes = Vec::new();
        for &number in sentinels {
            let Some(entry) = self.entry(number) else { continue };
            let store = &self.places[entry.place].store;
            let job = store.find(entry.id.as_deref().unwrap_or_default(), None)?;
            let keeper = keeper_of(store, &job).ok_or("a keeper that nobody harmed is gone")?;
            sizes.push((format!("keeper of soak-{number}"), size(&keeper.pid.to_string())?));
        }
        Ok(sizes)
    }

    fn print(&self, before: &[(String, [i64; 2])], after: &[(String, [i64; 2])]) -> Result<bool, Failure> {
        let poisoned = |_| "a user has panicked";
        println!("done: {:?}", *self.done.lock().map_err(|_| poisoned(()))?);
        println!("jobs by outcome: {:?}", *self.outcomes.lock().map_err(|_| poisoned(()))?);
        println!(
            "logs: {:.1} MB checked to the byte, {:.1} MB dropped and counted while the disk was full",
            self.bytes.load(Ordering::Relaxed) as f64 / 1e6,
            self.dropped.load(Ordering::Relaxed) as f64 / 1e6
        );
        println!("{:<24}{:>12}{:>8}{:>14}{:>8}", "", "PSS KiB", "after", "descriptors", "after");
        for ((name, [memory, files]), (_, [memory_after, files_after])) in before.iter().zip(after) {
            println!("{name:<24}{memory:>12}{memory_after:>8}{files:>14}{files_after:>8}");
            if files_after > files {
                self.complain(format!("{name} has {} descriptors more", files_after - files));
            }
            let bound = if name.starts_with("keeper") { KEEPER_GROWTH_KIB } else { OWN_GROWTH_KIB };
            if memory_after - memory > bound {
                self.complain(format!("{name} has grown by {} KiB", memory_after - memory));
            }
        }
        let wrong = self.wrong.lock().map_err(|_| poisoned(()))?;
        for violation in wrong.iter().take(20) {
            println!("VIOLATION {violation}");
        }
        println!("{} violations", wrong.len());
        Ok(wrong.is_empty())
    }
}

impl Drop for Soak<'_> {
    /// The small disk's store is not the world's: its jobs are ended here, before the disk goes.
    fn drop(&mut self) {
        for place in self.places.iter().filter(|place| place.is_small) {
            for job in place.store.list(None).map(|listing| listing.jobs).unwrap_or_default() {
                if job.state(&place.store).is_live() {
                    end(&place.store, &job).ok();
                }
            }
        }
    }
}

/// Returns a process's share of memory in KiB, and how many files it has open.
fn size(process: &str) -> Result<[i64; 2], Failure> {
    let memory = sum_of_lines(&format!("/proc/{process}/smaps_rollup"), &["Pss"])?;
    let files = fs::read_dir(format!("/proc/{process}/fd"))?.count();
    Ok([i64::try_from(memory)?, i64::try_from(files)?])
}

/// Reads both streams and checks them.
fn read(output: &mut Output, width: usize) -> Result<[Counted; 2], String> {
    let [mut out, mut err] = ['o', 'e'].map(|letter| Checker::new(letter, width));
    let mut offset = 0;
    while let Some(piece) = output.piece(offset).map_err(|error| error.to_string())? {
        let Piece::Output { stream, lost_before, bytes, .. } = piece else {
            return Err("some of it is gone".to_owned());
        };
        offset += bytes.len() as u64;
        if lost_before.is_some() {
            out.lose();
            err.lose();
        }
        match stream {
            Some(Stream::Stdout) => out.push(&bytes)?,
            Some(Stream::Stderr) => err.push(&bytes)?,
            None => return Err("some of it has no stream".to_owned()),
        }
    }
    Ok([out.finish()?, err.finish()?])
}
