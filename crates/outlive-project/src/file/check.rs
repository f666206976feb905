//! Whether a job could be started as its file says: asked when the file is read, so that the place can be told and nothing is started.

use outlive::{JobChoices, JobOptions, RequestError, check_options};

use crate::file::read::{Entry, Read, Written};
use crate::project::ProjectJob;

/// Refuses a value that makes no sense by itself.
pub(super) fn check_value(entry: &Entry<'_>, alone: &JobChoices) -> Read<()> {
    let mut options = JobOptions::default();
    options.apply(alone);
    match check_options(&options) {
        Err(
            error @ (RequestError::Address(_)
            | RequestError::Pattern(_)
            | RequestError::Nul(_)
            | RequestError::Group),
        ) => Err(entry.wrong(format!("`{}`: {error}", entry.name()))),
        // That something else is missing or contradicts it is told of the whole job.
        _ => Ok(()),
    }
}

/// Refuses what makes no sense together.
pub(super) fn check_job(written: &Written<'_>, job: &ProjectJob) -> Read<()> {
    let key = |name: &str| written.keys.get(name).and_then(|entries| entries.last()).unwrap_or(&written.head);
    let mut options = JobOptions::default();
    options.apply(&job.choices);
    if job.port.is_some() {
        // Which one it is, is decided later.
        options.ready.port = options.ready.port.or(Some(0));
    }
    if job.stdin_from.is_some() && options.pty {
        let message = "a job in a terminal cannot read what another prints: leave out `pty` or `stdin_from`";
        return Err(key("stdin_from").wrong_key(message));
    }
    check_options(&options).map_err(|error| match error {
        RequestError::NothingReady => key("ready").wrong_key(
            "nothing says when it is ready: give `ready` a `line`, `port`, `http`, `command` or `notify`",
        ),
        RequestError::NothingHealthy => key("health").wrong_key(
            "nothing says when it is healthy: give `health` a `port`, `http`, `command`, `line` or `notify`",
        ),
        RequestError::NothingTyped => key("record_input").wrong_key(
            "only what is typed into a terminal is recorded: add `pty = true`, or leave out `record_input`",
        ),
        error => written.head.wrong_key(error.to_string().replace("--", "")),
    })
}
