//! Going on in place of a keeper that died: from the store, the descriptors and the page that both had.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use outlive_core::event::Kind;
use outlive_core::file;
use outlive_core::index::Stream;
use outlive_core::launch::Launch;
use outlive_core::meta::Meta;
use outlive_core::newer::OrNewer;
use outlive_core::outcome::{CLOSED_AT, Closed, FILE_BYTES, NeverStarted, OUTCOME_AT, Outcome};
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::clock::Alarm;
use outlive_sys::fault::Replacing;
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::region::Region;
use outlive_sys::{clock, durable, shared, tree};

use crate::containment::{Containment, Preparation};
use crate::ending::{EndEvent, Ending, Phase};
use crate::endpoint::{Output, Terminal};
use crate::guard::Word;
use crate::guard::foreground::Foreground;
use crate::input::Input;
use crate::killing::Killing;
use crate::on_exit::OnExit;
use crate::recorder::{Recorder, Taken};
use crate::start::{Common, Handed, Held, Keeper, Main, Refused, Unstarted, process};
use crate::terminal::awaits::InputWait;

/// How often to look whether a command that was just forked has executed its program.
const LOOK: Duration = Duration::from_millis(1);

/// How much of the end of the output tells whether it ends with a question.
const PROMPT: u64 = 4096;

/// Goes on; an error is a job of which nothing was started. Of descriptors it has those that are lent, and those that are `needed`.
pub(crate) fn take_over(
    handed: Handed,
    launch: &Launch<'_>,
    mut preparation: Preparation,
    mut common: Common,
    terminal: Option<Terminal>,
    on_exit: &mut Option<OnExit>,
    needed: &[RawFd],
) -> Result<(Box<Keeper>, Region), Refused> {
    let custody = common.custody;
    let Handed { lock, done, dir, outcome, index, log, starter } = handed;
    // The dead keeper may have closed these since, and their numbers may mean other files.
    std::mem::forget((done, log, starter, common.listener.take(), common.notices.take()));
    preparation.forget_dir();
    shared::close_all_but(&[&custody.lent(), needed].concat());
    // Not before: what this opens must stay open.
    if launch.waits() {
        preparation.take_up(ProcessId::current());
    }
    common.listener = custody.inherit(Word::Listener);
    common.notices = custody.inherit(Word::Notices);
    let (done, starter) = (custody.inherit(Word::Done), custody.inherit(Word::Starter).map(UnixStream::from));

    let Some(id) = custody.main().or_else(find_main) else {
        preparation.discard();
        let never = NeverStarted { step: "keeper".into(), ..NeverStarted::default() };
        let handed = Handed { lock, done, dir, outcome, index, log: None, starter };
        return Err(Box::new((handed, Unstarted::Failed(never))));
    };
    custody.note_main(id);
    let (limits, owner) = (&launch.options.limits, preparation.owner);
    let level = custody.level().and_then(|level| Containment::take_over(preparation, level, limits));
    // A guard that cannot go on leaves the job to the front ends, as an orphan.
    let Some((mut containment, limits_kept)) = level else { std::process::exit(1) };
    containment.began(id, Handle::open(id));
    let recorder = Recorder::resume(&dir, index, launch.options.output_cap_bytes, custody);
    let Ok(recorder) = recorder else { std::process::exit(1) };
    let outputs = Output::inherit(custody, terminal.is_some());
    let input = Input::inherit(custody);
    let held = Held { lock, done, dir, outcome, recorder, outputs, input, terminal };
    let main = Main {
        id,
        owner,
        started: Timestamp(custody.get(Word::Started)),
        started_boot_us: custody.get(Word::StartedBoot),
        containment,
        kept: limits_kept,
    };
    let (mut keeper, mut buffer) = Keeper::of(held, common, launch, main, None, on_exit.take());
    let starter = match keeper.resume(&mut buffer, Kind::KeeperReplaced) {
        false => starter,
        // This process answers in place of the one that began to.
        true => {
            std::mem::forget(starter);
            custody.inherit(Word::Starter).map(UnixStream::from)
        }
    };
    keeper.answer_starter(starter);
    Ok((keeper, buffer))
}

