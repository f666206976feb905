//! The file `jobs.cache`: what lists show of jobs and what cannot change under a stamp, in a form that is read quickly.
//!
//! It is a copy of what stands in the jobs' own files, and can be dropped at any time. It is read by the build that wrote it, or by one
//! that has the same fields; to any other it says nothing. A job of which a later version wrote something is left out.
//!
//! The file is a header with a checksum of the rest, and one frame for each job.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use crate::after::{After, Milestone};
use crate::awaits::{Awaited, AwaitedKind, KnownBy};
use crate::containment::{Containment, Enforcement, Kept};
use crate::control::Versions;
use crate::id::{JobId, Nonce, SessionName, hash};
use crate::index::Stream;
use crate::meta::{Meta, Near};
use crate::newer::OrNewer;
use crate::options::{Field, fields};
use crate::outcome::{Cause, Closed, NeverStarted, Outcome, Totals, Usage, WaitStatus};
use crate::placement::{Engine, Placement};
use crate::restart::Rerun;
use crate::spec::{Host, Mode, Process, Spec, Starter, StdinFrom};
use crate::status::Status;
use crate::timestamp::Timestamp;
use crate::wire::{Reader, WireError, Writer, first_frame};

/// A stamp of a directory or file; what it means is for the program that makes and compares it.
pub type StampBytes = [u8; 48];

/// The records of a job's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    /// They have to be read.
    Unknown,
    /// There is none in a file `outcome` that has this stamp.
    None(StampBytes),
    /// Both are there, and nothing changes them.
    Both(Box<(Outcome, Closed)>),
}

/// What is known of a job whose directory has a stamp. What is large is apart: a list passes on some hundred of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `spec.json`.
    pub spec: Box<Spec>,
    /// The file `session`.
    pub given_to: Option<SessionName>,
    /// The file `name`.
    pub renamed: Option<String>,
    /// `meta.json`.
    pub snapshot: Arc<Meta>,
    /// `outcome`.
    pub records: Records,
}

/// The type of a frame.
const ENTRY: u8 = b'j';

const MAGIC: &[u8; 8] = b"outljobs";

/// Raised when the meaning of a field changes; the names of all fields count by themselves.
const VERSION: u64 = 3;

const HEADER: usize = 24;

/// The longest file that is written or read.
pub const MAX_BYTES: u64 = 32 << 20;

/// Returns the contents of a file with these entries, as [`frame`] returns them.
pub fn to_bytes(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    frames.iter().for_each(|frame| bytes.extend(frame));
    let header = header(&bytes[HEADER..]);
    bytes[..HEADER].copy_from_slice(&header);
    bytes
}

/// Returns what stands before the frames: what the file is, which fields it has, and a checksum.
fn header(frames: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..16].copy_from_slice(&layout().to_le_bytes());
    header[16..].copy_from_slice(&checksum(frames).to_le_bytes());
    header
}

/// The stamp of a job's directory under which there is an entry of it, and where its fields are.
pub type Place = (StampBytes, Range<usize>);

/// A file that was read. Its entries stay as they are until they are asked for: most of what a list takes is to copy them.
#[derive(Debug, Default)]
pub struct Cached {
    bytes: Vec<u8>,
    places: HashMap<JobId, Place>,
}

impl Cached {
    /// Takes the contents of a file; one that is damaged or that another build wrote has no entries.
    pub fn new(bytes: Vec<u8>, most: usize) -> Self {
        let mut places = HashMap::new();
        if bytes.len() >= HEADER && bytes[..HEADER] == header(&bytes[HEADER..]) {
            let mut at = HEADER;
            while let Ok(Some((contents, length))) = first_frame(&bytes[at..])
                && places.len() < most
            {
                at += length;
                let Ok((ENTRY, mut reader)) = Reader::new(contents) else { continue };
                if let (Ok(stamp), Ok(job)) = (StampBytes::read(&mut reader), JobId::read(&mut reader)) {
                    places.insert(job, (stamp, at - reader.left()..at));
                }
            }
        }
        Self { bytes, places }
    }

