//! The jobs of other machines, as the configuration names them. A thread for each machine asks it, and again when something happens
//! there; what was known of one that cannot be reached is shown with its age.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlive::{HostRules, SessionName, Store};
use outlive_remote::{Client, Filter, HostLook, RemoteError};
use outlive_sys::pipe::{self, Attempt};

/// A machine where much happens is asked no more often than this.
const REST: Duration = Duration::from_secs(1);

/// Pauses before a machine is tried again that cannot be reached; the last one repeats.
const PAUSES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30)];

/// So many jobs of a machine are asked for.
const MOST: usize = 200;

type Looks = Arc<Mutex<BTreeMap<String, (HostLook, Instant)>>>;

/// What is known of all machines.
#[derive(Debug)]
pub(crate) struct Machines {
    looks: Looks,
    woken: OwnedFd,
    /// Open as long as this is: with no machine to look at, the other end would be ready for ever.
    _wake: Arc<OwnedFd>,
}

impl Machines {
    /// Begins to look at all machines that the configuration names.
    pub(crate) fn watch(store: &Arc<Store>, session: Option<&SessionName>) -> io::Result<Self> {
        let (woken, wake) = pipe::new()?;
        pipe::set_nonblocking(&woken)?;
        let (looks, wake): (Looks, _) = (Arc::default(), Arc::new(wake));
        for (name, rules) in outlive_remote::machines(&store.config().hosts) {
            let watch = Watch {
                store: Arc::clone(store),
                name: name.clone(),
                rules: rules.clone(),
                filter: Filter {
                    session: session.map(ToString::to_string),
                    limit: Some(MOST),
                    ..Filter::default()
                },
                looks: Arc::clone(&looks),
                wake: Arc::clone(&wake),
            };
            std::thread::spawn(move || watch.run());
        }
        Ok(Self { looks, woken, _wake: wake })
    }

    /// Returns a row for each machine and each of its jobs that lives, or ended last: its first column, and the others.
    pub(crate) fn rows(&self) -> Vec<MachineRow> {
        let mut rows = Vec::new();
        for (look, at) in locked(&self.looks).values() {
            let mut look = look.clone();
            // It grows older while it is shown.
            let since = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
            look.unreachable_ms = look.unreachable_ms.map(|age| age.saturating_add(since));
            let live = look.jobs.iter().filter(|job| !job.has_ended()).count();
            let words = look.unreachable_words().unwrap_or_else(|| format!("{live} live"));
            rows.push(MachineRow {
                name: look.host.clone(),
                words,
                command: String::new(),
                is_machine: true,
            });
            let (live, ended): (Vec<_>, Vec<_>) = look.jobs.iter().rev().partition(|job| !job.has_ended());
            for job in live.into_iter().chain(ended) {
                rows.push(MachineRow {
                    name: format!("{}/{}", look.host, job.job),
                    words: look.words(job),
                    command: outlive::one_line(&job.command),
                    is_machine: false,
                });
            }
        }
        rows
    }

    /// Forgets that something changed, which is drawn now.
    pub(crate) fn take_changes(&self) {
        let mut buffer = [0; 64];
        while let Attempt::Moved(_) = pipe::try_read(&self.woken, &mut buffer) {}
    }
}

impl AsFd for Machines {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}

/// A machine, or a job on one.
#[derive(Debug)]
pub(crate) struct MachineRow {
    pub(crate) name: String,
    pub(crate) words: String,
    pub(crate) command: String,
    pub(crate) is_machine: bool,
}

fn locked(looks: &Looks) -> MutexGuard<'_, BTreeMap<String, (HostLook, Instant)>> {
    looks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The look at one machine.
struct Watch {
    store: Arc<Store>,
    name: String,
    rules: HostRules,
    filter: Filter,
    looks: Looks,
    wake: Arc<OwnedFd>,
}

impl Watch {
    /// Asks as long as the view lasts.
    fn run(&self) {
        let mut failures = 0;
        loop {
            let followed = match Client::named(&self.name, &self.rules, |_| {}) {
                Ok(client) => self.follow(&client.unasked(), &mut failures),
                Err(failure) => Err(failure.text()),
            };
            if let Err(why) = followed {
                let jobs = Vec::new();
                self.show(HostLook {
                    host: self.name.clone(),
                    jobs,
                    unreachable: Some(why),
                    unreachable_ms: None,
                });
            }
            std::thread::sleep(PAUSES[failures.min(PAUSES.len() - 1)]);
            failures += 1;
        }
    }

    /// Looks each time something happens there, until the connection breaks off; the error is why no look is possible.
    fn follow(&self, client: &Client, failures: &mut usize) -> Result<(), String> {
        // Before the look: what happens after it is among the events.
        let mut events = client.events(None);
        loop {
            let look = HostLook::now(&self.store, &self.name, client, &self.filter);
            let look = look.map_err(|failure| failure.text())?;
            let is_reached = look.unreachable.is_none();
            self.show(look);
            let next = match &mut events {
                Ok(events) if is_reached => events.receive(),
                _ => return Ok(()),
            };
            *failures = 0;
            if matches!(next, Err(RemoteError::Lost(..))) {
                // What is known by now is not so any more for certain.
                events = client.events(None);
            }
            std::thread::sleep(REST);
        }
    }

    fn show(&self, look: HostLook) {
        locked(&self.looks).insert(self.name.clone(), (look, Instant::now()));
        pipe::try_write(&*self.wake, b".");
    }
}
