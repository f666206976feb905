//! From a launch request to a running command.
//!
//! Everything that can fail happens before the command is executed, and whatever fails becomes the job's outcome.

mod explain;
mod keeper;

use std::ffi::{CString, NulError};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use outlive_core::event::Event;
use outlive_core::file;
use outlive_core::launch::{Launch, LaunchError, LaunchReply, SyncOrder, VERSION};
use outlive_core::options::Endpoint;
use outlive_core::outcome::{Cause, NeverStarted, OUTCOME_AT, Outcome, Totals, WaitStatus};
use outlive_core::rawtext::RawText;
use outlive_core::spec::Process;
use outlive_core::timestamp::Timestamp;
use outlive_core::wire::{HEADER, MAX_FRAME, WireError};
use outlive_sys::cgroup::Hierarchies;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::ProcessId;
use outlive_sys::keeper::{LockPlace, SPARE};
use outlive_sys::region::Region;
use outlive_sys::signal::ChildEnds;
use outlive_sys::spawn::{Command, Failure, Limits, Step};
use outlive_sys::{clock, detach, durable, inherited, shared, signal, socket, spawn};

use explain::explain;
pub(crate) use keeper::{Common, Held, Keeper, Main, snapshot};

use crate::containment::{CgroupFds, Containment, Preparation};
use crate::endpoint;
use crate::guard::{self, Custody, Guard, Part, Word};
use crate::on_exit::OnExit;
use crate::recorder::{Recorder, Transit};
use crate::supervise::BUFFER;
use crate::turn::{self, Turn};

/// How long the starter may take to send the rest of its request.
const LAUNCH_LIMIT: Duration = Duration::from_secs(60);

/// What came with the launch request.
pub(crate) struct Handed {
    pub(crate) lock: OwnedFd,
    pub(crate) done: Option<OwnedFd>,
    pub(crate) dir: OwnedFd,
    pub(crate) outcome: File,
    pub(crate) index: File,
    pub(crate) log: Option<File>,
    pub(crate) starter: Option<UnixStream>,
}

/// Why a command was not executed.
pub(crate) enum Unstarted {
    /// A step failed.
    Failed(NeverStarted),
    /// The job was ended while it waited.
    Stopped { by: String },
}

/// A command that was not executed, and what came for it.
pub(crate) type Refused = Box<(Handed, Unstarted)>;

/// Starts the command; returns the buffer that its output is read into, too. An error is the exit status of a keeper that has nothing to keep.
///
/// The guard sleeps for as long as the job runs on the stack that it has when it is forked. So each of the steps is a call of its
/// own, and leaves what it made on the heap.
pub(crate) fn start() -> Result<(Box<Keeper>, Region), u8> {
    let (contents, mut received) = receive_job()?;
    let launch = match parse(&contents) {
        Ok(launch) => launch,
        Err(error) => return Err(received.decline(error)),
    };
    let mut on_exit = received.on_exit(&launch);
    let kept = prepare(received, &launch, on_exit.as_ref()).and_then(|prepared| {
        let (prepared, part) = part(prepared, &launch, on_exit.as_ref())?;
        match part {
            Part::Keeper => execute(prepared, &launch, &mut on_exit),
            Part::Successor => {
                let Prepared { handed, preparation, common, ends, needed, .. } = *prepared;
                let endpoint::Ends { outputs, input, terminal, stdio } = ends;
                std::mem::forget((outputs, input, stdio));
                guard::take_over(handed, &launch, preparation, common, terminal, &mut on_exit, &needed)
            }
        }
    });
    kept.map_err(|refused| record_never(*refused, &launch, on_exit))
}

/// What there is of a job when its launch request has come.
struct Received {
    handed: Handed,
    /// The program that `outlive` is, where the job needs it later.
    helper: Option<OwnedFd>,
    preparation: Preparation,
    umask: u32,
    limits: Limits,
}

