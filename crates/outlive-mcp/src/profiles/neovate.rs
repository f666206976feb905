//! The tools of neovate.

use super::{Isolation, News, Profile};

pub(crate) static PROFILE: Profile = Profile {
    name: "neovate",
    about: "the tools of neovate",
    instructions: "",
    tools: &[],
    isolation: Isolation::Project,
    news: News::None,
    choices: ["to be filled"; 39],
};
