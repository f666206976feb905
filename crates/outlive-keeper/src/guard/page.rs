//! The page that keeper and guard have in common: what is neither in the store nor in the descriptors.

use std::os::fd::{AsFd, RawFd};

use outlive_core::containment::Level;
use outlive_core::outcome::Cause;
use outlive_core::terminal::size::TerminalSize;
use outlive_sys::identity::ProcessId;
use outlive_sys::region::Region;
use outlive_sys::shared::{self, Shared};
use outlive_sys::signal::Signal;
use outlive_sys::spawn::{Reaped, Usage, WaitStatus};

use super::word::{FOR_THE_FIRST_GUARD, Word};

/// The version of the page. A program that is executed in place of a keeper must know it: words are only added, and what changes the
/// meaning of one makes another version.
pub(crate) const PAGE_VERSION: u64 = 1;

/// How many processes may work for the keeper at once: one finds out an answer, one keeps a screen.
const WORKERS: usize = 4;

/// Who is executing the new program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    None,
    Keeper,
    Guard,
}

/// How many clients are remembered by the input that was taken from them.
const INPUT_CLIENTS: usize = 64;

const _: () = assert!(Word::InputClients as usize + 2 * INPUT_CLIENTS <= shared::WORDS);
const _: () = assert!(Word::Workers as usize + WORKERS <= Word::InputClients as usize);
const _: () = assert!((Word::Asked as usize) < Word::Workers as usize);

const CAUSE_BY: usize = 0;
const SIGNAL_BY: usize = 1;

/// What keeper and guard have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Custody {
    page: Shared,
    /// The number of upgrades that have led to this program.
    pub(super) generation: u64,
}

impl Custody {
    pub(crate) fn new() -> std::io::Result<Self> {
        let custody = Self { page: Shared::new()?, generation: 0 };
        custody.set(Word::Version, PAGE_VERSION);
        Ok(custody)
    }

    /// Takes over the page of the program that this one was executed in place of; `None` if it is of a later version.
    pub(super) fn inherited(fd: RawFd) -> Option<Self> {
        let custody = Self { page: Shared::inherited(fd).ok()?, generation: 0 };
        let generation = custody.get(Word::Generation);
        (1..=PAGE_VERSION).contains(&custody.get(Word::Version)).then_some(Self { generation, ..custody })
    }

    /// The same page, for the next version of the program.
    pub(super) fn upgraded(self) -> Self {
        Self { generation: self.generation + 1, ..self }
    }

    /// Returns the number of the page's descriptor.
    pub(super) fn fd(self) -> RawFd {
        self.page.fd()
    }

    /// Makes this process the keeper in place of one that died; `false` if another process did.
    pub(super) fn claim(self, dead: i32) -> bool {
        let (dead, me) = (u64::from(dead.cast_unsigned()), u64::from(std::process::id()));
        // One that died at once has not yet put its own there.
        [dead, 0].into_iter().any(|before| self.page.exchange(Word::KeeperPid as usize, before, me))
    }

    /// Tells whether the first guard is the process that an engine's script has become.
    pub(crate) fn is_foreground(self) -> bool {
        self.get(Word::Foreground) == 1
    }

    /// Notes a signal by which the engine asks for the end of the job; the first one counts.
    pub(crate) fn note_asked(self, signal: Signal) {
        self.page.exchange(Word::Asked as usize, 0, u64::from(signal.number().cast_unsigned()));
    }

    /// Returns the signal by which the engine has asked for the end of the job.
    pub(crate) fn asked(self) -> Option<Signal> {
        Signal::from_number(i32::try_from(self.get(Word::Asked)).ok()?)
    }

    pub(super) fn phase(self) -> Phase {
        match self.get(Word::Phase) {
            1 => Phase::Keeper,
            2 => Phase::Guard,
            _ => Phase::None,
        }
    }

    pub(super) fn set_phase(self, phase: Phase, due_us: Option<u64>) {
        self.set_moment(Word::PhaseDue, due_us);
        self.set(Word::Phase, phase as u64);
    }

    /// When the phase of an upgrade that is under way must be over.
    pub(super) fn due_us(self, phase: Phase) -> Option<u64> {
        self.moment(Word::PhaseDue).filter(|_| self.phase() == phase)
    }

    /// Returns room for a launch request, or that with what stands in it.
    pub(crate) fn room(self, length: usize) -> std::io::Result<Region> {
        self.page.room(length)
    }

