//! The file `outcome`: two slots, each with a header, a checksum and a record that fits.

use serde::{Deserialize, Serialize};

use super::{Cause, Closed, NeverStarted, Outcome, Totals, Usage, WaitStatus};
use crate::format::checksum::crc32;
use crate::rawtext::RawText;
use crate::timestamp::Timestamp;

/// Size of the file: two slots.
pub const FILE_BYTES: u64 = 4096;
/// Where the outcome record is.
pub const OUTCOME_AT: u64 = 0;
/// Where the closed record is.
pub const CLOSED_AT: u64 = 2048;
/// Size of a slot.
pub const SLOT_BYTES: usize = 2048;

const HEADER: usize = 16;
const SLOT_FORMAT: u16 = 1;
const OUTCOME_MAGIC: &[u8; 4] = b"OUTL";
const CLOSED_MAGIC: &[u8; 4] = b"CLSD";

/// An outcome as it stands in JSON.
#[derive(Serialize, Deserialize)]
pub(super) struct Flat {
    exited: Option<i32>,
    signal: Option<i32>,
    core: Option<bool>,
    cause: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<RawText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    ended_us: Timestamp,
    runtime_ms: Option<u64>,
    user_ms: Option<u64>,
    system_ms: Option<u64>,
    max_rss_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_peak_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pids_peak: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    oom_kills: Option<u64>,
    bytes: u64,
    stdout_lines: u64,
    stderr_lines: u64,
    dropped_bytes: u64,
    #[serde(default)]
    index_records: u64,
}

impl From<Outcome> for Flat {
    fn from(outcome: Outcome) -> Self {
        Self::shortened(outcome, LENGTHS[0])
    }
}

/// The longest text in a record, and what is tried next if a record with such texts does not fit its slot. The last fits
/// even where every character is escaped.
const LENGTHS: [usize; 3] = [900, 300, 90];

impl Flat {
    /// Cuts every text to a length.
    fn shortened(outcome: Outcome, length: usize) -> Self {
        let (exited, signal, core) = match outcome.wait_status {
            WaitStatus::Exited { code } => (Some(code), None, None),
            WaitStatus::Signaled { signal, core } => (None, Some(signal), Some(core)),
            WaitStatus::Unknown => (None, None, None),
        };
        let cause = shorten(outcome.cause.word(), length);
        let is_never_started = matches!(outcome.cause, Cause::NeverStarted(_));
        let (mut by, mut why, mut never) = (None, None, NeverStarted::default());
        match outcome.cause {
            Cause::Kill { by: who } => by = Some(shorten(&who, length)),
            Cause::Lost { why: reason } => why = Some(shorten(&reason, length)),
            Cause::NeverStarted(facts) => never = facts,
            Cause::Natural | Cause::Timeout | Cause::Overlap | Cause::Oom | Cause::Newer(_) => {}
        }
        let shorten_path = |path: RawText| match path.0.get(..length) {
            Some(begin) if path.0.len() > length => RawText([begin, MORE.as_bytes()].concat()),
            _ => path,
        };
        Self {
            exited,
            signal,
            core,
            cause,
            by,
            why,
            step: is_never_started.then(|| shorten(&never.step, length)),
            errno: never.errno,
            path: never.path.map(shorten_path),
            detail: never.detail.as_deref().map(|detail| shorten(detail, length)),
            ended_us: outcome.ended,
            runtime_ms: outcome.runtime_ms,
            user_ms: outcome.usage.map(|usage| usage.user_ms),
            system_ms: outcome.usage.map(|usage| usage.system_ms),
            max_rss_bytes: outcome.usage.map(|usage| usage.max_rss_bytes),
            memory_peak_bytes: outcome.usage.and_then(|usage| usage.memory_peak_bytes),
            pids_peak: outcome.usage.and_then(|usage| usage.pids_peak),
            oom_kills: outcome.usage.and_then(|usage| usage.oom_kills),
            bytes: outcome.totals.bytes,
            stdout_lines: outcome.totals.stdout_lines,
            stderr_lines: outcome.totals.stderr_lines,
            dropped_bytes: outcome.totals.dropped_bytes,
            index_records: outcome.totals.index_records,
        }
    }
}

/// Says that a text goes on.
const MORE: &str = "…";

fn shorten(text: &str, length: usize) -> String {
    if text.len() <= length {
        return text.to_owned();
    }
    let end = (0..=length).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}{MORE}", &text[..end])
}

