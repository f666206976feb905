//! The tools of Neovate: `bash`, which leaves long-running commands to themselves, `bash_output` and `kill_bash`.
//!
//! Every command is a job from the start, so nothing is lost when it moves to the background. The timeout is the keeper's as long
//! as the command is in the foreground, whatever becomes of this server, and is lifted when it moves.

mod bash;
mod output;
mod task;

use super::{Choices, Isolation, NoticeStyle, Profile};

pub(crate) static PROFILE: Profile = Profile {
    name: "neovate",
    about: "Neovate's `bash`, `bash_output` and `kill_bash`, with automatic backgrounding",
    instructions: "",
    tools: &[&bash::BASH, &task::BASH_OUTPUT, &task::KILL_BASH],
    isolation: Isolation::Project,
    notices: NoticeStyle::None,
    expiry: None,
    choices: Choices {
        start_tool: "`bash` with `run_in_background`",
        bash_output: "`task_id`; all of the output",
        process: "not there",
        run_command: "not there: `bash`",
        id_form: "`task_` and 12 hexadecimal digits",
        id_parameter: "`task_id`",
        status_words: "running, completed, failed, killed",
        exit_zero: "completed",
        timed_out: "killed",
        default_timeout: "10 min, in the foreground only",
        kill_grace: "200 ms",
        kill_reach: "the whole tree",
        kill_after_end: "an error: `is not running (status: …). Cannot terminate.`",
        kill_signal: "none",
        read_result: "all of it, each time",
        streams: "merged; apart in the result of a foreground command",
        blank_lines: "kept",
        readable_output: "100 MiB; the newest 1 MiB in an answer",
        filter: "none",
        start_answer: "the end; 2 s with output for 14 commands; at once if asked for; 45 s in any case",
        command_form: "a line for the shell",
        shell: "bash, else sh",
        environment: "as the server is told: `--env`",
        stdin: "null",
        terminal: "none",
        survives: "everything",
        retention: "an hour once told, a week else",
        limits: "as configured: 50 a session, 200 in all",
        visibility: "the project's own",
        session_meaning: "not used",
        end_news: "none: `bash_output`",
        list_form: "none",
        time_form: "ISO 8601, when it was started",
        approval: "annotations: `bash_output` reads, `bash` and `kill_bash` are destructive",
        refused_commands: "24 programs and command substitution",
        id_matching: "the whole id",
        platform: "Linux",
        extra_scope: "not offered",
        description: "none",
    },
};
