//! The tools of Neovate: `bash`, which leaves long-running commands to themselves, `bash_output` and `kill_bash`.
//!
//! Every command is a job from the start, so nothing is lost when it moves to the background. The timeout is the keeper's as long
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
    isolation: Isolation::Conversation,
    inherit: |_, _, _| Ok(()),
    notices: NoticeStyle::None,
    expiry: None,
};
