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
    /// Nothing: it cannot fail.
    Sure,
}

points! {
    /// Making the store's own directory.
    RootMake = "opener.root.mkdir", Call;
    /// Making the directories in it.
    PartsMake = "opener.parts.mkdir", Call;
    /// Writing the store's version beside its place.
    VersionWrite = "opener.version.write", Write;
    /// Syncing it.
    VersionSync = "opener.version.sync", Call;
    /// Giving it its name, from which on the store is one.
    VersionRename = "opener.version.rename", Call;
    /// Syncing the names.
    RootSync = "opener.root.sync", Call;

    /// Making the socket on which the keeper will hear what to do.
    KeeperPair = "starter.keeper.socketpair", Call;
    /// Executing the keeper.
    KeeperExec = "starter.keeper.exec", Call;
    /// Taking the store's lock.
    StoreLock = "starter.store.flock", Call;
    /// Replacing the reserved bytes.
    ReserveWrite = "starter.reserved.write", Write;
    /// Making the new directory.
    NewMake = "starter.new.mkdir", Call;
    /// Creating `lock`.
    LockMake = "starter.lock.create", Call;
    /// Creating `done`.
    DoneMake = "starter.done.create", Call;
    /// Locking `lock`.
    LockTake = "starter.lock.flock", Call;
    /// Locking `done`.
    DoneTake = "starter.done.flock", Call;
    /// Creating `outcome`.
    OutcomeMake = "starter.outcome.create", Call;
    /// Reserving its room.
    OutcomeReserve = "starter.outcome.preallocate", Call;
    /// Creating the index.
    IndexMake = "starter.index.create", Call;
    /// Creating the first segment.
    LogMake = "starter.log.create", Call;
    /// Creating `spec.json`.
    SpecMake = "starter.spec.create", Call;
    /// Writing it.
    SpecWrite = "starter.spec.write", Write;
    /// Making the mark in `live/`.
    LiveMark = "starter.live.create", Call;
    /// Renaming the directory into `jobs/`.
    JobRename = "starter.job.rename", Call;
    /// Noting that somebody has to be told of the job's end.
    OwedMake = "starter.owed.create", Call;
    /// Making the session's directory.
    SessionMake = "starter.session.mkdir", Call;
    /// Sending the launch request and the descriptors.
    LaunchSend = "starter.launch.send", Write;
    /// Hearing from the keeper.
    LaunchAnswer = "starter.launch.receive", Call;
    /// Removing the mark of a job that no keeper takes.
    BackMark = "starter.back.unlink", Call;
    /// Renaming it out of `jobs/`.
    BackRename = "starter.back.rename", Call;
    /// Deleting it.
    BackDelete = "starter.back.delete", Call;

    /// Receiving the launch request.
    LaunchReceive = "keeper.launch.receive", Call;
    /// Making the job's control group.
    GroupMake = "keeper.group.mkdir", Call;
    /// Binding the socket.
    SocketBind = "keeper.socket.bind", Call;
    /// Listening on it.
    SocketListen = "keeper.socket.listen", Call;
    /// The descriptor that tells of ended children.
    SignalFd = "keeper.signals.open", Call;
    /// Making the pipes.
    PipeMake = "keeper.pipe.make", Call;
    /// Making the command's process and executing its program.
    CommandExec = "keeper.command.exec", Call;
    /// Writing the snapshot of the running job beside its place.
    MetaStartWrite = "keeper.meta-start.write", Write;
    /// Renaming it into its place.
    MetaStartRename = "keeper.meta-start.rename", Call;
    /// Answering the starter.
    LaunchReply = "keeper.launch.send", Call;
    /// Opening the session's events for that of the start.
    EventStartOpen = "keeper.event-start.open", Call;
    /// Appending it.
    EventStartWrite = "keeper.event-start.write", Write;
    /// Writing the outcome of a command that could not be started.
    NeverWrite = "keeper.never.write", Write;
    /// Syncing it.
    NeverSync = "keeper.never.sync", Call;
    /// Removing its mark in `live/`.
    NeverMark = "keeper.never.unlink", Call;
    /// Telling the starter.
    NeverReply = "keeper.never.send", Call;
    /// Reading what the command has printed.
    OutputRead = "keeper.output.read", Call;
    /// Appending a record to the index.
    IndexAppend = "keeper.index.append", Write;
    /// Appending to the log.
    LogAppend = "keeper.log.append", Write;
    /// Beginning a new segment.
    SegmentMake = "keeper.segment.create", Call;
    /// Dropping an old segment.
    SegmentDrop = "keeper.segment.unlink", Call;
    /// Giving back the part of the index that is about it.
    IndexForget = "keeper.index.punch", Call;
    /// Writing to the command's standard input.
    InputWrite = "keeper.input.write", Write;
    /// Accepting a connection.
    ClientAccept = "keeper.client.accept", Call;
    /// Receiving a request.
    ClientReceive = "keeper.client.receive", Call;
    /// Carrying it out.
    ClientServe = "keeper.client.serve", Sure;
    /// Answering.
    ClientReply = "keeper.client.send", Write;
    /// Reaping children, the main process among them.
    Reap = "keeper.children.reap", Sure;
    /// Emptying the pipes.
    Drain = "keeper.output.drain", Sure;
    /// Writing the outcome.
    OutcomeWrite = "keeper.outcome.write", Write;
    /// Syncing it.
    OutcomeSync = "keeper.outcome.sync", Call;
    /// Removing the mark in `live/`.
    LiveRemove = "keeper.live.unlink", Call;
    /// Writing the snapshot of the ended job beside its place.
    MetaEndWrite = "keeper.meta-end.write", Write;
    /// Renaming it into its place.
    MetaEndRename = "keeper.meta-end.rename", Call;
    /// Letting waiters go on.
    DoneRelease = "keeper.done.unlock", Call;
    /// Opening the session's events for that of the end.
    EventEndOpen = "keeper.event-end.open", Call;
    /// Appending it.
    EventEndWrite = "keeper.event-end.write", Write;
    /// Writing the closed record on its own.
    ClosedWrite = "keeper.closed.write", Write;
    /// Syncing the log.
    LogSync = "keeper.log.sync", Call;
    /// Removing the control group.
    GroupRemove = "keeper.group.rmdir", Sure;

    /// Sleeping until the kernel tells of something that is waited for.
    WaitPoll = "waiter.poll", Call;
    /// Looking whether all that comes with the end is done.
    DoneProbe = "waiter.done.probe", Call;

    /// Looking whether somebody keeps a job.
    LockProbe = "reader.lock.probe", Call;
    /// Taking the lock of a job that nobody keeps.
    RecoverLock = "reader.recover.flock", Call;
    /// Opening the session's events for that of its end.
    RecoverEventOpen = "reader.recover-event.open", Call;
    /// Appending it.
    RecoverEventWrite = "reader.recover-event.write", Write;
    /// Writing its outcome.
    RecoverWrite = "reader.recover.write", Write;
    /// Syncing it.
    RecoverSync = "reader.recover.sync", Call;
    /// Writing its snapshot beside its place.
    RecoverMetaWrite = "reader.recover-meta.write", Write;
    /// Renaming it into its place.
    RecoverMetaRename = "reader.recover-meta.rename", Call;
    /// Removing its mark in `live/`.
    RecoverMark = "reader.recover.unlink", Call;
    /// Writing what became of those who were to hear of a job's end beside its place. The keeper does the same where it cannot
    /// become the program that does this, which no scenario brings about.
    PartingWrite = "parting.note.write", Write;
    /// Renaming it into its place.
    PartingRename = "parting.note.rename", Call;
    /// Taking hold of the mark that somebody has to be told.
    OwedLock = "parting.owed.flock", Call;
    /// Removing it, once that is in the spool.
    OwedRemove = "parting.owed.unlink", Call;
    /// Writing what is to be sent, and syncing it, beside its place.
    SpoolWrite = "parting.spool.write", Write;
    /// Renaming it into its place.
    SpoolRename = "parting.spool.rename", Call;
    /// Writing what became of what was sent beside its place.
    SentWrite = "deliver.sent.write", Write;
    /// Renaming it into its place.
    SentRename = "deliver.sent.rename", Call;
    /// Becoming the one who sends.
    SpoolLock = "deliver.spool.flock", Call;
    /// Taking out of the spool what has arrived.
    SpoolRemove = "deliver.spool.unlink", Call;
    /// Putting aside what cannot be sent.
    SpoolAside = "deliver.aside.rename", Call;
    /// Opening the session's events for an end that is not among them.
    SettleEventOpen = "reader.settle-event.open", Call;
    /// Appending it.
    SettleEventWrite = "reader.settle-event.write", Write;
    /// Removing the mark of a job whose end was told.
    SettleMark = "reader.settle.unlink", Call;
    /// Making the directory of a session's readers.
    ReadersMake = "reader.readers.mkdir", Call;
    /// Becoming the one who tells a reader.
    InboxLock = "reader.inbox.flock", Call;
    /// Saying that a reader is there.
    PresenceLock = "reader.presence.flock", Call;
    /// Noting at a job that a reader was told.
    ToldMake = "reader.told.create", Call;
    /// Writing how far a reader was told beside its place.
    InboxWrite = "reader.inbox.write", Write;
    /// Renaming it into its place.
    InboxRename = "reader.inbox.rename", Call;
    /// Making the file whose lock the one has who looks whether a job is ready.
    ProbeMake = "reader.probe.create", Call;
    /// Noting that a job is ready.
    ReadyMake = "reader.ready.create", Call;
    /// Writing how that was seen.
    ReadyWrite = "reader.ready.write", Write;
    /// Opening the session's events to tell that.
    ReadyEventOpen = "reader.ready-event.open", Call;
    /// Appending it.
    ReadyEventWrite = "reader.ready-event.write", Write;
    /// Noting that somebody was told.
    SeenMake = "reader.seen.create", Call;
    /// Making the directory of cursors.
    CursorsMake = "reader.cursors.mkdir", Call;
    /// Writing where a reader is beside its place.
    CursorWrite = "reader.cursor.write", Write;
    /// Renaming it into its place.
    CursorRename = "reader.cursor.rename", Call;
    /// Connecting to a keeper.
    KeeperConnect = "reader.keeper.connect", Call;
    /// Asking it.
    RequestSend = "reader.request.send", Write;
    /// Hearing its answer.
    ReplyReceive = "reader.reply.receive", Call;
    /// Beginning a segment in place of those of an ended job.
    ClearMake = "reader.clear.create", Call;
    /// Removing those.
    ClearDrop = "reader.clear.unlink", Call;
    /// Renaming a job out of `jobs/`.
    RemoveRename = "reader.remove.rename", Call;
    /// Removing its mark.
    RemoveMark = "reader.remove.unlink", Call;
    /// Opening the session's events for that of the removal.
    RemoveEventOpen = "reader.remove-event.open", Call;
    /// Appending it.
    RemoveEventWrite = "reader.remove-event.write", Write;
    /// Writing what a session says beside its place.
    SettingsWrite = "reader.settings.write", Write;
    /// Renaming it into its place.
    SettingsRename = "reader.settings.rename", Call;
    /// Writing the session that a job is given to beside its place.
    TransferWrite = "reader.transfer.write", Write;
    /// Renaming it into its place.
    TransferRename = "reader.transfer.rename", Call;
    /// Renaming its mark in `live/`.
    TransferMark = "reader.transfer-mark.rename", Call;
    /// Opening the events of the session that it was in, to tell that.
    TransferEventOpen = "reader.transfer-event.open", Call;
    /// Appending it.
    TransferEventWrite = "reader.transfer-event.write", Write;
    /// Writing the new name of a job beside its place.
    NameWrite = "reader.name.write", Write;
    /// Renaming it into its place.
    NameRename = "reader.name.rename", Call;
    /// Making the directory of a session's agents.
    AgentsMake = "reader.agents.mkdir", Call;
    /// Writing what is known of an agent beside its place.
    AgentWrite = "reader.agent.write", Write;
    /// Renaming it into its place.
    AgentRename = "reader.agent.rename", Call;
    /// Deleting its files.
    RemoveDelete = "reader.remove.delete", Call;
    /// Noting that it was told that a keeper died and its command goes on.
    OrphanMark = "reader.orphan.create", Call;
    /// Opening the session's events to tell that.
    OrphanEventOpen = "reader.orphan-event.open", Call;
    /// Appending it.
    OrphanEventWrite = "reader.orphan-event.write", Write;
    /// Holding a job without a keeper, as one who may learn how it ends.
    OrphanHold = "reader.orphan.flock", Call;
    /// Writing who asked for its end beside its place.
    OrphanAskedWrite = "reader.orphan-asked.write", Write;
    /// Renaming it into its place.
    OrphanAskedRename = "reader.orphan-asked.rename", Call;
    /// Writing the snapshot of one that was paused or goes on beside its place.
    OrphanPauseWrite = "reader.orphan-pause.write", Write;
    /// Renaming it into its place.
    OrphanPauseRename = "reader.orphan-pause.rename", Call;
    /// Taking the lock of a job whose keeper died after it had written the outcome.
    CloseLock = "reader.close.flock", Call;
    /// Writing its closed record.
    CloseWrite = "reader.close.write", Write;
    /// Writing its snapshot beside its place.
    CloseMetaWrite = "reader.close-meta.write", Write;
    /// Renaming it into its place.
    CloseMetaRename = "reader.close-meta.rename", Call;
    /// Removing its mark in `live/`.
    CloseMark = "reader.close.unlink", Call;
    /// Putting a damaged job out of the way.
    QuarantineMove = "reader.quarantine.rename", Call;
    /// Taking the store's lock to collect.
    CollectLock = "reader.collect.flock", Call;
    /// Noting that the store was collected.
    CollectStamp = "reader.collect.create", Call;
    /// Removing the mark of a job that is gone.
    MarkSweep = "reader.marks.unlink", Call;
    /// Deleting what a crash left in `new/`.
    NewDelete = "reader.new.delete", Call;
    /// Giving back the room of old events.
    EventsForget = "reader.events.punch", Call;
}

