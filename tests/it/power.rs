//! The loss of power: what was synced is there, and nothing that did not happen is.
//!
//! Proves of the design: one outcome per job, announced when written and synced right after, or before where the
//! configuration says so; unknown is `lost`, never 0; the store opens.
//! Every change to the store by starters, keepers and a remover is recorded as the kernel saw it (`strace`), and replayed on
//! a model of a disk that loses what was not synced, cut after every single operation. The real `outlive` then looks at what
//! is left, on a machine that was restarted. `OUTLIVE_TEST_SEED` repeats a run.
//!
//! Two kinds of disk are modelled. An *ordered* one keeps changes of names in order and writes them all out with any sync,
//! as ext4, XFS and btrfs do; of data that was not synced it may lose all, some or half of a write, or keep zeros in its place. A *strict*
//! one promises what POSIX does: any change of a name may be lost alone, until its directory is synced.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlive_tests::{Home, Random, binary, finish, keepers_of, lacks, report, until};
use serde_json::Value;

/// What the disk is asked, in the words of strace. A question mark: not every processor has it.
const CALLS: &str = "trace=?open,openat,?openat2,?creat,write,writev,pwrite64,pwritev,?pwritev2,fallocate,ftruncate,truncate,\
    ?rename,?renameat,renameat2,?unlink,unlinkat,?rmdir,?mkdir,mkdirat,?link,linkat,?symlink,symlinkat,\
    fsync,fdatasync,sync,syncfs,sync_file_range,copy_file_range,sendfile,splice";

/// Two jobs, one after the other; then the first is removed.
const SCENARIO: &str = r#"
    first=$(outlive run -- sh -c 'echo first') && outlive wait "$first" &&
    second=$(outlive run -- sh -c 'echo out; echo err >&2; echo out again; exit 7') && ! outlive wait "$second" &&
    outlive remove "$first" && printf '%s %s' "$first" "$second" >&3
"#;

/// How many random losses are tried at each cut, of each kind of disk.
const FATES: u64 = 2;

/// A file or directory, whatever it is called.
type Node = usize;

/// The store itself.
const ROOT: Node = 0;

/// One thing that was done to the disk.
#[derive(Debug, Clone)]
enum Change {
    Directory {
        parent: Node,
        name: String,
        node: Node,
    },
    File {
        parent: Node,
        name: String,
        node: Node,
    },
    Rename {
        from: (Node, String),
        to: (Node, String),
    },
    Unlink {
        parent: Node,
        name: String,
    },
    Write {
        node: Node,
        at: usize,
        bytes: Vec<u8>,
    },
    /// Makes it longer or shorter.
    Resize {
        node: Node,
        length: usize,
    },
    /// What was written to it before is on the disk.
    Sync {
        node: Node,
    },
}

/// What a disk has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Disk {
    directories: BTreeMap<Node, BTreeMap<String, Node>>,
    files: BTreeMap<Node, Vec<u8>>,
}

impl Disk {
    fn empty() -> Self {
        Self { directories: BTreeMap::from([(ROOT, BTreeMap::new())]), files: BTreeMap::new() }
    }

