//! From a launch request to a running command.
//!
//! Everything that can fail happens before the command is executed, and whatever fails becomes the job's outcome.

use std::ffi::{CString, NulError};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use outlive_core::control::SPOKEN;
use outlive_core::event::{Event, Kind};
use outlive_core::file;
use outlive_core::launch::{Launch, LaunchError, LaunchReply, SyncOrder, VERSION};
use outlive_core::meta::Meta;
use outlive_core::options::Endpoint;
use outlive_core::outcome::{Cause, NeverStarted, OUTCOME_AT, Outcome, Totals, WaitStatus};
use outlive_core::rawtext::RawText;
use outlive_core::spec::Process;
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_core::wire::{HEADER, MAX_FRAME};
use outlive_sys::cgroup::Hierarchies;
use outlive_sys::clock::Alarm;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::ProcessId;
use outlive_sys::keeper::{LockPlace, SPARE};
use outlive_sys::region::Region;
use outlive_sys::signal::ChildEnds;
use outlive_sys::spawn::{Command, Failure, Limits, Step};
use outlive_sys::{clock, detach, durable, inherited, signal, socket, spawn, tree};

use crate::clients::Client;
use crate::containment::{CgroupFds, Containment, Preparation};
use crate::ending::Ending;
use crate::endpoint::{self, Output, Terminal};
use crate::input::Input;
use crate::lifetime::Expiry;
use crate::limits::LimitMonitor;
use crate::on_exit::OnExit;
use crate::recorder::Recorder;
use crate::supervise::BUFFER;
use crate::terminal::awaits::InputWait;

/// How long the starter may take to send the rest of its request.
const LAUNCH_LIMIT: Duration = Duration::from_secs(60);

/// The keeper of a running command.
pub(crate) struct Keeper {
    /// Held until the keeper ends, at its fixed number; never used otherwise.
    _lock: OwnedFd,
    /// Held until the outcome is written.
    pub(crate) done: Option<OwnedFd>,
    pub(crate) dir: OwnedFd,
    pub(crate) live_mark: String,
    pub(crate) outcome: File,
    pub(crate) recorder: Recorder,
    pub(crate) outputs: Vec<Output>,
    pub(crate) input: Input,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) input_wait: InputWait,
    pub(crate) listener: OwnedFd,
    pub(crate) clients: Vec<Client>,
    /// When connections are accepted again; none: now.
    pub(crate) accept_us: Option<u64>,
    pub(crate) child_ends: ChildEnds,
    pub(crate) meta: Meta,
    pub(crate) started_boot_us: u64,
    pub(crate) deadline_us: Option<u64>,
    /// Wakes the loop at the deadline.
    pub(crate) alarm: Option<Alarm>,
    pub(crate) grace_ms: u64,
    pub(crate) containment: Containment,
    pub(crate) limit_monitor: LimitMonitor,
    pub(crate) expiry: Expiry,
    pub(crate) on_exit: Option<OnExit>,
    pub(crate) sync: SyncOrder,
    pub(crate) ending: Ending,
}

/// What came with the launch request.
struct Handed {
    lock: OwnedFd,
    done: OwnedFd,
    dir: OwnedFd,
    outcome: File,
    index: File,
    log: File,
    starter: UnixStream,
}