    /// Finds the entry of a job.
    pub fn find(&self, job: &str) -> Option<Place> {
        self.places.get(job).cloned()
    }

    /// Returns the entry that was found there; none if all were forgotten since.
    pub fn entry(&self, (_, place): Place) -> Option<Entry> {
        Entry::read(&mut Reader::of_fields(self.bytes.get(place)?)).ok()
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Returns the frame of a job whose directory has this stamp; none if a later version wrote some of what is known of it.
pub fn frame(stamp: StampBytes, entry: &Entry) -> Option<Vec<u8>> {
    let Entry { spec, snapshot, records, .. } = entry;
    let outcomes = [
        snapshot.outcome.as_ref(),
        match records {
            Records::Both(both) => Some(&both.0),
            Records::Unknown | Records::None(_) => None,
        },
    ];
    let is_newer = !spec.newer().is_empty()
        || !snapshot.newer().is_empty()
        || !snapshot.newer.is_empty()
        || outcomes.into_iter().flatten().any(Outcome::is_newer);
    if is_newer {
        return None;
    }
    Some(entry.write(spec.job.write(stamp.write(Writer::new(ENTRY)))).finish())
}

/// Sums up bytes: it has to notice a torn or damaged file of some megabytes within a millisecond, and no more. Four sums of every fourth
/// word wait for each other only at the end.
fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums = [1, 2, 3, bytes.len() as u64];
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<8>().0) {
            *sum = mix(*sum, u64::from_le_bytes(*word));
        }
    }
    let sum = sums.into_iter().fold(0, mix);
    rest.iter().fold(sum, |sum, byte| mix(sum, (*byte).into()))
}

/// Returns a number that is another one where any structure here has other fields.
fn layout() -> u64 {
    let options: Vec<&str> = crate::options::OPTIONS.iter().map(|option| option.name).collect();
    hash(format!("{VERSION} {} {LAYOUT} {}", crate::VERSION, options.join(" ")).as_bytes())
}

/// Declares structures that are written field by field. A field that is not named here does not compile.
macro_rules! structures {
    ($($Name:ident { $($field:ident),* $(,)? })*) => {
        const LAYOUT: &str = stringify!($($Name { $($field),* })*);

        $(impl Field for $Name {
            fn write(&self, writer: Writer) -> Writer {
                let Self { $($field),* } = self;
                $(let writer = $field.write(writer);)*
                writer
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok(Self { $($field: Field::read(reader)?),* })
            }
        })*
    };
}

structures! {
    Entry { spec, given_to, renamed, snapshot, records }
    Spec {
        format, job, nonce, session, reader, labels, argv, shell_line, words, window_lines, cwd, env_set, env_unset, mode, options,
        newer, created, host, starter, parent, previous, rerun, after, stdin_from, restart_on_change, because, placement, outlive,
    }
    Rerun { due_boot_us, ends_boot_us, in_a_row }
    Placement { engine, cpus, memory_bytes, gpus, partition, time_ms, cutoff_ms, node_store }
    After { job, milestone }
    StdinFrom { job, stream, from }
    Host { machine, boot, pid_namespace }
    Process { pid, start_time }
    Starter { pid, start_time, uid }
    Meta {
        format, job, nonce, status, keeper, guard, owner, command, started, started_boot_us, protocol, outlive, command_line, containment, kept, paused,
        awaits, notified, untimed, near, out_of_memory, outcome, closed, newer,
    }
    Versions { min, max }
    Containment { level, group, memory_group, pids_group, cpu_group }
    Kept { memory, pids, cpu, open_files }
    Awaited { kind, known, since }
    Near { limit, at }
    Outcome { wait_status, cause, ended, runtime_ms, usage, totals }
    NeverStarted { step, errno, path, detail }
    Usage { user_ms, system_ms, max_rss_bytes, memory_peak_bytes, pids_peak, oom_kills }
    Totals { bytes, stdout_lines, stderr_lines, dropped_bytes, index_records }
    Closed { closed, usage, totals }
}

