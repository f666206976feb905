//! Sends the notices of the spool until none is left.
//!
//! One process at a time does so. All its state is in the spool, so it can be killed at any instant: a notice that arrived
//! leaves the spool, the next deliverer sends the rest. A notice is sent twice only if the deliverer dies between sending and
//! removing it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use outlive_core::file;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::Replacing;
use outlive_sys::poll::any_readable;
use outlive_sys::watch::Watch;
use outlive_sys::{clock, durable, pipe};
use serde::Serialize;

use crate::delivery::record::Sent;
use crate::delivery::spool::Entry;
use crate::delivery::webhook::{self, Client};
use crate::store::Store;

/// How many notices are sent at the same time.
const AT_ONCE: usize = 8;

/// How many of them to the same place: a place that hangs leaves room for the others.
const AT_ONCE_TO_ONE: usize = 2;

/// How often to check the spool without inotify.
const FALLBACK: Duration = Duration::from_secs(1);

/// What a deliverer did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Delivered {
    /// How many notices arrived.
    pub delivered: usize,
    /// So many attempts failed.
    pub failed_attempts: usize,
    /// How many notices were given up, or could not be read, and were moved to `failed/`.
    pub set_aside: usize,
    /// How many notices are still in the spool.
    pub waiting: usize,
}

/// File name of a notice, and the result of one attempt to send it.
type Attempt = (String, Result<u16, String>);

/// The process that holds the spool's lock and sends.
struct Deliverer<'a> {
    store: &'a Store,
    client: Client,
    secret: Option<String>,
    entries: HashMap<String, Entry>,
    /// File names of the notices that are being sent, each with its destination.
    in_flight: HashMap<String, String>,
    /// With `--once`: the notices that had their attempt.
    tried: HashSet<String>,
    is_once: bool,
    attempts: (Sender<Attempt>, Receiver<Attempt>),
    /// Written when an attempt is over; wakes the loop.
    wake: (OwnedFd, OwnedFd),
    done: Delivered,
}

impl Store {
    /// Sends the notices of the spool, each as often as needed, and returns when none is left; with `once`, tries each that is
    /// due once. `None` if another process is sending.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written.
    pub fn deliver(&self, once: bool) -> io::Result<Option<Delivered>> {
        self.spool_pending();
        let mut done = Delivered::default();
        let mut is_first = true;
        // A second deliverer leaves while the lock is held, so the first checks the spool again after it has let go of the
        // lock.
        let can_be_sent = |name: &String| matches!(self.read_spooled(name), Some(Ok(_)));
        while is_first || (!once && self.spooled().iter().any(can_be_sent)) {
            if !self.spool().is_dir() {
                break;
            }
            let Some(lock) = self.lock_spool()? else { return Ok((!is_first).then_some(done)) };
            is_first = false;
            self.sweep_spool();
            let mut deliverer = Deliverer::new(self, once, done)?;
            deliverer.run()?;
            done = deliverer.done;
            drop(lock);
        }
        done.waiting = self.spooled().len();
        Ok(Some(done))
    }

    /// Returns the secret that notices are signed with: from the environment, else from the configuration.
    pub(crate) fn webhook_secret(&self) -> Option<String> {
        let given = std::env::var("OUTLIVE_WEBHOOK_SECRET").ok().filter(|secret| !secret.is_empty());
        given.or_else(|| self.config().webhook.secret.clone())
    }
}