impl Received {
    /// Ends a job whose request cannot be understood; returns the exit status.
    fn decline(self: Box<Self>, error: LaunchError) -> u8 {
        self.preparation.discard();
        match (error, self.handed.starter) {
            (LaunchError::Version(_), starter) => {
                if let Some(mut starter) = starter {
                    starter.write_all(&LaunchReply::OtherVersion(VERSION).to_frame()).ok();
                }
                3
            }
            // The starter died half-way. Its intent is in the store: the next front end finds that no keeper holds the lock, and
            // writes the outcome and its event. The session to write to is not known here.
            (LaunchError::Wire(_), _) => 4,
        }
    }

    /// Keeps the program for the end of the job, if it needs one then; only a terminal needs it before.
    #[inline(never)]
    fn on_exit(&mut self, launch: &Launch<'_>) -> Option<OnExit> {
        let helper = self.helper.take();
        self.helper =
            helper.as_ref().filter(|_| launch.options.pty).and_then(|helper| helper.try_clone().ok());
        OnExit::new(launch, helper, self.umask, self.limits)
    }
}

/// Waits for the launch request, and prepares meanwhile what does not depend on it.
#[inline(never)]
fn receive_job() -> Result<(Option<Region>, Box<Received>), u8> {
    let [starter] = detach::inherited().ok_or(2)?;
    let lock_place = LockPlace::reserve(&starter).map_err(|_| 2)?;
    signal::block_all();
    signal::default_actions();
    let limits = Limits::lift();
    let umask = spawn::set_umask(0o077);
    let mut starter = UnixStream::from(starter);
    // Only looked at, and so known to a spare keeper before there is a job.
    let (hierarchies, me) = (Hierarchies::discover(), ProcessId::current());
    if std::env::args_os().nth(1).is_some_and(|argument| argument == SPARE) {
        spawn::leave_directory();
        wake(&mut starter).ok_or(4)?;
    }
    // While the starter prepares the job.
    let preparation = Preparation::prepare(hierarchies, me);
    // A starter that sends no request leaves nothing to keep.
    let received =
        fault::step(Point::LaunchReceive, || receive(&mut starter).ok_or(io::ErrorKind::Other.into()));
    let Ok((contents, fds)) = received else {
        preparation.discard();
        return Err(4);
    };
    let mut fds = fds;
    let helper = if fds.len() > 6 { fds.pop() } else { None };
    let [lock, done, dir, outcome, index, log] = <[OwnedFd; 6]>::try_from(fds).map_err(|_| 4)?;
    let lock = lock_place.fill(lock).map_err(|_| 4)?;
    let (outcome, index, log) = (outcome.into(), index.into(), Some(log.into()));
    let handed = Handed { lock, done: Some(done), dir, outcome, index, log, starter: Some(starter) };
    Ok((contents, Box::new(Received { handed, helper, preparation, umask, limits })))
}

#[inline(never)]
fn parse(contents: &Option<Region>) -> Result<Box<Launch<'_>>, LaunchError> {
    let cut_short = LaunchError::Wire(WireError::Short);
    let contents = contents.as_ref().ok_or(cut_short)?;
    Launch::parse(&contents[HEADER..]).map(Box::new)
}

