//! Labels: names and values that say what a job belongs to.

use std::collections::BTreeMap;

/// The labels of a job, by name.
pub type Labels = BTreeMap<String, String>;

/// The most labels that a caller may give a job: `spec.json` is read for every line of a list, and stays small.
const MOST: usize = 32;

/// The longest name, in bytes, as Kubernetes has it.
const LONGEST_NAME: usize = 63;

/// The longest value, in characters: most paths fit.
const LONGEST_VALUE: usize = 256;

/// How the names of labels begin that only outlive sets.
const RESERVED: &str = "outlive.";

/// A label that outlive sets itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnLabel {
    /// The profile of the MCP server that started the job.
    Profile,
    /// The tool that waited for the job's end when it started it.
    Foreground,
    /// The conversation that the starter's environment names.
    Conversation,
    /// The directory of the project that the job was started for.
    Project,
}

impl OwnLabel {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Profile => "outlive.profile",
            Self::Foreground => "outlive.foreground",
            Self::Conversation => "outlive.conversation",
            Self::Project => "outlive.project",
        }
    }
}

/// Why a job cannot have the labels that a caller gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// A name with other characters, none, or too many.
    #[error(
        "{0:?} cannot be the name of a label: it takes 1 to {LONGEST_NAME} letters, digits, `.`, `_`, `-` and `/`, \
         and begins with a letter or digit"
    )]
    Name(String),
    /// A name that only outlive sets.
    #[error("the label {0} cannot be set: names that begin with {RESERVED} are outlive's own")]
    Reserved(String),
    /// A value that cannot be shown in one line, or is too long.
    #[error(
        "the value of the label {0} must be at most {LONGEST_VALUE} characters without control characters"
    )]
    Value(String),
    /// More than a job can have.
    #[error("{0} labels are given, and a job can have {MOST}")]
    Many(usize),
}

/// Tells whether only outlive sets a label of this name.
pub fn is_own(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// Checks labels that a caller gives a job.
///
/// # Errors
///
/// If there are too many, or one has a name or value that it cannot have.
pub fn check(labels: &Labels) -> Result<(), LabelError> {
    if labels.len() > MOST {
        return Err(LabelError::Many(labels.len()));
    }
    for (name, value) in labels {
        check_name(name)?;
        if is_own(name) {
            return Err(LabelError::Reserved(name.clone()));
        }
        if !is_value(value) {
            return Err(LabelError::Value(name.clone()));
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), LabelError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= LONGEST_NAME
        && name.bytes().all(is_allowed);
    if is_name { Ok(()) } else { Err(LabelError::Name(name.to_owned())) }
}

/// Tells whether a text can be the value of a label.
pub fn is_value(text: &str) -> bool {
    text.chars().count() <= LONGEST_VALUE && !text.chars().any(char::is_control)
}

/// A condition on the labels of a job: `NAME`, or `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelFilter {
    name: String,
    value: Option<String>,
}

impl LabelFilter {
    /// Tells whether these labels meet it.
    pub fn matches(&self, labels: &Labels) -> bool {
        let found = labels.get(&self.name);
        found.is_some_and(|found| self.value.as_ref().is_none_or(|value| value == found))
    }
}

impl std::fmt::Display for LabelFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl std::str::FromStr for LabelFilter {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        check_name(name)?;
        Ok(Self { name: name.to_owned(), value: value.map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(name: &str, value: &str) -> Labels {
        Labels::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn names_and_values_are_bounded() {
        for name in ["a", "team/web", "0.x_y-z", &"n".repeat(LONGEST_NAME), "outlived"] {
            assert_eq!(check(&labels(name, "")), Ok(()), "{name}");
        }
        for name in ["", "-a", ".a", "a b", "é", "a=b", "a\n", &"n".repeat(LONGEST_NAME + 1)] {
            assert_eq!(check(&labels(name, "")), Err(LabelError::Name(name.to_owned())), "{name}");
        }
        assert_eq!(check(&labels("a", &"é".repeat(LONGEST_VALUE))), Ok(()));
        for value in ["a\nb", "\u{1b}", &"é".repeat(LONGEST_VALUE + 1)] {
            assert_eq!(check(&labels("a", value)), Err(LabelError::Value("a".into())), "{value}");
        }
        let many: Labels = (0..=MOST).map(|number| (number.to_string(), String::new())).collect();
        assert_eq!(check(&many), Err(LabelError::Many(MOST + 1)));
    }

    #[test]
    fn what_is_outlives_own_cannot_be_given() {
        for own in [OwnLabel::Profile, OwnLabel::Foreground, OwnLabel::Conversation, OwnLabel::Project] {
            assert_eq!(check(&labels(own.name(), "x")), Err(LabelError::Reserved(own.name().into())));
        }
    }

    #[test]
    fn a_filter_asks_for_a_name_or_for_its_value() {
        let labels = labels("team", "web=1");
        for (text, is_met) in
            [("team", true), ("team=web=1", true), ("team=", false), ("team=web", false), ("tea", false)]
        {
            assert_eq!(text.parse::<LabelFilter>().unwrap().matches(&labels), is_met, "{text}");
        }
        assert!("=x".parse::<LabelFilter>().is_err());
    }
}