    /// Keeps what a program needs that is executed in place of this one or of its guard, apart from what is kept now.
    pub(super) fn write_handover(self, bytes: &[u8]) -> std::io::Result<()> {
        let place = usize::from(self.get(Word::Handover) == 1);
        self.page.write_behind(place, bytes)?;
        self.set(Word::Handover, place as u64 + 1);
        Ok(())
    }

    pub(super) fn read_handover(self) -> Option<Vec<u8>> {
        let place = usize::from(self.get(Word::Handover) == 2);
        self.page.read_behind(place, 2 * outlive_core::wire::MAX_FRAME).ok()
    }

    /// Tells whether keeper and guard have two tables of descriptors.
    pub(crate) fn is_split(self) -> bool {
        self.get(Word::IsSplit) == 1
    }

    /// Notes that keeper and guard have two tables from now on.
    pub(super) fn split(self, guard: ProcessId) {
        if self.get(Word::Stdin) != 0 {
            self.set(Word::SplitStdin, self.get(Word::Stdin));
        }
        self.set(Word::SplitSlot, self.get(Word::Slot));
        self.set(Word::SplitGuardStart, guard.start_time);
        self.set(Word::SplitGuardPid, u64::from(guard.pid.cast_unsigned()));
        self.set(Word::IsSplit, 1);
    }

    /// Lets a guard that has its own table close what is no longer lent.
    pub(crate) fn tell_split_guard(self) {
        let pid = i32::try_from(self.get(Word::SplitGuardPid)).ok();
        if let Some(pid) = pid.filter(|_| self.is_split()) {
            shared::tell(ProcessId { pid, start_time: self.get(Word::SplitGuardStart) });
        }
    }

    /// Closes the guard's own copy of the command's input.
    pub(super) fn close_split_stdin(self) {
        drop(self.page.inherit(Word::SplitStdin as usize));
    }

    /// Closes the guard's own copy of a slot that was given back: the next job waits for the last copy.
    pub(super) fn close_split_slot(self) {
        drop(self.page.inherit(Word::SplitSlot as usize));
    }

    /// Notes a process that works for the keeper.
    pub(crate) fn add_worker(self, pid: u32) {
        let mut places = Self::workers_at();
        if let Some(place) = places.find(|place| self.page.get(*place) == 0) {
            self.page.set(place, pid.into());
        }
    }

    /// Forgets one that was reaped.
    pub(crate) fn remove_worker(self, pid: i32) {
        let pid = u64::from(pid.cast_unsigned());
        Self::workers_at()
            .filter(|place| self.page.get(*place) == pid)
            .for_each(|place| self.page.set(place, 0));
    }

    pub(crate) fn workers(self) -> impl Iterator<Item = u32> {
        Self::workers_at()
            .filter_map(move |place| u32::try_from(self.page.get(place)).ok())
            .filter(|pid| *pid > 0)
    }

    fn workers_at() -> std::ops::Range<usize> {
        Word::Workers as usize..Word::Workers as usize + WORKERS
    }

    pub(crate) fn get(self, word: Word) -> u64 {
        self.page.get(word as usize)
    }

    pub(crate) fn set(self, word: Word, value: u64) {
        self.page.set(word as usize, value);
    }

    /// Returns a moment that was set with [`Custody::set_moment`].
    pub(crate) fn moment(self, word: Word) -> Option<u64> {
        self.get(word).checked_sub(1)
    }

    pub(crate) fn set_moment(self, word: Word, moment: Option<u64>) {
        self.set(word, moment.map_or(0, |moment| moment.saturating_add(1)));
    }

    pub(crate) fn lend(self, word: Word, fd: impl AsFd) {
        self.page.lend(word as usize, fd.as_fd());
    }

    pub(crate) fn withdraw(self, word: Word) {
        self.page.withdraw(word as usize);
    }

    pub(crate) fn inherit(self, word: Word) -> Option<std::os::fd::OwnedFd> {
        self.page.inherit(word as usize)
    }

