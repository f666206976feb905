//! Notices that are to be sent: one file each in `spool/`.
//!
//! A file gets its name when it is whole and synced, and loses it when its notice has arrived. Only the process that holds
//! `spool/lock` changes or removes files, so no notice is sent by two processes at the same time.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive_core::FORMAT;
use outlive_core::id::{JobId, Nonce, SessionName};
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::owner::Distrust;
use outlive_sys::{clock, durable, lock, random};
use serde::{Deserialize, Serialize};

use crate::delivery::webhook;
use crate::notify::events::make_dir;
use crate::store::Store;
use crate::store::config::WebhookRules;

pub(crate) const SPOOL: &str = "spool";

/// Below it: notices that were given up or cannot be read.
const FAILED: &str = "failed";

/// Below it: held by the deliverer.
const LOCK: &str = "lock";

/// Longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(300);

/// Age at which temporary files of a crash are removed.
const STALE: Duration = Duration::from_secs(3600);

/// The content of a notice's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) format: u32,
    pub(crate) url: String,
    pub(crate) session: SessionName,
    pub(crate) seq: u64,
    pub(crate) job: JobId,
    pub(crate) nonce: Nonce,
    #[serde(rename = "created_us")]
    pub(crate) created: Timestamp,
    pub(crate) attempts: u32,
    #[serde(rename = "next_us")]
    pub(crate) next: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Made by the process that spooled the notice, with the job's environment; the secret is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<String>,
    /// The request body, the same bytes in each attempt.
    pub(crate) body: String,
}

impl Entry {
    /// Returns the file name: the same from every process, and in the order of the endings.
    pub(crate) fn name(&self) -> String {
        format!("{:016x}.{}.{}.json", self.seq, self.nonce, self.session)
    }

