//! The tools of Neovate: `bash`, which leaves long-running commands to themselves, `bash_output` and `kill_bash`.
//!
//! Every command is a job from the start, so nothing is lost where one moves to the background. The timeout is the keeper's as long
//! as the command is in the foreground, whatever becomes of this server, and is lifted when it moves.

mod bash;
mod output;
mod task;

use super::{Isolation, NoticeStyle, Profile};

pub(crate) static PROFILE: Profile = Profile {
    name: "neovate",
    about: "Neovate's `bash`, `bash_output` and `kill_bash`, with automatic backgrounding",
    instructions: "",
    tools: &[&bash::BASH, &task::BASH_OUTPUT, &task::KILL_BASH],
    isolation: Isolation::Project,
    notices: NoticeStyle::None,
    choices: [
        "`bash` with `run_in_background`",
        "`task_id`; all of the output",
        "not there",
        "not there: `bash`",
        "`task_` and 12 hexadecimal digits",
        "`task_id`",
        "running, completed, failed, killed",
        "completed",
        "killed",
        "10 min, in the foreground only",
        "200 ms",
        "the whole tree",
        "an error: `is not running (status: …). Cannot terminate.`",
        "none",
        "all of it, each time",
        "merged; apart in the result of a foreground command",
        "kept",
        "100 MiB; the newest 1 MiB in an answer",
        "none",
        "the end; 2 s with output for 14 commands; at once if asked for; 45 s in any case",
        "a line for the shell",
        "bash, else sh",
        "as the server is told: `--env`",
        "null",
        "none",
        "everything",
        "an hour once told, a week else",
        "as configured: 50 a session, 200 in all",
        "the project's own",
        "not used",
        "none: `bash_output`",
        "none",
        "ISO 8601, when it was started",
        "annotations: `bash_output` reads, `bash` and `kill_bash` are destructive",
        "24 programs and command substitution",
        "the whole id",
        "Linux",
        "not offered",
        "none",
    ],
};