/// The two steps of replacing a file: what is new is written beside it, and gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacing {
    /// Making and writing the new file.
    pub write: Point,
    /// Renaming it.
    pub rename: Point,
}

impl Replacing {
    /// The keeper's snapshot of a running job.
    pub const META_START: Self = Self { write: Point::MetaStartWrite, rename: Point::MetaStartRename };
    /// The keeper's snapshot of an ended job.
    pub const META_END: Self = Self { write: Point::MetaEndWrite, rename: Point::MetaEndRename };
    /// The snapshot of a job whose end somebody else writes down.
    pub const RECOVER_META: Self = Self { write: Point::RecoverMetaWrite, rename: Point::RecoverMetaRename };
    /// The snapshot of a job that somebody else closes.
    pub const CLOSE_META: Self = Self { write: Point::CloseMetaWrite, rename: Point::CloseMetaRename };
    /// Where a reader is.
    pub const CURSOR: Self = Self { write: Point::CursorWrite, rename: Point::CursorRename };
    /// What became of those who were to hear of a job's end.
    pub const PARTING: Self = Self { write: Point::PartingWrite, rename: Point::PartingRename };
    /// What is to be sent.
    pub const SPOOL: Self = Self { write: Point::SpoolWrite, rename: Point::SpoolRename };
    /// What became of what was sent.
    pub const SENT: Self = Self { write: Point::SentWrite, rename: Point::SentRename };
    /// How far a reader was told.
    pub const INBOX: Self = Self { write: Point::InboxWrite, rename: Point::InboxRename };
    /// What a session says.
    pub const SETTINGS: Self = Self { write: Point::SettingsWrite, rename: Point::SettingsRename };
    /// The session that a job is given to.
    pub const TRANSFER: Self = Self { write: Point::TransferWrite, rename: Point::TransferRename };
    /// The new name of a job.
    pub const NAME: Self = Self { write: Point::NameWrite, rename: Point::NameRename };
    /// What is known of an agent.
    pub const AGENT: Self = Self { write: Point::AgentWrite, rename: Point::AgentRename };
    /// Who asked for the end of a job without a keeper.
    pub const ORPHAN_ASKED: Self = Self { write: Point::OrphanAskedWrite, rename: Point::OrphanAskedRename };
    /// The snapshot of a job without a keeper that was paused or goes on.
    pub const ORPHAN_PAUSE: Self = Self { write: Point::OrphanPauseWrite, rename: Point::OrphanPauseRename };
}

