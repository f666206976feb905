//! The options of a job, declared once.
//!
//! Each entry below is one option: its help, its name (the builder's method, the command line's flag, the key of `[job]` in
//! `config.toml`), the kind of its value with the unit and bounds, its field in `spec.json`, its default, what stands for the value
//! in help, and where else it is offered. [`OPTIONS`] lists them for front ends that offer or show them all; [`JobOptions`]
//! holds the decided values, as in `spec.json` and the launch request; [`JobChoices`] holds what a caller chose.

#[macro_use]
mod declare;
mod field;
pub mod kinds;

pub(crate) use declare::fingerprint;
pub use declare::{JobOption, Surfaces};
pub use field::Field;
pub(crate) use field::fields;

use declare::RUN;
use kinds::{
    Cpus, CronLine, Deadline, Interval, Line, Maybe, Memory, Millis, OrOff, PortOrAny, Size, TimeOfDay, Whole,
};

use crate::containment::{Level, Survivors};
use crate::health::HealthThen;
use crate::id::QueueName;
use crate::restart::RestartWhen;
use crate::schedule::{Missed, Overlap};
use crate::spec::{Lifetime, Stdin};
use crate::terminal::size::TerminalSize;

job_options! {
    pub struct JobOptions {
        /// Name of the job; need not be unique
        name: Maybe<String> as name = None, "NAME", RUN.mcp("name", "What to call it");

        /// Group of the job; a group is waited for and ended together
        group: Maybe<String> as group = None, "NAME", RUN.mcp("group", "Group, for wait and kill");

        /// End it after this time; `none` for never
        timeout: OrOff<Deadline> as timeout_ms = None, "DURATION",
            RUN.config().mcp("timeout_ms", "Kill it after so long");

        /// Time between TERM and KILL
        grace: Millis as grace_ms = 5_000, "DURATION", RUN.config();

        /// Standard input: null for nothing, open for what `outlive send` writes; without it null, or with --wait a pipe or file
        stdin: Stdin as stdin = Stdin::Null, "null|open", RUN.mcp("stdin", "open: send_input can write to it");

        /// Run it in a terminal of its own, as programs expect that ask, draw or colour; `attach` shows it, `send` types into it
        pty: bool as pty = false, "true|false", RUN.short('t').show().mcp("pty", "In a terminal: prompts, REPLs, full-screen programs");

        /// Size of its terminal, columns x rows; without it 120x40
        size: Maybe<TerminalSize> as size = None, "SIZE", RUN.show();

        /// Keep what is typed into its terminal, for `export --cast`; not passwords, nor what `send --secret` sends
        record_input: bool as record_input = false, "true|false", RUN.config().show();

        /// Join standard error to standard output in one pipe, so that their order is exact; all of it counts as standard output
        merge: bool as merge = false, "true|false", RUN.config().show();

        /// Keep this much of its output, such as 100M; `off` for all
        output_cap: OrOff<Size> as output_cap_bytes = Some(100 << 20), "SIZE", RUN.config();

        /// Set the nice value, from -20 to 19; a value below the starter's needs a privilege
        nice: OrOff<Whole<i32, -20, 19>> as nice = None, "NUMBER", RUN.config().show();

        /// Processes left by the main one: keep, kill or kill-after=DURATION
        survivors: Survivors as survivors = Survivors::Keep, "CHOICE", RUN.config();

        /// Containment level; without it the best that the machine has
        containment: OrOff<Level> as containment = None, "cgroup2|hybrid|freezer|sweep|group", RUN.config();

        /// Tell the reader that starts it of each line of its output that matches this regular expression, at most six times a minute
        watch: Maybe<String> as watch = None, "PATTERN", RUN.show().mcp("watch", "Regex; be told of lines that match");

        /// Let it wait for its turn in this queue, of whose jobs only so many run at once: `outlive queue parallel`
        queue: OrOff<QueueName> as queue = None, "NAME", RUN.config();

        /// How long it may live: forever, session, or until=TIME
        lifetime: Lifetime as lifetime = Lifetime::Forever, "CHOICE", RUN.show();
    }

    /// Upper limits of what a job may use; none by default.
    #[derive(Copy)]
    pub struct JobLimits in limits as "limits" {
        /// End it when all its processes together use more memory, such as 2G
        memory: OrOff<Memory> as memory_bytes, "SIZE", RUN.under("Limits").config().mcp("memory_mb", "Memory limit");

        /// Limit the number of processes and threads
        pids: OrOff<Whole<u64, 1>> as pids, "COUNT", RUN.under("Limits").config();

        /// Limit processor time, such as 0.5 for half a CPU
        cpu: OrOff<Cpus> as cpu_milli, "CPUS", RUN.under("Limits").config();

        /// Limit the open files of each process
        open_files: OrOff<Whole<u64, 3>> as open_files, "COUNT", RUN.under("Limits").config();
    }

    /// When a job counts as ready: as soon as all conditions that are set here hold.
    pub struct Ready in ready as "ready" {
        /// It is ready when a line of its output matches this regular expression
        ready_on: Maybe<String> as on, "PATTERN",
            RUN.under("Readiness").mcp("ready_on", "Regex of the line that says it is ready");

        /// It is ready when one of its processes listens on this TCP port; `any` for whichever
        ready_port: Maybe<PortOrAny> as port, "PORT",
            RUN.under("Readiness").mcp("ready_port", "It is ready when it listens there");

        /// It is ready when this address answers with a status below 400
        ready_http: Maybe<String> as http, "URL",
            RUN.under("Readiness").mcp("ready_url", "It is ready when this answers");

        /// It is ready when this line exits with 0; a shell runs it in the job's directory until it does
        ready_command: Maybe<Line> as command, "LINE", RUN.under("Readiness");

        /// It is ready when it says so on the socket NOTIFY_SOCKET, as sd_notify(3) does
        ready_notify: bool as notify, "true|false", RUN.under("Readiness");

        /// Give up on readiness after this time; without it, at its end
        ready_timeout: Maybe<Millis> as timeout_ms, "DURATION", RUN.under("Readiness");
    }

    /// Whether a job goes on working: all conditions that are set here hold, from when it is ready, else from its start.
    pub struct Health in health as "health" {
        /// It is healthy while one of its processes listens on this TCP port
        health_port: Maybe<Whole<u16, 1, 65_535>> as port, "PORT", RUN.under("Health");

        /// It is healthy while this address answers with a status below 400
        health_http: Maybe<String> as http, "URL", RUN.under("Health");

        /// It is healthy while this line exits with 0; a shell runs it in the job's directory
        health_command: Maybe<Line> as command, "LINE", RUN.under("Health");

        /// It is healthy while its output has a line that matches this regular expression: one in each interval
        health_line: Maybe<String> as line, "PATTERN", RUN.under("Health");

        /// It is healthy while it says so on the socket NOTIFY_SOCKET, as sd_notify(3) does with WATCHDOG=1: once in each interval
        health_notify: bool as notify, "true|false", RUN.under("Health");

        /// Check its health so often; without it 10s
        health_interval: Maybe<Interval> as interval_ms, "DURATION", RUN.under("Health");

        /// It is unhealthy after so many failures in a row; without it 3
        health_failures: Maybe<Whole<u64, 1, 1000>> as failures, "COUNT", RUN.under("Health");

        /// When it is unhealthy: tell it as an event, or restart it, as often as --restart-tries allows
        health_then: HealthThen as then, "event|restart", RUN.under("Health");
    }

    /// Whether another run follows when the job has ended by itself.
    #[derive(Copy)]
    pub struct Restart in restart as "restart" {
        /// Start it again when it ends: never, when it has failed, or always; a job that was stopped is not started again
        restart: RestartWhen as when, "no|on-failure|always", RUN.under("Restarting");

        /// Give up after so many restarts within the window; without it 5
        restart_tries: Maybe<Whole<u64, 1, 1000>> as tries, "COUNT", RUN.under("Restarting");

        /// Wait so long before the first restart; each wait after it is twice as long, up to a minute; without it 500ms
        restart_delay: Maybe<Millis> as delay_ms, "DURATION", RUN.under("Restarting");

        /// The time in which restarts are counted, and after which a run that goes well counts as healthy; without it 1m
        restart_window: Maybe<Interval> as window_ms, "DURATION", RUN.under("Restarting");
    }

    /// When a job is run, again and again.
    pub struct Schedule in schedule as "schedule" {
        /// Run it at the times of this cron line, such as "*/15 9-17 * * mon-fri", by the clock on the wall
        schedule: Maybe<CronLine> as cron, "CRON", RUN.under("Schedule");

        /// Run it so often, such as 1h: at once or from --at on; an interval holds its length when the clocks are changed
        every: Maybe<Interval> as every_ms, "DURATION", RUN.under("Schedule");

        /// Run it at this time of day, such as 18:00; every day, or as often as --every says
        at: Maybe<TimeOfDay> as at, "HH:MM", RUN.under("Schedule");

        /// Runs whose time came while the machine slept or was off: once for all of them, skip them, or all one by one; without it once
        missed: Missed as missed, "once|skip|all", RUN.under("Schedule");

        /// A run whose time comes while the one before still runs: skip it, queue it until then, or kill the one before; without it skip
        overlap: Overlap as overlap, "skip|queue|kill", RUN.under("Schedule");
    }

    /// What is done when the job has ended. `spec.json` keeps the key of earlier versions.
    pub struct Completion in completion as "parting" {
        /// When it has ended, run this line in a shell, with the notice on its standard input
        on_exit: Maybe<Line> as on_exit, "LINE",
            RUN.under("At its end").mcp("on_exit", "Shell line to run at its end");

        /// When it has ended, send the notice to this address
        webhook: Maybe<String> as webhook, "URL", RUN.under("At its end");

        /// When it has ended, show a notification on the desktop, where there is one
        notify: bool as notify, "true|false",
            RUN.under("At its end").show().mcp("notify", "Tell the user at its end");
    }
}

/// How the command is connected to its keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// By a pipe for each stream.
    Pipes {
        /// Where its standard input comes from.
        stdin: Stdin,
        /// Standard error goes into the pipe of standard output.
        merge: bool,
    },
    /// By a terminal, which is all of its input and output.
    Terminal {
        /// The size that it begins with.
        size: TerminalSize,
    },
}

impl Completion {
    /// Tells whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl JobOptions {
    /// Returns how the command is connected.
    pub fn endpoint(&self) -> Endpoint {
        match self.pty {
            true => Endpoint::Terminal { size: self.size.unwrap_or_default() },
            false => Endpoint::Pipes { stdin: self.stdin, merge: self.merge },
        }
    }

    /// Returns what ends a line of input: in a terminal what the Enter key sends.
    pub fn line_end(&self) -> u8 {
        if self.pty { b'\r' } else { b'\n' }
    }

    /// Tells whether it has a socket on which it says how it is doing.
    pub fn is_notified(&self) -> bool {
        self.ready.notify || self.health.notify
    }

    /// Tells whether input can be written to it.
    pub fn takes_input(&self) -> bool {
        self.pty || self.stdin == Stdin::Open
    }
}
