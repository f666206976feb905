//! The tools of Duragent: `spawn_process`, waited for or not, and `process`.
//!
//! The end of a process that was not waited for comes as a message of its own beside the next answer. A process runs
//! without tmux, and what needs a screen is refused in that design's words.

mod files;
mod process;
mod spawn_process;

use std::time::Duration;

use outlive::{State, Status};

use super::own::is_past;
use super::{Choices, Expiry, Isolation, NoticeStyle, Profile, links};
use crate::tools::Call;

pub(crate) static PROFILE: Profile = Profile {
    name: "duragent",
    about: "Duragent's `spawn_process` and `process`",
    instructions: "spawn_process starts a background command and returns its handle at once, or, with wait: true, its result. \
        When a process that was not waited for has ended, a message that begins with [Background Process Completed] comes \
        beside the next result of any tool: do not poll in a loop. process lists processes, tells their status, reads their \
        log, writes to their stdin and kills them. Processes survive restarts.",
    tools: &[&spawn_process::SPAWN_PROCESS, &process::PROCESS],
    isolation: Isolation::Conversation,
    notices: NoticeStyle::Messages,
    expiry: Some(Expiry {
        is_due: |_, job, ended| job.is_seen() && is_past(ended, KEPT),
        remove_files: files::remove_links,
    }),
    choices: Choices {
        start_tool: "`spawn_process`",
        bash_output: "not there: `process` with `action: \"log\"`",
        process: "`action`: list, status, log, capture, send_keys, write, kill",
        run_command: "not there: `spawn_process`",
        id_form: "`proc-` and 8 digits of 36",
        id_parameter: "`handle`",
        status_words: "running, completed, failed, timed_out, lost, killed",
        exit_zero: "completed",
        timed_out: "`timed_out`",
        default_timeout: "30 minutes; `timeout_seconds`",
        kill_grace: "5 s, on a timeout and on a kill",
        kill_reach: "the whole tree",
        kill_after_end: "an error: `process is not running`",
        kill_signal: "none",
        read_result: "a range of lines",
        streams: "merged, line by line in the order in which they came",
        blank_lines: "kept",
        readable_output: "100 MiB on disk",
        filter: "none",
        start_answer: "at once, or with `wait: true` at the end (at most 45 s)",
        command_form: "a line for the shell",
        shell: "bash, else sh",
        environment: "inherited, login or clean",
        stdin: "a pipe, with `write`",
        terminal: "none yet: `tmux: true` runs without one",
        survives: "everything: processes go on, whoever starts or ends the server",
        retention: "30 minutes after the end, once that was told",
        limits: "as configured: 50 a session, 200 in all",
        visibility: "the conversation's own, else the project's",
        session_meaning: "the agent's conversation",
        end_news: "a message of its own beside the next answer",
        list_form: "one line each",
        time_form: "whole seconds; RFC 3339",
        approval: "annotations",
        refused_commands: "none",
        id_matching: "the whole handle",
        platform: "Linux",
        extra_scope: "in scope, by the other front ends",
        description: "none; `label` is the job's name",
    },
};

/// How the handles that this profile makes begin.
const PREFIX: &str = "proc-";

/// The time between the signals of a timeout or a kill.
const GRACE: Duration = Duration::from_secs(5);

/// How long an ended process is kept once its end was told.
const KEPT: Duration = Duration::from_secs(30 * 60);

/// Removes processes of all sessions whose time is over, and the links of jobs that another front end has removed.
fn sweep(call: &Call<'_>) {
    super::sweep(call);
    links::sweep(call.store, &files::directory(call));
}

fn status(state: &State) -> &'static str {
    match state.status {
        Status::Starting => "running",
        status => status.word(),
    }
}
