//! The keeper's loop.

use std::os::fd::AsFd;
use std::time::Duration;

use outlive_core::control::{Hello, Reply, SPOKEN};
use outlive_core::event::Kind;
use outlive_core::outcome::Cause;
use outlive_core::timestamp::Timestamp;
use outlive_sys::clock::Alarm;
use outlive_sys::fault::{self, Point};
use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_sys::region::Region;
use outlive_sys::signal::Signal;
use outlive_sys::{clock, lock, shared, socket};

use crate::clients::{Client, MAX_CLIENTS, Waiting};
use crate::ending::sync;
use crate::endpoint::Output;
use crate::guard::Word;
use crate::guard::foreground::{self, Foreground};
use crate::killing::Killing;
use crate::recorder::Taken;
use crate::start::Keeper;

/// What one read takes at most; as much as a grown pipe holds.
pub(crate) const BUFFER: usize = 256 << 10;

/// After so long without output the buffer is given back and pipes shrink again.
const QUIET_US: u64 = 1_000_000;

/// How long to leave alone what cannot be had now and may be had later: a descriptor, or the kernel's memory.
const REST_US: u64 = 100_000;

/// The buffer that output is read into, and how busy the streams are.
struct ReadState {
    buffer: Region,
    /// When the buffer is to be given back; none if it is.
    release_us: Option<u64>,
}

/// What `poll` has found ready.
#[derive(Default)]
struct Readiness {
    child_ended: bool,
    connection: bool,
    /// The command says something on its socket.
    notice: bool,
    /// Their places in the list.
    outputs: Vec<usize>,
    input: bool,
    synced: bool,
    /// The process that finds out where the cursor is has printed, or ended.
    cursor: bool,
    clients: Vec<(usize, bool)>,
}

impl Keeper {
    /// Runs until the job is closed; returns the exit status.
    pub(crate) fn supervise(mut self: Box<Self>, buffer: Region) -> u8 {
        let mut reading = ReadState { buffer, release_us: None };
        self.see_to_guard(&mut reading.buffer);
        self.hear_engine();
        while !self.ending.is_closed() {
            let ready = self.wait(&reading);
            self.hear_engine();
            self.output(&ready, &mut reading);
            if ready.child_ended || self.ending.has_more_to_reap {
                self.reap(&mut reading.buffer);
            }
            if ready.synced {
                self.synced(&mut reading.buffer);
            }
            if ready.cursor {
                let found = self.terminal.as_mut().and_then(|terminal| terminal.answers.read());
                self.answer(found);
            }
            if ready.notice {
                self.hear_notices();
            }
            if ready.input {
                self.input.flush();
            }
            self.serve(&ready.clients);
            if ready.connection {
                self.accept();
            }
            self.carry_out_order();
            self.timers(&mut reading);
        }
        self.answer_killed(&[]);
        self.containment.remove();
        let unsynced = self.unsynced();
        // A client that still asks for something learns that there is no keeper, and does not wait for the disk.
        self.clients.clear();
        self.custody.withdraw(Word::Listener);
        // A guard may have a copy of it.
        self.listener.take().iter().for_each(socket::stop_listening);
        // Before anything leaves the store, and after all that a process waits for.
        sync(&unsynced);
        self.let_go();
        self.containment.leave();
        if let Some(on_exit) = self.on_exit.take() {
            on_exit.exec(&self.dir);
        }
        foreground::exit_code(self.custody)
    }

    /// Frees the lock and lets the guard go: all is done that it would have to do.
    fn let_go(&self) {
        if let Some(guard) = self.guard {
            guard.dismiss(self.custody);
        }
        shared::forget_peers();
        lock::unlock(&self.lock).ok();
    }

