//! The points, by name.

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

    /// Making the socket over which the launch request goes.
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
    /// Making the mark of a pending on-exit command or webhook.
    OwedMake = "starter.owed.create", Call;
    /// Making the session's directory.
    SessionMake = "starter.session.mkdir", Call;
    /// Sending the launch request and the descriptors.
    LaunchSend = "starter.launch.send", Write;
    /// Receiving the keeper's answer.
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
    /// Opening the descriptor that is readable when a child has ended.
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
    /// Answering the starter.
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
    /// Syncing it, once it is announced.
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

    /// Looking whether a keeper holds the lock of a job.
    LockProbe = "reader.lock.probe", Call;
    /// Taking the lock of a job without a keeper.
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
    /// Writing the results of on-exit command and webhook beside their place. The keeper writes them where it cannot become
    /// the program that does this, which no scenario brings about.
    PartingWrite = "parting.note.write", Write;
    /// Renaming it into its place.
    PartingRename = "parting.note.rename", Call;
    /// Taking the lock of the mark of what is pending.
    OwedLock = "parting.owed.flock", Call;
    /// Removing the mark, once the notice is in the spool.
    OwedRemove = "parting.owed.unlink", Call;
    /// Writing what is to be sent, and syncing it, beside its place.
    SpoolWrite = "parting.spool.write", Write;
    /// Renaming it into its place.
    SpoolRename = "parting.spool.rename", Call;
    /// Writing what became of what was sent beside its place.
    SentWrite = "deliver.sent.write", Write;
    /// Renaming it into its place.
    SentRename = "deliver.sent.rename", Call;
    /// Becoming the only process that sends.
    SpoolLock = "deliver.spool.flock", Call;
    /// Taking out of the spool what has arrived.
    SpoolRemove = "deliver.spool.unlink", Call;
    /// Putting aside what cannot be sent.
    SpoolAside = "deliver.aside.rename", Call;
    /// Opening the session's events for an end that is not among them.
    ReconcileEventOpen = "reader.reconcile-event.open", Call;
    /// Appending it.
    ReconcileEventWrite = "reader.reconcile-event.write", Write;
    /// Removing the mark of a job whose end is among the events.
    ReconcileMark = "reader.reconcile.unlink", Call;
    /// Making the directory of a session's readers.
    ReadersMake = "reader.readers.mkdir", Call;
    /// Becoming the only process that delivers to a reader.
    InboxLock = "reader.inbox.flock", Call;
    /// Saying that a reader is there.
    PresenceLock = "reader.presence.flock", Call;
    /// Noting at a job that a reader has received its end.
    ToldMake = "reader.told.create", Call;
    /// Writing how far a reader has received events beside its place.
    InboxWrite = "reader.inbox.write", Write;
    /// Renaming it into its place.
    InboxRename = "reader.inbox.rename", Call;
    /// Making the file that is locked by the process which looks whether a job is ready.
    ProbeMake = "reader.probe.create", Call;
    /// Noting that a job is ready.
    ReadyMake = "reader.ready.create", Call;
    /// Writing how that was seen.
    ReadyWrite = "reader.ready.write", Write;
    /// Opening the session's events to tell that.
    ReadyEventOpen = "reader.ready-event.open", Call;
    /// Appending it.
    ReadyEventWrite = "reader.ready-event.write", Write;
    /// Noting that a reader has received it.
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
    /// Receiving its answer.
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
    /// Making the directory of a session's tasks.
    TasksMake = "reader.tasks.mkdir", Call;
    /// Writing what is said of a task beside its place.
    TaskWrite = "reader.task.write", Write;
    /// Renaming it into its place.
    TaskRename = "reader.task.rename", Call;
    /// Deleting its files.
    RemoveDelete = "reader.remove.delete", Call;
    /// Noting that the event of a dead keeper is written.
    OrphanMark = "reader.orphan.create", Call;
    /// Opening the session's events to tell that.
    OrphanEventOpen = "reader.orphan-event.open", Call;
    /// Appending it.
    OrphanEventWrite = "reader.orphan-event.write", Write;
    /// Holding a job without a keeper, to record how its main process ends.
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
