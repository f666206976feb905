//! What a session is set to: `session.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rawtext::RawText;
use crate::timestamp::Timestamp;

/// What jobs of a session start from. A session without this file has none of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// [`crate::FORMAT`], or that of a later version.
    pub format: u32,
    /// The directory that its jobs start in, unless another is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<RawText>,
    /// Additions to the environment of its jobs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_set: BTreeMap<String, RawText>,
    /// When it was made.
    #[serde(rename = "created_us")]
    pub created: Timestamp,
    /// When it was closed; the next job that is started in it opens it again.
    #[serde(default, rename = "closed_us", skip_serializing_if = "Option::is_none")]
    pub closed: Option<Timestamp>,
    /// Fields that a later version added, kept for when this one writes the file again.
    #[serde(flatten)]
    pub newer: BTreeMap<String, serde_json::Value>,
}

impl Settings {
    /// Reads the contents of `session.json`; `None` if they are damaged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|settings| settings.format >= crate::FORMAT)
    }

    /// Returns the contents of `session.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("settings have only string keys and numbers");
        bytes.push(b'\n');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_version_added_comes_back() {
        let text = br#"{"format":2,"cwd":"/","created_us":1,"colour":{"of":"blue"}}"#;
        let settings = Settings::parse(text).unwrap();
        assert_eq!(settings.to_bytes().trim_ascii_end(), text);
    }
}
