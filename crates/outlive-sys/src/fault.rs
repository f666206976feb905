//! Fault points: named places at which a test can end, stop or fail this program.
//!
//! There is no code behind them unless outlive is built with the feature `fault`, which nobody ships: then `OUTLIVE_FAULT` says
//! what is to happen where (see [`step`]).

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use crate::pipe::Attempt;

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $kind:ident;)*) => {
        /// A step at which something can be made to go wrong, named `actor.thing.step`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Point { $($(#[$doc])* $name,)* }

        impl Point {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns what can be done at it.
            pub fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)* }
            }
        }
    };
}

/// What can be done at a point, beyond ending and stopping the program before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The call can fail.
    Call,
    /// The call can fail, and it can write less than it should.
    Write,
    /// Nothing: a moment, not a call.
    Moment,
}

points! {
    /// Taking the store's lock.
    StoreLock = "starter.store.lock", Call;
    /// Replacing the reserved bytes.
    ReserveWrite = "starter.reserved.write", Write;
    /// Making the new directory.
    NewMake = "starter.new.mkdir", Call;
    /// Creating and locking `lock` and `done`.
    LocksMake = "starter.locks.create", Call;
    /// Creating `outcome`.
    OutcomeMake = "starter.outcome.create", Call;
    /// Reserving its room.
    OutcomeReserve = "starter.outcome.preallocate", Call;
    /// Creating the index.
    IndexMake = "starter.index.create", Call;
    /// Creating the first segment.
    LogMake = "starter.log.create", Call;
    /// Writing `spec.json`.
    SpecWrite = "starter.spec.write", Write;
    /// Making the mark in `live/`.
    LiveMark = "starter.live.mark", Call;
    /// Renaming the directory into `jobs/`.
    JobRename = "starter.job.rename", Call;
    /// Making the session's directory.
    SessionMake = "starter.session.mkdir", Call;
    /// Executing the keeper.
    KeeperExec = "starter.keeper.exec", Call;
    /// Sending the launch request and the descriptors.
    LaunchSend = "starter.launch.send", Call;
    /// Hearing from the keeper.
    LaunchAnswer = "starter.launch.answer", Call;

    /// Receiving the launch request.
    LaunchReceive = "keeper.launch.receive", Call;
    /// Making the job's control group.
    GroupMake = "keeper.group.mkdir", Call;
    /// Binding the socket.
    SocketBind = "keeper.socket.bind", Call;
    /// The descriptor that tells of ended children.
    SignalFd = "keeper.signals.open", Call;
    /// Making the pipes.
    PipeMake = "keeper.pipe.make", Call;
    /// Making the command's process and executing its program.
    CommandExec = "keeper.command.exec", Call;
    /// Writing the snapshot of the running job.
    MetaStart = "keeper.meta.start", Call;
    /// Answering the starter.
    LaunchReply = "keeper.launch.reply", Call;
    /// Appending an event.
    EventAppend = "keeper.event.append", Call;
    /// Appending a record to the index.
    IndexAppend = "keeper.index.append", Write;
    /// Appending to the log.
    LogAppend = "keeper.log.append", Write;
    /// Beginning a new segment.
    SegmentMake = "keeper.segment.create", Call;
    /// Dropping an old segment.
    SegmentDrop = "keeper.segment.unlink", Call;
    /// Writing to the command's standard input.
    InputWrite = "keeper.input.write", Write;
    /// Accepting a connection.
    ClientAccept = "keeper.client.accept", Call;
    /// Carrying out a request.
    ClientServe = "keeper.client.serve", Moment;
    /// Answering one.
    ClientReply = "keeper.client.reply", Write;
    /// The main process has ended and is not reaped yet.
    MainEnd = "keeper.main.reap", Moment;
    /// Emptying the pipes.
    Drain = "keeper.output.drain", Moment;
    /// Writing the outcome.
    OutcomeWrite = "keeper.outcome.write", Write;
    /// Syncing it.
    OutcomeSync = "keeper.outcome.sync", Call;
    /// Removing the mark in `live/`.
    LiveRemove = "keeper.live.unlink", Call;
    /// Writing the snapshot of the ended job.
    MetaEnd = "keeper.meta.end", Call;
    /// Letting waiters go on.
    DoneRelease = "keeper.done.unlock", Moment;
    /// Writing the closed record on its own.
    ClosedWrite = "keeper.closed.write", Write;
    /// Syncing the log.
    LogSync = "keeper.log.sync", Call;
    /// Removing the control group.
    GroupRemove = "keeper.group.rmdir", Moment;

    /// Taking the lock of a job that nobody keeps.
    RecoverLock = "reader.recover.lock", Call;
    /// Appending the event of its end.
    RecoverEvent = "reader.recover.event", Call;
    /// Writing its outcome.
    RecoverWrite = "reader.recover.write", Write;
    /// Syncing it.
    RecoverSync = "reader.recover.sync", Call;
    /// Replacing its snapshot.
    RecoverMeta = "reader.recover.meta", Call;
    /// Removing its mark in `live/`.
    RecoverMark = "reader.recover.mark", Call;
    /// Noting that somebody was told.
    SeenWrite = "reader.seen.write", Call;
    /// Noting where a reader is.
    CursorWrite = "reader.cursor.write", Call;
    /// Connecting to a keeper.
    KeeperConnect = "reader.keeper.connect", Call;
    /// Asking it.
    RequestSend = "reader.request.send", Write;
    /// Hearing its answer.
    ReplyReceive = "reader.reply.receive", Call;
    /// Renaming a job out of `jobs/`.
    RemoveRename = "reader.remove.rename", Call;
    /// Removing its mark.
    RemoveMark = "reader.remove.mark", Call;
    /// Deleting its files.
    RemoveDelete = "reader.remove.delete", Call;
    /// Noting that it was told that a keeper died and its command goes on.
    OrphanMark = "reader.orphan.mark", Call;
    /// Noting who asked for the end of a job without a keeper.
    OrphanAsked = "reader.orphan.asked", Call;
    /// Writing the closed record of a job whose keeper died after it had written the outcome.
    CloseWrite = "reader.close.write", Write;
    /// Putting a damaged job out of the way.
    QuarantineMove = "reader.quarantine.rename", Call;
    /// Deleting what a crash left in `new/`.
    NewDelete = "reader.new.delete", Call;
    /// Noting that the store was collected.
    CollectStamp = "reader.collect.stamp", Call;
}

