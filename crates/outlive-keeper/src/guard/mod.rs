//! The guard: the keeper's parent, which goes on as the keeper if that dies.
//!
//! Both have one table of descriptors, so a death closes nothing: no pipe breaks and no lock is freed. What is neither there nor in
//! the store is in a page that both have mapped. The guard adopts what the keeper leaves, the command first of all. A keeper whose
//! guard died makes another, below itself; `docs/design/guard.md` has the whole.

pub(crate) mod foreground;
mod handover;
mod page;
mod take_over;
mod upgrade;
mod word;

use std::os::fd::RawFd;
use std::time::Duration;

use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::keeper::{GUARD_NAME, KEEPER_NAME};
use outlive_sys::shared::{self, Forked};
use outlive_sys::{clock, memory, prefault, spawn};

pub(crate) use page::Custody;
use page::Phase;
pub(crate) use take_over::{find_main, take_over};
pub(crate) use upgrade::{Order, print_page_version, resume_as_guard, resume_as_keeper};
pub(crate) use word::Word;

use crate::start::{Keeper, process};

/// The process that guards this keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Its parent, which adopts the command.
    Above(ProcessId),
    /// A child, made when that was gone. It has the descriptors and a hold on the command, which is not its child.
    Below(ProcessId),
}

impl Guard {
    /// Returns which process it is.
    pub(crate) fn id(self) -> ProcessId {
        match self {
            Self::Above(id) | Self::Below(id) => id,
        }
    }

    fn is_gone(self) -> bool {
        match self {
            Self::Above(id) => !shared::is_parent(id.pid),
            Self::Below(id) => shared::has_child_ended(id.pid),
        }
    }

    /// Lets the guard go: the job is over.
    pub(crate) fn dismiss(self, custody: Custody) {
        custody.set(Word::Over, 1);
        fault::around(Point::GuardDismiss, || match self {
            // It ends when this process has, with its exit status.
            Self::Above(_) if custody.is_foreground() => {}
            Self::Above(id) if shared::is_parent(id.pid) => shared::end(id),
            Self::Above(_) => {}
            Self::Below(id) => shared::end_child(id.pid),
        });
    }
}

/// Forks: the child returns at once, and is the keeper. The parent returns when the keeper has died before the job was over; of
/// descriptors it needs those that are lent, and these.
pub(crate) fn part(custody: Custody, needed: &[RawFd]) -> std::io::Result<Part> {
    // The kernel gives what a dead keeper leaves to the guard above it, and this is no right that a fork passes on: a keeper that
    // makes another, because its own guard died while the command waited, has to ask for it as well.
    spawn::adopt_orphans();
    // What is copied when either writes to it is paid for twice.
    memory::give_back();
    match fault::step(Point::GuardFork, || shared::fork_sharing_files(false))? {
        Forked::Child => {
            // A fork does not pass on which pages of a program are mapped.
            prefault::first_functions();
            shared::lead_session();
            custody.set(Word::KeeperPid, std::process::id().into());
            Ok(Part::Keeper)
        }
        Forked::Parent { child } => {
            shared::set_name(GUARD_NAME);
            let code = watch(custody, needed, false, Watched::Child(child));
            become_keeper(custody, child, code);
            Ok(Part::Successor)
        }
    }
}

/// The keeper, as its guard sees it.
#[derive(Clone, Copy)]
enum Watched {
    /// Its child.
    Child(i32),
    /// Its parent.
    Parent(i32),
}

impl Watched {
    /// Returns its exit code once it has ended; of a parent it is not known.
    fn end_code(self) -> Option<u8> {
        match self {
            Self::Child(pid) => shared::end_of_child(pid),
            Self::Parent(pid) => (!shared::is_parent(pid)).then_some(0),
        }
    }

    fn end(self) {
        match self {
            Self::Child(pid) => shared::end_child(pid),
            Self::Parent(pid) => {
                ProcessId::of(pid).filter(|_| shared::is_parent(pid)).into_iter().for_each(shared::end)
            }
        }
    }
}

