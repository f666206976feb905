//! A command line as bash has it up to the cursor: its words without their quotes, and values with the quotes that they need there.
//!
//! What bash inserts for the tab key it takes as it is: a value that is not quoted here would be several words, or a command to run.

/// What a character of a word stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quote {
    Absent,
    Single,
    Double,
}

/// A command line up to the cursor.
#[derive(Debug)]
pub(super) struct BashLine {
    /// Its words without their quotes; the last one ends at the cursor.
    pub(super) words: Vec<String>,
    /// What the part of the last word that bash keeps stands for.
    kept: String,
    /// What the inserted text stands in.
    quote: Quote,
}

impl BashLine {
    /// Reads a line of which bash replaces the end: what follows an opening quote, or the last of `COMP_WORDBREAKS`. `None` where only
    /// the shell knows what the part before it stands for: it has variables or commands.
    pub(super) fn read(line: &str, replaced: &str) -> Option<Self> {
        let mut place = line.strip_suffix(replaced)?.len();
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, Quote::Absent);
        let (mut is_expanded, mut kept) = (false, None);
        let mut characters = line.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            if at == place && quote == Quote::Absent && matches!(character, '\'' | '"') {
                // A caller of the function, such as the completion of `sudo`, hands it the opening quote as well.
                place += 1;
            }
            if at == place {
                kept = Some((word.clone().unwrap_or_default(), quote, is_expanded));
            }
            match (quote, character) {
                (Quote::Absent, ' ' | '\t' | '\n') => {
                    words.extend(word.take());
                    is_expanded = false;
                    continue;
                }
                (Quote::Absent, '\'') => quote = Quote::Single,
                (Quote::Absent, '"') => quote = Quote::Double,
                (Quote::Single, '\'') | (Quote::Double, '"') => quote = Quote::Absent,
                (Quote::Absent | Quote::Double, '\\') => {
                    let is_escaped = |next: char| quote == Quote::Absent || "$`\"\\\n".contains(next);
                    if characters.peek().is_some_and(|&(at, _)| at == place) {
                        return None;
                    }
                    match characters.next_if(|&(_, next)| is_escaped(next)) {
                        Some((_, '\n')) => {}
                        Some((_, next)) => word.get_or_insert_default().push(next),
                        // At the cursor, it waits for what it is to quote.
                        None if quote == Quote::Absent => {}
                        None => word.get_or_insert_default().push('\\'),
                    }
                }
                (_, character) => {
                    is_expanded |= quote != Quote::Single && matches!(character, '$' | '`');
                    word.get_or_insert_default().push(character);
                }
            }
            // Quotes alone are a word, too.
            word.get_or_insert_default();
        }
        let word = word.unwrap_or_default();
        let (kept, quote, is_expanded) = kept.unwrap_or_else(|| (word.clone(), quote, is_expanded));
        words.push(word);
        (!is_expanded).then_some(Self { words, kept, quote })
    }

    /// Returns what bash is to insert for a value; `None` where it does not go on from what stays.
    pub(super) fn inserted(&self, value: &str) -> Option<String> {
        let value = value.strip_prefix(&self.kept)?;
        Some(match self.quote {
            Quote::Absent => value.chars().flat_map(escaped).collect(),
            Quote::Single => single_quoted(value),
            Quote::Double => double_quoted(value),
        })
    }
}

/// Writes a character outside of quotes.
fn escaped(character: char) -> impl Iterator<Item = char> {
    let is_plain = character.is_alphanumeric() || "_./:@%+=,-".contains(character);
    (!is_plain).then_some('\\').into_iter().chain([character])
}

/// Writes what follows a single quote. Bash adds the closing one, but not behind another quote.
fn single_quoted(value: &str) -> String {
    let quoted = value.replace('\'', r"'\''");
    if value.ends_with('\'') { quoted[..quoted.len() - 1].to_owned() } else { quoted }
}

