//! The guard: the keeper's parent, which goes on as the keeper if that dies.
//!
//! Both have one table of descriptors, so a death closes nothing: no pipe breaks and no lock is freed. What is neither there nor in
//! the store is in a page that both have mapped. The guard adopts what the keeper leaves, the command first of all. A keeper whose
//! guard died makes another, below itself; `docs/design/guard.md` has the whole.

mod take_over;

use std::os::fd::{AsFd, RawFd};

use outlive_core::containment::Level;
use outlive_core::outcome::Cause;
use outlive_core::terminal::size::TerminalSize;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::keeper::{GUARD_NAME, KEEPER_NAME};
use outlive_sys::shared::{self, Forked, Shared};
use outlive_sys::spawn::{Reaped, Usage, WaitStatus};

pub(crate) use take_over::{find_main, take_over};

use crate::start::{Keeper, process};

/// Numbers of the page.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Word {
    /// The job is over, and what is left to do another process may do.
    Over,
    MainPid,
    MainStart,
    Started,
    StartedBoot,
    /// The rung that the command is started on.
    Level,
    HasEnded,
    Status,
    UserMs,
    SystemMs,
    MaxRss,
    /// Descriptors that may be closed while the job runs.
    Done,
    Listener,
    Starter,
    Stdout,
    Stderr,
    Stdin,
    /// Whose bytes the transit pipe holds.
    Stream,
    /// What the transit pipe holds is being thrown away, and so many bytes have no gap in the index then.
    Discarding,
    Unrecorded,
    LostSince,
    Flood,
    Cause,
    HardFrom,
    SurvivorsDue,
    LastSignal,
    HasEndEvent,
    IsInputEnding,
    /// The size of the terminal, columns and rows; the one that it has without viewers.
    Size,
    OwnSize,
    /// The offset of the log before which all that the command asked its terminal has an answer.
    Answered,
    /// The process that finds out an answer.
    Worker,
    /// The pipe that holds input: its two ends.
    QueueReading,
    QueueWriting,
    /// Input is being put there: how much it held before, of which client, from which offset of that.
    IsPushing,
    PushedUpon,
    PushedBy,
    PushedAt,
    /// Whether the command waits for its time; see `turn`.
    Turn,
    /// Whether another run is to be made, and the process that makes it; see `next_run`.
    NextRun,
    NextRunPid,
    /// Clients of whom input was taken, and up to which offset each: so many pairs, and how many there were in all.
    ClientCount,
    InputClients,
}

/// How many clients are remembered by the input that was taken from them.
const INPUT_CLIENTS: usize = 64;

const _: () = assert!(Word::InputClients as usize + 2 * INPUT_CLIENTS <= shared::WORDS);

const CAUSE_BY: usize = 0;
const SIGNAL_BY: usize = 1;

/// What keeper and guard have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Custody(Shared);

impl Custody {
    pub(crate) fn new() -> std::io::Result<Self> {
        Shared::new().map(Self)
    }

    pub(crate) fn get(self, word: Word) -> u64 {
        self.0.get(word as usize)
    }

    pub(crate) fn set(self, word: Word, value: u64) {
        self.0.set(word as usize, value);
    }

    /// Returns a moment that was set with [`Custody::set_moment`].
    pub(crate) fn moment(self, word: Word) -> Option<u64> {
        self.get(word).checked_sub(1)
    }

    pub(crate) fn set_moment(self, word: Word, moment: Option<u64>) {
        self.set(word, moment.map_or(0, |moment| moment.saturating_add(1)));
    }

    pub(crate) fn lend(self, word: Word, fd: impl AsFd) {
        self.0.lend(word as usize, fd.as_fd());
    }

    pub(crate) fn withdraw(self, word: Word) {
        self.0.withdraw(word as usize);
    }

    pub(crate) fn inherit(self, word: Word) -> Option<std::os::fd::OwnedFd> {
        self.0.inherit(word as usize)
    }

    /// Lists the descriptors that are lent now.
    pub(crate) fn lent(self) -> Vec<RawFd> {
        let words = [
            Word::Done,
            Word::Listener,
            Word::Starter,
            Word::Stdout,
            Word::Stderr,
            Word::Stdin,
            Word::QueueReading,
            Word::QueueWriting,
        ];
        words.into_iter().filter_map(|word| self.0.lent(word as usize)).collect()
    }

    /// Returns up to which offset input of a client was taken; 0 for a client without a number, which sends nothing twice.
    pub(crate) fn taken_from(self, client: u64) -> u64 {
        self.place_of(client).map_or(0, |place| self.0.get(place + 1))
    }

    /// Notes up to which offset input of a client was taken; the client that came first is forgotten.
    pub(crate) fn note_taken(self, client: u64, upto: u64) {
        if client == 0 {
            return;
        }
        if let Some(place) = self.place_of(client) {
            return self.0.set(place + 1, upto);
        }
        let count = self.get(Word::ClientCount);
        let place = Word::InputClients as usize + 2 * (count as usize % INPUT_CLIENTS);
        // In this order no client has, at any moment, what was taken of another.
        self.0.set(place, 0);
        self.0.set(place + 1, upto);
        self.0.set(place, client);
        self.set(Word::ClientCount, count + 1);
    }

    fn place_of(self, client: u64) -> Option<usize> {
        let mut places = (0..INPUT_CLIENTS).map(|place| Word::InputClients as usize + 2 * place);
        places.find(|place| client != 0 && self.0.get(*place) == client)
    }

    pub(crate) fn note_main(self, id: ProcessId) {
        self.set(Word::MainStart, id.start_time);
        self.set(Word::MainPid, u64::from(id.pid.cast_unsigned()));
    }