/// Words are written as they stand, so that another order of them means no other word.
macro_rules! enumerations {
    ($($Name:ty),*) => { fields! { $(
        $Name, |value, writer| writer.bytes(value.word().as_bytes()),
            |reader| reader.word().and_then(|word| <$Name>::parse(word).ok_or(WireError::Value));
    )* } };
}

enumerations!(Engine, Status, Enforcement, AwaitedKind, KnownBy, Milestone, Stream);

fields! {
    u32, |number, writer| writer.u32(*number), |reader| reader.u32();
    Timestamp, |time, writer| writer.u64(time.0), |reader| reader.u64().map(Timestamp);
    Nonce, |nonce, writer| writer.bytes(&nonce.0),
        |reader| reader.bytes()?.try_into().map(Nonce).map_err(|_| WireError::Value);
    StampBytes, |stamp, writer| writer.bytes(stamp),
        |reader| reader.bytes()?.try_into().map_err(|_| WireError::Value);
    JobId, |id, writer| writer.bytes(id.as_str().as_bytes()),
        |reader| JobId::parse(reader.word()?).map_err(|_| WireError::Value);
    SessionName, |name, writer| writer.bytes(name.as_str().as_bytes()),
        |reader| SessionName::parse(reader.word()?).map_err(|_| WireError::Value);
    // There is no other that this version knows.
    Mode, |mode, writer| match mode { Mode::Pipe => writer.u8(0) },
        |reader| match reader.u8()? { 0 => Ok(Mode::Pipe), _ => Err(WireError::Value) };
    // What a later version wrote is not written here.
    BTreeMap<String, serde_json::Value>, |_, writer| writer, |_| Ok(BTreeMap::new());
    WaitStatus, |status, writer| match *status {
            WaitStatus::Exited { code } => writer.u8(0).i32(code),
            WaitStatus::Signaled { signal, core } => core.write(writer.u8(1).i32(signal)),
            WaitStatus::Unknown => writer.u8(2),
        },
        |reader| match reader.u8()? {
            0 => Ok(WaitStatus::Exited { code: reader.i32()? }),
            1 => Ok(WaitStatus::Signaled { signal: reader.i32()?, core: Field::read(reader)? }),
            2 => Ok(WaitStatus::Unknown),
            _ => Err(WireError::Value),
        };
    Cause, |cause, writer| match cause {
            Cause::Natural => writer.u8(0),
            Cause::Timeout => writer.u8(1),
            Cause::Kill { by } => by.write(writer.u8(2)),
            Cause::Oom => writer.u8(3),
            Cause::NeverStarted(never) => never.write(writer.u8(4)),
            Cause::Lost { why } => why.write(writer.u8(5)),
            Cause::Newer(word) => word.write(writer.u8(6)),
            Cause::Overlap => writer.u8(7),
        },
        |reader| Ok(match reader.u8()? {
            0 => Cause::Natural,
            1 => Cause::Timeout,
            2 => Cause::Kill { by: reader.text()? },
            3 => Cause::Oom,
            4 => Cause::NeverStarted(Field::read(reader)?),
            5 => Cause::Lost { why: reader.text()? },
            7 => Cause::Overlap,
            _ => return Err(WireError::Value),
        });
    Records, |records, writer| match records {
            Records::Unknown => writer.u8(0),
            Records::None(stamp) => stamp.write(writer.u8(1)),
            Records::Both(both) => both.1.write(both.0.write(writer.u8(2))),
        },
        |reader| Ok(match reader.u8()? {
            0 => Records::Unknown,
            1 => Records::None(Field::read(reader)?),
            2 => Records::Both(Box::new((Field::read(reader)?, Field::read(reader)?))),
            _ => return Err(WireError::Value),
        });
}