    /// Lists the descriptors that are lent now, and the page's own.
    pub(crate) fn lent(self) -> Vec<RawFd> {
        let words = [
            Word::Done,
            Word::Listener,
            Word::Notices,
            Word::Starter,
            Word::Stdout,
            Word::Stderr,
            Word::Stdin,
            Word::QueueReading,
            Word::QueueWriting,
            Word::Ticket,
            Word::Slot,
        ];
        let lent =
            words.into_iter().chain(FOR_THE_FIRST_GUARD).filter_map(|word| self.page.lent(word as usize));
        lent.chain([self.fd()]).collect()
    }

    /// Forgets what only the first guard finds in the page: it is gone, and each one after it is forked with all that its keeper has. The
    /// numbers may mean other files from now on.
    pub(super) fn forget_first_guard(self) {
        FOR_THE_FIRST_GUARD.into_iter().for_each(|word| self.withdraw(word));
    }

    /// Returns up to which offset input of a client was taken; 0 for a client without a number, which sends nothing twice.
    pub(crate) fn taken_from(self, client: u64) -> u64 {
        self.place_of(client).map_or(0, |place| self.page.get(place + 1))
    }

    /// Notes up to which offset input of a client was taken; the client that came first is forgotten.
    pub(crate) fn note_taken(self, client: u64, upto: u64) {
        if client == 0 {
            return;
        }
        if let Some(place) = self.place_of(client) {
            return self.page.set(place + 1, upto);
        }
        let count = self.get(Word::ClientCount);
        let place = Word::InputClients as usize + 2 * (count as usize % INPUT_CLIENTS);
        // In this order no client has, at any moment, what was taken of another.
        self.page.set(place, 0);
        self.page.set(place + 1, upto);
        self.page.set(place, client);
        self.set(Word::ClientCount, count + 1);
    }

    fn place_of(self, client: u64) -> Option<usize> {
        let mut places = (0..INPUT_CLIENTS).map(|place| Word::InputClients as usize + 2 * place);
        places.find(|place| client != 0 && self.page.get(*place) == client)
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
                self.page.set_text(CAUSE_BY, by);
                3
            }
            Cause::Oom => 4,
            Cause::Overlap => 5,
            // What ends a job that goes on is one of the others.
            _ => 1,
        };
        self.set(Word::Cause, number);
    }

    pub(crate) fn cause(self) -> Option<Cause> {
        match self.get(Word::Cause) {
            1 => Some(Cause::Natural),
            2 => Some(Cause::Timeout),
            3 => Some(Cause::Kill { by: self.page.text(CAUSE_BY).unwrap_or_default() }),
            4 => Some(Cause::Oom),
            5 => Some(Cause::Overlap),
            _ => None,
        }
    }

    pub(crate) fn note_signal(self, signal: i32, by: &str) {
        self.page.set_text(SIGNAL_BY, by);
        self.set(Word::LastSignal, u64::from(signal.cast_unsigned()));
    }

    pub(crate) fn last_signal(self) -> Option<(i32, String)> {
        let signal = i32::try_from(self.get(Word::LastSignal)).ok().filter(|signal| *signal > 0)?;
        Some((signal, self.page.text(SIGNAL_BY).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_goes_on_in_place_of_a_keeper() {
        let custody = Custody::new().unwrap();
        assert!(custody.claim(7), "it died before it noted itself");
        assert_eq!(custody.get(Word::KeeperPid), u64::from(std::process::id()));
        assert!(!custody.claim(7), "another one was first");
        custody.set(Word::KeeperPid, 7);
        assert!(custody.claim(7));
    }

    #[test]
    fn a_handover_holds_until_the_next_is_whole() {
        let custody = Custody::new().unwrap();
        for bytes in [&b"first"[..], b"second", b"third"] {
            custody.write_handover(bytes).unwrap();
            assert_eq!(custody.read_handover().as_deref(), Some(bytes));
        }
    }

    #[test]
    fn workers_come_and_go() {
        let custody = Custody::new().unwrap();
        (1..=6).for_each(|pid| custody.add_worker(pid));
        custody.remove_worker(2);
        assert_eq!(custody.workers().collect::<Vec<_>>(), [1, 3, 4]);
        custody.add_worker(9);
        assert_eq!(custody.workers().collect::<Vec<_>>(), [1, 9, 3, 4]);
    }

    #[test]
    fn a_page_of_a_later_version_is_refused() {
        let custody = Custody::new().unwrap();
        assert!(Custody::inherited(custody.fd()).is_some());
        custody.set(Word::Version, PAGE_VERSION + 1);
        assert!(Custody::inherited(custody.fd()).is_none());
    }
}
