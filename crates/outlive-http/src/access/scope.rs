//! What a caller may do.

use serde::{Deserialize, Serialize};

/// How much a token allows. Each includes the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To look at jobs, output, screens and events.
    View,
    /// To start, answer, end and remove jobs, which is to run any command as this user.
    Drive,
    /// To change sessions, too.
    Admin,
}

impl Scope {
    /// Every scope with its word.
    pub const ALL: [(Self, &str); 3] = [(Self::View, "view"), (Self::Drive, "drive"), (Self::Admin, "admin")];

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Drive => "drive",
            Self::Admin => "admin",
        }
    }

    /// Returns the scope of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(scope, _)| *scope)
    }
}