/// Does a step, or what a test wants to happen in its place.
///
/// `OUTLIVE_FAULT` is `POINT@before=ACTION` or `POINT@after=ACTION`, with the actions `kill` (SIGKILL to this program), `pause` (until
/// the file `$OUTLIVE_FAULT_LOG.release` is there) and, before, an error number. It happens once.
/// `OUTLIVE_FAULT_LOG` names a file to which every point is appended that is reached. A keeper hears of both from its starter, which has
/// them as `OUTLIVE_KEEPER_FAULT` and `OUTLIVE_FAULT_LOG`.
///
/// # Errors
///
/// What the step says, or what the test wants it to.
#[inline(always)]
pub fn step<T>(point: Point, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    #[cfg(feature = "fault")]
    injected::before(point)?;
    let result = call();
    #[cfg(feature = "fault")]
    injected::after(point);
    #[cfg(not(feature = "fault"))]
    let _ = point;
    result
}

/// Passes a moment at which nothing can fail.
#[inline(always)]
pub fn moment(point: Point) {
    #[cfg(feature = "fault")]
    {
        injected::before(point).ok();
        injected::after(point);
    }
    #[cfg(not(feature = "fault"))]
    let _ = point;
}

/// Returns what is to be written: all of it, or half where a test wants a short write.
#[inline(always)]
pub fn shortened(point: Point, bytes: &[u8]) -> &[u8] {
    #[cfg(feature = "fault")]
    if injected::is_short(point) {
        return &bytes[..bytes.len() / 2];
    }
    let _ = point;
    bytes
}

/// Writes all of it at an offset. A short write is half of it and then a full disk, as a full disk is met in life.
///
/// # Errors
///
/// If not all could be written.
#[inline(always)]
pub fn write_all_at(point: Point, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    step(point, || {
        let part = shortened(point, bytes);
        file.write_all_at(part, offset)?;
        if part.len() < bytes.len() { Err(full_disk()) } else { Ok(()) }
    })
}