/// The two steps of appending to a file that may not be there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appending {
    /// Opening or making it.
    pub open: Point,
    /// The one write.
    pub write: Point,
}

impl Appending {
    /// The keeper's event of a start.
    pub const EVENT_START: Self = Self { open: Point::EventStartOpen, write: Point::EventStartWrite };
    /// The keeper's events of all that comes later.
    pub const EVENT_END: Self = Self { open: Point::EventEndOpen, write: Point::EventEndWrite };
    /// The event of an end that somebody else writes down.
    pub const RECOVER_EVENT: Self = Self { open: Point::RecoverEventOpen, write: Point::RecoverEventWrite };
    /// The event of a removal.
    pub const REMOVE_EVENT: Self = Self { open: Point::RemoveEventOpen, write: Point::RemoveEventWrite };
    /// That a job is ready.
    pub const READY_EVENT: Self = Self { open: Point::ReadyEventOpen, write: Point::ReadyEventWrite };
    /// An end that is not among the events.
    pub const SETTLE_EVENT: Self = Self { open: Point::SettleEventOpen, write: Point::SettleEventWrite };
    /// The event of a job that was given to another session.
    pub const TRANSFER_EVENT: Self =
        Self { open: Point::TransferEventOpen, write: Point::TransferEventWrite };
    /// The event of a keeper's death.
    pub const ORPHAN_EVENT: Self = Self { open: Point::OrphanEventOpen, write: Point::OrphanEventWrite };
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

/// Does a step that cannot fail.
#[inline(always)]
pub fn around<T>(point: Point, call: impl FnOnce() -> T) -> T {
    #[cfg(feature = "fault")]
    injected::before(point).ok();
    let result = call();
    #[cfg(feature = "fault")]
    injected::after(point);
    #[cfg(not(feature = "fault"))]
    let _ = point;
    result
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

/// Writes all of it by a call. A short write is half of it and then a full disk, as a full disk is met in life.
///
/// # Errors
///
/// If not all could be written.
#[inline(always)]
pub fn write(point: Point, bytes: &[u8], call: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
    step(point, || {
        let part = shortened(point, bytes);
        call(part)?;
        if part.len() < bytes.len() { Err(full_disk()) } else { Ok(()) }
    })
}

/// Writes all of it at an offset.
///
/// # Errors
///
/// If not all could be written.
#[inline(always)]
pub fn write_all_at(point: Point, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    write(point, bytes, |part| file.write_all_at(part, offset))
}

/// Writes all of it.
///
/// # Errors
///
/// If not all could be written.
#[inline(always)]
pub fn write_all(point: Point, to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write(point, bytes, |part| to.write_all(part))
}

/// Tries to read or write without blocking.
#[inline(always)]
pub fn attempt(point: Point, call: impl FnOnce() -> Attempt) -> Attempt {
    match step(point, || Ok(call())) {
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
        assert!(names.iter().all(|name| {
            ["opener.", "starter.", "keeper.", "parting.", "deliver.", "waiter.", "reader."]
                .iter()
                .any(|actor| name.starts_with(actor))
        }));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
    }
}