/// Writes what follows a double quote, in which `!` stands for a line of the history, even behind a backslash. Bash adds the closing one,
/// but not behind another quote.
fn double_quoted(value: &str) -> String {
    let mut quoted = String::new();
    for (at, character) in value.char_indices() {
        let is_last = at + character.len_utf8() == value.len();
        match character {
            '"' if is_last => quoted += r#""\""#,
            '!' if is_last => quoted += r#""\!"""#,
            '!' => quoted += r#""\!""#,
            '"' | '$' | '`' | '\\' => quoted.extend(['\\', character]),
            _ => quoted.push(character),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inserted(line: &str, replaced: &str, value: &str) -> String {
        let line = BashLine::read(line, replaced).expect("it can be read");
        line.inserted(value).expect("it goes on")
    }

    #[test]
    fn values_are_quoted_as_the_place_needs_it() {
        assert_eq!(inserted("outlive show my", "my", "my app"), r"my\ app");
        assert_eq!(inserted("outlive show 'my", "my", "my app's"), r"my app'\''s");
        assert_eq!(inserted("outlive show \"my", "my", "my $app!x"), r#"my \$app"\!"x"#);
        assert_eq!(inserted("outlive show my\" a", " a", "my app"), " app");
        assert_eq!(inserted("outlive show a:b", "b", "a:bc"), "bc");
        assert_eq!(inserted("outlive show a\\:b", "a\\:b", "a:bc"), "a:bc");
        assert_eq!(inserted("outlive list --session=s", "s", "--session=shop"), "shop");
        assert_eq!(inserted("outlive show \"'b", "'b", "'bc"), "'bc");
        assert_eq!(inserted("outlive show \"my", "\"my", "my app"), "my app", "as a caller hands it over");
        assert_eq!(inserted("outlive show 'it", "it", "it'"), r"it'\'");
        assert_eq!(inserted("outlive show ", "", "z$(x)"), r"z\$\(x\)");
    }

    #[test]
    fn words_lose_their_quotes() {
        let words = |line| BashLine::read(line, "").map(|line| line.words);
        let all = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>());
        assert_eq!(
            words("outlive --session 'a b' show \"c \\\"d\\e"),
            all(&["outlive", "--session", "a b", "show", "c \"d\\e"])
        );
        assert_eq!(words("outlive show "), all(&["outlive", "show", ""]));
        assert_eq!(words("outlive show ''"), all(&["outlive", "show", ""]));
        assert_eq!(words("outlive show a\\"), all(&["outlive", "show", "a"]));
        assert_eq!(words("outlive show $x"), None, "what stays is known to the shell alone");
        assert!(BashLine::read("outlive show $x", "$x").is_some(), "it is replaced");
        assert_eq!(words("outlive show \"`x"), None);
        assert!(words("outlive --session $x show '$y").is_some());
    }

    proptest! {
        /// What is inserted stands for the value, wherever the line was cut.
        #[test]
        fn what_is_inserted_is_read_as_the_value(value in "[a-c '\"\\\\$`!~*:=é]{1,12}", quote in "['\"]?") {
            let begun = format!("outlive show {quote}");
            let line = BashLine::read(&begun, "").expect("it can be read");
            let mut whole = begun + &line.inserted(&value).expect("it goes on");
            // As readline does.
            if !quote.is_empty() && !whole.ends_with(&quote) {
                whole += &quote;
            }
            let read = BashLine::read(&(whole.clone() + " end"), "end").expect("nothing in it is expanded");
            prop_assert_eq!(&read.words[2], &value, "{}", whole);
            prop_assert_eq!(read.words.len(), 4, "{}", whole);
        }

        #[test]
        fn any_line_is_read_without_harm(line in "[a-z '\"\\\\$`=:é\n]{0,30}", replaced in "[a-z '\"\\\\:é]{0,4}") {
            if let Some(read) = BashLine::read(&line, &replaced) {
                read.inserted("value");
            }
        }
    }
}