/// Writes all of it. A short write is half of it and then a full disk.
///
/// # Errors
///
/// If not all could be written.
#[inline(always)]
pub fn write_all(point: Point, to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    step(point, || {
        let part = shortened(point, bytes);
        to.write_all(part)?;
        if part.len() < bytes.len() { Err(full_disk()) } else { Ok(()) }
    })
}

/// Tries to write without blocking.
#[inline(always)]
pub fn attempt(point: Point, bytes: &[u8], call: impl FnOnce(&[u8]) -> Attempt) -> Attempt {
    match step(point, || Ok(call(shortened(point, bytes)))) {
        Ok(attempt) => attempt,
        Err(error) => match error.raw_os_error() {
            // These two are never seen by the one who tries: the call is made again, or later.
            Some(libc::EINTR | libc::EAGAIN) => Attempt::WouldBlock,
            _ => Attempt::Failed(error),
        },
    }
}

fn full_disk() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

/// Variables that a keeper is to have, which otherwise has none.
#[cfg(feature = "fault")]
pub(crate) fn keeper_environment() -> Vec<std::ffi::CString> {
    let pass = |from: &str, to: &str| {
        let value = std::env::var(from).ok()?;
        std::ffi::CString::new(format!("{to}={value}")).ok()
    };
    let fault = pass("OUTLIVE_KEEPER_FAULT", "OUTLIVE_FAULT");
    fault.into_iter().chain(pass("OUTLIVE_FAULT_LOG", "OUTLIVE_FAULT_LOG")).collect()
}

#[cfg(feature = "fault")]
mod injected {
    use std::io::{self, Write};
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::Point;

    struct Plan {
        point: String,
        is_before: bool,
        action: String,
    }

    /// This program has had its turn.
    static DONE: AtomicBool = AtomicBool::new(false);

    fn plan() -> Option<&'static Plan> {
        static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
        PLAN.get_or_init(|| {
            let text = std::env::var("OUTLIVE_FAULT").ok()?;
            let (place, action) = text.split_once('=')?;
            let (point, moment) = place.split_once('@')?;
            Some(Plan { point: point.to_owned(), is_before: moment == "before", action: action.to_owned() })
        })
        .as_ref()
    }

    fn log() -> Option<PathBuf> {
        std::env::var_os("OUTLIVE_FAULT_LOG").map(PathBuf::from)
    }

    /// Tells what is planned here and has not happened yet.
    fn planned(point: Point, is_before: bool) -> Option<&'static str> {
        let plan = plan()?;
        let is_here = plan.point == point.name() && plan.is_before == is_before;
        (is_here && !DONE.load(Ordering::SeqCst)).then_some(plan.action.as_str())
    }

    pub(super) fn before(point: Point) -> io::Result<()> {
        if let Some(path) = log() {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            file.and_then(|mut file| file.write_all(format!("{}\n", point.name()).as_bytes())).ok();
        }
        match planned(point, true) {
            // That is for the one who writes, who asks next.
            Some("short") | None => Ok(()),
            Some(action) if is_first() => act(action),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn after(point: Point) {
        if let Some(action) = planned(point, false).filter(|_| is_first()) {
            act(action).ok();
        }
    }

    pub(super) fn is_short(point: Point) -> bool {
        let is_planned = plan().is_some_and(|plan| plan.point == point.name() && plan.action == "short");
        is_planned && is_first()
    }

    /// Tells whether it has not happened yet, in this program or another one, and that it happens now.
    fn is_first() -> bool {
        let mark = log().map(|path| PathBuf::from(format!("{}.fired", path.display())));
        let made = mark.map(|mark| std::fs::OpenOptions::new().write(true).create_new(true).open(mark));
        !DONE.swap(true, Ordering::SeqCst) && made.is_none_or(|made| made.is_ok())
    }

    fn act(action: &str) -> io::Result<()> {
        match action {
            "kill" => {
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
                Ok(())
            }
            "pause" => {
                if let Some(path) = log() {
                    let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", path.display()));
                    std::fs::write(beside("paused"), std::process::id().to_string()).ok();
                    while !beside("release").exists() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                Ok(())
            }
            number => match number.parse() {
                Ok(errno) => Err(io::Error::from_raw_os_error(errno)),
                Err(_) => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_who() {
        let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        assert!(
            names.iter().all(|name| {
                ["starter.", "keeper.", "reader."].iter().any(|actor| name.starts_with(actor))
            })
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
    }
}