/// Records that a command was not executed; returns the exit status.
#[inline(never)]
fn record_never(
    (handed, unstarted): (Handed, Unstarted),
    launch: &Launch<'_>,
    on_exit: Option<OnExit>,
) -> u8 {
    let cause = match &unstarted {
        Unstarted::Failed(never) => Cause::NeverStarted(never.clone()),
        Unstarted::Stopped { by } => Cause::Kill { by: by.clone() },
    };
    let outcome = Outcome {
        wait_status: WaitStatus::Unknown,
        cause,
        ended: Timestamp(clock::wall_us()),
        runtime_ms: None,
        usage: None,
        totals: Totals::default(),
    };
    // If not even this is possible, readers find a free lock and no outcome, which says the same.
    let slots = crate::ending::both_slots(&outcome, outcome.ended);
    fault::write_all_at(Point::NeverWrite, &handed.outcome, &slots, OUTCOME_AT).ok();
    let sync_if = |order: SyncOrder| {
        if launch.sync == order {
            fault::step(Point::NeverSync, || handed.outcome.sync_data()).ok();
        }
    };
    sync_if(SyncOrder::Before);
    let event = Event::of_outcome(&launch.job, launch.nonce, &outcome);
    // A mark that is left makes the next front end write the event.
    if crate::event_writer::append(&handed.dir, &launch.live_mark, &event) {
        let mark = live_path(&launch.live_mark);
        fault::step(Point::NeverMark, || durable::remove(&handed.dir, &mark)).ok();
    }
    if launch.waits() {
        turn::note_end(&handed.dir, launch, &outcome);
    }
    drop((handed.done, handed.lock));
    if let (Some(mut starter), Unstarted::Failed(never)) = (handed.starter, unstarted) {
        let reply = LaunchReply::NotStarted(never).to_frame();
        fault::step(Point::NeverReply, || starter.write_all(&reply)).ok();
    }
    sync_if(SyncOrder::After);
    // What could not be executed this time may be the next. If this comes to nothing, the next front end does it.
    if let Some(on_exit) = on_exit.as_ref().filter(|_| launch.options.schedule.is_wanted_after(&outcome)) {
        fault::step(Point::NextRunExec, || on_exit.start_next_run().ok_or(io::ErrorKind::Other.into())).ok();
    }
    if let Some(on_exit) = on_exit {
        on_exit.exec(&handed.dir);
    }
    5
}

/// Returns the mark's path, seen from the job's directory.
pub(crate) fn live_path(mark: &str) -> String {
    format!("../../live/{mark}")
}

/// Waits, as a spare keeper that touches nothing, until its starter prepares a job. Answers what a keeper would inherit that is
/// executed now: the starter knows what it was when this one was.
fn wake(starter: &mut UnixStream) -> Option<()> {
    let fds = socket::receive_with(starter, &mut [0]).ok()?;
    let inherited = fds.first().and_then(inherited::describe).unwrap_or_default();
    let length = u32::try_from(inherited.len()).ok()?;
    starter.write_all(&[&length.to_le_bytes(), inherited.as_bytes()].concat()).ok()
}

/// Reads the frame with the launch request, header included, and the descriptors that come with it; the frame is `None`
/// if it is cut short.
///
/// Into a mapping of its own: the environment is large, and is not needed once the command runs. There is no limit to the
/// wait: this keeper may have been started ahead of need, and its starter's end is the end of the socket.
fn receive(starter: &mut UnixStream) -> Option<(Option<Region>, Vec<OwnedFd>)> {
    let mut header = [0; HEADER];
    let fds = socket::receive_with(starter, &mut header).ok()?;
    starter.set_read_timeout(Some(LAUNCH_LIMIT)).ok()?;
    let length = u32::from_le_bytes(header) as usize;
    let mut contents = || {
        let mut region = Region::new(HEADER + length).ok()?;
        region[..HEADER].copy_from_slice(&header);
        starter.read_exact(&mut region[HEADER..]).ok()?;
        Some(region)
    };
    let contents = if length <= MAX_FRAME { contents() } else { None };
    Some((contents, fds))
}

/// All that can fail before the guard is forked has been done.
struct Prepared {
    handed: Handed,
    preparation: Preparation,
    common: Common,
    ends: endpoint::Ends,
    /// The descriptors that a keeper has from its beginning to its end.
    needed: Vec<RawFd>,
    umask: u32,
    limits: Limits,
}