    /// Tells whether it is to be sent now. A time beyond the longest pause dates from before the clock was set back, and counts
    /// as due.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.next <= now || self.next.0 > now.0.saturating_add(2 * micros(LONGEST))
    }

    /// Schedules the next attempt after a failed one; `false` if that was the last.
    pub(crate) fn put_off(&mut self, rules: &WebhookRules, now: Timestamp, error: String) -> bool {
        self.attempts = self.attempts.saturating_add(1);
        self.error = Some(error);
        let end = self.created.min(now).0.saturating_add(micros(rules.give_up));
        let doubled = rules.first_retry.saturating_mul(1 << (self.attempts - 1).min(20));
        // Jitter of up to a fifth: notices that failed together do not return together.
        let percent = 80 + u64::from(random::bytes16()[0]) * 40 / 255;
        let delay = micros(doubled.min(LONGEST)).saturating_mul(percent) / 100;
        self.next = Timestamp(now.0.saturating_add(delay).min(end.max(now.0)));
        now.0 < end
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Store {
    pub(crate) fn spool(&self) -> PathBuf {
        self.root().join(SPOOL)
    }

    /// Makes the spool, or a directory below it, if missing.
    pub(crate) fn make_spool(&self, below: &str) -> io::Result<PathBuf> {
        let path = self.spool().join(below);
        make_dir(&path)?;
        Ok(path)
    }

    /// Writes a notice's file, or replaces it.
    ///
    /// # Durability
    ///
    /// Synced before this returns.
    pub(crate) fn spool_entry(&self, entry: &Entry) -> io::Result<()> {
        let spool = durable::open_dir(&self.make_spool("")?)?;
        durable::replace_synced(Replacing::SPOOL, spool, &entry.name(), &serde_json::to_vec(entry)?)
    }

    /// Lists the file names of the notices, in the order of the endings.
    pub(crate) fn spooled(&self) -> Vec<String> {
        let entries = fs::read_dir(self.spool()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
        names.sort();
        names
    }

    /// Reads a notice, or why its file is none; `None` if the file is gone, or could not be read just now.
    pub(crate) fn read_spooled(&self, name: &str) -> Option<Result<Entry, String>> {
        read_entry(&self.spool().join(name))
    }

    /// Tells whether a process holds the spool's lock.
    pub(crate) fn is_delivering(&self) -> bool {
        durable::is_held(&self.spool(), LOCK)
    }

    /// Takes the spool's lock; `None` if another process holds it.
    pub(crate) fn lock_spool(&self) -> io::Result<Option<File>> {
        let file = durable::open_or_create(durable::open_dir(&self.spool())?, LOCK)?;
        let is_ours = fault::step(Point::SpoolLock, || lock::try_lock(&file, lock::Kind::Exclusive))?;
        Ok(is_ours.then_some(file))
    }

    /// Removes a notice that has arrived.
    pub(crate) fn unspool(&self, name: &str) {
        fault::step(Point::SpoolRemove, || fs::remove_file(self.spool().join(name))).ok();
    }

    /// Moves a notice to `failed/`, where it is kept and no longer tried.
    pub(crate) fn set_aside(&self, name: &str) -> io::Result<()> {
        let aside = self.make_spool(FAILED)?.join(name);
        fault::step(Point::SpoolAside, || fs::rename(self.spool().join(name), aside))
    }

    /// Lists `failed/`: the path of each file, and the notice or why it is none.
    pub(crate) fn set_aside_entries(&self) -> Vec<(PathBuf, Result<Entry, String>)> {
        let files = fs::read_dir(self.spool().join(FAILED)).into_iter().flatten().flatten();
        let mut found: Vec<_> =
            files.filter_map(|file| Some((file.path(), read_entry(&file.path())?))).collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }

    /// Moves the notices that were given up back, with the full time for attempts. Unreadable files stay.
    pub fn retry_notices(&self) {
        let now = Timestamp(clock::wall_us());
        for (path, entry) in self.set_aside_entries() {
            let retried = entry.map(|entry| Entry { created: now, next: now, attempts: 0, ..entry });
            if retried.is_ok_and(|entry| self.spool_entry(&entry).is_ok()) {
                fs::remove_file(path).ok();
            }
        }
    }

    /// Removes what crashes left, and files in `failed/` that are older than any job is kept.
    pub(crate) fn sweep_spool(&self) {
        let aside = self.config().retention.longest();
        let sweep = |directory: &Path, age: Duration, is_ours: fn(&str) -> bool| {
            for file in fs::read_dir(directory).into_iter().flatten().flatten() {
                let is_old = file
                    .metadata()
                    .and_then(|data| data.modified())
                    .is_ok_and(|time| time.elapsed().is_ok_and(|old| old >= age));
                if is_old && file.file_name().to_str().is_some_and(is_ours) {
                    fs::remove_file(file.path()).ok();
                }
            }
        };
        sweep(&self.spool(), STALE, |name| name.ends_with(".tmp"));
        sweep(&self.spool().join(FAILED), aside, |_| true);
    }
}

fn read_entry(path: &Path) -> Option<Result<Entry, String>> {
    let damage = match durable::read(durable::CWD, path) {
        Err(error) if Distrust::of(&error).is_some() => error.to_string(),
        Err(_) => return None,
        Ok(bytes) => match serde_json::from_slice::<Entry>(&bytes) {
            Err(error) => format!("it cannot be read: {error}"),
            Ok(entry) if entry.format != FORMAT => {
                format!("it has format {}, and this version reads {FORMAT}", entry.format)
            }
            Ok(entry) if path.file_name().is_none_or(|name| name != entry.name().as_str()) => {
                "it has another one's name".to_owned()
            }
            Ok(entry) if !webhook::is_address(&entry.url) => "its address is none".to_owned(),
            Ok(entry) => return Some(Ok(entry)),
        },
    };
    Some(Err(damage))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::config::Config;

    fn entry() -> Entry {
        Entry {
            format: FORMAT,
            url: "http://h/".to_owned(),
            session: SessionName::default(),
            seq: 300,
            job: JobId::parse("a-1").unwrap(),
            nonce: Nonce([3; 16]),
            created: Timestamp(1_000_000_000),
            attempts: 0,
            next: Timestamp(1_000_000_000),
            error: None,
            signature: None,
            body: "{\"a\":\"\u{e9}\\n\"}".to_owned(),
        }
    }

    #[test]
    fn the_wait_doubles_and_ends() {
        let rules = Config::default().webhook;
        let mut entry = entry();
        let mut now = entry.created;
        let mut waits = Vec::new();
        while entry.put_off(&rules, now, "no".to_owned()) {
            waits.push(entry.next.0 - now.0);
            assert!(!entry.is_due(now) && entry.is_due(entry.next));
            now = entry.next;
        }
        for (number, wait) in waits.iter().take(8).enumerate() {
            let middle = 1_000_000u64 << number;
            assert!((middle * 8 / 10..=middle * 12 / 10).contains(wait), "{number}: {wait}");
        }
        assert!(waits.iter().all(|wait| *wait <= 360_000_000), "{waits:?}");
        assert_eq!(now.0, entry.created.0 + 86_400_000_000, "the last attempt is when the time is over");
    }

    #[test]
    fn a_clock_that_was_set_back_holds_nothing_up() {
        let mut entry = entry();
        entry.next = Timestamp(u64::MAX / 2);
        assert!(entry.is_due(Timestamp(5)));
        entry.created = Timestamp(u64::MAX / 2);
        assert!(entry.put_off(&Config::default().webhook, Timestamp(5), String::new()));
        assert!(entry.next.0 < 5 + 2_000_000);
    }

    #[test]
    fn what_is_put_there_comes_back_byte_for_byte() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open_at(home.path(), Config::default()).unwrap();
        store.spool_entry(&entry()).unwrap();
        store.spool_entry(&entry()).unwrap();
        let names = store.spooled();
        assert_eq!(names, [entry().name()]);
        assert!(matches!(store.read_spooled(&names[0]), Some(Ok(found)) if found == entry()));
        fs::rename(store.spool().join(&names[0]), store.spool().join("x.json")).unwrap();
        assert!(matches!(store.read_spooled("x.json"), Some(Err(_))), "it has another one's name");
    }
}