    /// Does one thing. What it needs may have been lost before: then it is nothing.
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Directory { parent, name, node } => {
                if let Some(parent) = self.directories.get_mut(parent) {
                    parent.insert(name.clone(), *node);
                    self.directories.insert(*node, BTreeMap::new());
                }
            }
            Change::File { parent, name, node } => {
                if let Some(parent) = self.directories.get_mut(parent) {
                    parent.insert(name.clone(), *node);
                    self.files.insert(*node, Vec::new());
                }
            }
            Change::Rename { from, to } => {
                let node = self.directories.get_mut(&from.0).and_then(|parent| parent.remove(&from.1));
                if let (Some(node), Some(parent)) = (node, self.directories.get_mut(&to.0)) {
                    parent.insert(to.1.clone(), node);
                }
            }
            Change::Unlink { parent, name } => {
                if let Some(parent) = self.directories.get_mut(parent) {
                    parent.remove(name);
                }
            }
            Change::Write { node, at, bytes } => {
                if let Some(file) = self.files.get_mut(node) {
                    file.resize(file.len().max(at + bytes.len()), 0);
                    file[*at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            Change::Resize { node, length } => {
                if let Some(file) = self.files.get_mut(node) {
                    file.resize(*length, 0);
                }
            }
            Change::Sync { .. } => {}
        }
    }

    fn find(&self, path: &Path) -> Option<Node> {
        path.iter().try_fold(ROOT, |node, name| self.directories.get(&node)?.get(name.to_str()?).copied())
    }

    /// Returns all files by their paths, and the directories with none.
    fn contents(&self) -> BTreeMap<PathBuf, Option<&[u8]>> {
        let mut contents = BTreeMap::new();
        let mut open = vec![(ROOT, PathBuf::new())];
        while let Some((directory, path)) = open.pop() {
            for (name, node) in &self.directories[&directory] {
                let path = path.join(name);
                match self.files.get(node) {
                    Some(bytes) => drop(contents.insert(path, Some(bytes.as_slice()))),
                    None => {
                        contents.insert(path.clone(), None);
                        open.push((*node, path));
                    }
                }
            }
        }
        contents
    }

    /// Makes it real. The machine was restarted, which is what its boot id says.
    fn write_to(&self, place: &Path, boot: &str) {
        let another = boot.replace(|digit: char| digit.is_ascii_hexdigit(), "e");
        fs::create_dir(place).unwrap();
        for (path, bytes) in self.contents() {
            let path = place.join(path);
            match bytes {
                None => fs::create_dir(&path).unwrap(),
                Some(bytes) => fs::write(&path, replace(bytes, boot.as_bytes(), another.as_bytes())).unwrap(),
            }
        }
    }
}

/// Replaces one text by another of the same length.
fn replace(bytes: &[u8], text: &[u8], by: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let found: Vec<usize> =
        (0..bytes.len()).filter(|&at| bytes[at..].starts_with(text) && !text.is_empty()).collect();
    for at in found {
        bytes[at..at + by.len()].copy_from_slice(by);
    }
    bytes
}

/// What was done, in order, and what came of it.
struct Recording {
    changes: Vec<Change>,
    disk: Disk,
    nodes: usize,
    store: PathBuf,
}

impl Recording {
    /// Reads what strace wrote.
    fn parse(text: &str, store: &Path) -> Self {
        let mut recording =
            Self { changes: Vec::new(), disk: Disk::empty(), nodes: ROOT + 1, store: store.to_owned() };
        // What one process had begun when another came between.
        let mut begun: HashMap<&str, String> = HashMap::new();
        for line in text.lines() {
            let (process, call) = line.split_once(' ').unwrap();
            let call = call.trim_start();
            if let Some(beginning) = call.strip_suffix(" <unfinished ...>") {
                begun.insert(process, beginning.to_owned());
            } else if let Some(rest) = call.strip_prefix("<... ") {
                let rest = rest.split_once(" resumed>").unwrap().1;
                let beginning = begun.remove(process).unwrap_or_default();
                recording.call(&(beginning + rest));
            } else {
                recording.call(call);
            }
        }
        recording
    }