#[inline(never)]
fn prepare(
    received: Box<Received>,
    launch: &Launch<'_>,
    on_exit: Option<&OnExit>,
) -> Result<Box<Prepared>, Refused> {
    let Received { handed, helper, preparation, umask, limits } = *received;
    macro_rules! attempt {
        ($what:expr, $result:expr) => {
            match $result {
                Ok(value) => value,
                Err(error) => {
                    preparation.discard();
                    return Err(Box::new((handed, Unstarted::Failed(store_failure($what, &error)))));
                }
            }
        };
    }
    // Now: without it the command would run, and nothing would read what it prints.
    let buffer = attempt!("memory for its output", fault::step(Point::BufferMap, || Region::new(BUFFER)));
    let custody = attempt!("memory for its guard", Custody::new());
    let transit = attempt!("a pipe", Transit::new());
    let listener = attempt!(file::CONTROL, socket::listen_in(&handed.dir, file::CONTROL));
    let notices = launch.options.is_notified().then(|| socket::receive_in(&handed.dir, file::NOTIFY));
    let notices = attempt!(file::NOTIFY, notices.transpose());
    let child_ends = attempt!("the signal descriptor", fault::step(Point::SignalFd, ChildEnds::new));
    let mut ends = match endpoint::open(launch.options.endpoint(), custody) {
        Ok(ends) => ends,
        Err((what, error)) => attempt!(what, Err(error)),
    };
    if let Some(terminal) = &mut ends.terminal {
        terminal.answers.set_program(helper);
    }
    for (word, fd) in [
        (Word::Done, handed.done.as_ref().map(AsFd::as_fd)),
        (Word::Listener, Some(listener.as_fd())),
        (Word::Notices, notices.as_ref().map(AsFd::as_fd)),
        (Word::Starter, handed.starter.as_ref().map(AsFd::as_fd)),
    ] {
        fd.into_iter().for_each(|fd| custody.lend(word, fd));
    }
    let common = Common { custody, transit, listener: Some(listener), notices, child_ends, buffer };
    let needed = needed(&handed, &common, ends.terminal.as_ref(), on_exit);
    Ok(Box::new(Prepared { handed, preparation, common, ends, needed, umask, limits }))
}

/// Forks the guard, once the command may be executed.
fn part(
    mut prepared: Box<Prepared>,
    launch: &Launch<'_>,
    on_exit: Option<&OnExit>,
) -> Result<(Box<Prepared>, Part), Refused> {
    let ready = &mut *prepared;
    let parted = if launch.waits() {
        ready.preparation.put_off();
        turn::wait(&mut ready.handed, launch, &ready.common, on_exit, &ready.needed)
    } else {
        guard::part(ready.common.custody, &ready.needed).map(Turn::from)
    };
    let unstarted = match parted {
        Ok(Turn::Come { guard }) => {
            if let Some(guard) = guard {
                ready.preparation.take_up(guard);
            }
            return Ok((prepared, Part::Keeper));
        }
        Ok(Turn::Successor) => return Ok((prepared, Part::Successor)),
        Ok(Turn::Over(unstarted)) => unstarted,
        Err(error) => Unstarted::Failed(store_failure("its guard", &error)),
    };
    let Prepared { handed, preparation, .. } = *prepared;
    preparation.discard();
    Err(Box::new((handed, unstarted)))
}

