//! Waiting until the command may be executed: for a time, then for other jobs, then for its turn in a queue.
//!
//! A job that waits has its keeper and its guard, as one that runs: the environment of the command is in their memory alone. The
//! starter was answered, so that it may end. Clients can end the job, and the process beside it can end the wait after a failure;
//! everything else is refused until it runs. Nothing wakes the keeper but its clients and what it waits for.
//!
//! Either of the two may be killed. A guard whose keeper died forks another; a keeper whose guard died forks as well, and is the
//! guard of its child from then on.

mod after;
mod queue;
mod schedule;

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use outlive_core::control::{Hello, Reply, Request, SPOKEN};
use outlive_core::launch::{Launch, LaunchReply};
use outlive_core::meta::Meta;
use outlive_core::outcome::{Closed, NeverStarted, Outcome};
use outlive_core::status::Status;
use outlive_sys::clock::Alarm;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::ProcessId;
use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_sys::{clock, durable, memory, shared, socket};

use crate::clients::{Client, MAX_CLIENTS};
use crate::guard::{self, Guard, Part, Word, foreground};
use crate::on_exit::OnExit;
use crate::start::{Common, Handed, Unstarted, snapshot};

pub(crate) use queue::release as release_slot;
pub(crate) use schedule::replaced_us;

/// The command waits.
pub(crate) const WAITS: u64 = 1;

/// Its time has come, and its session was not told yet that it runs.
pub(crate) const COME: u64 = 2;

/// How long to leave alone what cannot be had now and may be had later: a descriptor, or the kernel's memory.
const REST: Duration = Duration::from_millis(100);

/// How often to look where the kernel does not tell of changes.
const LOOK: Duration = Duration::from_secs(1);

/// After so many failures in a row to look, 5 s in all, the job is given up: its queue cannot be used.
const MOST_FAILURES: u32 = 50;

/// How a wait ended.
pub(crate) enum Turn {
    /// The command may be executed; this is the guard of this process.
    Come { guard: ProcessId },
    /// The keeper died after that, and this process, its guard, is to go on in its place.
    Successor,
    /// The command is not executed: a client has ended the job, or what it waits for can never come.
    Over(Unstarted),
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
    on_exit: Option<&OnExit>,
    needed: &[RawFd],
) -> io::Result<Turn> {
    let custody = common.custody;
    custody.set(Word::Turn, WAITS);
    let starter = handed.starter.as_ref().map(AsRawFd::as_raw_fd);
    let mut kept = shared::open_files();
    loop {
        // Known before the fork: a guard that dies at once must not be taken for the process that has adopted its keeper.
        let guard = ProcessId::current();
        if guard::part(custody, needed)? == Part::Successor {
            schedule::end_program(custody);
            // A keeper that died before it executed the command has left all that another needs to do it.
            if custody.get(Word::Turn) != WAITS && custody.main().or_else(guard::find_main).is_some() {
                return Ok(Turn::Successor);
            }
            custody.set(Word::Turn, WAITS);
            // The keeper that died may have answered the starter, and closed this.
            std::mem::forget(handed.starter.take());
            handed.starter = custody.inherit(Word::Starter).map(UnixStream::from);
            kept.retain(|fd| handed.starter.is_some() || Some(*fd) != starter);
            // Clients of the keeper that died see their connections closed; its place in a queue is kept.
            shared::close_all_but(&[&kept[..], &custody.lent()].concat());
            continue;
        }
        let meta = snapshot(launch, Some(guard));
        durable::replace(Replacing::META_START, &handed.dir, outlive_core::file::META, &meta.to_bytes()).ok();
        let mut waiting = Waiting::new(launch, common, on_exit, &handed.dir, &kept, meta);
        // Before the starter is answered: jobs that are started one after the other come in this order.
        waiting.look();
        if let Some(mut starter) = handed.starter.take() {
            // A starter that died meanwhile changes nothing.
            fault::step(Point::QueuedReply, || starter.write_all(&LaunchReply::Queued.to_frame())).ok();
            custody.withdraw(Word::Starter);
        }
        kept.retain(|fd| Some(*fd) != starter);
        waiting.kept.retain(|fd| Some(*fd) != starter);
        memory::give_back();
        let woken = waiting.run(guard)?;
        if !matches!(woken, Woken::Unguarded) {
            let mark = format!("../../{}/{}", outlive_core::WAITING, launch.job);
            // A mark that is left makes the job count as one that waits until it has ended.
            fault::step(Point::WaitingRemove, || durable::remove(&handed.dir, &mark)).ok();
        }
        match woken {
            Woken::Due => return Ok(Turn::Come { guard }),
            Woken::Over(unstarted) => {
                // This process records the end of the job.
                Guard::Above(guard).dismiss(custody);
                shared::forget_peers();
                return Ok(Turn::Over(unstarted));
            }
            Woken::Unguarded => {}
        }
    }
}