impl From<Flat> for Outcome {
    fn from(flat: Flat) -> Self {
        let wait_status = match (flat.exited, flat.signal) {
            (Some(code), _) => WaitStatus::Exited { code },
            (None, Some(signal)) => WaitStatus::Signaled { signal, core: flat.core.unwrap_or(false) },
            (None, None) => WaitStatus::Unknown,
        };
        let cause = match flat.cause.as_str() {
            "natural" => Cause::Natural,
            "timeout" => Cause::Timeout,
            "overlap" => Cause::Overlap,
            "oom" => Cause::Oom,
            "kill" => Cause::Kill { by: flat.by.unwrap_or_default() },
            "never_started" => Cause::NeverStarted(NeverStarted {
                step: flat.step.unwrap_or_default(),
                errno: flat.errno,
                path: flat.path,
                detail: flat.detail,
            }),
            "lost" => Cause::Lost { why: flat.why.unwrap_or_default() },
            _ => Cause::Newer(flat.cause),
        };
        let usage = flat.user_ms.map(|user_ms| Usage {
            user_ms,
            system_ms: flat.system_ms.unwrap_or(0),
            max_rss_bytes: flat.max_rss_bytes.unwrap_or(0),
            memory_peak_bytes: flat.memory_peak_bytes,
            pids_peak: flat.pids_peak,
            oom_kills: flat.oom_kills,
        });
        Self {
            wait_status,
            cause,
            ended: flat.ended_us,
            runtime_ms: flat.runtime_ms,
            usage,
            totals: Totals {
                bytes: flat.bytes,
                stdout_lines: flat.stdout_lines,
                stderr_lines: flat.stderr_lines,
                dropped_bytes: flat.dropped_bytes,
                index_records: flat.index_records,
            },
        }
    }
}

impl Outcome {
    /// Returns the slot to be written at [`OUTCOME_AT`].
    pub fn to_slot(&self) -> [u8; SLOT_BYTES] {
        let slots = LENGTHS.iter().map(|&length| slot(OUTCOME_MAGIC, &Flat::shortened(self.clone(), length)));
        slots.flatten().next().expect("the shortest texts fit")
    }

    /// Reads the slot at [`OUTCOME_AT`]; `None` if it is empty or torn. A record of a later format is an end
    /// of which nothing is understood here; it is not an empty slot.
    pub fn from_slot(bytes: &[u8]) -> Option<Self> {
        match unslot(OUTCOME_MAGIC, bytes)? {
            Slot::Known(outcome) => Some(outcome),
            Slot::Later(format) => Some(Self {
                wait_status: WaitStatus::Unknown,
                cause: Cause::Newer(format!("format {format}")),
                ended: Timestamp(0),
                runtime_ms: None,
                usage: None,
                totals: Totals::default(),
            }),
        }
    }
}

impl Closed {
    /// Returns the slot to be written at [`CLOSED_AT`].
    pub fn to_slot(&self) -> [u8; SLOT_BYTES] {
        slot(CLOSED_MAGIC, self).expect("a closed record has only numbers")
    }

    /// Reads the slot at [`CLOSED_AT`]; `None` if it is empty or torn.
    pub fn from_slot(bytes: &[u8]) -> Option<Self> {
        match unslot(CLOSED_MAGIC, bytes)? {
            Slot::Known(closed) => Some(closed),
            Slot::Later(_) => Some(Self { closed: Timestamp(0), usage: None, totals: Totals::default() }),
        }
    }
}