    fn call(&mut self, call: &str) {
        let Some((call, result)) = call.rsplit_once(" = ") else { return };
        if result.starts_with('-') || result.starts_with('?') {
            return;
        }
        let (name, arguments) = call.trim_end().split_once('(').unwrap();
        let arguments: Vec<&str> = arguments.trim_end_matches(')').split(", ").collect();
        let number = |place: usize| arguments[place].parse::<usize>().unwrap();
        match name {
            "open" | "creat" => self.open(Path::new(""), arguments[0], arguments[1]),
            "openat" => self.open(&path(arguments[0]), arguments[1], arguments[2]),
            "mkdir" => self.make(Path::new(""), arguments[0]),
            "mkdirat" => self.make(&path(arguments[0]), arguments[1]),
            "rename" => self.rename([Path::new(""); 2], [arguments[0], arguments[1]]),
            "renameat" | "renameat2" => {
                let (from, to) = (path(arguments[0]), path(arguments[2]));
                self.rename([&from, &to], [arguments[1], arguments[3]]);
            }
            "unlink" | "rmdir" => self.unlink(Path::new(""), arguments[0]),
            "unlinkat" => self.unlink(&path(arguments[0]), arguments[1]),
            "fsync" | "fdatasync" => {
                if let Some(node) = self.node(&path(arguments[0])) {
                    self.push(Change::Sync { node });
                }
            }
            "write" | "pwrite64" => {
                let Some(node) = self.node(&path(arguments[0])) else { return };
                let mut bytes = text(arguments[1]);
                bytes.truncate(result.split(' ').next().unwrap().parse().unwrap());
                // A write without an offset appends; the comparison at the end confirms it.
                let at = if name == "write" { self.disk.files[&node].len() } else { number(3) };
                self.push(Change::Write { node, at, bytes });
            }
            // The trace does not show what was moved: it is what the file has in the end, if it is still there.
            "splice" => {
                let to = path(arguments[2]);
                let Some(node) = self.node(&to) else { return };
                let (at, count) = (
                    self.disk.files[&node].len(),
                    result.split(' ').next().unwrap().parse::<usize>().unwrap(),
                );
                let whole = fs::read(&to).unwrap_or_default();
                let bytes = whole.get(at..at + count).map_or_else(|| vec![0; count], <[u8]>::to_vec);
                self.push(Change::Write { node, at, bytes });
            }
            "fallocate" => {
                let Some(node) = self.node(&path(arguments[0])) else { return };
                let end = number(2) + number(3);
                match arguments[1] {
                    "0" if end > self.disk.files[&node].len() => {
                        self.push(Change::Resize { node, length: end });
                    }
                    "0" | "FALLOC_FL_KEEP_SIZE" => {}
                    mode => panic!("the model does not know {mode}"),
                }
            }
            "ftruncate" => {
                let Some(node) = self.node(&path(arguments[0])) else { return };
                self.push(Change::Resize { node, length: number(1) });
            }
            // Not used for the store; if that changes, the model has to know them.
            _ => assert!(
                arguments.iter().all(|argument| self.inside(&path(argument)).is_none()),
                "the model does not know {name}: {arguments:?}"
            ),
        }
    }

    fn push(&mut self, change: Change) {
        self.disk.apply(&change);
        self.changes.push(change);
    }

    /// Returns the path below the store of what is in it.
    fn inside(&self, path: &Path) -> Option<PathBuf> {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part.as_os_str() == ".." {
                true => assert!(plain.pop()),
                false => plain.push(part),
            }
        }
        plain.strip_prefix(&self.store).ok().map(Path::to_owned)
    }

    /// Returns what a path in the store leads to.
    fn node(&self, path: &Path) -> Option<Node> {
        let inside = self.inside(path).filter(|inside| !inside.to_string_lossy().ends_with(" (deleted)"))?;
        Some(self.disk.find(&inside).unwrap_or_else(|| panic!("nobody has made {}", inside.display())))
    }

    /// Splits a path in the store.
    fn place(&self, base: &Path, name: &str) -> Option<(Node, String)> {
        let name = PathBuf::from(String::from_utf8(text(name)).unwrap());
        let whole = base.join(name);
        let inside = self.inside(&whole).filter(|inside| inside != Path::new(""))?;
        let parent = self.disk.find(inside.parent().unwrap())?;
        Some((parent, inside.file_name().unwrap().to_str().unwrap().to_owned()))
    }

    fn next_node(&mut self) -> Node {
        self.nodes += 1;
        self.nodes
    }