/// Puts the end of a job that was never executed into its snapshot, which says that it waits.
pub(crate) fn note_end(dir: impl AsFd, launch: &Launch<'_>, outcome: &Outcome) {
    let closed = Some(Closed { closed: outcome.ended, usage: None, totals: outcome.totals });
    let (status, outcome) = (Status::of(outcome).into(), Some(outcome.clone()));
    let meta = Meta { status, outcome, closed, ..snapshot(launch, None) };
    durable::replace(Replacing::META_END, dir, outlive_core::file::META, &meta.to_bytes()).ok();
}

/// Why the loop ended.
enum Woken {
    Due,
    Over(Unstarted),
    /// The guard is gone.
    Unguarded,
}

/// A keeper that waits.
struct Waiting<'a> {
    common: &'a Common,
    dir: &'a OwnedFd,
    hello: Hello,
    meta: Meta,
    clients: Vec<Client>,
    due_us: u64,
    alarm: Option<Alarm>,
    /// A client has ended the wait for that time.
    is_hastened: bool,
    /// None for a job without a schedule.
    timetable: Option<schedule::Timetable<'a>>,
    after: after::Awaited<'a>,
    /// None for a job in no queue.
    place: Option<queue::Place<'a>>,
    /// What was found at the last look.
    found: Found,
    /// How many looks in a row have failed.
    failures: u32,
    /// What was open before there were clients.
    kept: Vec<RawFd>,
}

/// What a look has found.
enum Found {
    Wait,
    /// The look failed, and is to be repeated in a moment.
    Failed,
    Due,
    Never(NeverStarted),
}

impl<'a> Waiting<'a> {
    fn new(
        launch: &'a Launch<'_>,
        common: &'a Common,
        on_exit: Option<&'a OnExit>,
        dir: &'a OwnedFd,
        kept: &[RawFd],
        meta: Meta,
    ) -> Self {
        let hello = Hello { versions: SPOKEN, nonce: launch.nonce };
        // A keeper that died may have been asked not to wait for it.
        let is_hastened =
            launch.due_boot_us > 0 && durable::open_ro(dir, outlive_core::file::NEXT_RUN).is_ok();
        let due_us = if is_hastened { 0 } else { launch.due_boot_us };
        // Without one, the time is met by what the loop counts.
        let alarm = if due_us > clock::boot_us() { Alarm::at(due_us).ok() } else { None };
        let queue = launch.options.queue.as_ref();
        Self {
            common,
            dir,
            hello,
            meta,
            clients: Vec::new(),
            due_us,
            alarm,
            is_hastened: false,
            timetable: launch
                .options
                .schedule
                .is_set()
                .then(|| schedule::Timetable::new(on_exit, common.custody)),
            after: after::Awaited::new(&launch.after),
            place: queue.map(|queue| queue::Place::new(queue, &launch.job, common.custody)),
            found: Found::Wait,
            failures: 0,
            kept: kept.to_vec(),
        }
    }

    fn run(mut self, guard: ProcessId) -> io::Result<Woken> {
        loop {
            match std::mem::replace(&mut self.found, Found::Wait) {
                Found::Due => {
                    self.close_watched();
                    return Ok(Woken::Due);
                }
                Found::Never(why) => {
                    schedule::end_program(self.common.custody);
                    // Clients learn of it by the end of this process, as below.
                    self.leave_queue();
                    std::mem::forget(self.clients);
                    return Ok(Woken::Over(Unstarted::Failed(why)));
                }
                found => self.found = found,
            }
            if !shared::is_parent(guard.pid) {
                // The fork has one table of descriptors for both: its child begins without clients.
                self.clients.clear();
                self.close_watched();
                schedule::end_program(self.common.custody);
                shared::close_all_but(&[&self.kept[..], &self.common.custody.lent()].concat());
                return Ok(Woken::Unguarded);
            }
            if let Some(by) = self.turn() {
                self.leave_queue();
                schedule::end_program(self.common.custody);
                // The client that asked is answered by the end of this process, which comes when the outcome is written.
                std::mem::forget(self.clients);
                return Ok(Woken::Over(Unstarted::Stopped { by }));
            }
        }
    }

    fn close_watched(&mut self) {
        self.alarm = None;
        self.timetable.iter_mut().for_each(schedule::Timetable::forget);
        self.after.forget();
        self.place.iter_mut().for_each(queue::Place::forget);
    }

    fn leave_queue(&mut self) {
        self.place.iter_mut().for_each(|place| place.leave_queue(self.dir));
    }

    /// Looks whether the command may be executed now.
    fn look(&mut self) {
        let looked = self.try_to_look();
        self.failures = if looked.is_err() { self.failures + 1 } else { 0 };
        self.found = looked.unwrap_or_else(|(step, error)| match self.failures < MOST_FAILURES {
            true => Found::Failed,
            false => {
                let detail = Some(match step {
                    "after" => format!("the job that it comes after cannot be looked at: {error}"),
                    _ => format!("its {step} cannot be used: {error}"),
                });
                Found::Never(NeverStarted { step: step.into(), detail, ..NeverStarted::default() })
            }
        });
    }

