//! The tools of Duragent: `spawn_process`, waited for or not, and `process`.
//!
//! The end of a process that was not waited for comes as a message of its own beside the next answer. A process that was asked for
//! with tmux runs in a terminal; tmux shows it, where there is one.

mod files;
mod process;
mod spawn_process;
mod terminal;

use std::time::Duration;

use outlive::{State, Status};

use super::own::is_past;
use super::{Expiry, Isolation, NoticeStyle, Profile, links};
use crate::tools::Call;

pub(crate) static PROFILE: Profile = Profile {
    name: "duragent",
    about: "Duragent's `spawn_process` and `process`",
    instructions: "spawn_process starts a background command and returns its handle at once, or, with wait: true, its result. \
        When a process that was not waited for has ended, a message that begins with [Background Process Completed] comes \
        beside the next result of any tool: do not poll in a loop. process lists processes, tells their status, reads their \
        log, writes to their stdin and kills them; of those started with tmux: true it shows the screen and sends keys. Processes \
        survive restarts.",
    tools: &[&spawn_process::SPAWN_PROCESS, &process::PROCESS],
    isolation: Isolation::Conversation,
    inherit: |_, _, _| Ok(()),
    notices: NoticeStyle::Messages,
    expiry: Some(Expiry {
        is_due: |call, job, ended| {
            job.is_seen() && is_past(ended, call.store.config().retention.keep.unwrap_or(KEPT))
        },
        remove_files: files::remove_links,
    }),
};

/// How the handles that this profile makes begin.
const PREFIX: &str = "proc-";

/// The time between the signals of a timeout or a kill.
const GRACE: Duration = Duration::from_secs(5);

/// How long an ended process is kept once its end was told, unless the configuration says otherwise.
const KEPT: Duration = Duration::from_secs(30 * 60);

/// Removes processes of all sessions whose time is over, and the links of jobs that another front end has removed.
fn sweep(call: &Call<'_>) {
    super::sweep(call);
    links::sweep(call.store, &files::directory(call));
}

fn status(state: &State) -> &'static str {
    match state.status {
        Status::Queued | Status::Starting => "running",
        status => status.word(),
    }
}