/// Starts the command; returns the buffer that its output is read into, too. An error is the exit status of a keeper that has nothing to keep.
pub(crate) fn start() -> Result<(Keeper, Region), u8> {
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
    let (outcome, index, log) = (outcome.into(), index.into(), log.into());
    let handed = Handed { lock, done, dir, outcome, index, log, starter };
    let launch = match contents.as_ref().map(|contents| Launch::parse(&contents[HEADER..])) {
        Some(Ok(launch)) => launch,
        Some(Err(LaunchError::Version(_))) => {
            let mut starter = handed.starter;
            preparation.discard();
            starter.write_all(&LaunchReply::OtherVersion(VERSION).to_frame()).ok();
            return Err(3);
        }
        // The starter died half-way. Its intent is in the store: the next front end finds that no keeper holds the lock, and
        // writes the outcome and its event. The session to write to is not known here.
        Some(Err(LaunchError::Wire(_))) | None => {
            preparation.discard();
            return Err(4);
        }
    };
    let for_answers =
        helper.as_ref().filter(|_| launch.options.pty).and_then(|helper| helper.try_clone().ok());
    let mut on_exit = OnExit::new(&launch, helper, umask, limits);
    match keep(handed, &launch, umask, &limits, preparation, &mut on_exit) {
        Ok((mut keeper, buffer)) => {
            if let Some(terminal) = &mut keeper.terminal {
                terminal.answers.set_program(for_answers);
            }
            Ok((keeper, buffer))
        }
        Err((handed, never)) => {
            let outcome = Outcome {
                wait_status: WaitStatus::Unknown,
                cause: Cause::NeverStarted(never.clone()),
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
            drop((handed.done, handed.lock));
            let mut starter = handed.starter;
            let reply = LaunchReply::NotStarted(never).to_frame();
            fault::step(Point::NeverReply, || starter.write_all(&reply)).ok();
            drop(starter);
            sync_if(SyncOrder::After);
            if let Some(on_exit) = on_exit {
                on_exit.exec(&handed.dir);
            }
            Err(5)
        }
    }
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

/// Does all that can fail, then executes the command.
fn keep(
    handed: Handed,
    launch: &Launch<'_>,
    umask: u32,
    limits: &Limits,
    preparation: Preparation,
    on_exit: &mut Option<OnExit>,
) -> Result<(Keeper, Region), (Handed, NeverStarted)> {
    macro_rules! attempt {
        ($what:expr, $result:expr) => {
            match $result {
                Ok(value) => value,
                Err(error) => {
                    preparation.discard();
                    return Err((handed, store_failure($what, &error)));
                }
            }
        };
    }
    spawn::adopt_orphans();
    // Now: without it the command would run, and nothing would read what it prints.
    let buffer = attempt!("memory for its output", fault::step(Point::BufferMap, || Region::new(BUFFER)));
    let listener = attempt!(file::CONTROL, socket::listen_in(&handed.dir, file::CONTROL));
    let child_ends = attempt!("the signal descriptor", fault::step(Point::SignalFd, ChildEnds::new));
    let ends = match endpoint::open(launch.options.endpoint()) {
        Ok(ends) => ends,
        Err((what, error)) => attempt!(what, Err(error)),
    };

    let (started, started_boot_us) = (Timestamp(clock::wall_us()), clock::boot_us());
    let stdio = ends.stdio.each_ref().map(AsFd::as_fd);
    let started_here =
        Containment::start(preparation, launch.options.containment, &launch.options.limits, |cgroup_fds| {
            execute(launch, stdio, umask, limits, cgroup_fds)
        });
    let (mut containment, kept, child) = match started_here {
        Ok(started) => started,
        Err(never) => return Err((handed, never)),
    };
    drop(ends.stdio);
    containment.began(child.id, child.handle);

    let me = ProcessId::current();
    let command = Process { pid: child.id.pid, start_time: child.id.start_time };
    let meta = Meta {
        format: outlive_core::FORMAT,
        job: launch.job.clone(),
        nonce: launch.nonce,
        status: Status::Running.into(),
        keeper: Some(Process { pid: me.pid, start_time: me.start_time }),
        command: Some(command),
        started: Some(started),
        started_boot_us: Some(started_boot_us),
        protocol: SPOKEN,
        containment: Some(containment.describe()),
        kept: kept.into(),
        paused: false,
        awaits: None,
        untimed: false,
        near: None,
        out_of_memory: None,
        outcome: None,
        closed: None,
        newer: Default::default(),
    };
    let Handed { lock, done, dir, outcome, index, log, mut starter } = handed;
    let deadline_us =
        launch.options.timeout_ms.map(|limit| started_boot_us.saturating_add(limit.saturating_mul(1000)));
    let mut keeper = Keeper {
        _lock: lock,
        done: Some(done),
        dir,
        live_mark: launch.live_mark.clone(),
        outcome,
        recorder: Recorder::new(index, log, launch.options.output_cap_bytes),
        outputs: ends.outputs,
        input_wait: InputWait::new(ends.input.is_open()),
        input: ends.input,
        terminal: ends.terminal,
        listener,
        clients: Vec::new(),
        accept_us: None,
        child_ends,
        meta,
        started_boot_us,
        // Without one, the deadline is met by the time that the loop counts.
        alarm: deadline_us.and_then(|deadline| Alarm::at(deadline).ok()),
        deadline_us,
        grace_ms: launch.options.grace_ms,
        limit_monitor: LimitMonitor::new(launch.options.limits, kept),
        expiry: Expiry::new(launch.options.lifetime),
        on_exit: on_exit.take(),
        containment,
        sync: launch.sync,
        ending: Ending::new(command.pid, launch.options.survivors),
    };
    if let Endpoint::Terminal { size } = launch.options.endpoint() {
        keeper.recorder.resize(size, started);
    }
    keeper.write_meta(Replacing::META_START);
    // A starter that died meanwhile changes nothing.
    let reply = LaunchReply::Started(command).to_frame();
    fault::step(Point::LaunchReply, || starter.write_all(&reply)).ok();
    tree::raise_oom_score(command.pid);
    keeper.write_event(&Event { at: started, ..keeper.event(Kind::Started) });
    Ok((keeper, buffer))
}

fn execute(
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

/// Puts a failed start into facts that a reader can make a sentence of.
fn explain(failure: &Failure, launch: &Launch<'_>) -> NeverStarted {
    const ENOENT: i32 = 2;
    const ENOEXEC: i32 = 8;
    const EACCES: i32 = 13;
    let never = |step: &str, path: &[u8]| NeverStarted {
        step: step.into(),
        errno: Some(failure.errno),
        path: Some(RawText::from(path)),
        detail: None,
    };
    let without_path = |step| NeverStarted { path: None, ..never(step, b"") };
    match failure.step {
        Step::Fork => without_path("fork"),
        Step::Group => without_path("group"),
        Step::Session => without_path("session"),
        Step::Stdio => without_path("stdio"),
        Step::Priority => {
            let detail = "a nice value below the starter's needs CAP_SYS_NICE or `ulimit -e`; leave --nice out or raise it";
            NeverStarted { detail: Some(detail.to_owned()), ..without_path("priority") }
        }
        Step::Directory => never("directory", launch.cwd),
        Step::Exec => {
            let candidates = launch.candidates.iter().copied();
            // A program that is there and still "not found" names an interpreter that is not.
            let missing = |path: &&[u8]| failure.errno == ENOENT && interpreter(path).is_some();
            if let Some(path) = candidates.clone().find(missing) {
                let detail = interpreter(path).map(|name| format!("its interpreter {name} does not exist"));
                return NeverStarted { detail, ..never("exec", path) };
            }
            if failure.errno == ENOENT {
                // What was asked for says more than the last place where it was looked for.
                return never("exec", launch.argv.first().copied().unwrap_or_default());
            }
            let path = candidates.clone().nth(failure.candidate).unwrap_or_default();
            // A directory of PATH that may not be searched hides nothing that is known to be there.
            if failure.errno == EACCES && launch.candidates.len() > 1 && !is_there(path) {
                let program = launch.argv.first().copied().unwrap_or_default();
                return NeverStarted { errno: Some(ENOENT), ..never("exec", program) };
            }
            let detail = (failure.errno == ENOEXEC)
                .then(|| "it is no program and has no #! line; let a shell run it".to_owned());
            NeverStarted { detail, ..never("exec", path) }
        }
    }
}

fn is_there(path: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(path)).exists()
}

/// Returns the interpreter that an existing file needs: the one in its `#!` line, else its dynamic loader.
fn interpreter(path: &[u8]) -> Option<String> {
    use std::os::unix::ffi::OsStrExt;
    let mut head = [0; 256];
    let count =
        File::open(std::ffi::OsStr::from_bytes(path)).and_then(|mut file| file.read(&mut head)).ok()?;
    let line = head[..count].split(|&byte| byte == b'\n').next()?;
    match line.strip_prefix(b"#!") {
        Some(rest) => {
            let word = rest.trim_ascii_start().split(|byte| byte.is_ascii_whitespace()).next()?;
            Some(String::from_utf8_lossy(word).into_owned())
        }
        None => Some("(its dynamic loader)".to_owned()),
    }
}

fn store_failure(what: &str, error: &io::Error) -> NeverStarted {
    NeverStarted {
        step: "store".into(),
        errno: error.raw_os_error(),
        path: Some(RawText::from(what)),
        detail: None,
    }
}