/// Executes the command.
#[inline(never)]
fn execute(
    prepared: Box<Prepared>,
    launch: &Launch<'_>,
    on_exit: &mut Option<OnExit>,
) -> Result<(Box<Keeper>, Region), Refused> {
    let Prepared { mut handed, preparation, common, ends, umask, limits, .. } = *prepared;
    let (custody, guard) = (common.custody, preparation.owner);
    spawn::adopt_orphans();
    let (started, started_boot_us) = (Timestamp(clock::wall_us()), clock::boot_us());
    custody.set(Word::Started, started.0);
    custody.set(Word::StartedBoot, started_boot_us);
    let stdio = ends.stdio.each_ref().map(AsFd::as_fd);
    let limited = &launch.options.limits;
    let started_here =
        Containment::start(preparation, launch.options.containment, limited, |level, cgroup_fds| {
            custody.note_level(level);
            if launch.waits() {
                custody.set(Word::Turn, turn::COME);
            }
            execute_in(launch, stdio, umask, &limits, cgroup_fds)
        });
    let (mut containment, kept, child) = match started_here {
        Ok(started) => started,
        Err(never) => {
            // The guard has nothing to keep: this process records why.
            Guard::Above(guard).dismiss(custody);
            shared::forget_peers();
            return Err(Box::new((handed, Unstarted::Failed(never))));
        }
    };
    custody.note_main(child.id);
    drop(ends.stdio);
    containment.began(child.id, Some(child.handle));
    let Some(log) = handed.log.take() else { unreachable!("the log comes with the launch request") };
    let index = handed.index;
    let mut recorder = Recorder::new(index, log, launch.options.output_cap_bytes, custody);
    if let Endpoint::Terminal { size } = launch.options.endpoint() {
        recorder.resize(size, started);
    }
    let main = Main { id: child.id, owner: guard, started, started_boot_us, containment, kept };
    let (lock, done, dir) = (handed.lock, handed.done, handed.dir);
    let held = Held {
        lock,
        done,
        dir,
        outcome: handed.outcome,
        recorder,
        outputs: ends.outputs,
        input: ends.input,
        terminal: ends.terminal,
    };
    let (keeper, buffer) = Keeper::of(held, common, launch, main, Some(Guard::Above(guard)), on_exit.take());
    keeper.write_meta(Replacing::META_START);
    keeper.answer_starter(handed.starter);
    Ok((keeper, buffer))
}

/// Lists the descriptors that a keeper has from its beginning to its end.
fn needed(
    handed: &Handed,
    common: &Common,
    terminal: Option<&endpoint::Terminal>,
    on_exit: Option<&OnExit>,
) -> Vec<RawFd> {
    let files = [handed.outcome.as_raw_fd(), handed.index.as_raw_fd()];
    let own = [handed.lock.as_raw_fd(), handed.dir.as_raw_fd(), common.child_ends.as_fd().as_raw_fd()];
    let mut needed = [&files[..], &own, &common.transit.fds()].concat();
    needed.extend(on_exit.map(OnExit::fd));
    needed.extend(terminal.into_iter().flat_map(endpoint::Terminal::fds));
    needed
}

pub(crate) fn process(id: ProcessId) -> Process {
    Process { pid: id.pid, start_time: id.start_time }
}

fn execute_in(
    launch: &Launch<'_>,
    stdio: [std::os::fd::BorrowedFd<'_>; 3],
    umask: u32,
    limits: &Limits,
    cgroup_fds: &CgroupFds<'_>,
) -> Result<spawn::Child, (bool, NeverStarted)> {
    let nul = |_| {
        let detail = Some("an argument or variable holds a NUL byte".into());
        (false, NeverStarted { step: "exec".into(), detail, ..NeverStarted::default() })
    };
    let candidates = strings(&launch.candidates).map_err(nul)?;
    let argv = strings(&launch.argv).map_err(nul)?;
    let environment = strings(&launch.environment).map_err(nul)?;
    let directory = CString::new(launch.cwd).map_err(nul)?;
    let command = Command {
        candidates: &candidates,
        argv: &argv,
        environment: &environment,
        directory: &directory,
        stdio,
        has_terminal: launch.options.pty,
        umask,
        limits,
        group: cgroup_fds.directory,
        cgroup_procs: &cgroup_fds.procs(),
        open_files: launch.options.limits.open_files,
        nice: launch.options.nice,
    };
    let started = fault::step(Point::CommandExec, || Ok(spawn::start(&command))).unwrap_or_else(|error| {
        Err(Failure { step: Step::Fork, errno: error.raw_os_error().unwrap_or(0), candidate: 0 })
    });
    started.map_err(|failure| (failure.step == Step::Group, explain(&failure, launch)))
}

/// Returns strings as C has them; an error if one holds a NUL byte.
pub(crate) fn strings(parts: &[&[u8]]) -> Result<Vec<CString>, NulError> {
    parts.iter().map(|part| CString::new(*part)).collect()
}

fn store_failure(what: &str, error: &io::Error) -> NeverStarted {
    NeverStarted {
        step: "store".into(),
        errno: error.raw_os_error(),
        path: Some(RawText::from(what)),
        detail: None,
    }
}
