//! The table of failures: every code, with its exit status and HTTP status.
//!
//! `docs/reference/exit-status.md` is generated from it.

/// Exit statuses of the command line.
pub mod exit {
    /// Any failure without a status of its own.
    pub const FAILED: u8 = 1;
    /// An invalid command line.
    pub const USAGE: u8 = 2;
    /// No such job.
    pub const NOT_FOUND: u8 = 3;
    /// A wait reached its limit.
    pub const TIMED_OUT: u8 = 4;
    /// A limit is reached.
    pub const LIMIT: u8 = 5;
    /// A wait for something that can no longer happen.
    pub const NOT_REACHED: u8 = 6;
    /// A wait came to its end, and a job that ended was not successful.
    pub const UNSUCCESSFUL: u8 = 7;
    /// The program could not be executed.
    pub const CANNOT_START: u8 = 126;
    /// The program does not exist.
    pub const NO_PROGRAM: u8 = 127;
    /// Ctrl-C ended a wait.
    pub const INTERRUPTED: u8 = 130;

    /// Every exit status with its meaning, for the reference.
    pub const TABLE: &[(&str, &str)] = &[
        ("0", "done. For `wait`: what was waited for came, and every job that has ended was successful"),
        ("1", "failed: the store, a keeper or a job refused; the message says which"),
        ("2", "the command line makes no sense"),
        ("3", "no such job, or the reference fits several"),
        ("4", "the time to wait was over, or the terminal of `run -t --wait` was left; the jobs go on"),
        ("5", "a limit is reached"),
        (
            "6",
            "`wait`: what was waited for can no longer come: the job ended first, was not ready in its time, or printed what --fail-match looks for",
        ),
        (
            "7",
            "`wait`: what was waited for came, and a job that has ended was not successful: it exited with another code than 0, was killed, timed out or is lost",
        ),
        ("126", "`run`: the program is there and could not be started"),
        ("127", "`run`: there is no such program"),
        (
            "130",
            "Ctrl-C ended the waiting, and the job goes on; the program ends by SIGINT, which a shell shows so",
        ),
        ("other", "`run --wait`, `wait --exit-code`: the command's own; 128 + n if signal n ended it"),
    ];
}

/// Declares the codes. A line is a row: name, exit status, HTTP status, stable word, meaning.
macro_rules! codes {
    ($($name:ident $exit:ident $http:literal $word:literal $meaning:literal)*) => {
        /// The stable code of a failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the word that scripts see.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Returns the exit status of the command line.
            pub const fn exit_status(self) -> u8 {
                match self { $(Self::$name => exit::$exit,)* }
            }

            /// Returns the HTTP status of an answer with this failure.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$name => $http,)* }
            }

            /// Returns its meaning, for the reference.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

codes! {
    Usage        USAGE        400 "usage"         "the request makes no sense"
    NotFound     NOT_FOUND    404 "not_found"     "no such job, session or agent; `kill --port`: no live job listens there"
    Ambiguous    NOT_FOUND    409 "ambiguous"     "the reference fits several"
    TimedOut     TIMED_OUT    504 "timed_out"     "the time to wait was over; the jobs go on"
    LimitReached LIMIT        429 "limit_reached" "too many jobs are live, or the store has no room for more output"
    NotReached   NOT_REACHED  409 "not_reached"   "`wait`: what was waited for can no longer come"
    NotStarted   CANNOT_START 422 "not_started"   "the command was not executed; the exit status is 127 if there is no such program"
    Config       FAILED       500 "config"        "`config.toml` or a project's file cannot be understood"
    Foreign      FAILED       403 "foreign"       "another user owns the store, the job or the configuration, or can write to it"
    Damaged      FAILED       500 "damaged"       "the job's directory cannot be read"
    Newer        FAILED       501 "newer"         "a newer outlive wrote the job, in a format of which nothing is understood here"
    Exists       FAILED       409 "exists"        "`session create`: the session is there already"
    Changed      FAILED       409 "changed"       "`run --ensure`: a job with that name runs, and was started differently"
    Live         FAILED       409 "live"          "`remove`, `session close`: something of the job or session still runs"
    Ended        FAILED       409 "ended"         "`send`, `pause`, `resume`, `watch`, `agent stop`: the job or agent has ended"
    StdinClosed  FAILED       409 "stdin_closed"  "`send`: its standard input is not open"
    NoTerminal   FAILED       409 "no_terminal"   "it runs on pipes, and what was asked for needs a terminal"
    NotHidden    FAILED       409 "not_hidden"    "`send --secret`: its terminal, or the program in it, may show what is typed"
    NotReading   FAILED       503 "not_reading"   "`send`: the command has not read for 10 s"
    OwnAncestor  FAILED       409 "own_ancestor"  "`kill`: the command runs inside the very job; `kill --all` leaves it out instead"
    Orphaned     FAILED       409 "orphaned"      "`send`, `clear`: its keeper is gone, and no other process can do this"
    TooOld       FAILED       501 "too_old"       "its keeper is of an earlier version, which does not know this request"
    Version      FAILED       501 "version"       "its keeper speaks no version of the control protocol that this program does"
    Elsewhere    FAILED       409 "elsewhere"     "it belongs to another host or pid namespace"
    NotBegun     FAILED       409 "not_begun"     "an engine has the job, and no node has begun it"
    Unreachable  FAILED       502 "unreachable"   "its keeper does not answer; `--host`: the other machine does not"
    Unauthorized FAILED       401 "unauthorized"  "over HTTP: no token came with the request, or one that is not valid"
    Forbidden    FAILED       403 "forbidden"     "over HTTP: the token does not allow it, or another site asks"
    Setup        FAILED       500 "setup"         "`setup`: the settings of a client cannot be changed"
    Failed       FAILED       500 "failed"        "anything else; the message says what"
}
