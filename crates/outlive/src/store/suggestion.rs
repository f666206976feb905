//! What was most likely meant by a key of `config.toml` that is not known.

use outlive_core::nearest::nearest;

/// Adds what was most likely meant to the message about a key that is not known.
pub(super) fn with_suggestion(message: &str) -> String {
    let words = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let parts = message.split_once("unknown field `").and_then(|(_, rest)| rest.split_once("`, expected"));
    let meant = parts.and_then(|(word, known)| {
        let known = words(known);
        nearest(word, known.iter().map(String::as_str)).map(str::to_owned)
    });
    match meant {
        Some(meant) => format!("{message}; did you mean `{meant}`?"),
        None => message.to_owned(),
    }
}

/// Names what was most likely meant, to be added to a message; empty if nothing is like it.
pub(super) fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(word, known).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}