impl<'a> Deliverer<'a> {
    fn new(store: &'a Store, is_once: bool, done: Delivered) -> io::Result<Self> {
        let wake = pipe::new()?;
        pipe::set_nonblocking(&wake.0)?;
        Ok(Self {
            store,
            client: Client::new(store.config().webhook.timeout),
            secret: store.webhook_secret(),
            entries: HashMap::new(),
            in_flight: HashMap::new(),
            tried: HashSet::new(),
            is_once,
            attempts: channel(),
            wake,
            done,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let watch = Watch::new(&self.store.spool());
        loop {
            watch.clear();
            self.note_attempts();
            self.look();
            let now = Timestamp(clock::wall_us());
            self.send_due(now)?;
            let is_over = if self.is_once { !self.has_due(now) } else { self.entries.is_empty() };
            if self.in_flight.is_empty() && is_over {
                return Ok(());
            }
            // A notice that is due but has no free slot waits for the end of an attempt.
            let waiting = self.entries.iter().filter(|(name, _)| self.may_be_sent(name));
            let next = waiting.map(|(_, entry)| entry.next).filter(|next| *next > now).min();
            let limit = next.map(|next| Duration::from_micros(next.0 - now.0));
            self.wait(&watch, limit)?;
        }
    }

    /// Reads what is new in the spool, and drops what is gone.
    fn look(&mut self) {
        let names = self.store.spooled();
        self.entries.retain(|name, _| names.binary_search(name).is_ok());
        for name in names {
            if self.entries.contains_key(&name) {
                continue;
            }
            match self.store.read_spooled(&name) {
                Some(Ok(entry)) => drop(self.entries.insert(name, entry)),
                // If it cannot even be moved, it stays and is skipped.
                Some(Err(_)) => self.done.set_aside += usize::from(self.store.set_aside(&name).is_ok()),
                None => {}
            }
        }
    }

    fn may_be_sent(&self, name: &str) -> bool {
        !self.in_flight.contains_key(name) && !self.tried.contains(name)
    }

    fn has_due(&self, now: Timestamp) -> bool {
        self.entries.iter().any(|(name, entry)| self.may_be_sent(name) && entry.is_due(now))
    }

    /// Sends what is due, as far as there are free slots.
    fn send_due(&mut self, now: Timestamp) -> io::Result<()> {
        let due = self.entries.iter().filter(|(name, entry)| self.may_be_sent(name) && entry.is_due(now));
        let mut due: Vec<String> = due.map(|(name, _)| name.clone()).collect();
        due.sort();
        for name in due {
            let Some(entry) = self.entries.get(&name) else { continue };
            let to = webhook::origin(&entry.url);
            let to_one = self.in_flight.values().filter(|other| **other == to).count();
            if self.in_flight.len() >= AT_ONCE || to_one >= AT_ONCE_TO_ONE {
                continue;
            }
            let signed = self.secret.as_deref().map(|secret| webhook::sign(secret, &entry.body));
            let signature = entry.signature.clone().or(signed);
            let (client, entry, sender) = (self.client.clone(), entry.clone(), self.attempts.0.clone());
            let wake = self.wake.1.try_clone()?;
            let sent = name.clone();
            std::thread::Builder::new().spawn(move || {
                let result = client.send(&entry, signature.as_deref());
                sender.send((sent, result)).ok();
                pipe::try_write(&wake, b".");
            })?;
            if self.is_once {
                self.tried.insert(name.clone());
            }
            self.in_flight.insert(name, to);
        }
        Ok(())
    }

    /// Records the attempts that are over.
    fn note_attempts(&mut self) {
        let mut buffer = [0; 64];
        while let pipe::Attempt::Moved(_) = pipe::try_read(&self.wake.0, &mut buffer) {}
        while let Ok((name, result)) = self.attempts.1.try_recv() {
            self.in_flight.remove(&name);
            let Some(mut entry) = self.entries.remove(&name) else { continue };
            let now = Timestamp(clock::wall_us());
            let at = Some(now.to_string());
            match result {
                Ok(status) => {
                    let (attempts, status) = (entry.attempts + 1, Some(status));
                    self.note(&entry, &Sent { attempts, delivered_at: at, status, ..Sent::default() });
                    self.store.unspool(&name);
                    self.done.delivered += 1;
                }
                Err(error) => {
                    self.done.failed_attempts += 1;
                    let goes_on = entry.put_off(&self.store.config().webhook, now, error);
                    // On a full disk the old file stays, with its old count of attempts.
                    self.store.spool_entry(&entry).ok();
                    if goes_on {
                        self.entries.insert(name, entry);
                    } else if self.store.set_aside(&name).is_ok() {
                        let (attempts, error) = (entry.attempts, entry.error.clone());
                        self.note(&entry, &Sent { attempts, given_up_at: at, error, ..Sent::default() });
                        self.done.set_aside += 1;
                    } else {
                        // The disk may be full; the next attempt is a minute later.
                        entry.next = Timestamp(now.0 + 60_000_000);
                        self.entries.insert(name, entry);
                    }
                }
            }
        }
    }

    /// Records in the job's directory what became of its notice; the job may be gone.
    fn note(&self, entry: &Entry, sent: &Sent) {
        let job = self.store.find_exactly(&entry.job, entry.nonce);
        if let (Some(job), Ok(bytes)) = (job, serde_json::to_vec(sent)) {
            job.dir().and_then(|dir| durable::replace(Replacing::SENT, dir, file::WEBHOOK, &bytes)).ok();
        }
    }

    fn wait(&self, watch: &Watch, limit: Option<Duration>) -> io::Result<()> {
        let limit = match watch.is_pushed() {
            true => limit,
            false => Some(limit.map_or(FALLBACK, |limit| limit.min(FALLBACK))),
        };
        any_readable([self.wake.0.as_fd()].into_iter().chain(watch.fd()), limit).map(drop)
    }
}
