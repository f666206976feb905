//! Waiting for jobs, and for lines that they print.

use std::time::Duration;

use clap::Args;
use outlive::duration::parse_duration;
use outlive::{HttpAddress, QueueName};

/// Wait for jobs: for their end, or for what comes before it
///
/// Without more, until all have ended. With conditions, until the first of them holds, for each job (`--all`, this is the
/// default) or for one of them (`--any`); the end of a job ends the waiting for it, too. Jobs are named, or those of a group, or
/// with --session alone all of it: those that have ended count as in a group, but with conditions or --any only live ones do.
///
/// A job that is started again by itself (`run --restart`, `--schedule`) has an end with each run: that of the run that goes on is
/// waited for, and the answer names the run that follows.
///
/// Exits with 0 when what was waited for came and every job that has ended was successful, with 7 when one was not; with 4 when
/// the time is over, and the jobs go on; with 6 when it can no longer come: a job ended first, was not ready in its time, or
/// printed what --fail-match looks for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive wait tests && outlive run deploy.sh  # until it has ended, and only if it was successful\n  \
outlive wait web --ready --timeout 1m        # as `run --ready-…` said\n  \
outlive wait web --match 'listening on' --fail-match 'EADDRINUSE'\n  \
outlive wait setup --input                   # until it wants an answer, see `outlive send`\n  \
outlive wait --group build --any             # the first of a group\n  \
outlive wait --session ci --event            # whatever happens next")]
pub(crate) struct Wait {
    /// The jobs
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<String>,

    /// The jobs of this group
    #[arg(long, value_name = "NAME", conflicts_with = "jobs")]
    pub(crate) group: Option<String>,

    /// The jobs that wait or run in this queue
    #[arg(long, value_name = "NAME", conflicts_with_all = ["jobs", "group"], value_parser = QueueName::parse)]
    pub(crate) queue: Option<QueueName>,

    /// Wait for all (default)
    #[arg(long)]
    pub(crate) all: bool,

    /// Wait for the first
    #[arg(long, conflicts_with = "all")]
    pub(crate) any: bool,

    /// It is ready, by what `run --ready-…` said
    #[arg(long, help_heading = "Conditions")]
    pub(crate) ready: bool,

    /// A line of its output matches this regular expression; lines that are there already count
    #[arg(long = "match", value_name = "PATTERN", help_heading = "Conditions")]
    pub(crate) matches: Option<String>,

    /// A line matches this: give up at once, with exit status 6
    #[arg(long, value_name = "PATTERN", help_heading = "Conditions")]
    pub(crate) fail_match: Option<String>,

    /// Ignore case in patterns
    #[arg(long, short, help_heading = "Conditions")]
    pub(crate) ignore_case: bool,

    /// Only lines from this number on count
    #[arg(long, value_name = "NUMBER", help_heading = "Conditions")]
    pub(crate) from_line: Option<u64>,

    /// One of its processes listens on this TCP port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Conditions")]
    pub(crate) port: Option<u16>,

    /// This address answers with a status below 400
    #[arg(long, value_name = "URL", help_heading = "Conditions")]
    pub(crate) http: Option<HttpAddress>,

    /// It has printed nothing for this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Conditions")]
    pub(crate) idle: Option<Duration>,

    /// It waits for input: a line, a password or keys; for a job with a terminal or an open standard input
    #[arg(long, help_heading = "Conditions")]
    pub(crate) input: bool,

    /// Anything happens to these jobs, or in the session
    #[arg(long, help_heading = "Conditions")]
    pub(crate) event: bool,

    /// With --event: after this sequence, and not only from now on
    #[arg(long, value_name = "SEQ", requires = "event", help_heading = "Conditions")]
    pub(crate) since: Option<u64>,

    /// Exit with the code of the job, as `run --wait` does; for one job, and its end
    #[arg(long, conflicts_with_all = ["group", "queue", "all", "any", "ready", "matches", "fail_match", "port", "http", "idle", "input", "event"])]
    pub(crate) exit_code: bool,

    /// Then ring the terminal's bell, with a notification in terminals that show them
    #[arg(long)]
    pub(crate) bell: bool,

    /// Wait at most this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

impl Wait {
    /// Tells whether something else than the end is waited for.
    pub(crate) fn has_condition(&self) -> bool {
        let Self { ready, matches, fail_match, port, http, idle, input, event, .. } = self;
        *ready
            || *input
            || *event
            || matches.is_some()
            || fail_match.is_some()
            || port.is_some()
            || http.is_some()
            || idle.is_some()
    }
}

/// Be told of each line that a job prints and that matches
///
/// From now on, a line that matches is an event and a notice: `outlive inbox` tells of it, `outlive events -f` shows it at once, and
/// an agent hears of it with its next result. Nothing runs for it meanwhile. Of many lines, five a minute are told and then one that
/// counts the rest. A reader has one pattern on a job; `run --watch` sets it at the start. To see jobs come and go: `outlive list
/// --watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive watch web 'ERROR|panicked'\n  \
outlive events -f                     # tells of each such line as it comes\n  \
outlive watch web --off")]
pub(crate) struct Watch {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// The regular expression; without it, show what is watched for
    #[arg(value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) pattern: Option<String>,

    /// Watch for nothing any more
    #[arg(long, conflicts_with = "pattern")]
    pub(crate) off: bool,
}