/// Finds the command that a keeper had started and not yet noted: it is a child now, and the only one. One that never executed its
/// program is none.
pub(crate) fn find_main() -> Option<ProcessId> {
    loop {
        let pid = tree::any_child()?;
        let id = ProcessId::of(pid)?;
        if tree::has_executed(pid)? {
            return Some(id);
        }
        if !id.is_alive() {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}

impl Keeper {
    /// Lists the descriptors that this keeper has from its beginning to its end.
    pub(super) fn needed(&self) -> Vec<RawFd> {
        let own = [self.lock.as_raw_fd(), self.dir.as_raw_fd(), self.outcome.as_raw_fd()];
        let mut needed = [&own[..], &self.transit.fds()].concat();
        needed.extend([self.recorder.index_fd(), self.child_ends.as_fd().as_raw_fd()]);
        needed.extend(self.main.iter().map(|main| main.as_fd().as_raw_fd()));
        needed.extend(self.containment.fd());
        needed.extend(self.on_exit.as_ref().map(OnExit::fd));
        needed.extend(self.terminal.iter().flat_map(Terminal::fds));
        needed.extend(self.foreground.iter().map(Foreground::fd));
        needed
    }

    /// Goes on in place of the parent of this process, which forked it when it was the keeper.
    pub(crate) fn take_over(&mut self, buffer: &mut [u8]) {
        let custody = self.custody;
        // What the dead keeper may have closed or replaced since.
        std::mem::forget((self.done.take(), self.listener.take(), self.notices.take(), self.alarm.take()));
        std::mem::forget((std::mem::take(&mut self.outputs), std::mem::take(&mut self.clients)));
        let survivors = self.ending.survivors;
        std::mem::forget(std::mem::replace(&mut self.ending, Ending::new(0, survivors)));
        self.input.forget();
        shared::close_all_but(&[custody.lent(), self.needed()].concat());
        let Some(main) = custody.main().filter(|_| self.recorder.reopen(&self.dir).is_ok()) else {
            std::process::exit(1)
        };
        (self.done, self.listener) = (custody.inherit(Word::Done), custody.inherit(Word::Listener));
        self.notices = custody.inherit(Word::Notices);
        self.outputs = Output::inherit(custody, self.terminal.is_some());
        self.input = Input::inherit(custody);
        self.ending = Ending::new(main.pid, survivors);
        self.alarm = self.deadline_us.and_then(|deadline| Alarm::at(deadline).ok());
        self.is_parent = false;
        self.containment.search_below(main);
        self.meta.keeper = Some(process(ProcessId::current()));
        self.resume(buffer, Kind::KeeperReplaced);
    }

    /// Brings this keeper to where the one before it was, and writes the event of it. Returns as [`Keeper::make_guard`] does.
    pub(super) fn resume(&mut self, buffer: &mut [u8], event: Kind) -> bool {
        let custody = self.custody;
        // First, and before the snapshot names this process: the next death may come as soon as it does. One that was upgraded has one.
        if self.guard.is_none() && self.make_guard(buffer) {
            return true;
        }
        self.resume_meta();
        if let Some(terminal) = &mut self.terminal {
            let size = custody.size(Word::Size);
            terminal.resume(custody.size(Word::OwnSize), size);
            self.recorder.resume_size(size);
        }
        self.finish_transit(buffer);
        self.resume_conversation();
        self.ending.cause = custody.cause();
        self.ending.last_signal = custody.last_signal();
        self.ending.survivors_us = custody.moment(Word::SurvivorsDue);
        let hard_from_us = custody.moment(Word::HardFrom).or_else(|| {
            let grace_us = self.grace_ms.saturating_mul(1000);
            self.ending.cause.as_ref().map(|_| clock::boot_us().saturating_add(grace_us))
        });
        self.ending.killing = hard_from_us.map(Killing::resume);
        if self.ending.cause.is_some() {
            (self.deadline_us, self.alarm) = (None, None);
        } else if self.meta.untimed {
            self.lift_timeout();
        }
        // What has ended meanwhile was told to the keeper that died.
        self.ending.has_more_to_reap = true;
        self.resume_ending();
        self.resume_next_run();
        self.write_meta(if self.ending.is_running() { Replacing::META_START } else { Replacing::META_END });
        self.write_event(&self.event(event));
        false
    }

    /// Takes from the snapshot what the keeper that died had noted there.
    fn resume_meta(&mut self) {
        let Some(old) = durable::read(&self.dir, file::META).ok() else { return };
        // One of a job that waits says nothing of the command.
        let Some(old) = Meta::parse(self.meta.nonce, &old).filter(|old| old.command.is_some()) else {
            return;
        };
        let (keeper, guard, protocol) = (self.meta.keeper, self.meta.guard, self.meta.protocol);
        self.meta = Meta { keeper, guard, protocol, outlive: self.meta.outlive.take(), ..old };
        self.containment.is_paused = self.meta.paused;
    }

    /// Records what the keeper that died had taken from the command and not yet written.
    fn finish_transit(&mut self, buffer: &mut [u8]) {
        let custody = self.custody;
        if custody.get(Word::Discarding) > 0 {
            self.recorder.discard(&self.transit, buffer, |_, _| ());
        }
        let stream = Stream::ALL[usize::from(custody.get(Word::Stream) == 1)];
        let taken = Taken { transit: &self.transit, stream, count: self.transit.held() };
        self.recorder.record(&self.dir, taken, buffer, Timestamp(clock::wall_us()), |_, _| ());
    }

    /// Finds in the log what the command asked its terminal and its user, and was not yet answered.
    fn resume_conversation(&mut self) {
        let mut tail = Vec::new();
        let from = self.recorder.end().saturating_sub(PROMPT);
        // Without it, a question may be told once more.
        self.recorder.read_from(&self.dir, from, |bytes, _| tail.extend_from_slice(bytes)).ok();
        let asked = self.meta.awaits.as_ref().and_then(OrNewer::known).copied();
        self.input_wait = InputWait::new(self.input.is_open());
        self.input_wait.resume(&tail, asked);
        let Some(terminal) = &mut self.terminal else { return };
        let answered = self.custody.get(Word::Answered);
        terminal.answers.begin_again(answered);
        self.recorder.read_from(&self.dir, answered, |bytes, end| terminal.look_through(bytes, end)).ok();
        if self.is_parent {
            self.custody.workers().for_each(|pid| self.containment.except(pid));
        }
        self.answer(None);
    }

    /// Goes on where the end of the job was being recorded.
    fn resume_ending(&mut self) {
        let mut slots = [0; FILE_BYTES as usize];
        self.outcome.read_exact_at(&mut slots, 0).ok();
        let Some(outcome) = Outcome::from_slot(&slots[OUTCOME_AT as usize..]) else { return };
        let Some(main) = self.custody.end() else { return };
        self.meta.status = Status::of(&outcome).into();
        self.meta.outcome = Some(outcome);
        self.meta.closed = Closed::from_slot(&slots[CLOSED_AT as usize..]);
        let end_event =
            if self.custody.get(Word::HasEndEvent) == 1 { EndEvent::Written } else { EndEvent::Missing };
        let is_closed = self.meta.closed.is_some();
        self.ending.phase = if is_closed { Phase::Closed } else { Phase::Lingering { main, end_event } };
        match (self.done.is_some(), is_closed) {
            (true, true) => drop(self.announce()),
            (true, false) => drop(self.linger(main)),
            (false, true) => self.remove_mark(end_event),
            (false, false) => {}
        }
    }
}
