//! Who is told things: a conversation, a terminal, a page.

use outlive_core::id::SessionName;

/// Variables by which clients tell which conversation a command belongs to, the most certain first.
const CONVERSATIONS: [&str; 4] =
    ["OUTLIVE_READER", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID"];

/// Returns the reader that this program speaks for: the conversation that its environment names, else `default`.
pub fn reader_of_environment() -> SessionName {
    let named = |variable: &&str| std::env::var(variable).ok().filter(|value| !value.is_empty());
    CONVERSATIONS.iter().find_map(named).map_or_else(SessionName::default, |text| reader_name(&text))
}

/// Makes a reader's name of whatever a client calls a conversation.
pub fn reader_name(text: &str) -> SessionName {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String =
        text.chars().map(|c| if allowed(c) { c } else { '-' }).take(SessionName::MAX).collect();
    SessionName::parse(name.trim_start_matches(['-', '_', '.'])).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_names_a_reader() {
        for (text, name) in
            [("abc-1", "abc-1"), ("a/b c", "a-b-c"), ("", "default"), ("--x", "x"), ("\u{e9}", "default")]
        {
            assert_eq!(reader_name(text).as_str(), name, "{text:?}");
        }
        assert_eq!(reader_name(&"x".repeat(500)).as_str().len(), SessionName::MAX);
    }
}
