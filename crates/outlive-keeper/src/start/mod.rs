//! From a launch request to a running command.
//!
//! Everything that can fail happens before the command is executed, and whatever fails becomes the job's outcome.

mod ahead;
mod explain;
mod keeper;

use std::ffi::{CString, NulError};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use outlive_core::event::Event;
use outlive_core::file;
use outlive_core::launch::{Launch, LaunchError, LaunchReply, SyncOrder};
use outlive_core::options::Endpoint;
use outlive_core::outcome::{Cause, NeverStarted, OUTCOME_AT, Outcome, Totals, WaitStatus};
use outlive_core::rawtext::RawText;
use outlive_core::spec::Process;
use outlive_core::timestamp::Timestamp;
use outlive_core::wire::{HEADER, WireError};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::ProcessId;
use outlive_sys::region::Region;
use outlive_sys::spawn::{Command, Failure, Limits, Step};
use outlive_sys::{clock, durable, shared, socket, spawn};

use ahead::{Ahead, Inherited, Received};
use explain::explain;
pub(crate) use keeper::{Common, Held, Keeper, Main, snapshot};

use crate::containment::{CgroupFds, Containment, Preparation};
use crate::endpoint;
use crate::guard::{self, Guard, Part, Word};
use crate::on_exit::OnExit;
use crate::recorder::Recorder;
use crate::turn::{self, Turn};

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
    let mut ahead = Ahead::prepare()?;
    match ahead.part() {
        Part::Keeper => keep(ahead),
        Part::Successor => succeed(ahead),
    }
}

/// Takes the job, and executes its command.
#[inline(never)]
fn keep(ahead: Box<Ahead>) -> Result<(Box<Keeper>, Region), u8> {
    let (contents, mut received) = ahead.receive()?;
    let launch = match parse(&contents) {
        Ok(launch) => launch,
        Err(error) => return Err(received.decline(error)),
    };
    let mut on_exit = received.on_exit(&launch);
    received.entrust(&contents, on_exit.as_ref());
    let kept = prepare(received, &launch, on_exit.as_ref()).and_then(|prepared| {
        let (prepared, part) = take_turn(prepared, &launch, on_exit.as_ref())?;
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

/// Goes on in place of the keeper that this process has forked, which died: with what that had received, if it had a job.
#[inline(never)]
fn succeed(ahead: Box<Ahead>) -> Result<(Box<Keeper>, Region), u8> {
    let Inherited { contents, handed, preparation, common, umask, limits } = ahead.inherit()?;
    // The keeper that died has understood it.
    let contents = Some(contents);
    let launch = parse(&contents).map_err(|_| 4)?;
    let custody = common.custody;
    let mut on_exit = OnExit::new(&launch, custody.inherit(Word::OnExit), umask, limits);
    let terminal = endpoint::Terminal::inherit(custody);
    let needed = common.needed();
    guard::take_over(handed, &launch, preparation, common, terminal, &mut on_exit, &needed)
        .map_err(|refused| record_never(*refused, &launch, on_exit))
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

/// All that can fail before the command is executed has been done.
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
    let Received { handed, helper, preparation, ready, umask, limits } = *received;
    let mut common = match ready {
        Ok(common) => common,
        Err((what, error)) => {
            preparation.discard();
            return Err(Box::new((handed, Unstarted::Failed(store_failure(what, &error)))));
        }
    };
    let custody = common.custody;
    macro_rules! attempt {
        ($what:expr, $result:expr) => {
            match $result {
                Ok(value) => value,
                Err(error) => {
                    // The guard has nothing to keep: this process records why.
                    Guard::Above(preparation.owner).dismiss(custody);
                    shared::forget_peers();
                    preparation.discard();
                    return Err(Box::new((handed, Unstarted::Failed(store_failure($what, &error)))));
                }
            }
        };
    }
    let listener = attempt!(file::CONTROL, socket::listen_in(&handed.dir, file::CONTROL));
    let notices = launch.options.is_notified().then(|| socket::receive_in(&handed.dir, file::NOTIFY));
    let notices = attempt!(file::NOTIFY, notices.transpose());
    let mut ends = match endpoint::open(launch.options.endpoint(), custody) {
        Ok(ends) => ends,
        Err((what, error)) => attempt!(what, Err(error)),
    };
    if let Some(terminal) = &mut ends.terminal {
        terminal.answers.set_program(helper);
        terminal.lend(custody);
    }
    custody.lend(Word::Listener, &listener);
    notices.iter().for_each(|notices| custody.lend(Word::Notices, notices));
    (common.listener, common.notices) = (Some(listener), notices);
    let mut needed = common.needed();
    // Here once more: this process may become a guard itself.
    needed.extend(on_exit.map(OnExit::fd));
    Ok(Box::new(Prepared { handed, preparation, common, ends, needed, umask, limits }))
}

/// Waits for the time, the jobs or the queue that the command has to wait for. A job that waits has guards of its own.
fn take_turn(
    mut prepared: Box<Prepared>,
    launch: &Launch<'_>,
    on_exit: Option<&OnExit>,
) -> Result<(Box<Prepared>, Part), Refused> {
    if !launch.waits() {
        return Ok((prepared, Part::Keeper));
    }
    let ready = &mut *prepared;
    let custody = ready.common.custody;
    Guard::Above(ready.preparation.owner).dismiss(custody);
    custody.set(Word::Over, 0);
    ready.preparation.put_off();
    let waited = turn::wait(&mut ready.handed, launch, &ready.common, on_exit, &ready.needed);
    let unstarted = match waited {
        Ok(Turn::Come { guard }) => {
            ready.preparation.take_up(guard);
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