    /// An error comes with the step that it belongs to.
    fn try_to_look(&mut self) -> Result<Found, (&'static str, io::Error)> {
        if clock::boot_us() < self.due_us {
            return Ok(Found::Wait);
        }
        self.alarm = None;
        if !self
            .timetable
            .as_mut()
            .map_or(Ok(true), |timetable| timetable.look(self.dir))
            .map_err(|error| ("schedule", error))?
        {
            return Ok(Found::Wait);
        }
        match self.after.look(self.dir).map_err(|error| ("after", error))? {
            Ok(true) => {}
            Ok(false) => return Ok(Found::Wait),
            Err(why) => {
                let never =
                    NeverStarted { step: "after".into(), detail: Some(why), ..NeverStarted::default() };
                return Ok(Found::Never(never));
            }
        }
        let has_turn = self.place.as_mut().map_or(Ok(true), |place| place.look(self.dir));
        let has_turn = has_turn.map_err(|error| ("queue", error))?;
        Ok(if has_turn { Found::Due } else { Found::Wait })
    }

    /// Returns when to look without being woken.
    fn pause(&self) -> Option<Duration> {
        let needs_timer =
            self.after.needs_timer() || self.place.as_ref().is_some_and(queue::Place::needs_timer);
        let left_us = self.due_us.saturating_sub(clock::boot_us());
        let planned = self.timetable.as_ref().and_then(schedule::Timetable::pause);
        match self.found {
            Found::Failed => Some(REST),
            _ if left_us > 0 => Some(Duration::from_micros(left_us)),
            _ if planned.is_some() => planned,
            _ => needs_timer.then_some(LOOK),
        }
    }

    /// Sleeps until something happens, and serves the clients; returns who asks for the end, if a client or the engine does.
    fn turn(&mut self) -> Option<String> {
        if let Some(by) = foreground::asked_by(self.common.custody) {
            return Some(by);
        }
        let pause = self.pause();
        let mut fds = vec![PollFd::new(&self.common.child_ends, PollFlags::IN)];
        let awaited = self.alarm.as_ref().map(AsFd::as_fd).into_iter();
        let awaited = awaited.chain(self.timetable.as_ref().and_then(schedule::Timetable::fd));
        let awaited = awaited.chain(self.after.fd()).chain(self.place.iter().flat_map(queue::Place::fds));
        fds.extend(awaited.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
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
        let limit = if has_request { Some(Duration::ZERO) } else { pause };
        let Ok(ready) = fault::step(Point::TurnPoll, || poll(&mut fds, limit)) else {
            std::thread::sleep(REST);
            return None;
        };
        let is_woken = fds[1..own].iter().any(|fd| !fd.revents().is_empty());
        let has_connection = first > own && !fds[own].revents().is_empty();
        let hung_up: Vec<(usize, bool)> = fds[first..]
            .iter()
            .enumerate()
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(index, fd)| (index, fd.revents().intersects(PollFlags::HUP | PollFlags::ERR)))
            .collect();
        drop(fds);
        self.common.child_ends.clear();
        let has_looked = self.timetable.as_mut().is_some_and(schedule::Timetable::reap);
        for (index, is_hung_up) in hung_up {
            self.clients[index].exchange(is_hung_up);
        }
        let by = self.serve();
        self.clients.retain(|client| !client.is_finished());
        if has_connection {
            self.accept();
        }
        // A client that ends the job does so before its turn comes.
        let is_hastened = std::mem::take(&mut self.is_hastened);
        if by.is_none() && (is_woken || has_looked || is_hastened || (ready == 0 && !has_request)) {
            self.look();
        }
        by
    }

    fn serve(&mut self) -> Option<String> {
        for index in 0..self.clients.len() {
            let reply = match self.clients[index].next_request() {
                None => continue,
                Some(Request::Kill { by, .. }) => return Some(by),
                Some(Request::Replace { next_run, .. }) => self.hasten(&next_run),
                Some(Request::Snapshot) => Reply::Described(self.meta.to_bytes()),
                Some(_) => Reply::refused("queued", "the job has not been started yet"),
            };
            self.clients[index].reply(&reply);
        }
        None
    }

    /// Ends the wait after a failure. A job that waits for something else has not begun, so that there is nothing to replace.
    fn hasten(&mut self, next_run: &[u8]) -> Reply {
        if self.due_us > clock::boot_us() {
            let written =
                durable::replace(Replacing::NEXT_RUN, self.dir, outlive_core::file::NEXT_RUN, next_run);
            if let Err(error) = written {
                return Reply::refused("not_written", error.to_string());
            }
            (self.due_us, self.alarm, self.is_hastened) = (0, None, true);
        }
        Reply::Accepted
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