    fn open(&mut self, base: &Path, name: &str, flags: &str) {
        let Some((parent, name)) = self.place(base, name) else { return };
        match self.disk.directories[&parent].get(&name).copied() {
            None if flags.contains("O_CREAT") => {
                let node = self.next_node();
                self.push(Change::File { parent, name, node });
            }
            Some(node) if flags.contains("O_TRUNC") && !self.disk.files[&node].is_empty() => {
                self.push(Change::Resize { node, length: 0 });
            }
            _ => {}
        }
    }

    fn make(&mut self, base: &Path, name: &str) {
        if let Some((parent, name)) = self.place(base, name) {
            let node = self.next_node();
            self.push(Change::Directory { parent, name, node });
        }
    }

    fn rename(&mut self, bases: [&Path; 2], names: [&str; 2]) {
        let from = self.place(bases[0], names[0]);
        let to = self.place(bases[1], names[1]);
        if let (Some(from), Some(to)) = (from, to) {
            self.push(Change::Rename { from, to });
        }
    }

    fn unlink(&mut self, base: &Path, name: &str) {
        if let Some((parent, name)) = self.place(base, name)
            // Sockets are not modelled: after a restart they have no listener.
            && self.disk.directories[&parent].contains_key(&name)
        {
            self.push(Change::Unlink { parent, name });
        }
    }
}

/// Returns the bytes of an argument in quotes.
fn text(argument: &str) -> Vec<u8> {
    let inner = argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    unhex(inner.unwrap_or_else(|| panic!("{argument} is cut")))
}

/// Returns the path that strace has put beside a descriptor.
fn path(argument: &str) -> PathBuf {
    let inner = argument.split_once('<').map_or("", |(_, rest)| rest.trim_end_matches('>'));
    PathBuf::from(String::from_utf8(unhex(inner)).unwrap())
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.split(r"\x").skip(1);
    digits.map(|digits| u8::from_str_radix(&digits[..2], 16).unwrap()).collect()
}

/// What becomes of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    Kept,
    /// On an ordered disk.
    Ordered(u64),
    /// On a strict one.
    Strict(u64),
}

/// What becomes of one write.
#[derive(Clone, Copy)]
enum Written {
    Whole,
    Lost,
    Torn(usize),
    Zeros,
}

impl Recording {
    /// Tells which changes before a cut are certain: the names on an ordered disk, the names on a strict disk, the data.
    fn synced(&self, cut: usize) -> (usize, Vec<bool>) {
        let last = self.changes[..cut].iter().rposition(|change| matches!(change, Change::Sync { .. }));
        let mut synced = std::collections::HashSet::new();
        let mut certain = vec![false; cut];
        for (place, change) in self.changes[..cut].iter().enumerate().rev() {
            certain[place] = match change {
                Change::Sync { node } => synced.insert(*node),
                Change::Write { node, .. } | Change::Resize { node, .. } => synced.contains(node),
                Change::Directory { parent, .. }
                | Change::File { parent, .. }
                | Change::Unlink { parent, .. } => synced.contains(parent),
                Change::Rename { from, to } => synced.contains(&from.0) && synced.contains(&to.0),
            };
        }
        (last.map_or(0, |place| place + 1), certain)
    }

    /// Returns what a disk has when the power goes after so many changes.
    fn cut(&self, cut: usize, fate: Fate) -> Disk {
        let (ordered, certain) = self.synced(cut);
        let mut random = match fate {
            Fate::Ordered(seed) | Fate::Strict(seed) => Random::new(seed),
            Fate::Lost | Fate::Kept => Random::new(0),
        };
        let journal = match fate {
            Fate::Lost => ordered,
            Fate::Kept | Fate::Strict(_) => cut,
            Fate::Ordered(_) => ordered + usize::try_from(random.below((cut - ordered + 1) as u64)).unwrap(),
        };
        let mut disk = Disk::empty();
        for (place, change) in self.changes[..cut].iter().enumerate() {
            let is_random = matches!(fate, Fate::Ordered(_) | Fate::Strict(_));
            if let Change::Write { node, at, bytes } = change {
                let written = match fate {
                    _ if certain[place] => Written::Whole,
                    Fate::Lost => Written::Lost,
                    _ if is_random => match random.below(5) {
                        0 | 1 => Written::Whole,
                        2 => Written::Lost,
                        // A disk writes whole sectors.
                        3 => Written::Torn(512 * usize::try_from(random.below(9)).unwrap()),
                        _ => Written::Zeros,
                    },
                    _ => Written::Whole,
                };
                let bytes = match written {
                    Written::Whole => bytes.clone(),
                    Written::Lost => continue,
                    Written::Torn(length) => bytes[..length.min(bytes.len())].to_vec(),
                    Written::Zeros => vec![0; bytes.len()],
                };
                disk.apply(&Change::Write { node: *node, at: *at, bytes });
                continue;
            }
            let is_kept = match fate {
                Fate::Strict(_) => certain[place] || random.below(4) > 0,
                _ => place < journal || certain[place] && matches!(change, Change::Resize { .. }),
            };
            if is_kept {
                disk.apply(change);
            }
        }
        disk
    }
}

