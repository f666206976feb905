//! Converts each error of the library into a failure: its code, and what to do next at a command line and with tools.

use std::path::Path;

use outlive_sys::owner::{self, Distrust};
use outlive_sys::socket;

use super::{Code, Failure, cut, exit};
use crate::{
    AfterError, AgentError, ConfigError, ControlError, FindError, InboxError, InstalledKeeperError,
    LimitError, PatternError, QueueError, RemoveError, RenameError, RestartError, SessionError, StartError,
    StoreError, WaitError, WatchError,
};

/// For failures that only a person can fix.
const TELL_THE_USER: &str = "this is not the command's fault: tell the user, outlive doctor examines it";

const EXAMINE: &str = "`outlive doctor` examines the store";

impl Failure {
    fn code_is(mut self, code: Code) -> Self {
        (self.code, self.exit_status) = (code, code.exit_status());
        self
    }

    /// Adds the live jobs for agents, which may have meant one of them.
    fn with_live_jobs(mut self) -> Self {
        self.lists_live_jobs = true;
        self
    }

    /// Says what to do about a store that is not trusted.
    fn distrusted(self, path: &Path, why: Distrust) -> Self {
        let (path, is_root) = (path.display(), socket::own_uid() == 0);
        let hint = match why {
            Distrust::Owner(uid) if is_root => {
                let name = owner::user_name(uid);
                format!(
                    "`outlive --as-owner …` acts as {name}; or set OUTLIVE_HOME to a directory of root's own"
                )
            }
            Distrust::Owner(_) => "set OUTLIVE_HOME to a directory of your own".to_owned(),
            Distrust::Shared(_) => {
                format!("look at what is in it, then take the right away: chmod -R go-w {path}")
            }
            Distrust::Link | Distrust::Kind | Distrust::TooLong(_) => format!("move {path} away"),
        };
        let failure = if why.is_foreign() { self.code_is(Code::Foreign) } else { self };
        failure.tool_hint(format!("tell the user: {hint}")).hint(hint)
    }