/// Sleeps until the keeper has ended; returns its exit code. While an upgrade is under way it ends a keeper that gives no sign of life in time, and executes
/// the new program once the keeper has.
fn watch(custody: Custody, needed: &[RawFd], is_apart: bool, keeper: Watched) -> u8 {
    // As long as both have one table, this process closes nothing.
    let (mut is_apart, mut has_stdin, mut has_slot) = (is_apart, true, true);
    let engine = foreground::signals_for_guard(custody, keeper);
    loop {
        if let Some(code) = keeper.end_code() {
            return code;
        }
        if custody.is_split() {
            if !std::mem::replace(&mut is_apart, true) {
                shared::close_all_but(&[&custody.lent(), needed].concat());
            }
            // A copy of the command's input would hide its end.
            if custody.get(Word::Stdin) == 0 && std::mem::take(&mut has_stdin) {
                custody.close_split_stdin();
            }
            if custody.get(Word::Slot) == 0 && std::mem::take(&mut has_slot) {
                custody.close_split_slot();
            }
        }
        let due_us = custody.due_us(Phase::Keeper);
        if due_us.is_some_and(|due| clock::boot_us() >= due) {
            keeper.end();
        } else if custody.phase() == Phase::Guard && matches!(keeper, Watched::Child(_)) {
            upgrade::execute_as_guard(custody);
        }
        let limit = due_us.map(|due| Duration::from_micros(due.saturating_sub(clock::boot_us()).max(1000)));
        if let Some(signal) = shared::wait_for_call(limit, engine) {
            foreground::pass_on(custody, signal);
        }
    }
}

/// What a process is to do after [`part`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Keeper,
    /// To go on in place of the keeper.
    Successor,
}

/// Ends this process, unless the job goes on and this is the process to go on as its keeper.
fn become_keeper(custody: Custody, dead: i32, code: u8) {
    if custody.get(Word::Over) == 1 || !custody.claim(dead) {
        std::process::exit(code.into());
    }
    shared::set_name(KEEPER_NAME);
    // What was being upgraded was not, unless this is the new version.
    custody.set(Word::Generation, custody.generation);
    custody.set_phase(Phase::None, None);
}

impl Keeper {
    /// Makes a guard, below this process, if there is none any more.
    pub(crate) fn see_to_guard(&mut self, buffer: &mut [u8]) {
        if self.guard.is_some_and(|guard| !guard.is_gone()) || self.ending.is_closed() {
            return;
        }
        let is_successor = self.make_guard(buffer);
        if !is_successor && self.guard.is_some() {
            self.write_meta(Replacing::META_START);
        }
    }

    /// Makes a guard. Returns twice: at once, with `false`; and with `true` in the guard, when it has gone on in place of this process.
    fn make_guard(&mut self, buffer: &mut [u8]) -> bool {
        (self.guard, self.meta.guard) = (None, None);
        self.custody.forget_first_guard();
        let (me, id) = (ProcessId::current(), self.custody.main());
        // While this process is the parent of the command, its number cannot mean another.
        if self.main.is_none() {
            self.main = id.and_then(Handle::open);
        }
        // From the fork on there is one table again.
        self.custody.set(Word::IsSplit, 0);
        match fault::step(Point::GuardFork, || shared::fork_sharing_files(true)) {
            Ok(Forked::Parent { child }) => {
                self.guard = ProcessId::of(child).map(Guard::Below);
                self.meta.guard = self.guard.map(|guard| process(guard.id()));
                self.custody.set(Word::GuardGeneration, self.custody.generation);
                if self.custody.phase() == Phase::Guard {
                    self.custody.set_phase(Phase::None, None);
                }
                false
            }
            Ok(Forked::Child) => {
                shared::lead_session();
                shared::set_name(GUARD_NAME);
                let code = watch(self.custody, &self.needed(), false, Watched::Parent(me.pid));
                become_keeper(self.custody, me.pid, code);
                self.take_over(buffer);
                true
            }
            // The next event is the next try.
            Err(_) => false,
        }
    }
}
