//! Waiting until the command may be executed.
//!
//! A job that waits has its keeper and its guard, as one that runs: the environment of the command is in their memory alone. The
//! starter was answered, so that it may end. Clients can end the job, and everything else is refused until it runs. Nothing wakes
//! the keeper but its time and its clients.
//!
//! Either of the two may be killed. A guard whose keeper died forks another; a keeper whose guard died forks as well, and is the
//! guard of its child from then on.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use outlive_core::control::{Hello, Reply, Request, SPOKEN};
use outlive_core::launch::{Launch, LaunchReply};
use outlive_core::meta::Meta;
use outlive_core::outcome::{Closed, Outcome};
use outlive_core::status::Status;
use outlive_sys::clock::Alarm;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::ProcessId;
use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_sys::{clock, durable, memory, shared, socket};

use crate::clients::{Client, MAX_CLIENTS};
use crate::guard::{self, Custody, Guard, Part, Word};
use crate::start::{Common, Handed, command_line, process};

/// The command waits.
pub(crate) const WAITS: u64 = 1;

/// Its time has come, and its session was not told yet that it runs.
pub(crate) const COME: u64 = 2;

/// How long to leave alone what cannot be had now and may be had later: a descriptor, or the kernel's memory.
const REST: Duration = Duration::from_millis(100);

/// How a wait ended.
pub(crate) enum Turn {
    /// The command may be executed; this is the guard of this process, if it is another than at first.
    Come { guard: Option<ProcessId> },
    /// The keeper died after that, and this process, its guard, is to go on in its place.
    Successor,
    /// A client has ended the job.
    Stopped { by: String },
}

impl From<Part> for Turn {
    fn from(part: Part) -> Self {
        match part {
            Part::Keeper => Self::Come { guard: None },
            Part::Successor => Self::Successor,
        }
    }
}

/// Forks the guard, answers the starter, and waits.
///
/// # Errors
///
/// If no guard can be made.
pub(crate) fn wait(
    handed: &mut Handed,
    launch: &Launch<'_>,
    common: &Common,
    needed: &[RawFd],
) -> io::Result<Turn> {
    let custody = common.custody;
    custody.set(Word::Turn, WAITS);
    let starter = handed.starter.as_ref().map(AsRawFd::as_raw_fd);
    let mut kept = shared::open_files();
    loop {
        if guard::part(custody, needed)? == Part::Successor {
            // A keeper that died before it executed the command has left all that another needs to do it.
            if custody.get(Word::Turn) != WAITS && custody.main().or_else(guard::find_main).is_some() {
                return Ok(Turn::Successor);
            }
            custody.set(Word::Turn, WAITS);
            // The keeper that died may have answered the starter, and closed this.
            std::mem::forget(handed.starter.take());
            handed.starter = custody.inherit(Word::Starter).map(UnixStream::from);
            kept.retain(|fd| handed.starter.is_some() || Some(*fd) != starter);
            // Clients of the keeper that died see their connections closed.
            shared::close_all_but(&kept);
            continue;
        }
        let guard = ProcessId::of(shared::parent());
        let meta = snapshot(launch, guard);
        durable::replace(Replacing::META_START, &handed.dir, outlive_core::file::META, &meta.to_bytes()).ok();
        if let Some(mut starter) = handed.starter.take() {
            // A starter that died meanwhile changes nothing.
            fault::step(Point::QueuedReply, || starter.write_all(&LaunchReply::Queued.to_frame())).ok();
            custody.withdraw(Word::Starter);
        }
        kept.retain(|fd| Some(*fd) != starter);
        memory::give_back();
        match Waiting::new(launch, common, &kept, meta).run(guard)? {
            Woken::Due => {
                return Ok(Turn::Come { guard: Some(guard.unwrap_or_else(ProcessId::current)) });
            }
            Woken::Stopped { by } => {
                end(guard, custody);
                return Ok(Turn::Stopped { by });
            }
            Woken::Unguarded => {}
        }
    }
}

/// Lets the guard go: this process records the end of the job.
fn end(guard: Option<ProcessId>, custody: Custody) {
    if let Some(guard) = guard {
        Guard::Above(guard).dismiss(custody);
    }
    shared::forget_peers();
}

/// Puts the end of a job that was never executed into its snapshot, which says that it waits.
pub(crate) fn note_end(dir: impl AsFd, launch: &Launch<'_>, outcome: &Outcome) {
    let closed = Some(Closed { closed: outcome.ended, usage: None, totals: outcome.totals });
    let (status, outcome) = (Status::of(outcome).into(), Some(outcome.clone()));
    let meta = Meta { status, outcome, closed, ..snapshot(launch, None) };
    durable::replace(Replacing::META_END, dir, outlive_core::file::META, &meta.to_bytes()).ok();
}

