//! outlive's own tools.

use super::{Isolation, NoticeStyle, Profile};
use crate::tools::{INSTRUCTIONS, TOOLS};

pub(crate) static PROFILE: Profile = Profile {
    name: "native",
    about: "outlive's own eight tools",
    instructions: INSTRUCTIONS,
    tools: &TOOLS,
    isolation: Isolation::Project,
    inherit: |_, _, _| Ok(()),
    notices: NoticeStyle::Lines,
    expiry: None,
};