/// What the next front end says of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    status: String,
    cause: String,
    exit_code: Option<i64>,
}

/// What the next front end says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// The jobs.
    Jobs(BTreeMap<String, Facts>),
    /// It does not open.
    Refused(String),
}

/// Runs the real program on a store. All verbs must agree, whichever is first.
fn look(home: &Home, disk: &Disk, place: &Path, boot: &str, starts_next: bool) -> Seen {
    disk.write_to(place, boot);
    let run = |arguments: &[&str]| {
        let mut command = home.outlive(["--json"]);
        command.args(arguments).env("OUTLIVE_HOME", place);
        finish(command, b"")
    };
    let listed = run(&["list"]);
    if listed.code != 0 {
        return Seen::Refused(listed.error());
    }
    let facts = |job: &Value| Facts {
        status: job["status"].as_str().unwrap().to_owned(),
        cause: job["cause"].as_str().unwrap_or_default().to_owned(),
        exit_code: job["exit_code"].as_i64(),
    };
    let jobs: BTreeMap<String, Facts> = listed
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (job["job"].as_str().unwrap().to_owned(), facts(job)))
        .collect();
    // The rest of a temporary file is reported for ever, and does no harm.
    let examined = run(&["doctor", "--fix"]);
    assert!(examined.code <= 1, "{}", examined.error());
    let examined = examined.json();
    assert_eq!(examined["live"], 0, "something lives on: {examined}");
    // What is damaged is out of the way now, and the others say what they said.
    let again = run(&["list"]).ok();
    assert_eq!(again.error(), "");
    assert_eq!(again.json().as_array().unwrap().len(), jobs.len());
    for (job, said) in &jobs {
        assert_eq!(facts(&run(&["show", job]).ok().json()), *said, "{job}");
        run(&["logs", job]).ok();
    }
    if starts_next {
        run(&["run", "--wait", "--", "true"]).ok();
        // Its end was told; what its keeper still has to write must not be written into the store that is removed here.
        until("the keeper is gone", || keepers_of(place).is_empty());
    }
    fs::remove_dir_all(place).unwrap();
    Seen::Jobs(jobs)
}

/// Where in the recording the fate of a job is decided.
#[derive(Debug)]
struct Milestones {
    job: String,
    code: i64,
    /// The outcome was written.
    written: usize,
    /// Its event was written.
    announced: usize,
    /// It was synced.
    synced: usize,
    /// Its removal began.
    removed: usize,
}

