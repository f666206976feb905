//! The tools of macos-shell.

use super::{Isolation, News, Profile};

pub(crate) static PROFILE: Profile = Profile {
    name: "macos-shell",
    about: "the tools of macos-shell",
    instructions: "",
    tools: &[],
    isolation: Isolation::Project,
    news: News::None,
    choices: ["to be filled"; 39],
};
