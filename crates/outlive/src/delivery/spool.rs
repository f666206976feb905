//! Notices that are to be sent: one file each in `spool/`.
//!
//! A file gets its name when it is whole and synced, and loses it when its notice has arrived. Only the process that holds
//! `spool/lock` changes or removes files, so no notice is sent by two processes at the same time.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive_core::FORMAT;
use outlive_core::id::{JobId, Nonce, SessionName};
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::owner::Distrust;
use outlive_sys::{clock, durable, lock, random};
use serde::{Deserialize, Serialize};

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

/// What a name in the spool stands for.
pub(crate) enum Spooled {
    Entry(Box<Entry>),
    /// It is no notice; the reason.
    Damaged(String),
    /// The file is gone, or could not be read just now.
    None,
}

impl Store {
    pub(crate) fn spool(&self) -> PathBuf {
        self.root().join(SPOOL)
    }

    /// Makes the spool, or a directory below it, if missing.
    pub(crate) fn make_spool(&self, below: &str) -> io::Result<PathBuf> {
        let path = self.spool().join(below);
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(path)
    }

    /// Writes a notice's file, or replaces it.
    ///
    /// # Durability
    ///
    /// Synced before this returns.
    pub(crate) fn spool_entry(&self, entry: &Entry) -> io::Result<()> {
        let bytes = serde_json::to_vec(entry)?;
        durable::replace_synced(
            Replacing::SPOOL,
            durable::open_dir(&self.make_spool("")?)?,
            &entry.name(),
            &bytes,
        )
    }

    /// Lists the file names of the notices, in the order of the endings.
    pub(crate) fn spooled(&self) -> Vec<String> {
        let entries = fs::read_dir(self.spool()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".json")).collect();
        names.sort();
        names
    }

    pub(crate) fn read_spooled(&self, name: &str) -> Spooled {
        read_entry(&self.spool().join(name))
    }

    /// Tells whether a process holds the spool's lock.
    pub(crate) fn is_delivering(&self) -> bool {
        durable::is_held(&self.spool(), LOCK)
    }

    /// Takes the spool's lock; `None` if another process holds it.
    pub(crate) fn lock_spool(&self) -> io::Result<Option<File>> {
        let file = durable::open_or_create(durable::CWD, self.spool().join(LOCK))?;
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

    /// Lists `failed/`: path, content and reason of each.
    pub(crate) fn set_aside_entries(&self) -> Vec<(PathBuf, Option<Entry>, String)> {
        let files = fs::read_dir(self.spool().join(FAILED)).into_iter().flatten().flatten();
        let mut found: Vec<_> = files
            .filter_map(|file| match read_entry(&file.path()) {
                Spooled::Entry(entry) => {
                    let error = entry.error.clone().unwrap_or_else(|| "nobody said why".to_owned());
                    Some((file.path(), Some(*entry), error))
                }
                Spooled::Damaged(why) => Some((file.path(), None, why)),
                Spooled::None => None,
            })
            .collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }

    /// Moves what was given up back, with the full time for attempts. Unreadable files stay. Returns how many were moved.
    pub(crate) fn respool(&self) -> usize {
        let now = Timestamp(clock::wall_us());
        let mut count = 0;
        for (path, entry, _) in self.set_aside_entries() {
            let Some(entry) = entry else { continue };
            let entry = Entry { created: now, next: now, attempts: 0, ..entry };
            if self.spool_entry(&entry).is_ok() {
                fs::remove_file(path).ok();
                count += 1;
            }
        }
        count
    }

    /// Removes what crashes left, and files in `failed/` that are older than any job is kept.
    pub(crate) fn sweep_spool(&self) {
        let aside = self.config().retention.max_age;
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

fn read_entry(path: &Path) -> Spooled {
    let bytes = match durable::read(durable::CWD, path) {
        Ok(bytes) => bytes,
        Err(error) if Distrust::of(&error).is_some() => return Spooled::Damaged(error.to_string()),
        Err(_) => return Spooled::None,
    };
    match serde_json::from_slice::<Entry>(&bytes) {
        Ok(entry) if entry.format != FORMAT => {
            Spooled::Damaged(format!("it has format {}, and this version reads {FORMAT}", entry.format))
        }
        Ok(entry) if path.file_name().is_none_or(|name| name != entry.name().as_str()) => {
            Spooled::Damaged("it has another one's name".to_owned())
        }
        Ok(entry) if !crate::delivery::webhook::is_address(&entry.url) => {
            Spooled::Damaged("its address is none".to_owned())
        }
        Ok(entry) => Spooled::Entry(Box::new(entry)),
        Err(error) => Spooled::Damaged(format!("it cannot be read: {error}")),
    }
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
        assert!(matches!(store.read_spooled(&names[0]), Spooled::Entry(found) if *found == entry()));
        fs::rename(store.spool().join(&names[0]), store.spool().join("x.json")).unwrap();
        assert!(matches!(store.read_spooled("x.json"), Spooled::Damaged(_)), "it has another one's name");
    }
}