impl Milestones {
    fn find(recording: &Recording, job: &str, code: i64) -> Self {
        let changes = &recording.changes;
        let made = |wanted: &str| {
            let new = changes
                .iter()
                .find_map(|change| match change {
                    Change::Directory { name, node, .. } if name == job => Some(*node),
                    _ => None,
                })
                .unwrap();
            changes
                .iter()
                .find_map(|change| match change {
                    Change::File { parent, name, node } if *parent == new && name == wanted => Some(*node),
                    _ => None,
                })
                .unwrap()
        };
        let outcome = made("outcome");
        let is_written = |change: &Change| matches!(change, Change::Write { node, .. } if *node == outcome);
        let is_synced = |change: &Change| matches!(change, Change::Sync { node } if *node == outcome);
        let is_announced = |change: &Change| {
            let holds =
                |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
            matches!(change, Change::Write { bytes, .. } if holds(bytes, "\"exited\"") && holds(bytes, job))
        };
        let is_removed = |change: &Change| matches!(change, Change::Rename { to, .. } if to.1.starts_with(job) && to.1.ends_with(".gone"));
        Self {
            job: job.to_owned(),
            code,
            written: changes.iter().position(is_written).unwrap(),
            announced: changes.iter().position(is_announced).unwrap(),
            synced: changes.iter().position(is_synced).unwrap(),
            removed: changes.iter().position(is_removed).unwrap_or(usize::MAX),
        }
    }

    /// Tells what is wrong with what is said of the job after a cut.
    fn judge(&self, facts: Option<&Facts>, cut: usize, fate: Fate) -> Result<(), String> {
        let is_certain = !matches!(fate, Fate::Strict(_)) && self.synced < cut && cut <= self.removed;
        let Some(facts) = facts else {
            return if is_certain {
                Err("it is gone, and its outcome was synced".to_owned())
            } else {
                Ok(())
            };
        };
        let word = if self.code == 0 { "completed" } else { "failed" };
        let is_told = (facts.status.as_str(), facts.cause.as_str(), facts.exit_code)
            == (word, "natural", Some(self.code));
        let is_lost =
            (facts.status.as_str(), facts.cause.as_str(), facts.exit_code) == ("lost", "lost", None);
        match () {
            () if is_told && self.written < cut => Ok(()),
            () if is_told => Err("it has an outcome that nobody had written".to_owned()),
            () if is_lost && !is_certain => Ok(()),
            () if is_lost => Err("its outcome was synced".to_owned()),
            () => Err("that is not what happened".to_owned()),
        }
    }
}

/// Records the scenario; `None`, with a note, where tracing is not permitted.
fn record(home: &Home) -> Option<(Recording, [String; 2])> {
    let can_trace = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !can_trace {
        lacks("strace, and the right to trace");
        return None;
    }
    let (trace, names) = (home.path().join("trace"), home.path().join("names"));
    let mut command = home.command("strace");
    command.args(["-f", "-y", "-xx", "-s", "1000000", "-e", CALLS, "-o"]).arg(&trace);
    command.args(["bash", "-c", &format!("{{ {SCENARIO} }} 3>{}", names.display())]);
    // It ends with the last process that it follows: the keepers too.
    finish(command, b"").ok();
    let recording = Recording::parse(&fs::read_to_string(trace).unwrap(), &home.store());
    let names = fs::read_to_string(names).unwrap();
    let (first, second) = names.split_once(' ').unwrap();
    assert!(!home.job_dir(first).exists() && home.job_dir(second).is_dir());
    Some((recording, [first.to_owned(), second.to_owned()]))
}

/// Asserts that the recording is all that happened: the model has what the real disk has.
fn assert_complete(recording: &Recording) {
    let mut open = vec![recording.store.clone()];
    let mut real = BTreeMap::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let inside = entry.path().strip_prefix(&recording.store).unwrap().to_owned();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(entry.path());
                real.insert(inside, None);
            } else if kind.is_file() {
                real.insert(inside, Some(fs::read(entry.path()).unwrap()));
            }
        }
    }
    let modelled = recording.disk.contents();
    assert_eq!(
        modelled.keys().collect::<Vec<_>>(),
        real.keys().collect::<Vec<_>>(),
        "the recording is not complete"
    );
    for (path, bytes) in modelled {
        assert_eq!(bytes, real[&path].as_deref(), "{}", path.display());
    }
}