/// What only a later version knows makes no entry.
impl<T: Field> Field for OrNewer<T> {
    fn write(&self, writer: Writer) -> Writer {
        match self {
            Self::Known(value) => value.write(true.write(writer)),
            Self::Newer(_) => false.write(writer),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        if bool::read(reader)? { T::read(reader).map(Self::Known) } else { Err(WireError::Value) }
    }
}

/// Declares pointers that are written as what they point to.
macro_rules! pointers {
    ($($Pointer:ident),*) => { $(
        impl<T: Field> Field for $Pointer<T> {
            fn write(&self, writer: Writer) -> Writer {
                (**self).write(writer)
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                T::read(reader).map(Self::new)
            }
        }
    )* };
}

pointers!(Box, Arc);

impl<T: Field> Field for Vec<T> {
    fn write(&self, writer: Writer) -> Writer {
        self.iter().fold(writer.u32(self.len() as u32), |writer, value| value.write(writer))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = reader.u32()?;
        // The claimed length allocates nothing.
        (0..count).map(|_| T::read(reader)).collect()
    }
}

impl<T: Field> Field for BTreeMap<String, T> {
    fn write(&self, writer: Writer) -> Writer {
        let writer = writer.u32(self.len() as u32);
        self.iter().fold(writer, |writer, (name, value)| value.write(name.write(writer)))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let count = reader.u32()?;
        (0..count).map(|_| Ok((reader.text()?, T::read(reader)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(job: &str, changes: &serde_json::Value) -> (Spec, Meta) {
        let mut spec = serde_json::json!({
            "format": 1, "job": job, "nonce": "07".repeat(16), "name": "a", "session": "s", "reader": "r", "argv": ["x", "y z"],
            "labels": { "a": "b" }, "shell_line": null, "words": ["w"], "window_lines": 7, "cwd": "/", "mode": "pipe",
            "stdin": "open", "timeout_ms": 9, "grace_ms": 5, "output_cap_bytes": 8, "containment": "sweep", "survivors": "keep",
            "env_set": { "A": "\u{0}ff41" }, "env_unset": ["B"], "lifetime": { "until": { "at_us": 5 } },
            "limits": { "memory_bytes": 5 }, "ready": { "port": 80 }, "parting": { "on_exit": "x" }, "created_us": 7,
            "host": { "machine": "m", "boot": "b", "pid_namespace": "p" },
            "starter": { "pid": 1, "start_time": 2, "uid": 3 }, "parent": "p-1", "previous": "q-1", "outlive": "9.0.0",
        });
        let mut meta = serde_json::json!({
            "format": 1, "job": job, "nonce": "07".repeat(16), "status": "running", "keeper": { "pid": 1, "start_time": 2 },
            "guard": { "pid": 1, "start_time": 3 }, "owner": { "pid": 1, "start_time": 4 },
            "command": { "pid": 3, "start_time": 4 }, "started_us": 5, "started_boot_us": 6,
            "protocol": { "min": 1, "max": 1 }, "containment": { "level": "sweep", "group": "g", "pids_group": "h" },
            "kept": { "memory": "polled" }, "paused": true, "awaits": { "kind": "line", "known": "kernel", "since_us": 7 },
            "notified": true, "untimed": true, "near": { "limit": "memory", "at_us": 8 }, "out_of_memory_us": 9, "outcome": null, "closed": null,
        });
        for (file, changed) in [(&mut spec, &changes["spec"]), (&mut meta, &changes["meta"])] {
            for (field, value) in changed.as_object().into_iter().flatten() {
                file[field] = value.clone();
            }
        }
        let bytes = |value: &serde_json::Value| serde_json::to_vec(value).unwrap();
        let spec = Spec::parse(&JobId::parse(job).unwrap(), &bytes(&spec)).unwrap();
        let meta = Meta::parse(spec.nonce, &bytes(&meta)).unwrap();
        (spec, meta)
    }

    fn entry(job: &str, records: Records) -> Entry {
        let (spec, snapshot) = parsed(job, &serde_json::json!({}));
        let given_to = SessionName::parse("other").ok();
        Entry { spec: spec.into(), given_to, renamed: Some("new".into()), snapshot: snapshot.into(), records }
    }

    fn outcomes() -> impl Strategy<Value = Outcome> {
        let wait_status = prop_oneof![
            any::<i32>().prop_map(|code| WaitStatus::Exited { code }),
            (any::<i32>(), any::<bool>()).prop_map(|(signal, core)| WaitStatus::Signaled { signal, core }),
            Just(WaitStatus::Unknown),
        ];
        let never = ("[a-z]*", any::<Option<i32>>(), any::<Option<Vec<u8>>>(), any::<Option<String>>());
        let cause = prop_oneof![
            Just(Cause::Natural),
            Just(Cause::Timeout),
            Just(Cause::Overlap),
            Just(Cause::Oom),
            any::<String>().prop_map(|by| Cause::Kill { by }),
            any::<String>().prop_map(|why| Cause::Lost { why }),
            never.prop_map(|(step, errno, path, detail)| {
                Cause::NeverStarted(NeverStarted { step, errno, path: path.map(Into::into), detail })
            }),
        ];
        (wait_status, cause, any::<u64>(), any::<Option<u64>>()).prop_map(
            |(wait_status, cause, number, runtime_ms)| {
                let usage =
                    runtime_ms.map(|user_ms| Usage { user_ms, pids_peak: Some(number), ..Usage::default() });
                let totals = Totals {
                    bytes: number,
                    stdout_lines: 1,
                    stderr_lines: 2,
                    dropped_bytes: 3,
                    index_records: 4,
                };
                Outcome { wait_status, cause, ended: Timestamp(number), runtime_ms, usage, totals }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_comes_back(outcome in outcomes(), stamp in any::<[u8; 32]>()) {
            let mut full = [9; 48];
            full[..32].copy_from_slice(&stamp);
            let closed = Closed { closed: outcome.ended, usage: outcome.usage, totals: outcome.totals };
            let mut ended = entry("a-1", Records::Both(Box::new((outcome.clone(), closed))));
            let snapshot = Arc::make_mut(&mut ended.snapshot);
            (snapshot.outcome, snapshot.closed) = (Some(outcome), Some(closed));
            let entries = [ended, entry("b-1", Records::None(full)), entry("c-1", Records::Unknown)];
            let frames: Vec<Vec<u8>> = entries.iter().map(|entry| frame(full, entry).unwrap()).collect();
            let read = Cached::new(to_bytes(&frames), 10);
            for entry in entries {
                let place = read.find(entry.spec.job.as_str()).unwrap();
                prop_assert_eq!(place.0, full);
                prop_assert_eq!(read.entry(place), Some(entry));
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in any::<Vec<u8>>()) {
            prop_assert!(Cached::new(bytes.clone(), 10).places.is_empty());
            // With a header that fits.
            let mut whole = header(&bytes).to_vec();
            whole.extend(&bytes);
            let read = Cached::new(whole, 10);
            read.places.values().for_each(|place| drop(read.entry(place.clone())));
        }

        #[test]
        fn a_damaged_or_shorter_file_says_nothing(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
            let mut bytes = to_bytes(&[frame([1; 48], &entry("a-1", Records::Unknown)).unwrap()]);
            let at = at.index(bytes.len());
            prop_assert!(Cached::new(bytes[..at].to_vec(), 10).places.is_empty());
            bytes[at] ^= flip;
            prop_assert!(Cached::new(bytes, 10).places.is_empty());
        }
    }

    #[test]
    fn what_a_later_version_wrote_is_left_out() {
        for changes in [
            serde_json::json!({ "spec": { "mode": "later" } }),
            serde_json::json!({ "spec": { "stdin": "later" } }),
            serde_json::json!({ "spec": { "format": 2 } }),
            serde_json::json!({ "meta": { "status": "later" } }),
            serde_json::json!({ "meta": { "added": 1 } }),
            serde_json::json!({ "meta": { "containment": { "level": "later" } } }),
        ] {
            let (spec, snapshot) = parsed("a-1", &changes);
            let (spec, snapshot) = (spec.into(), snapshot.into());
            let entry = Entry { spec, given_to: None, renamed: None, snapshot, records: Records::Unknown };
            assert!(frame([0; 48], &entry).is_none(), "{changes}");
        }
    }
}
