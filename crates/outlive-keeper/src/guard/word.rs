//! Which number of the page means what.

/// Numbers of the page.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Word {
    /// The version of the page, [`PAGE_VERSION`](super::page::PAGE_VERSION).
    Version,
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
    /// The pipe that holds input: its two ends.
    QueueReading,
    QueueWriting,
    /// Input is being put there: how much it held before, of which client, from which offset of that.
    IsPushing,
    PushedUpon,
    PushedBy,
    PushedAt,
    /// How many clients there were of whom input was taken.
    ClientCount,
    /// The pid of the keeper. The process that goes on in its place puts its own here.
    KeeperPid,
    /// How often the keeper was upgraded, and how often the guard.
    Generation,
    GuardGeneration,
    /// Keeper and guard have two tables of descriptors; which number the command's input had when they parted, and 1.
    IsSplit,
    SplitStdin,
    /// The guard that has the other table.
    SplitGuardPid,
    SplitGuardStart,
    /// Where the handover is, and 1.
    Handover,
    /// The phase of an upgrade, a [`Phase`](super::page::Phase), and when it must be over.
    Phase,
    PhaseDue,
    /// The last attempt to upgrade, the generation that it leads to, and why the program could not be executed.
    Attempt,
    AttemptGeneration,
    AttemptErrno,
    /// Whether the command waits for its time; see `turn`.
    Turn,
    /// Whether another run is to be made, and the process that makes it; see `next_run`.
    NextRun,
    NextRunPid,
    /// Locks of a job in a queue: while it waits, and while it runs; see `turn::queue`.
    Ticket,
    Slot,
    /// Which number the slot had when keeper and guard parted, and 1.
    SplitSlot,
    /// The socket on which the command says that it is ready; it is open until the end.
    Notices,
    /// Whether a process beside the job watches files for it.
    IsWatching,
    /// How long the launch request is, header included; 0: there is no job yet.
    Request,
    /// Descriptors that are open from the beginning to the end: the job's directory, `outcome`, the index.
    Dir,
    Outcome,
    Index,
    /// The program that reports the end of the job.
    OnExit,
    /// The terminal's master, the command's side of it, and the program that finds out answers.
    Master,
    CommandSide,
    Answers,
    /// The first guard is the process that an engine's script has become; see `foreground`.
    Foreground,
    /// The signal by which the engine has asked for the end of the job.
    Asked,
    /// Processes that work for the keeper, and are no part of the job.
    Workers = 120,
    /// Clients of whom input was taken, and up to which offset each: so many pairs.
    InputClients = 128,
}

/// Descriptors that came after the fork of the first guard, which knows of them by the page alone.
pub(super) const FOR_THE_FIRST_GUARD: [Word; 7] =
    [Word::Dir, Word::Outcome, Word::Index, Word::OnExit, Word::Master, Word::CommandSide, Word::Answers];
