//! The forms of settings, behind one face: texts in, texts out, and everything else in them stays as it is.

use super::entry::Entry;
use super::json::{self, Layout};
use super::{toml, yaml};

/// How a client's settings are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// JSON with an object of servers; comments are allowed.
    Json(Layout),
    /// YAML with a mapping `extensions`, as goose has it.
    Yaml,
    /// TOML with a table `mcp_servers`, as Codex has it.
    Toml,
}

/// Why a text is left alone, in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfit(pub(super) String);

const MARK: &str = "\u{feff}";

impl Form {
    /// Tells whether there is an entry of our name.
    pub(super) fn has(self, text: &str) -> Result<bool, Unfit> {
        let text = text.strip_prefix(MARK).unwrap_or(text);
        match self {
            Self::Json(layout) => json::has(text, &layout),
            Self::Yaml => yaml::has(text),
            Self::Toml => toml::has(&unix(text)),
        }
    }

    /// Returns the text with this entry; the same text if it is there.
    pub(super) fn with(self, text: &str, entry: &Entry) -> Result<String, Unfit> {
        let put = |text: &str| match self {
            Self::Json(layout) => json::with(text, entry, &layout),
            Self::Yaml => yaml::with(text, entry),
            Self::Toml => toml::with(text, entry),
        };
        let new = self.edit(text, put)?;
        // Whatever was strange about the text: what is written must say what was meant.
        if self.edit(&new, put)? != new || !self.has(&new)? {
            return Err(Unfit("outlive cannot add an entry to it".to_owned()));
        }
        Ok(new)
    }

    /// Returns the text without an entry of ours; the same text if there is none.
    pub(super) fn without(self, text: &str) -> Result<String, Unfit> {
        let new = self.edit(text, |text| match self {
            Self::Json(layout) => json::without(text, &layout),
            Self::Yaml => yaml::without(text),
            Self::Toml => toml::without(text),
        })?;
        if self.has(&new)? {
            return Err(Unfit("it has several entries of the name outlive".to_owned()));
        }
        Ok(new)
    }

    fn edit(self, text: &str, change: impl Fn(&str) -> Result<String, Unfit>) -> Result<String, Unfit> {
        let (mark, text) = match text.strip_prefix(MARK) {
            Some(rest) => (MARK, rest),
            None => ("", text),
        };
        let new = match self {
            // The parser of TOML ends every line like Unix.
            Self::Toml if text.contains("\r\n") => {
                let lines = unix(text);
                if lines.replace('\n', "\r\n") != text {
                    return Err(Unfit("some of its lines end with CR LF and some with LF".to_owned()));
                }
                change(&lines)?.replace('\n', "\r\n")
            }
            _ => change(text)?,
        };
        Ok(format!("{mark}{new}"))
    }
}

fn unix(text: &str) -> String {
    text.replace("\r\n", "\n")
}