/// Makes a slot; `None` if the value is too long for it.
fn slot(magic: &[u8; 4], value: &impl Serialize) -> Option<[u8; SLOT_BYTES]> {
    let payload = serde_json::to_vec(value).expect("a record has only string keys and finite numbers");
    let mut slot = [0; SLOT_BYTES];
    if payload.len() > SLOT_BYTES - HEADER {
        return None;
    }
    slot[0..4].copy_from_slice(magic);
    slot[4..6].copy_from_slice(&SLOT_FORMAT.to_le_bytes());
    slot[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    slot[12..16].copy_from_slice(&crc32(&payload).to_le_bytes());
    slot[HEADER..HEADER + payload.len()].copy_from_slice(&payload);
    Some(slot)
}

/// A whole record.
enum Slot<T> {
    /// Of this format.
    Known(T),
    /// Of a later one.
    Later(u16),
}

fn unslot<T: for<'de> Deserialize<'de>>(magic: &[u8; 4], bytes: &[u8]) -> Option<Slot<T>> {
    let header = bytes.get(..HEADER)?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if &header[0..4] != magic {
        return None;
    }
    let payload = bytes.get(HEADER..)?.get(..usize::try_from(word(8)).ok()?)?;
    if crc32(payload) != word(12) {
        return None;
    }
    match u16::from_le_bytes([header[4], header[5]]) {
        SLOT_FORMAT => serde_json::from_slice(payload).ok().map(Slot::Known),
        format if format > SLOT_FORMAT && !payload.is_empty() => Some(Slot::Later(format)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outcomes() -> impl Strategy<Value = Outcome> {
        let status = prop_oneof![
            (0..256).prop_map(|code| WaitStatus::Exited { code }),
            (1..65, any::<bool>()).prop_map(|(signal, core)| WaitStatus::Signaled { signal, core }),
            Just(WaitStatus::Unknown),
        ];
        let text = || prop::collection::vec(any::<char>(), 0..30).prop_map(String::from_iter);
        let never = (text(), any::<Option<i32>>(), any::<Option<Vec<u8>>>(), prop::option::of(text()))
            .prop_map(|(step, errno, path, detail)| {
                let path = path.map(|mut path| {
                    path.retain(|&byte| byte != 0);
                    path.truncate(90);
                    RawText(path)
                });
                Cause::NeverStarted(NeverStarted { step, errno, path, detail })
            });
        let cause = prop_oneof![
            Just(Cause::Natural),
            Just(Cause::Timeout),
            Just(Cause::Overlap),
            Just(Cause::Oom),
            text().prop_map(|by| Cause::Kill { by }),
            text().prop_map(|why| Cause::Lost { why }),
            never,
            "[a-z]{3,9}_of_later".prop_map(Cause::Newer),
        ];
        (status, cause, any::<u64>(), any::<Option<u64>>()).prop_map(
            |(wait_status, cause, ended, runtime_ms)| {
                let totals = Totals {
                    bytes: u64::MAX,
                    stdout_lines: 1,
                    stderr_lines: 2,
                    dropped_bytes: 3,
                    index_records: 4,
                };
                let usage = runtime_ms.map(|ms| Usage {
                    user_ms: ms,
                    system_ms: 5,
                    max_rss_bytes: 6,
                    memory_peak_bytes: runtime_ms,
                    pids_peak: None,
                    oom_kills: runtime_ms,
                });
                Outcome { wait_status, cause, ended: Timestamp(ended), runtime_ms, usage, totals }
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_comes_back(outcome in outcomes()) {
            prop_assert_eq!(Outcome::from_slot(&outcome.to_slot()), Some(outcome));
        }

        #[test]
        fn a_torn_record_is_no_record(outcome in outcomes(), written in 0usize..1000) {
            let whole = outcome.to_slot();
            let payload = u32::from_le_bytes(whole[8..12].try_into().unwrap()) as usize;
            let mut torn = [0; SLOT_BYTES];
            torn[..written].copy_from_slice(&whole[..written]);
            let read = Outcome::from_slot(&torn);
            prop_assert_eq!(read.is_some(), torn == whole || written >= HEADER + payload);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(Outcome::from_slot(&bytes), None);
            prop_assert_eq!(Closed::from_slot(&bytes), None);
        }
    }

    #[test]
    fn a_record_of_a_later_version_is_an_end_that_is_not_understood() {
        let closed = Closed { closed: Timestamp(7), usage: None, totals: Totals::default() };
        let mut slot = slot(OUTCOME_MAGIC, &closed).unwrap();
        slot[4] = 2;
        let outcome = Outcome::from_slot(&slot).expect("not an empty slot");
        assert_eq!((outcome.is_newer(), outcome.wait_status), (true, WaitStatus::Unknown));
    }

    #[test]
    fn the_longest_texts_fit() {
        let never = NeverStarted {
            step: "directory".into(),
            errno: Some(i32::MIN),
            path: Some(RawText(vec![0xff; 10_000])),
            detail: Some("\u{1}".repeat(10_000)),
        };
        let outcome = Outcome {
            wait_status: WaitStatus::Unknown,
            cause: Cause::NeverStarted(never),
            ended: Timestamp(u64::MAX),
            runtime_ms: Some(u64::MAX),
            usage: Some(Usage {
                user_ms: u64::MAX,
                system_ms: u64::MAX,
                max_rss_bytes: u64::MAX,
                memory_peak_bytes: Some(u64::MAX),
                pids_peak: Some(u64::MAX),
                oom_kills: Some(u64::MAX),
            }),
            totals: Totals {
                bytes: u64::MAX,
                stdout_lines: u64::MAX,
                stderr_lines: u64::MAX,
                dropped_bytes: u64::MAX,
                index_records: u64::MAX,
            },
        };
        assert!(Outcome::from_slot(&outcome.to_slot()).is_some());
    }

    #[test]
    fn closed_comes_back_and_is_not_an_outcome() {
        let usage = Some(Usage { pids_peak: Some(3), ..Usage::default() });
        let closed = Closed { closed: Timestamp(7), usage, totals: Totals { bytes: 1, ..Totals::default() } };
        assert_eq!(Closed::from_slot(&closed.to_slot()), Some(closed));
        assert_eq!(Outcome::from_slot(&closed.to_slot()), None);
    }
}