    pub(crate) fn main(self) -> Option<ProcessId> {
        let pid = i32::try_from(self.get(Word::MainPid)).ok().filter(|pid| *pid > 0)?;
        Some(ProcessId { pid, start_time: self.get(Word::MainStart) })
    }

    pub(crate) fn note_size(self, word: Word, size: TerminalSize) {
        self.set(word, u64::from(size.columns()) << 16 | u64::from(size.rows()));
    }

    pub(crate) fn size(self, word: Word) -> TerminalSize {
        let size = self.get(word);
        TerminalSize::new((size >> 16) as u16, size as u16)
    }

    pub(crate) fn note_level(self, level: Level) {
        let place = Level::ALL.iter().position(|known| *known == level).unwrap_or(0);
        self.set(Word::Level, place as u64 + 1);
    }

    pub(crate) fn level(self) -> Option<Level> {
        Level::ALL.get(usize::try_from(self.get(Word::Level)).ok()?.checked_sub(1)?).copied()
    }

    /// Notes how the main process ended, before it is reaped.
    pub(crate) fn note_end(self, main: &Reaped) {
        self.set(
            Word::Status,
            match main.status {
                WaitStatus::Exited(code) => u64::from(code.cast_unsigned()) << 8,
                WaitStatus::Signaled { signal, core } => {
                    u64::from(signal.cast_unsigned()) | u64::from(core) << 7
                }
            },
        );
        self.set(Word::UserMs, main.usage.user_ms);
        self.set(Word::SystemMs, main.usage.system_ms);
        self.set(Word::MaxRss, main.usage.max_rss_bytes);
        self.set(Word::HasEnded, 1);
    }

    /// Returns how the main process ended, if that is known.
    pub(crate) fn end(self) -> Option<Reaped> {
        let pid = self.main()?.pid;
        (self.get(Word::HasEnded) == 1).then(|| Reaped {
            pid,
            status: match self.get(Word::Status) {
                code if code & 0xff == 0 => WaitStatus::Exited((code >> 8) as i32),
                signal => WaitStatus::Signaled { signal: (signal & 0x7f) as i32, core: signal & 0x80 != 0 },
            },
            usage: Usage {
                user_ms: self.get(Word::UserMs),
                system_ms: self.get(Word::SystemMs),
                max_rss_bytes: self.get(Word::MaxRss),
            },
        })
    }

    pub(crate) fn note_cause(self, cause: &Cause) {
        let number = match cause {
            Cause::Timeout => 2,
            Cause::Kill { by } => {
                self.0.set_text(CAUSE_BY, by);
                3
            }
            Cause::Oom => 4,
            // What ends a job that goes on is one of the others.
            _ => 1,
        };
        self.set(Word::Cause, number);
    }

    pub(crate) fn cause(self) -> Option<Cause> {
        match self.get(Word::Cause) {
            1 => Some(Cause::Natural),
            2 => Some(Cause::Timeout),
            3 => Some(Cause::Kill { by: self.0.text(CAUSE_BY).unwrap_or_default() }),
            4 => Some(Cause::Oom),
            _ => None,
        }
    }

    pub(crate) fn note_signal(self, signal: i32, by: &str) {
        self.0.set_text(SIGNAL_BY, by);
        self.set(Word::LastSignal, u64::from(signal.cast_unsigned()));
    }

    pub(crate) fn last_signal(self) -> Option<(i32, String)> {
        let signal = i32::try_from(self.get(Word::LastSignal)).ok().filter(|signal| *signal > 0)?;
        Some((signal, self.0.text(SIGNAL_BY).unwrap_or_default()))
    }
}

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
            Self::Below(id) => shared::has_child_apart_ended(id.pid),
        }
    }

    /// Lets the guard go: the job is over.
    pub(crate) fn dismiss(self, custody: Custody) {
        custody.set(Word::Over, 1);
        fault::around(Point::GuardDismiss, || match self {
            Self::Above(id) if shared::is_parent(id.pid) => shared::end(id),
            Self::Above(_) => {}
            Self::Below(id) => shared::end_child_apart(id.pid),
        });
    }
}

/// Forks: the child returns at once, and is the keeper. The parent returns when the keeper has died before the job was over.
pub(crate) fn part(custody: Custody) -> std::io::Result<Part> {
    match fault::step(Point::GuardFork, || shared::fork_sharing_files(false))? {
        Forked::Child => {
            shared::lead_session();
            Ok(Part::Keeper)
        }
        Forked::Parent { child } => {
            shared::set_name(GUARD_NAME);
            shared::wait_for_child(child);
            become_keeper(custody);
            Ok(Part::Successor)
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

fn become_keeper(custody: Custody) {
    if custody.get(Word::Over) == 1 {
        std::process::exit(0);
    }
    shared::set_name(KEEPER_NAME);
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
        let (me, id) = (ProcessId::current(), self.custody.main());
        // While this process is the parent of the command, its number cannot mean another.
        if self.main.is_none() {
            self.main = id.and_then(Handle::open);
        }
        match fault::step(Point::GuardFork, || shared::fork_sharing_files(true)) {
            Ok(Forked::Parent { child }) => {
                self.guard = ProcessId::of(child).map(Guard::Below);
                self.meta.guard = self.guard.map(|guard| process(guard.id()));
                false
            }
            Ok(Forked::Child) => {
                shared::lead_session();
                shared::set_name(GUARD_NAME);
                shared::wait_for_end_of(me.pid);
                become_keeper(self.custody);
                self.take_over(buffer);
                true
            }
            // The next event is the next try.
            Err(_) => false,
        }
    }
}
