//! The points, by name.

macro_rules! points {
    (
        single { $($(#[$doc:meta])* $name:ident = $text:literal, $kind:ident;)* }
        replacing { $($(#[$replaced:meta])* $REPLACING:ident = $file:literal, $write:ident, $rename:ident;)* }
        appending { $($(#[$appended:meta])* $APPENDING:ident = $log:literal, $open:ident, $append:ident;)* }
    ) => {
        points! {
            $($(#[$doc])* $name = $text, $kind;)*
            $($write = concat!($file, ".write"), Write; $rename = concat!($file, ".rename"), Call;)*
            $($open = concat!($log, ".open"), Call; $append = concat!($log, ".write"), Write;)*
        }

        impl Replacing {
            $($(#[$replaced])* pub const $REPLACING: Self = Self { write: Point::$write, rename: Point::$rename };)*
        }

        impl Appending {
            $($(#[$appended])* pub const $APPENDING: Self = Self { open: Point::$open, write: Point::$append };)*
        }
    };

    ($($(#[$doc:meta])* $name:ident = $text:expr, $kind:ident;)*) => {
        /// A step at which something can be made to go wrong, named `actor.thing.step`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Point { $(#[doc = $text] #[doc = ""] $(#[$doc])* $name,)* }

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

/// The two steps of replacing a file: what is new is written beside it, and gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacing {
    /// Making and writing the new file.
    pub write: Point,
    /// Renaming it.
    pub rename: Point,
}

/// The two steps of appending to a file that may not be there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appending {
    /// Opening or making it.
    pub open: Point,
    /// The one write.
    pub write: Point,
}

points! {
    single {
        RootMake = "opener.root.mkdir", Call;
        PartsMake = "opener.parts.mkdir", Call;
        VersionWrite = "opener.version.write", Write;
        VersionSync = "opener.version.sync", Call;
        /// Giving the version its name, from which on the store is one.
        VersionRename = "opener.version.rename", Call;
        RootSync = "opener.root.sync", Call;

        /// Making the socket over which the launch request goes.
        KeeperPair = "starter.keeper.socketpair", Call;
        KeeperExec = "starter.keeper.exec", Call;
        StoreLock = "starter.store.flock", Call;
        ReserveWrite = "starter.reserved.write", Write;
        NewMake = "starter.new.mkdir", Call;
        LockMake = "starter.lock.create", Call;
        DoneMake = "starter.done.create", Call;
        LockTake = "starter.lock.flock", Call;
        DoneTake = "starter.done.flock", Call;
        OutcomeMake = "starter.outcome.create", Call;
        OutcomeReserve = "starter.outcome.preallocate", Call;
        IndexMake = "starter.index.create", Call;
        LogMake = "starter.log.create", Call;
        SpecMake = "starter.spec.create", Call;
        SpecWrite = "starter.spec.write", Write;
        /// Writing when a job with a schedule is to begin.
        PlannedMake = "starter.planned.create", Call;
        PlannedWrite = "starter.planned.write", Write;
        LiveMark = "starter.live.create", Call;
        /// Making the directories of a queue.
        QueueMake = "starter.queue.mkdir", Call;
        /// Making the mark of a job that waits.
        WaitingMark = "starter.waiting.create", Call;
        /// Renaming the directory into `jobs/`.
        JobRename = "starter.job.rename", Call;
        /// Making the mark of a pending on-exit command or webhook.
        OwedMake = "starter.owed.create", Call;
        /// Making the mark of a job whose output is watched.
        WatchMark = "starter.watch.create", Call;
        SessionMake = "starter.session.mkdir", Call;
        /// That an engine has to place a job.
        SubmittedMake = "starter.submitted.create", Call;
        /// The lock by which a submission that goes on is known.
        SubmittedTake = "starter.submitted.flock", Call;
        /// An engine's command to take a job.
        Submit = "starter.engine.submit", Call;
        /// What the engine calls the job.
        EngineJobWrite = "starter.engine-job.write", Write;
        /// The file by which it is known that the engine has the job.
        EngineJobMake = "starter.engine-job.create", Call;
        /// A node begins a job: no other does after this.
        Claim = "placer.claim.rename", Call;
        /// Starting the process that prepares a job while the engine's own becomes the keeper's.
        StarterExec = "placer.starter.exec", Call;
        /// Becoming the keeper's process.
        ForegroundExec = "placer.keeper.exec", Call;
        /// The mark of a job that an engine has.
        PlaceLeave = "placer.waiting.unlink", Call;
        /// A front end ends a job that no node has begun: none does after this.
        CancelRename = "reader.cancelled.rename", Call;
        /// A job is given up whose starter died before the engine had it.
        AbandonRename = "reader.engine.rename", Call;
        /// An engine's command to give a job up.
        Cancel = "reader.engine.cancel", Call;
        /// Noting that a node has begun a job which is kept there.
        NodeClaim = "reader.node.rename", Call;
        /// What a node has recorded of jobs that are kept there.
        HomeFetch = "reader.home.fetch", Call;
        /// A log, or its index, that was brought home.
        HomeWrite = "reader.home-log.write", Write;
        /// `ssh`, to another machine.
        Connect = "caller.connect.exec", Call;
        /// A request to the process that has a shared connection to another machine.
        SessionSend = "caller.session.send", Write;
        /// A request to another machine.
        CallSend = "caller.call.send", Write;
        /// `ssh`, which copies the program to another machine.
        Copy = "caller.copy.exec", Call;
        /// The remembered hash of the program.
        HashWrite = "caller.hash.write", Write;
        /// The place in what a verb prints from which a caller goes on.
        Mark = "served.mark.write", Write;
        LaunchSend = "starter.launch.send", Write;
        LaunchAnswer = "starter.launch.receive", Call;
        /// Removing the mark of a job that no keeper takes.
        BackMark = "starter.back.unlink", Call;
        BackRename = "starter.back.rename", Call;
        BackDelete = "starter.back.delete", Call;

        /// Becoming the only process that starts the job of a name.
        NameLock = "starter.name.flock", Call;

        /// Becoming the only process that changes what is wanted of a project.
        ProjectRecordLock = "project.record.flock", Call;
        /// Executing the process that starts the jobs of a project.
        ProjectExec = "project.converge.exec", Call;
        /// Becoming the only process that starts or ends the jobs of a project.
        ProjectLock = "project.up.flock", Call;
        /// Forgetting what was wanted.
        ProjectRemove = "project.record.unlink", Call;

        LaunchReceive = "keeper.launch.receive", Call;
        GroupMake = "keeper.group.mkdir", Call;
        /// Mapping the buffer that output is read into.
        BufferMap = "keeper.buffer.map", Call;
        SocketBind = "keeper.socket.bind", Call;
        SocketListen = "keeper.socket.listen", Call;
        /// Receiving what a command says on its socket.
        NoticeReceive = "keeper.notice.receive", Call;
        /// Noting that the command says it goes on working.
        NoticeNote = "keeper.notice.note", Call;
        /// Making the process that goes on if this one dies.
        GuardFork = "keeper.guard.fork", Call;
        /// Ending it, because the job is over.
        GuardDismiss = "keeper.guard.end", Sure;
        /// Keeping what the program needs that is executed in place of the keeper.
        UpgradeSave = "keeper.upgrade.save", Call;
        UpgradeUnshare = "keeper.upgrade.unshare", Call;
        /// Telling the guard that a sign of life is to be expected.
        UpgradeTell = "keeper.upgrade.tell", Sure;
        UpgradeExec = "keeper.upgrade.exec", Call;
        /// Putting the keeper together in the new program.
        UpgradeResume = "keeper.upgrade.resume", Sure;
        /// Giving the sign of life.
        UpgradeAlive = "keeper.upgrade.alive", Sure;
        /// Executing the new program in place of the guard.
        UpgradeGuardExec = "keeper.upgrade.guard-exec", Call;
        UpgradeGuardAlive = "keeper.upgrade.guard-alive", Sure;
        /// Moving bytes from the command's pipe to the one that only the keeper fills.
        OutputRead = "keeper.output.read", Call;
        /// Opening the descriptor that is readable when a child has ended.
        SignalFd = "keeper.signals.open", Call;
        PipeMake = "keeper.pipe.make", Call;
        TerminalMake = "keeper.terminal.open", Call;
        TerminalResize = "keeper.terminal.resize", Call;
        /// Making the command's process and executing its program.
        CommandExec = "keeper.command.exec", Call;
        LaunchReply = "keeper.launch.send", Call;
        /// Answering the starter of a command that waits.
        QueuedReply = "keeper.queued.send", Call;
        /// Sleeping until the command may be executed.
        TurnPoll = "keeper.turn.poll", Call;
        /// Making a job's ticket for its queue.
        TicketMake = "keeper.ticket.make", Call;
        /// Giving it its place in the order.
        TicketRename = "keeper.ticket.rename", Call;
        /// Looking for a free slot of the queue.
        SlotTake = "keeper.slot.take", Call;
        /// Giving the ticket back, which the next in the order waits for.
        TicketRemove = "keeper.ticket.unlink", Call;
        /// Removing the mark of a job that has waited.
        WaitingRemove = "keeper.waiting.unlink", Call;
        /// Giving the slot back.
        SlotRelease = "keeper.slot.unlock", Sure;
        /// Starting the program that makes the next run of a job.
        NextRunExec = "keeper.next-run.exec", Call;
        /// Reading when the command is to begin.
        PlannedRead = "keeper.planned.read", Call;
        /// Starting the program that looks again at a plan.
        PlanExec = "keeper.plan.exec", Call;
        /// Removing what was asked for in place of a job, because that was stopped.
        NextRunForgo = "keeper.forgo.unlink", Call;
        /// Starting the program that checks whether a job is ready and healthy, in place of one that is gone.
        ProberExec = "keeper.prober.exec", Call;
        /// Writing the outcome of a command that could not be started.
        NeverWrite = "keeper.never.write", Write;
        NeverSync = "keeper.never.sync", Call;
        NeverMark = "keeper.never.unlink", Call;
        NeverReply = "keeper.never.send", Call;
        IndexAppend = "keeper.index.append", Write;
        LogAppend = "keeper.log.append", Write;
        SegmentMake = "keeper.segment.create", Call;
        SegmentDrop = "keeper.segment.unlink", Call;
        /// Removing what was typed.
        TypedDrop = "keeper.typed.unlink", Call;
        /// Giving back the part of the index that is about old segments.
        IndexForget = "keeper.index.punch", Call;
        /// Putting input into the pipe that holds it for the command.
        InputQueue = "keeper.input.queue", Call;
        InputWrite = "keeper.input.write", Call;
        /// Starting the process that derives the screen of a terminal.
        ScreenExec = "keeper.screen.exec", Call;
        /// Reading the cursor that it prints.
        ScreenRead = "keeper.screen.read", Call;
        /// Printing it.
        CursorPrint = "screen.cursor.write", Write;
        ClientAccept = "keeper.client.accept", Call;
        ClientReceive = "keeper.client.receive", Call;
        /// Carrying out a request.
        ClientServe = "keeper.client.serve", Sure;
        ClientReply = "keeper.client.send", Write;
        /// Reaping children, the main process among them.
        Reap = "keeper.children.reap", Sure;
        /// Emptying the pipes.
        Drain = "keeper.output.drain", Sure;
        OutcomeWrite = "keeper.outcome.write", Write;
        /// Syncing the outcome, once it is announced.
        OutcomeSync = "keeper.outcome.sync", Call;
        LiveRemove = "keeper.live.unlink", Call;
        /// Letting waiters go on.
        DoneRelease = "keeper.done.unlock", Call;
        /// Writing the closed record on its own.
        ClosedWrite = "keeper.closed.write", Write;
        LogSync = "keeper.log.sync", Call;
        GroupRemove = "keeper.group.rmdir", Sure;

        /// Sleeping until the kernel tells of something that is waited for.
        WaitPoll = "waiter.poll", Call;
        /// Looking whether all that comes with the end is done.
        DoneProbe = "waiter.done.probe", Call;

        /// Looking whether a keeper holds the lock of a job.
        LockProbe = "reader.lock.probe", Call;
        /// Taking the lock of a job without a keeper.
        RecoverLock = "reader.recover.flock", Call;
        RecoverWrite = "reader.recover.write", Write;
        RecoverSync = "reader.recover.sync", Call;
        RecoverMark = "reader.recover.unlink", Call;
        OwedLock = "parting.owed.flock", Call;
        /// Removing the mark of what is pending, once the notice is in the spool.
        OwedRemove = "parting.owed.unlink", Call;
        /// Becoming the only process that sends.
        SpoolLock = "deliver.spool.flock", Call;
        /// Taking out of the spool what has arrived.
        SpoolRemove = "deliver.spool.unlink", Call;
        /// Putting aside what cannot be sent.
        SpoolAside = "deliver.aside.rename", Call;
        /// Removing the mark of a job whose end is among the events.
        ReconcileMark = "reader.reconcile.unlink", Call;
        ReadersMake = "reader.readers.mkdir", Call;
        /// Becoming the only process that delivers to a reader.
        InboxLock = "reader.inbox.flock", Call;
        /// Becoming the only process that looks at a watched job.
        WatchLock = "reader.watch.flock", Call;
        /// Saying that a reader is there.
        PresenceLock = "reader.presence.flock", Call;
        /// Noting at a job that a reader has received its end.
        ToldMake = "reader.told.create", Call;
        /// Making the file that is locked by the process which looks whether a job is ready.
        ProbeMake = "reader.probe.create", Call;
        /// Noting that all was passed on which another job printed.
        FedMake = "reader.fed.create", Call;
        /// Asking the keeper of a job to let another run take its place.
        ReplaceAsk = "reader.replace.ask", Sure;
        /// Noting that a front end has shown the outcome.
        SeenMake = "reader.seen.create", Call;
        CursorsMake = "reader.cursors.mkdir", Call;
        KeeperConnect = "reader.keeper.connect", Call;
        RequestSend = "reader.request.send", Write;
        ReplyReceive = "reader.reply.receive", Call;
        /// Beginning a segment in place of those of an ended job.
        ClearMake = "reader.clear.create", Call;
        ClearDrop = "reader.clear.unlink", Call;
        /// Renaming a job out of `jobs/`.
        RemoveRename = "reader.remove.rename", Call;
        RemoveMark = "reader.remove.unlink", Call;
        /// Removing the cache, which may hold a job that was removed.
        CacheDrop = "reader.cache.unlink", Call;
        /// Renaming the mark in `live/` of a job that is given to another session.
        TransferMark = "reader.transfer-mark.rename", Call;
        AgentsMake = "reader.agents.mkdir", Call;
        TasksMake = "reader.tasks.mkdir", Call;
        RemoveDelete = "reader.remove.delete", Call;
        /// Noting that the event of a dead keeper is written.
        OrphanMark = "reader.orphan.create", Call;
        /// Holding a job without a keeper, to record how its main process ends.
        OrphanHold = "reader.orphan.flock", Call;
        /// Taking the lock of a job whose keeper died after it had written the outcome.
        CloseLock = "reader.close.flock", Call;
        CloseWrite = "reader.close.write", Write;
        CloseMark = "reader.close.unlink", Call;
        /// Putting a damaged job out of the way.
        QuarantineMove = "reader.quarantine.rename", Call;
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

    replacing {
        /// Where a job runs that is kept there.
        NODE_PLACED = "reader.node-placed", NodePlacedWrite, NodePlacedRename;
        /// A file of a job that was brought home.
        HOME = "reader.home-file", HomeFileWrite, HomeFileRename;
        /// What `ssh` makes of the name of another machine.
        ROUTE = "caller.route", RouteWrite, RouteRename;
        /// The keeper's snapshot of a running job.
        META_START = "keeper.meta-start", MetaStartWrite, MetaStartRename;
        /// The keeper's snapshot of an ended job.
        META_END = "keeper.meta-end", MetaEndWrite, MetaEndRename;
        /// What is to follow a job that the process beside it has ended.
        NEXT_RUN = "keeper.replace", ReplaceWrite, ReplaceRename;
        /// The snapshot of a job whose outcome a front end writes, because its keeper died.
        RECOVER_META = "reader.recover-meta", RecoverMetaWrite, RecoverMetaRename;
        /// The snapshot of a job that a front end closes, because its keeper died.
        CLOSE_META = "reader.close-meta", CloseMetaWrite, CloseMetaRename;
        /// What front ends know of jobs.
        JOBS_CACHE = "reader.jobs-cache", JobsCacheWrite, JobsCacheRename;
        /// The screen at an earlier place of the log.
        SCREEN = "reader.screen", ScreenWrite, ScreenRename;
        /// The screen that is kept before its output is dropped.
        KEPT_SCREEN = "screen.kept", KeptScreenWrite, KeptScreenRename;
        /// Where a reader is.
        CURSOR = "reader.cursor", CursorWrite, CursorRename;
        /// The results of a job's on-exit command and webhook. The keeper writes them where it cannot become the program that
        /// does this, which no scenario brings about.
        PARTING = "parting.note", PartingWrite, PartingRename;
        /// That no run follows by itself any more.
        GAVE_UP = "parting.gave-up", GaveUpWrite, GaveUpRename;
        /// When a job with a schedule is to begin, after another look.
        PLANNED = "parting.planned", PlannedAgainWrite, PlannedAgainRename;
        /// What is to be sent.
        SPOOL = "parting.spool", SpoolWrite, SpoolRename;
        /// What became of what was sent.
        SENT = "deliver.sent", SentWrite, SentRename;
        /// How far a reader has received events.
        INBOX = "reader.inbox", InboxWrite, InboxRename;
        /// Where an engine has placed a job.
        PLACED = "placer.placed", PlacedWrite, PlacedRename;
        /// What a session says.
        SETTINGS = "reader.settings", SettingsWrite, SettingsRename;
        /// What is wanted of a project.
        PROJECT = "project.record", ProjectWrite, ProjectRename;
        /// How far that has come.
        PROGRESS = "project.progress", ProgressWrite, ProgressRename;
        /// The session that a job is given to.
        TRANSFER = "reader.transfer", TransferWrite, TransferRename;
        /// That a job is ready.
        READY = "reader.ready", ReadyWrite, ReadyRename;
        /// What a reader watches for in a job's output, and how far that was looked at.
        WATCH = "reader.watch", WatchWrite, WatchRename;
        /// Whether a job is healthy.
        HEALTH = "reader.health", HealthWrite, HealthRename;
        /// How many jobs of a queue run at once, and whether it is paused.
        QUEUE = "starter.queue-settings", QueueWrite, QueueRename;
        /// The new name of a job.
        NAME = "reader.name", NameWrite, NameRename;
        /// What is known of an agent.
        AGENT = "reader.agent", AgentWrite, AgentRename;
        /// What is said of a task.
        TASK = "reader.task", TaskWrite, TaskRename;
        /// Who asked for the end of a job without a keeper.
        ORPHAN_ASKED = "reader.orphan-asked", OrphanAskedWrite, OrphanAskedRename;
        /// The snapshot of a job without a keeper that was paused or goes on.
        ORPHAN_PAUSE = "reader.orphan-pause", OrphanPauseWrite, OrphanPauseRename;
    }

    appending {
        /// The keeper's event of a start.
        EVENT_START = "keeper.event-start", EventStartOpen, EventStartWrite;
        /// The keeper's events of all that comes later.
        EVENT_END = "keeper.event-end", EventEndOpen, EventEndWrite;
        /// What was typed.
        TYPED = "keeper.typed", TypedOpen, TypedWrite;
        /// The event of an outcome that a front end writes.
        RECOVER_EVENT = "reader.recover-event", RecoverEventOpen, RecoverEventWrite;
        /// The event of a removal.
        REMOVE_EVENT = "reader.remove-event", RemoveEventOpen, RemoveEventWrite;
        /// That a job is ready.
        READY_EVENT = "reader.ready-event", ReadyEventOpen, ReadyEventWrite;
        /// A line that a reader watches for.
        WATCH_EVENT = "reader.watch-event", WatchEventOpen, WatchEventWrite;
        /// That a job is unhealthy, or healthy again.
        HEALTH_EVENT = "reader.health-event", HealthEventOpen, HealthEventWrite;
        /// That a file has changed, or that none is watched.
        CHANGE_EVENT = "reader.change-event", ChangeEventOpen, ChangeEventWrite;
        /// The event that no run follows by itself any more.
        GAVE_UP_EVENT = "parting.gave-up-event", GaveUpEventOpen, GaveUpEventWrite;
        /// That the time of a run has passed.
        PLAN_EVENT = "parting.plan-event", PlanEventOpen, PlanEventWrite;
        /// An end that is not among the events.
        RECONCILE_EVENT = "reader.reconcile-event", ReconcileEventOpen, ReconcileEventWrite;
        /// The event of a job that was given to another session.
        TRANSFER_EVENT = "reader.transfer-event", TransferEventOpen, TransferEventWrite;
        /// The event of a keeper's death.
        ORPHAN_EVENT = "reader.orphan-event", OrphanEventOpen, OrphanEventWrite;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_who() {
        let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        assert!(names.iter().all(|name| {
            [
                "opener.", "starter.", "keeper.", "parting.", "deliver.", "waiter.", "reader.", "screen.",
                "placer.", "caller.", "served.", "project.",
            ]
            .iter()
            .any(|actor| name.starts_with(actor))
        }));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
    }
}
