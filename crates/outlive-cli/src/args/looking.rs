//! Looking at jobs and at what they print.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use outlive::duration::parse_duration;
use outlive::{Budget, Job, SessionName, State, Stream, Timestamp};

use super::filters::{Filters, in_quotes};
use super::values::{parse_budget, parse_range, parse_speed, parse_time, streams};

/// List jobs, the newest last
///
/// Shows all live jobs and the last ten that have ended; with --json all of them.
#[derive(Debug, Default, Args)]
#[command(visible_aliases = ["ls", "ps"], after_help = "Examples:\n  \
outlive list --failed -n 3         # the last three that went wrong\n  \
outlive list web                   # those that have to do with it\n  \
outlive list --group build --watch # drawn again as things change\n  \
outlive list --usage --ports       # what each takes, and where it listens")]
pub(crate) struct List {
    /// Only jobs in whose id, name, command, status, group or session this occurs
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,

    #[command(flatten)]
    pub(crate) filters: Filters,

    /// Only jobs of which something still runs
    #[arg(long)]
    pub(crate) live: bool,

    /// All ended jobs, and not only the last ten
    #[arg(long, short, conflicts_with_all = ["live", "last"])]
    pub(crate) all: bool,

    /// The last NUMBER ended jobs, in place of ten
    #[arg(long, short = 'n', value_name = "NUMBER", conflicts_with = "live")]
    pub(crate) last: Option<usize>,

    /// Draw the list again every second, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,

    /// Show processor time, memory and processes, too, and sums where there are several sessions
    #[arg(long)]
    pub(crate) usage: bool,

    /// Show the TCP ports that each listens on, too
    #[arg(long)]
    pub(crate) ports: bool,

    /// Cut no command, however long
    #[arg(long)]
    pub(crate) no_trunc: bool,

    /// Print ids alone, for scripts
    #[arg(long, short, conflicts_with_all = ["watch", "usage", "ports", "no_trunc"])]
    pub(crate) quiet: bool,
}

impl List {
    /// Tells whether TEXT, if it is given, occurs in what a person knows the job by.
    pub(crate) fn has_text(&self, job: &Job, state: &State) -> bool {
        let Some(text) = self.text.as_ref().map(|text| text.to_lowercase()) else { return true };
        let contains = |part: &str| part.to_lowercase().contains(&text);
        let spec = job.spec();
        contains(job.id().as_str())
            || job.name().is_some_and(contains)
            || contains(&state.summary())
            || contains(job.session().as_str())
            || spec.options.group.as_deref().is_some_and(contains)
            || contains(&spec.command_line())
    }

    /// Returns the options that say which jobs are meant, as they are written.
    pub(crate) fn conditions(&self) -> String {
        let text = self.text.as_ref().map(|text| format!(" {}", in_quotes(text)));
        text.unwrap_or_default() + &self.filters.written()
    }
}

/// See all jobs in this window, live, with their output, and act on them
///
/// `?` shows the keys: move with j and k, Enter opens a job's output, a attaches to its terminal, x kills, p pauses, / filters.
/// Leaving it with q, closing the window or killing it ends no job.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive top                            # all jobs\n  \
outlive top web                        # those that have to do with it\n  \
outlive --session ci top               # those of a session")]
pub(crate) struct Top {
    /// Only jobs in whose id, name, command, status, group or session this occurs, to begin with
    #[arg(value_name = "TEXT")]
    pub(crate) filter: Option<String>,
}

/// Show all that is known of a job
#[derive(Debug, Default, Args)]
pub(crate) struct Show {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// Show the values of variables, too
    #[arg(long)]
    pub(crate) show_env: bool,

    /// Show its processes as a tree, each with processor time, memory and ports
    #[arg(long, conflicts_with = "show_env")]
    pub(crate) tree: bool,
}

/// Show what stands on the screen of a job's terminal
///
/// For jobs that were started with `--pty`, also after their end.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive screen top                     # as text\n  \
outlive screen top --ansi              # with its colours\n  \
outlive screen top --at 5m             # as it was five minutes ago\n  \
outlive screen top --wait-stable 300ms # once nothing has been drawn for so long")]
pub(crate) struct Screen {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// With colours and attributes; with --json, as `styled_rows`
    #[arg(long)]
    pub(crate) ansi: bool,

    /// As it was then: 18:22, 'yesterday 9am', a date, or how long ago (5m)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) at: Option<Timestamp>,

    /// Say where the cursor is, too
    #[arg(long)]
    pub(crate) cursor: bool,

    /// With --json: which rows are others than they were at this `offset`
    #[arg(long, value_name = "OFFSET", conflicts_with = "at")]
    pub(crate) changes_since: Option<u64>,

    /// Wait until nothing has been drawn for this long; 10 s at most
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "at")]
    pub(crate) wait_stable: Option<Duration>,
}

/// Write what a job printed as a recording, a text or a page
///
/// Of a job in a terminal with its sizes; one on pipes as if it had printed to a terminal of 120x40. Of one that still runs, what
/// there is. What was typed is not recorded.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive export build --cast -o build.cast   # for asciinema\n  \
outlive export build --html -o build.html   # with its colours, for a browser\n  \
outlive export build --txt                  # what a terminal would have left")]
pub(crate) struct Export {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    #[command(flatten)]
    pub(crate) form: Form,

