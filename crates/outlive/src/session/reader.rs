//! Names of readers: a conversation, a terminal, a page.

use outlive_core::id::{SessionName, hash};

/// Variables in which clients name the conversation of a command, the most reliable first.
const CONVERSATIONS: [&str; 4] =
    ["OUTLIVE_READER", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID"];

/// Returns the reader of this process: the conversation that its environment names, else `default`.
pub fn reader_of_environment() -> SessionName {
    conversation_of_environment().unwrap_or_default()
}

/// Returns the conversation that the environment names, if any.
pub fn conversation_of_environment() -> Option<SessionName> {
    let named = |variable: &&str| std::env::var(variable).ok().filter(|value| !value.is_empty());
    let name = reader_name(&CONVERSATIONS.iter().find_map(named)?);
    Some(name).filter(|name| *name != SessionName::default())
}

/// Turns a client's conversation id into a reader's name: unchanged if valid, else with a hash of the id.
pub fn reader_name(text: &str) -> SessionName {
    if text.is_empty() {
        return SessionName::default();
    }
    if let Ok(name) = SessionName::parse(text) {
        return name;
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mark = format!("-{:016x}", hash(text.as_bytes()));
    let word: String = text.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let word: String =
        word.trim_start_matches(['-', '_', '.']).chars().take(SessionName::MAX - mark.len()).collect();
    let word = if word.is_empty() { "reader" } else { word.as_str() };
    SessionName::parse(&format!("{word}{mark}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_names_a_reader() {
        for (text, name) in [("abc-1", "abc-1"), ("", "default"), ("a..b", "a..b")] {
            assert_eq!(reader_name(text).as_str(), name, "{text:?}");
        }
        for (text, begins) in
            [("a/b c", "a-b-c-"), ("--x", "x-"), ("\u{e9}", "reader-"), ("../../evil", "evil-")]
        {
            assert!(reader_name(text).as_str().starts_with(begins), "{text:?} is {}", reader_name(text));
        }
        assert_eq!(reader_name(&"x".repeat(500)).as_str().len(), SessionName::MAX);
    }

    #[test]
    fn two_conversations_are_two_readers() {
        let long = "x".repeat(200);
        let texts = [
            "a/b",
            "a-b",
            "a b",
            "-a",
            "a",
            "///",
            "..",
            "evil",
            "../../../evil",
            &long,
            &format!("{long}x"),
        ];
        let names: std::collections::BTreeSet<SessionName> =
            texts.iter().map(|text| reader_name(text)).collect();
        assert_eq!(names.len(), texts.len(), "{names:?}");
    }
}