    fn wait(&self, reading: &ReadState) -> Readiness {
        let mut fds = vec![PollFd::new(&self.child_ends, PollFlags::IN)];
        // Of a command that is not its child the keeper learns in this way.
        let main = self.main.as_ref().filter(|_| !self.is_parent && self.ending.is_running());
        fds.extend(main.map(|main| PollFd::new(main, PollFlags::IN)));
        let own_fds = fds.len();
        let mut add = |fd, flags| {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
            fds.len() - 1
        };
        let may_accept = self.clients.len() <= MAX_CLIENTS && self.accept_us.is_none();
        let listener = self.listener.as_ref().filter(|_| may_accept);
        let listener = listener.map(|listener| add(listener.as_fd(), PollFlags::IN));
        let notices = self.notices.as_ref().map(|notices| add(notices.as_fd(), PollFlags::IN));
        let outputs: Vec<Option<usize>> =
            self.outputs.iter().map(|output| output.fd().map(|fd| add(fd, PollFlags::IN))).collect();
        let input = self.input.waiting().map(|fd| add(fd.as_fd(), PollFlags::OUT));
        let cursor = self.terminal.as_ref().and_then(|terminal| terminal.answers.fd());
        let cursor = cursor.map(|fd| add(fd, PollFlags::IN));
        let syncing = self.ending.syncing_fd().map(|fd| add(fd, PollFlags::IN));
        // It only wakes the loop; `timers` finds out what is due.
        if let Some(alarm) = &self.alarm {
            add(alarm.as_fd(), PollFlags::IN);
        }
        if let Some(foreground) = &self.foreground {
            add(foreground.as_fd(), PollFlags::IN);
        }
        let clients: Vec<usize> = self
            .clients
            .iter()
            .map(|client| {
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, client.expects_request());
                flags.set(PollFlags::OUT, client.has_unsent());
                add(client.fd(), flags)
            })
            .collect();
        // Out of memory is the only way to fail; trying again, and not at once, is the only answer.
        if poll(&mut fds, self.next_timer(reading)).is_err() {
            std::thread::sleep(Duration::from_micros(REST_US));
            return Readiness::default();
        }
        let is_ready = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        Readiness {
            child_ended: (0..own_fds).any(|at| is_ready(Some(at))),
            connection: is_ready(listener),
            notice: is_ready(notices),
            outputs: (0..outputs.len()).filter(|&index| is_ready(outputs[index])).collect(),
            input: is_ready(input),
            synced: is_ready(syncing),
            cursor: is_ready(cursor),
            clients: clients
                .iter()
                .enumerate()
                .filter(|&(_, &at)| !fds[at].revents().is_empty())
                .map(|(index, &at)| (index, fds[at].revents().intersects(PollFlags::HUP | PollFlags::ERR)))
                .collect(),
        }
    }

    /// Returns how long to sleep: without limit when nothing is due.
    fn next_timer(&self, reading: &ReadState) -> Option<Duration> {
        if self.ending.has_more_to_reap || self.clients.iter().any(Client::has_request) {
            return Some(Duration::ZERO);
        }
        let killing = self.ending.killing.as_ref().map(Killing::next_us);
        let limits = self.limit_monitor.next_us();
        let lifetime = self.expiry.next_us();
        let survivors = self.ending.survivors_us;
        let input_wait = self.input_wait.next_us();
        let viewers = self.terminal.as_ref().and_then(|terminal| terminal.fitted_until_us);
        let next = [
            self.deadline_us,
            killing,
            reading.release_us,
            limits,
            lifetime,
            self.prober.next_us(),
            survivors,
            self.accept_us,
            self.look_us,
            input_wait,
            viewers,
            self.next_run_us,
            self.guard_due_us(),
            self.foreground.as_ref().and_then(Foreground::next_us),
        ];
        let next = next.into_iter().flatten().min()?;
        Some(Duration::from_micros(next.saturating_sub(clock::boot_us())))
    }

    fn output(&mut self, ready: &Readiness, reading: &mut ReadState) {
        for &index in &ready.outputs {
            let count = self.read_output(index, &mut reading.buffer);
            if self.outputs[index].note_read(count, BUFFER) {
                self.transit.resize(BUFFER);
            }
            reading.release_us = Some(0);
        }
        if reading.release_us == Some(0) {
            reading.release_us = Some(clock::boot_us() + QUIET_US);
        }
    }

    /// Gives back what a job takes while it prints or is typed to, once it was quiet for a while.
    fn release(&mut self, reading: &mut ReadState, now_us: u64) {
        if reading.release_us.is_none() && self.input.has_idle_queue() {
            reading.release_us = Some(now_us + QUIET_US);
        }
        if reading.release_us.is_some_and(|release| now_us >= release) {
            reading.release_us = None;
            reading.buffer.release();
            self.outputs.iter_mut().for_each(Output::shrink);
            self.transit.resize(outlive_sys::pipe::DEFAULT_CAPACITY);
            self.input.release();
        }
    }

    /// Reads once from an output and records it; returns how much it was.
    pub(crate) fn read_output(&mut self, index: usize, buffer: &mut [u8]) -> usize {
        let output = &mut self.outputs[index];
        let count = output.read(&self.transit, buffer.len());
        if count > 0 {
            let now = Timestamp(clock::wall_us());
            let taken = Taken { transit: &self.transit, stream: output.stream, count };
            self.recorder.record(&self.dir, taken, buffer, now, |bytes, log_end| {
                self.input_wait.note_output(bytes);
                if let Some(terminal) = &mut self.terminal {
                    terminal.look_through(bytes, log_end);
                }
            });
            self.answer(None);
            self.keep_screen();
            if self.recorder.take_flood() {
                self.write_event(&self.event(Kind::OutputFlood));
            }
        }
        count
    }

    fn accept(&mut self) {
        let hello = Hello { versions: SPOKEN, nonce: self.meta.nonce };
        // One at a time: the next turn takes the next.
        let Some(listener) = &self.listener else { return };
        let accepted = fault::step(Point::ClientAccept, || socket::accept(listener));
        let is_out_of_room = match accepted {
            Ok(stream) => {
                self.clients.extend(stream.and_then(|stream| Client::new(stream, &hello)));
                self.clients.len() > MAX_CLIENTS
            }
            // Without a descriptor the connection stays in the queue, and the listener ready: it is not asked again at once.
            Err(_) => {
                self.accept_us = Some(clock::boot_us() + REST_US);
                true
            }
        };
        if is_out_of_room
            && let Some(idle) = self
                .clients
                .iter()
                .position(|client| client.waiting == Waiting::No && client.viewer.is_none())
        {
            self.clients.remove(idle);
        }
    }

    /// Begins to end the tree, or hastens an end that has begun.
    pub(crate) fn kill(&mut self, signal: Signal, grace_ms: Option<u64>, cause: Cause) {
        if matches!(cause, Cause::Kill { .. }) {
            self.forgo_next_run();
        }
        self.end_tree(signal, grace_ms, cause);
    }

    /// As [`Keeper::kill`], and whether a run follows is as it was.
    pub(crate) fn end_tree(&mut self, signal: Signal, grace_ms: Option<u64>, cause: Cause) {
        // Nothing of the job is left, and the keeper of its next run must not be taken for it.
        if self.makes_next_run() {
            return;
        }
        // A main process that has ended by itself, and only waits to be reaped, was not killed.
        if self.ending.is_running() && !self.containment.is_empty() {
            if self.ending.cause.is_none() {
                self.custody.note_cause(&cause);
            }
            self.ending.cause.get_or_insert(cause);
        }
        let (grace_ms, now_us) = (grace_ms.unwrap_or(self.grace_ms), clock::boot_us());
        match &mut self.ending.killing {
            Some(killing) => killing.hasten(&mut self.containment, signal, grace_ms, now_us),
            None => {
                // As when a terminal is closed: interactive shells ignore TERM.
                let hang_up = signal == Signal::TERM && self.terminal.is_some();
                let killing = Killing::begin(&mut self.containment, signal, hang_up, grace_ms, now_us);
                self.ending.killing = Some(killing);
            }
        }
        self.custody.set_moment(Word::HardFrom, self.ending.killing.as_ref().map(Killing::hard_from_us));
        self.note_pause();
    }

    /// Lets the job run for as long as it likes; it is still ended for its next run, if its schedule says so.
    pub(crate) fn lift_timeout(&mut self) {
        self.deadline_us = self.replaced_us;
        self.alarm = self.deadline_us.and_then(|deadline| Alarm::at(deadline).ok());
    }

    fn timers(&mut self, reading: &mut ReadState) {
        let now_us = clock::boot_us();
        if self.deadline_us.is_some_and(|deadline| now_us >= deadline) {
            (self.deadline_us, self.alarm) = (None, None);
            let is_replaced = self.replaced_us.is_some_and(|due| now_us >= due);
            self.kill(Signal::TERM, None, if is_replaced { Cause::Overlap } else { Cause::Timeout });
        }
        if self.ending.survivors_us.is_some_and(|due| now_us >= due) {
            self.ending.survivors_us = None;
            self.custody.set_moment(Word::SurvivorsDue, None);
            // The main process ended by itself, and so did the job; this only ends what it left behind.
            self.kill(Signal::TERM, None, Cause::Natural);
        }
        self.accept_us = self.accept_us.filter(|due| now_us < *due);
        if self.foreground.as_ref().and_then(Foreground::next_us).is_some_and(|due| now_us >= due) {
            self.end_for_engine();
        }
        if self.guard_due_us().is_some_and(|due| now_us >= due) {
            self.end_silent_guard();
        }
        if self.expiry.next_us().is_some_and(|due| now_us >= due) {
            self.check_lifetime(now_us);
        }
        if self.prober.next_us().is_some_and(|due| now_us >= due) {
            self.check_prober(now_us);
        }
        if self.limit_monitor.next_us().is_some_and(|due| now_us >= due) {
            self.check_limits(now_us);
        }
        let is_next_run_due = self.next_run_us.is_some_and(|due| now_us >= due);
        if is_next_run_due {
            self.next_run_us = None;
        }
        if is_next_run_due || self.look_us.is_some_and(|due| now_us >= due) {
            self.reap(&mut reading.buffer);
        }
        if self.input_wait.next_us().is_some_and(|due| now_us >= due) {
            self.look_for_input_wait();
        }
        self.note_question();
        if let Some(killing) = &mut self.ending.killing
            && now_us >= killing.next_us()
        {
            let survivors = killing.step(&mut self.containment, now_us);
            killing.rest(clock::boot_us().saturating_sub(now_us));
            if !survivors.is_empty() {
                self.answer_killed(&survivors);
            }
        }
        self.release(reading, now_us);
    }

    /// Answers the clients that wait for the end of the tree.
    fn answer_killed(&mut self, survivors: &[outlive_core::control::Survivor]) {
        let count = self.ending.killing.as_ref().map_or(0, Killing::count);
        for client in self.clients.iter_mut().filter(|client| client.waiting == Waiting::Killed) {
            client.reply(&Reply::Signalled { count, survivors: survivors.to_vec() });
        }
    }
}
