//! The tools of duragent.

use super::{Isolation, News, Profile};

pub(crate) static PROFILE: Profile = Profile {
    name: "duragent",
    about: "the tools of duragent",
    instructions: "",
    tools: &[],
    isolation: Isolation::Conversation,
    news: News::Messages,
    choices: ["to be filled"; 39],
};