fn snapshot(launch: &Launch<'_>, guard: Option<ProcessId>) -> Meta {
    Meta {
        format: outlive_core::FORMAT,
        job: launch.job.clone(),
        nonce: launch.nonce,
        status: Status::Queued.into(),
        keeper: Some(process(ProcessId::current())),
        guard: guard.map(process),
        owner: None,
        command: None,
        command_line: Some(command_line(&launch.argv)),
        started: None,
        started_boot_us: None,
        protocol: SPOKEN,
        outlive: Some(env!("CARGO_PKG_VERSION").to_owned()),
        containment: None,
        kept: Default::default(),
        paused: false,
        awaits: None,
        untimed: false,
        near: None,
        out_of_memory: None,
        outcome: None,
        closed: None,
        newer: Default::default(),
    }
}

/// Why the loop ended.
enum Woken {
    Due,
    Stopped {
        by: String,
    },
    /// The guard is gone.
    Unguarded,
}

/// A keeper that waits.
struct Waiting<'a> {
    common: &'a Common,
    hello: Hello,
    meta: Meta,
    clients: Vec<Client>,
    due_us: u64,
    alarm: Option<Alarm>,
    /// What was open before there were clients.
    kept: &'a [RawFd],
}

impl<'a> Waiting<'a> {
    fn new(launch: &Launch<'_>, common: &'a Common, kept: &'a [RawFd], meta: Meta) -> Self {
        let hello = Hello { versions: SPOKEN, nonce: launch.nonce };
        // Without one, the time is met by what the loop counts.
        let alarm = Alarm::at(launch.due_boot_us).ok();
        Self { common, hello, meta, clients: Vec::new(), due_us: launch.due_boot_us, alarm, kept }
    }

    fn run(mut self, guard: Option<ProcessId>) -> io::Result<Woken> {
        loop {
            if clock::boot_us() >= self.due_us {
                return Ok(Woken::Due);
            }
            if !guard.is_some_and(|guard| shared::is_parent(guard.pid)) {
                // The fork has one table of descriptors for both: its child begins without clients.
                self.clients.clear();
                self.alarm = None;
                shared::close_all_but(self.kept);
                return Ok(Woken::Unguarded);
            }
            if let Some(by) = self.turn() {
                // The client that asked is answered by the end of this process, which comes when the outcome is written.
                std::mem::forget(self.clients);
                return Ok(Woken::Stopped { by });
            }
        }
    }

    /// Sleeps until something happens, and serves the clients; returns who asks for the end, if a client does.
    fn turn(&mut self) -> Option<String> {
        let left = Duration::from_micros(self.due_us.saturating_sub(clock::boot_us()));
        let mut fds = vec![PollFd::new(&self.common.child_ends, PollFlags::IN)];
        fds.extend(self.alarm.as_ref().map(|alarm| PollFd::new(alarm, PollFlags::IN)));
        let own = fds.len();
        let listener = self.common.listener.as_ref().filter(|_| self.clients.len() < MAX_CLIENTS);
        fds.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
        let first = fds.len();
        for client in &self.clients {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, client.expects_request());
            flags.set(PollFlags::OUT, client.has_unsent());
            fds.push(PollFd::from_borrowed_fd(client.fd(), flags));
        }
        let has_request = self.clients.iter().any(Client::has_request);
        let left = if has_request { Some(Duration::ZERO) } else { Some(left) };
        if fault::step(Point::TurnPoll, || poll(&mut fds, left)).is_err() {
            std::thread::sleep(REST);
            return None;
        }
        let has_connection = first > own && !fds[own].revents().is_empty();
        let hung_up: Vec<(usize, bool)> = fds[first..]
            .iter()
            .enumerate()
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(index, fd)| (index, fd.revents().intersects(PollFlags::HUP | PollFlags::ERR)))
            .collect();
        drop(fds);
        self.common.child_ends.clear();
        for (index, is_hung_up) in hung_up {
            self.clients[index].exchange(is_hung_up);
        }
        let by = self.serve();
        self.clients.retain(|client| !client.is_finished());
        if has_connection {
            self.accept();
        }
        by
    }

    fn serve(&mut self) -> Option<String> {
        for client in &mut self.clients {
            let reply = match client.next_request() {
                None => continue,
                Some(Request::Kill { by, .. }) => return Some(by),
                Some(Request::Snapshot) => Reply::Described(self.meta.to_bytes()),
                Some(_) => Reply::refused("queued", "the job has not been started yet"),
            };
            client.reply(&reply);
        }
        None
    }

    fn accept(&mut self) {
        let Some(listener) = &self.common.listener else { return };
        match fault::step(Point::ClientAccept, || socket::accept(listener.as_fd())) {
            Ok(stream) => self.clients.extend(stream.and_then(|stream| Client::new(stream, &self.hello))),
            // Without a descriptor the connection stays in the queue.
            Err(_) => std::thread::sleep(REST),
        }
    }
}