    /// Hints for a failure that no caller can fix.
    fn broken(self) -> Self {
        self.hint(EXAMINE).tool_hint(TELL_THE_USER)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::other("store", &error);
        match &error {
            StoreError::NoHome | StoreError::Relative(_) => {
                failure.hint("set OUTLIVE_HOME to an absolute path")
            }
            StoreError::NotAStore(_) => failure.hint("set OUTLIVE_HOME to a directory of its own"),
            StoreError::Version { .. } => {
                failure.hint("update outlive, or set OUTLIVE_HOME to another directory")
            }
            // The TOML error shows the place over several lines.
            StoreError::Config(ConfigError::Parse(..)) => {
                Self { message: error.to_string(), ..failure.code_is(Code::Config) }
                    .hint("`outlive help configuration` has every key")
            }
            StoreError::Distrusted(path, source) => failure.distrusted(path, *source),
            StoreError::Config(ConfigError::Distrusted(path, source)) => {
                let code = if source.is_foreign() { Code::Foreign } else { Code::Config };
                let hint = format!(
                    "{} must be a file of yours that others cannot write to; OUTLIVE_CONFIG names another",
                    path.display()
                );
                failure.code_is(code).tool_hint(format!("tell the user: {hint}")).hint(hint)
            }
            StoreError::Io(path, _) => failure
                .hint(format!("{} must be a directory that you own, on a disk with room", path.display())),
            StoreError::Config(_) => failure,
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let failure = Self::other("run", &error);
        match &error {
            StartError::Request(_) => failure
                .code_is(Code::Usage)
                .hint("outlive run --help has examples")
                .tool_hint("call run again without what is wrong"),
            StartError::Limit(LimitError::Bytes { .. }) => failure
                .code_is(Code::LimitReached)
                .hint("give a smaller --output-cap, end a job, or raise bytes of [limits] in config.toml")
                .tool_hint("list_jobs, then manage_job action=remove for those that are no longer needed"),
            StartError::Limit(LimitError::Queued { .. }) => failure
                .code_is(Code::LimitReached)
                .hint("end some with `outlive kill`, or raise queued of [limits] in config.toml; `outlive queue list` shows them")
                .tool_hint("kill those that are no longer needed"),
            StartError::After(AfterError::Unknown(_)) => failure
                .code_is(Code::NotFound)
                .hint("`outlive list` shows all jobs")
                .with_live_jobs(),
            StartError::After(after) => failure
                .code_is(Code::NotReached)
                .hint(match after {
                    AfterError::NoHealth(_) => "start that job with --health-http, --health-port, --health-command, --health-line or --health-notify; or write @ready or @started",
                    AfterError::NoReady(_) => "start that job with --ready-on, --ready-port, --ready-http, --ready-command or --ready-notify; or leave @ready out to wait for its end",
                    _ => "start it without --after, or after another job",
                })
                .tool_hint("start it without waiting for that job"),
            StartError::Queue(_) => failure.broken().hint(EXAMINE),
            StartError::Engine(_) => failure
                .code_is(Code::NotStarted)
                .hint("nothing was started; `sinfo` and `sbatch` must work where this was called"),
            StartError::Limit(_) => failure
                .code_is(Code::LimitReached)
                .hint("end one with `outlive kill JOB`, or raise [limits] in config.toml; `outlive list` shows them")
                .tool_hint("kill one that is no longer needed")
                .with_live_jobs(),
            StartError::NeverStarted { job, why } => {
                let mut failure = failure.code_is(Code::NotStarted).about(job);
                if why.is_not_found() {
                    failure.exit_status = exit::NO_PROGRAM;
                }
                let failure = failure.tool_hint(format!("read_output job={job} has what is known"));
                match why.step.as_str() {
                    "exec" => failure.hint("give a program that is in PATH or a path to one; a line for the shell goes in quotes: outlive run 'LINE'"),
                    "directory" => failure
                        .hint("give an existing directory with --cwd")
                        .tool_hint("call run again with a cwd that exists"),
                    _ => failure.hint(format!("`outlive show {job}` has the record")),
                }
            }
            StartError::Silent(job) => failure
                .about(job)
                .hint(format!("`outlive show {job}` tells what became of it"))
                .tool_hint(format!("list_jobs shows whether {job} has started")),
            StartError::NoKeeper => {
                failure.broken().hint("install outlive-keeper beside outlive, or set OUTLIVE_KEEPER to its path")
            }
            StartError::NoHelper => {
                failure.broken().hint("install outlive beside this program, or set OUTLIVE_PROGRAM to its path")
            }
            StartError::Store(..) => failure.broken().hint(format!("{EXAMINE}; `outlive gc` makes room")),
            StartError::Keeper(..) | StartError::KeeperVersion(..) => {
                failure.broken().hint("install outlive and outlive-keeper of the same version side by side")
            }
        }
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        let failure = Self::other("queue", &error);
        match &error {
            QueueError::Unknown(_, known) => {
                let names: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
                failure.code_is(Code::NotFound).hint_for_all(&match names.as_slice() {
                    [] => "a queue begins with its first job: outlive run --queue NAME 'LINE'".to_owned(),
                    names => format!("there are {}", names.join(", ")),
                })
            }
            QueueError::Parallel(_) => failure.code_is(Code::Usage),
            QueueError::Store(..) => failure.broken(),
        }
    }
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Self {
        let failure = Self::other("", &error);
        match &error {
            FindError::Unknown(reference, similar) => {
                let unknown = FindError::Unknown(cut(reference), Vec::new());
                let failure = Self::other("", &unknown).code_is(Code::NotFound);
                match similar.as_slice() {
                    [] if reference == "all" => {
                        failure.hint("for all jobs: --all, as in outlive kill --all").with_live_jobs()
                    }
                    [] => failure.hint("`outlive list` shows all jobs").with_live_jobs(),
                    similar => failure.hint_for_all(&format!(
                        "did you mean {}? give the whole id, its last part, or its name",
                        crate::job::find::list(similar)
                    )),
                }
            }
            FindError::Ambiguous(..) => {
                failure.code_is(Code::Ambiguous).hint_for_all("give the whole id, or its last part")
            }
            FindError::Damaged(id, error) if error.is_newer() => {
                failure.code_is(Code::Newer).about(id).with_live_jobs()
            }
            FindError::Damaged(id, error) if error.is_foreign() => {
                let next = "it is not used: `outlive doctor` says whose it is";
                failure.code_is(Code::Foreign).about(id).hint_for_all(next)
            }
            FindError::Damaged(id, _) => failure
                .code_is(Code::Damaged)
                .about(id)
                .hint("`outlive doctor --fix` moves it out of the way")
                .tool_hint("tell the user: outlive doctor --fix moves it out of the way")
                .with_live_jobs(),
            FindError::Port { port, is_taken: true } => failure
                .code_is(Code::NotFound)
                .during("kill")
                .hint(format!(
                    "another process does, and outlive ends only its own jobs; `ss -ltnp 'sport = :{port}'` shows which"
                ))
                .tool_hint(format!("another process listens on {port}, and outlive ends only its own jobs"))
                .with_live_jobs(),
            FindError::Port { is_taken: false, .. } => failure
                .code_is(Code::NotFound)
                .during("kill")
                .hint("no other process does either; `outlive list --live --ports` shows the ports of all jobs")
                .tool_hint("list_jobs ports=true shows the ports of all jobs"),
            FindError::Store(_) => failure.during("store").broken(),
        }
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        let failure = Self::other("wait", &error).tool_hint("call wait again");
        match &error {
            WaitError::NoReady(job) => failure
                .code_is(Code::Usage)
                .about(job)
                .hint("say it when you start it: outlive run --ready-on, --ready-port, --ready-http, --ready-command or --ready-notify; or wait for --match, --port or --http")
                .tool_hint(format!(
                    "wait jobs=[\"{job}\"] for=match pattern=\"…\", for=port port=…, or start it with ready_on, ready_port or ready_url"
                )),
            WaitError::NoInput(job) => failure
                .code_is(Code::Usage)
                .about(job)
                .hint("start it with: outlive run --pty, or --stdin open")
                .tool_hint("start it with pty=true, or stdin=\"open\""),
            WaitError::Condition(_) => failure.code_is(Code::Usage),
            WaitError::Io(_) => failure.hint(EXAMINE),
        }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let failure = Self::other("", &error);
        match &error {
            ControlError::Ended(job) => failure
                .code_is(Code::Ended)
                .hint(format!("`outlive logs {job}` has what it printed"))
                .tool_hint(format!("read_output job={job} has what it printed")),
            ControlError::Orphaned(job) => failure
                .code_is(Code::Orphaned)
                .hint(format!("it can still be ended: outlive kill {job}"))
                .tool_hint(format!("it can still be ended: kill job={job}")),
            ControlError::Elsewhere(_) => failure
                .code_is(Code::Elsewhere)
                .hint_for_all("ask from the host or container that started it"),
            ControlError::NotBegun(job, _) => failure
                .code_is(Code::NotBegun)
                .about(job)
                .hint(format!("`outlive show {job}` says what it waits for; try again when it runs"))
                .tool_hint("list_jobs says what it waits for; try again when it runs"),
            ControlError::OwnAncestor(job) => failure
                .code_is(Code::OwnAncestor)
                .about(job)
                .hint_for_all("let the command exit by itself, or ask from outside the job"),
            ControlError::Unreachable(job, _) => failure
                .code_is(Code::Unreachable)
                .hint(format!("is its keeper stopped? `outlive show {job}` has the pid"))
                .tool_hint(format!("list_jobs shows how {job} is doing")),
            ControlError::Refused { code, .. } if code == "stdin_closed" => failure
                .code_is(Code::StdinClosed)
                .hint("start the job with `outlive run --stdin open` or `--pty`; after --eof it stays closed")
                .tool_hint("start it again: run with stdin=\"open\", or with pty=true for a terminal"),
            ControlError::Refused { code, .. } if code == "no_terminal" => failure
                .code_is(Code::NoTerminal)
                .hint("start the job in a terminal: outlive run --pty")
                .tool_hint("start it again: run with pty=true"),
            ControlError::Fed(..) => failure
                .code_is(Code::StdinClosed)
                .hint_for_all("send it to that job, or start this one without its output"),
            ControlError::NotHidden { job, .. } => failure
                .code_is(Code::NotHidden)
                .about(job)
                .hint(format!(
                    "send it when it asks for a password (`outlive wait {job} --input` waits for that), or type it there: outlive attach {job}; --masked if the program reads keys and hides them"
                ))
                .tool_hint("a password is for the user to type"),
            ControlError::NotReading { job, .. } => failure
                .code_is(Code::NotReading)
                .hint("what was taken will reach the command when it reads; send the rest later")
                .tool_hint(format!("read_output job={job} shows what it does instead")),
            ControlError::TooOld(job) => {
                let next = "a job keeps the keeper that it was started with; start it anew for this";
                failure
                    .code_is(Code::TooOld)
                    .about(job)
                    .hint(format!("{next}: outlive kill {job}"))
                    .tool_hint(format!("{next}: kill job={job}"))
            }
            ControlError::Version { job, .. } => failure
                .code_is(Code::Version)
                .about(job)
                .hint(
                    "use the version of outlive that started it; `outlive logs` and `show` work all the same",
                )
                .tool_hint("read_output and list_jobs work all the same"),
            ControlError::Store(..) => failure.broken(),
            ControlError::Refused { code, .. } if code == "upgrade_failed" => failure
                .hint("nothing of the job is lost; install a version that works here, and try again")
                .tool_hint(TELL_THE_USER),
            ControlError::Refused { .. } => failure.tool_hint("list_jobs shows how it is doing"),
        }
    }
}

impl From<InstalledKeeperError> for Failure {
    fn from(error: InstalledKeeperError) -> Self {
        let failure = Self::other("upgrade", &error);
        let hint = "no job was touched; install outlive and outlive-keeper side by side, or name the program with OUTLIVE_KEEPER";
        match &error {
            InstalledKeeperError::Unfit(_) => {
                failure.hint(format!("it is of an earlier version, or broken; {hint}"))
            }
            _ => failure.hint(hint),
        }
    }
}

impl From<PatternError> for Failure {
    fn from(error: PatternError) -> Self {
        Self::other("", &error)
            .code_is(Code::Usage)
            .hint_for_all("write a \\ before a dot, star or bracket that is meant as such")
    }
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Pattern(error) => error.into(),
            WatchError::Ended(ref job) => Self::other("watch", &error)
                .code_is(Code::Ended)
                .hint(format!("search what it printed: outlive logs --grep PATTERN {job}"))
                .tool_hint(format!("read_output job={job} grep=… searches what it printed")),
            WatchError::Store(_) => Self::other("watch", &error).broken(),
        }
    }
}