#[test]
fn with_sync_before_nothing_is_announced_that_the_power_can_take() {
    let home = Home::new();
    home.configure("[store]\nsync = \"before\"\n");
    let Some((recording, [first, second])) = record(&home) else { return };
    for (job, code) in [(first, 0), (second, 7)] {
        let job = Milestones::find(&recording, &job, code);
        assert!(job.written < job.synced && job.synced < job.announced, "{job:?}");
    }
}

#[test]
fn whatever_the_power_takes_no_outcome_is_invented_and_none_that_was_synced_is_missing() {
    let home = Home::new();
    let Some((recording, [first, second])) = record(&home) else { return };
    assert_complete(&recording);
    let jobs = [Milestones::find(&recording, &first, 0), Milestones::find(&recording, &second, 7)];
    for job in &jobs {
        assert!(job.written < job.announced && job.announced < job.synced, "{job:?}");
    }
    let is_root = |change: &Change| matches!(change, Change::Sync { node: ROOT });
    let made = recording.changes.iter().position(is_root).unwrap_or(usize::MAX);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned();

    let seed = Random::seed();
    report(&format!("OUTLIVE_TEST_SEED={seed} repeats it"));
    let mut random = Random::new(seed);
    // Many cuts leave the same: each is looked at once.
    let mut disks: Vec<Disk> = Vec::new();
    let mut known: HashMap<BTreeMap<PathBuf, Option<Vec<u8>>>, usize> = HashMap::new();
    let mut cuts = Vec::new();
    for cut in 0..=recording.changes.len() {
        let mut fates = vec![Fate::Lost, Fate::Kept];
        for _ in 0..FATES {
            fates.extend([Fate::Ordered(random.draw()), Fate::Strict(random.draw())]);
        }
        for fate in fates {
            let disk = recording.cut(cut, fate);
            let contents = disk.contents().into_iter();
            let contents = contents.map(|(path, bytes)| (path, bytes.map(<[u8]>::to_vec))).collect();
            let place = *known.entry(contents).or_insert_with(|| {
                disks.push(disk);
                disks.len() - 1
            });
            cuts.push((cut, fate, place));
        }
    }

    let places = tempfile::tempdir_in(home.path()).unwrap();
    let next = AtomicUsize::new(0);
    let seen: Mutex<BTreeMap<usize, Seen>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((number, disk)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    disks.get(number).map(|disk| (number, disk))
                } {
                    let place = places.path().join(number.to_string());
                    let said = look(&home, disk, &place, &boot, number % 8 == 0);
                    seen.lock().unwrap().insert(number, said);
                }
            });
        }
    });

    let seen = seen.into_inner().unwrap();
    let mut tally: BTreeMap<String, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (cut, fate, place) in &cuts {
        let what = recording.changes.get(cut.wrapping_sub(1));
        let complain = |job: &str, error: &str| {
            let shown = format!("{what:?}");
            let shown: String = shown.chars().take(150).collect();
            format!("cut {cut} ({fate:?}) after {shown}: {job}: {error}: {:?}", seen[place])
        };
        match &seen[place] {
            // A strict disk may lose half of a store that was being made; nothing was in it.
            Seen::Refused(_) if matches!(fate, Fate::Strict(_)) && *cut <= made => {}
            Seen::Refused(error) => wrong.push(complain("the store", error)),
            Seen::Jobs(found) => {
                for job in &jobs {
                    let facts = found.get(&job.job);
                    let word = facts.map_or("not there", |facts| facts.status.as_str());
                    *tally.entry(format!("{} {word}", job.code)).or_default() += 1;
                    if let Err(error) = job.judge(facts, *cut, *fate) {
                        wrong.push(complain(&job.job, &error));
                    }
                }
            }
        }
    }
    let syncs = recording.changes.iter().filter(|change| matches!(change, Change::Sync { .. })).count();
    report(&format!(
        "{} changes, {syncs} of them syncs; {} cuts, {} different stores; by exit code: {tally:?}; {} violations",
        recording.changes.len(),
        cuts.len(),
        disks.len(),
        wrong.len()
    ));
    assert!(
        wrong.is_empty(),
        "{} violations, the first:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
    assert!(binary("outlive").is_file());
}
