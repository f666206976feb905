//! The tools of deepchat.

use super::{Isolation, News, Profile};

pub(crate) static PROFILE: Profile = Profile {
    name: "deepchat",
    about: "the tools of deepchat",
    instructions: "",
    tools: &[],
    isolation: Isolation::Conversation,
    news: News::None,
    choices: ["to be filled"; 39],
};