impl From<RemoveError> for Failure {
    fn from(error: RemoveError) -> Self {
        let failure = Self::other("remove", &error);
        match &error {
            RemoveError::Live(job) => failure
                .code_is(Code::Live)
                .hint(format!("end it first: outlive kill {job}"))
                .tool_hint(format!("kill job={job} first")),
            RemoveError::Elsewhere(_) => failure
                .code_is(Code::Elsewhere)
                .hint_for_all("remove it from the host or container that started it"),
            RemoveError::Io(..) => failure.tool_hint("list_jobs shows what there is"),
        }
    }
}

impl From<RenameError> for Failure {
    fn from(error: RenameError) -> Self {
        let failure = Self::other("rename", &error);
        match &error {
            RenameError::Name => {
                failure.code_is(Code::Usage).hint_for_all("call it again with a short name of one line")
            }
            RenameError::Store(..) => failure.broken(),
        }
    }
}

impl From<RestartError> for Failure {
    fn from(error: RestartError) -> Self {
        match error {
            RestartError::Start(error) => Self::from(error).during("restart"),
            RestartError::Kill(error) => Self::from(error).during("restart"),
            RestartError::Survivors(ref job) => Self::other("restart", &error)
                .about(job)
                .hint(format!("`outlive show --tree {job}` shows what is left of it"))
                .tool_hint(format!("kill job={job} force=true")),
            RestartError::Newer(ref job) => Self::other("restart", &error).code_is(Code::Newer).about(job),
        }
    }
}

