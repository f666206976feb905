//! The tools of claude-code.

use super::{Isolation, News, Profile};

pub(crate) static PROFILE: Profile = Profile {
    name: "claude-code",
    about: "the tools of claude-code",
    instructions: "",
    tools: &[],
    isolation: Isolation::Project,
    news: News::None,
    choices: ["to be filled"; 39],
};