    /// Write to this file, in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What an export is written as.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Form {
    /// As a recording with its times, for asciinema and its players (asciicast, version 3)
    #[arg(long)]
    pub(crate) cast: bool,

    /// As text: the rows that a terminal would have left
    #[arg(long)]
    pub(crate) txt: bool,

    /// As a page with these rows in their colours
    #[arg(long)]
    pub(crate) html: bool,
}

/// Play what happened on a job's terminal, at the pace at which it did
///
/// Space pauses and goes on, left and right go 5 s back and forth, q leaves.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive play build --idle-limit 1s    # no pause is longer\n  \
outlive play build --speed 4 --from 10m")]
pub(crate) struct Play {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// How many times as fast: 2, 0.5
    #[arg(long, value_name = "NUMBER", value_parser = parse_speed, default_value_t = 1.0)]
    pub(crate) speed: f64,

    /// Shorten pauses of the program to this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) idle_limit: Option<Duration>,

    /// Begin there: 18:22, 'yesterday 9am', a date, or how long ago (5m)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) from: Option<Timestamp>,
}

/// Print what jobs printed
///
/// On a terminal colours stay, a progress bar is one line, and nothing else that a job printed drives the terminal; into a pipe or
/// file the bytes go as they are. Several jobs are merged by time, each line behind the name of its job.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Examples:\n  \
outlive logs -n 20 web                       # the last lines\n  \
outlive logs -f web --grep 'error|warn' -i   # follow what matters\n  \
outlive logs -f web api                      # two jobs at once\n  \
outlive logs --group ci --since 18:22        # all jobs of a group\n  \
outlive logs --budget 8K tests               # beginning, end, and the errors between\n  \
outlive logs --cursor me tests               # what is new since last time")]
pub(crate) struct Logs {
    /// The jobs; without any, all jobs of the --group or --session
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<String>,

    /// All jobs of this group
    #[arg(long, value_name = "NAME", conflicts_with = "jobs")]
    pub(crate) group: Option<String>,

    /// Only this many lines of the end, of each job; with --from-line, this many from there
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) lines: Option<u64>,

    /// Begin at this line; numbers never shift
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["bytes", "cursor"])]
    pub(crate) from_line: Option<u64>,

    /// Only these bytes: 100..200, 100.. or ..200
    #[arg(long, value_name = "RANGE", value_parser = parse_range, conflicts_with = "cursor")]
    pub(crate) bytes: Option<Range<u64>>,

    /// Only what came since then: 18:22, 'yesterday 9am', a date, or how long ago (5m)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) since: Option<Timestamp>,

    /// Only what came until then
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) until: Option<Timestamp>,

    /// Only lines that match this regular expression
    #[arg(long, short, value_name = "PATTERN")]
    pub(crate) grep: Option<String>,

    /// Only lines that do not match --grep
    #[arg(long, requires = "grep")]
    pub(crate) invert: bool,

    /// Ignore case in --grep
    #[arg(long, short, requires = "grep")]
    pub(crate) ignore_case: bool,

    /// Show this many lines around each match
    #[arg(long, short = 'C', value_name = "COUNT", requires = "grep", default_value_t = 0)]
    pub(crate) context: usize,

    /// Print the bytes as they are
    #[arg(long, conflicts_with_all = ["plain", "rendered"])]
    pub(crate) raw: bool,

    /// Print without control sequences
    #[arg(long, conflicts_with = "rendered")]
    pub(crate) plain: bool,

    /// Print what a terminal would have left on the page: progress bars in their last state
    #[arg(long, conflicts_with = "follow")]
    pub(crate) rendered: bool,

    /// Whether colours and styles stay: on a terminal, also in a pipe, or nowhere
    #[arg(long, value_name = "WHEN", default_value = "auto", conflicts_with_all = ["raw", "plain", "rendered"])]
    pub(crate) color: Color,

    /// Show it in $PAGER, else in less, where standard output is a terminal
    #[arg(long, conflicts_with = "follow")]
    pub(crate) pager: bool,

    /// Begin each line with its local time
    #[arg(long, short)]
    pub(crate) timestamps: bool,

    /// Show this many lines of the beginning
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["lines", "follow"])]
    pub(crate) head: Option<u64>,

    /// Show this many lines of the end
    #[arg(long, value_name = "COUNT", conflicts_with = "lines")]
    pub(crate) tail: Option<u64>,

    /// Beginning and end within 8K bytes, 200l lines or 2000t tokens, with the errors between
    #[arg(long, value_name = "AMOUNT", value_parser = parse_budget, conflicts_with_all = ["lines", "head", "tail", "follow"])]
    pub(crate) budget: Option<Budget>,

    /// Only what the reader NAME has not received yet
    #[arg(long, value_name = "NAME", value_parser = SessionName::parse, conflicts_with_all = ["lines", "head", "tail"])]
    pub(crate) cursor: Option<SessionName>,

    /// Go on until the job's last process is gone
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only one stream
    #[arg(long, value_name = "stdout|stderr", value_parser = streams())]
    pub(crate) stream: Option<Stream>,
}

/// Where colours stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// In a pipe or file, too
    Always,
    /// Nowhere
    Never,
}