impl From<InboxError> for Failure {
    fn from(error: InboxError) -> Self {
        let failure = Self::other("inbox", &error);
        match &error {
            InboxError::Busy(reader) => failure.code_is(Code::TimedOut).hint(format!(
                "try again when it is done, or look with: outlive inbox --reader {reader} --peek"
            )),
            InboxError::Store(_) => failure,
        }
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        let failure = Self::other("agent", &error);
        match &error {
            AgentError::Id | AgentError::Kind => {
                failure.code_is(Code::Usage).hint("outlive agent --help has examples")
            }
            AgentError::Unknown(_) => {
                failure.code_is(Code::NotFound).hint("`outlive agent list` shows all agents")
            }
            AgentError::Ambiguous(..) => {
                failure.code_is(Code::Ambiguous).hint("say whose it is: --session NAME")
            }
            AgentError::Over(_) => failure.code_is(Code::Ended).hint("nothing is left to be stopped"),
            AgentError::Store(_) => failure.broken(),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let failure = Self::other("session", &error);
        match &error {
            SessionError::Unknown(_) => {
                failure.code_is(Code::NotFound).hint("`outlive session list` shows all sessions")
            }
            SessionError::Exists(name) => {
                failure.code_is(Code::Exists).hint(format!("close it first: outlive session close {name}"))
            }
            SessionError::Live(..) => failure
                .code_is(Code::Live)
                .hint("say what becomes of them: --running kill or --running transfer"),
            SessionError::ToItself(_) => failure.code_is(Code::Usage).hint("end them with --running kill"),
            SessionError::Kill(job, _) | SessionError::Survivors(job) => {
                failure.about(job).hint(format!("`outlive show --tree {job}` shows what is left of it"))
            }
            SessionError::Elsewhere(job) => failure
                .code_is(Code::Elsewhere)
                .about(job)
                .hint("ask from the host or container that started it"),
            SessionError::Store(_) => failure.broken(),
        }
    }
}
