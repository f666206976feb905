//! Keys by name, as the bytes that a terminal sends for them: `C-c Up Enter F5 M-x S-Tab "text"`.
//!
//! The names are those of tmux and Emacs, in any case; `Ctrl+c`, `Alt-x` and `^C` are understood as well. The bytes are xterm's, which is
//! what `TERM` says.

/// What the program has asked its terminal for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyModes {
    /// DECCKM: arrows, Home and End are sent as `ESC O`.
    pub application_cursor: bool,
    /// DECKPAM: the keypad is sent as `ESC O`.
    pub application_keypad: bool,
    /// A paste is put between marks.
    pub bracketed_paste: bool,
}

/// Why keys were not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A word names no key.
    #[error(
        "unknown key `{0}`: as text it is written `\"{0}\"`; a key is one character, one of {NAMES}, or F1 to F20, after any of C-, M- and S-"
    )]
    Unknown(String),
    /// A key has no byte with these modifiers.
    #[error("a terminal has no `{0}`: C- goes with letters, Space, @ [ \\ ] ^ _ ? / and named keys")]
    NoSuch(String),
    /// A text without its closing quote.
    #[error("the text `{0}` has no closing double quote")]
    Unclosed(String),
    /// There is not a single key.
    #[error("no keys given; for example: C-c, Up Enter, or \"text\" Enter")]
    Empty,
}

/// The names, for people.
const NAMES: &str = "Enter Tab Escape Space Backspace Up Down Left Right Home End PageUp PageDown Insert Delete KP0 to KP9 KPEnter";

const SHIFT: u8 = 1;
const ALT: u8 = 2;
const CONTROL: u8 = 4;

/// A key that is not a character.
#[derive(Clone, Copy)]
enum Named {
    /// One byte: Enter, Tab, Escape, Space, Backspace.
    Byte(u8),
    /// Arrows, Home and End, by the last byte.
    Cursor(u8),
    /// By the number before `~`.
    Edit(u8),
    /// F1 to F4, by the last byte.
    Function(u8),
    /// On the keypad: the character, and the last byte in application mode.
    Keypad(u8, u8),
}

fn named(name: &str) -> Option<Named> {
    let lower = name.to_ascii_lowercase();
    Some(match lower.as_str() {
        "enter" | "return" | "cr" => Named::Byte(b'\r'),
        "tab" => Named::Byte(b'\t'),
        "escape" | "esc" => Named::Byte(0x1b),
        "space" => Named::Byte(b' '),
        "backspace" | "bspace" | "bs" => Named::Byte(0x7f),
        "up" => Named::Cursor(b'A'),
        "down" => Named::Cursor(b'B'),
        "right" => Named::Cursor(b'C'),
        "left" => Named::Cursor(b'D'),
        "end" => Named::Cursor(b'F'),
        "home" => Named::Cursor(b'H'),
        "insert" | "ins" | "ic" => Named::Edit(2),
        "delete" | "del" | "dc" => Named::Edit(3),
        "pageup" | "pgup" | "ppage" => Named::Edit(5),
        "pagedown" | "pgdn" | "npage" => Named::Edit(6),
        "kpenter" => Named::Keypad(b'\r', b'M'),
        _ => match (lower.strip_prefix("kp"), lower.strip_prefix('f')) {
            (Some(digit), _) if digit.len() == 1 => {
                let digit = digit.as_bytes()[0];
                match digit {
                    b'0'..=b'9' => Named::Keypad(digit, digit - b'0' + b'p'),
                    b'*'..=b'/' => Named::Keypad(digit, digit - b'*' + b'j'),
                    _ => return None,
                }
            }
            (None, Some(number)) if !number.starts_with('0') && !number.starts_with('+') => {
                const NUMBERS: [u8; 16] = [15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34];
                match number.parse::<u8>().ok()? {
                    number @ 1..=4 => Named::Function(b'P' + number - 1),
                    number => Named::Edit(*NUMBERS.get(usize::from(number).checked_sub(5)?)?),
                }
            }
            _ => return None,
        },
    })
}

/// Returns the byte of a character with Control.
fn control(character: char) -> Option<u8> {
    Some(match character {
        'a'..='z' | 'A'..='Z' | '@' | '['..='_' => character as u8 & 0x1f,
        ' ' | '2' => 0,
        '3'..='7' => character as u8 - b'3' + 0x1b,
        '/' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    })
}

/// Appends a named key.
fn push_named(key: Named, modifiers: u8, modes: &KeyModes, out: &mut Vec<u8>) {
    let parameter = modifiers + 1;
    let letter = |prefix: &str, last: u8| format!("\x1b{prefix}{}", char::from(last));
    let bytes = match key {
        Named::Byte(b'\t') if modifiers & SHIFT != 0 => "\x1b[Z".to_owned(),
        Named::Byte(byte) => {
            let byte = match (byte, modifiers & CONTROL != 0) {
                (b' ', true) => 0,
                (0x7f, true) => 0x08,
                _ => byte,
            };
            let alt = if modifiers & ALT != 0 { "\x1b" } else { "" };
            format!("{alt}{}", char::from(byte))
        }
        Named::Keypad(character, last) => {
            if modes.application_keypad {
                letter("O", last)
            } else {
                char::from(character).to_string()
            }
        }
        Named::Edit(number) if modifiers != 0 => format!("\x1b[{number};{parameter}~"),
        Named::Edit(number) => format!("\x1b[{number}~"),
        Named::Cursor(last) | Named::Function(last) if modifiers != 0 => {
            letter(&format!("[1;{parameter}"), last)
        }
        Named::Cursor(last) if !modes.application_cursor => letter("[", last),
        Named::Cursor(last) | Named::Function(last) => letter("O", last),
    };
    out.extend_from_slice(bytes.as_bytes());
}

/// Takes the modifier off the beginning of a word that goes on after it.
fn strip_modifier(word: &str) -> Option<(u8, &str)> {
    if let Some((name, key)) = word.split_once(['-', '+']).filter(|(_, key)| !key.is_empty()) {
        let is_short = word[name.len()..].starts_with('-');
        return match name.to_ascii_lowercase().as_str() {
            "c" | "^" if is_short => Some((CONTROL, key)),
            "m" | "a" if is_short => Some((ALT, key)),
            "s" if is_short => Some((SHIFT, key)),
            "ctrl" | "control" => Some((CONTROL, key)),
            "alt" | "meta" => Some((ALT, key)),
            "shift" => Some((SHIFT, key)),
            _ => None,
        };
    }
    word.strip_prefix('^').filter(|key| key.chars().count() == 1).map(|key| (CONTROL, key))
}

/// Appends the key that a word names.
fn push_word(word: &str, modes: &KeyModes, out: &mut Vec<u8>) -> Result<(), KeyError> {
    let (mut key, mut modifiers) = (word, 0);
    while let Some((modifier, rest)) = strip_modifier(key) {
        modifiers |= modifier;
        key = rest;
    }
    let mut characters = key.chars();
    let (Some(first), None) = (characters.next(), characters.next()) else {
        let key = named(key).ok_or_else(|| KeyError::Unknown(word.to_owned()))?;
        push_named(key, modifiers, modes, out);
        return Ok(());
    };
    if modifiers & ALT != 0 {
        out.push(0x1b);
    }
    if modifiers & CONTROL != 0 {
        out.push(control(first).ok_or_else(|| KeyError::NoSuch(word.to_owned()))?);
    } else if modifiers & SHIFT != 0 {
        out.extend_from_slice(first.to_uppercase().to_string().as_bytes());
    } else {
        out.extend_from_slice(first.to_string().as_bytes());
    }
    Ok(())
}

/// Returns the bytes of keys, which are words between blanks; a text in double quotes is typed as it stands.
///
/// In a text `\"` is a quote, `\\` a backslash, `\t` a tab, and `\n` or a line break the Enter key.
pub fn parse(keys: &str, modes: &KeyModes) -> Result<Vec<u8>, KeyError> {
    let mut out = Vec::new();
    let mut rest = keys.trim_start();
    if rest.is_empty() {
        return Err(KeyError::Empty);
    }
    while !rest.is_empty() {
        rest = match rest.strip_prefix('"') {
            Some(text) => push_text(text, &mut out)?,
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                push_word(&rest[..end], modes, &mut out)?;
                &rest[end..]
            }
        }
        .trim_start();
    }
    Ok(out)
}

/// Appends a text up to its closing quote, and returns what follows it.
fn push_text<'a>(text: &'a str, out: &mut Vec<u8>) -> Result<&'a str, KeyError> {
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        let typed = match character {
            '"' => return Ok(&text[place + 1..]),
            '\n' => '\r',
            '\\' => match characters.clone().next() {
                Some((_, escaped @ ('"' | '\\' | 'n' | 't'))) => {
                    characters.next();
                    match escaped {
                        'n' => '\r',
                        't' => '\t',
                        _ => escaped,
                    }
                }
                _ => '\\',
            },
            _ => character,
        };
        out.extend_from_slice(typed.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Err(KeyError::Unclosed(text.to_owned()))
}

/// Returns the bytes of a paste: line breaks as the Enter key, between marks where the program asked for them.
///
/// Control characters are left out, as terminals do: a pasted ESC could end the marks, and what follows would count as typed.
pub fn paste(text: &str, modes: &KeyModes) -> Vec<u8> {
    let is_kept = |character: &char| matches!(character, '\t' | '\r') || !character.is_control();
    let text: String = text.replace("\r\n", "\r").replace('\n', "\r").chars().filter(is_kept).collect();
    if modes.bracketed_paste { format!("\x1b[200~{text}\x1b[201~").into_bytes() } else { text.into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(keys: &str) -> String {
        String::from_utf8(parse(keys, &KeyModes::default()).unwrap()).unwrap()
    }

    #[test]
    fn keys_are_what_xterm_sends() {
        for (keys, expected) in [
            ("C-c", "\x03"),
            ("^-c c-C ^C ^[ ^", "\x03\x03\x03\x1b^"),
            (
                "Ctrl-C ctrl+c Control-c Alt+x Meta-x Shift+Tab Ctrl-Shift-Right",
                "\x03\x03\x03\x1bx\x1bx\x1b[Z\x1b[1;6C",
            ),
            ("- + M-+", "-+\x1b+"),
            ("C-Space C-@ C-[ C-\\ C-] C-^ C-_ C-/ C-?", "\0\0\x1b\x1c\x1d\x1e\x1f\x1f\x7f"),
            ("Up Down Right Left Home End", "\x1b[A\x1b[B\x1b[C\x1b[D\x1b[H\x1b[F"),
            ("C-Up M-Left S-End C-S-Right C-M-S-Home", "\x1b[1;5A\x1b[1;3D\x1b[1;2F\x1b[1;6C\x1b[1;8H"),
            ("PageUp pgdn Insert Delete C-Delete", "\x1b[5~\x1b[6~\x1b[2~\x1b[3~\x1b[3;5~"),
            ("F1 F4 F5 F12 F20 S-F1 C-F5", "\x1bOP\x1bOS\x1b[15~\x1b[24~\x1b[34~\x1b[1;2P\x1b[15;5~"),
            ("Enter Tab S-Tab Esc Space BSpace C-Backspace M-Enter", "\r\t\x1b[Z\x1b \x7f\x08\x1b\r"),
            ("a M-x M-C-x S-a é - M--", "a\x1bx\x1b\x18Aé-\x1b-"),
            ("KP5 KPEnter KP+", "5\r+"),
            ("\"a b\" Enter", "a b\r"),
            ("\"say \\\"hi\\\" \\\\ \\n\\t\\d\"", "say \"hi\" \\ \r\t\\d"),
            ("\"\"", ""),
            ("  y  ", "y"),
        ] {
            assert_eq!(bytes(keys), expected, "{keys}");
        }
    }

    #[test]
    fn modes_change_what_is_sent() {
        let modes = KeyModes { application_cursor: true, application_keypad: true, bracketed_paste: true };
        let keys = parse("Up C-Up KP5 KPEnter KP* F1 PageUp", &modes).unwrap();
        assert_eq!(String::from_utf8(keys).unwrap(), "\x1bOA\x1b[1;5A\x1bOu\x1bOM\x1bOj\x1bOP\x1b[5~");
    }

    #[test]
    fn an_error_names_the_word_and_what_there_is() {
        let error = |keys: &str| parse(keys, &KeyModes::default()).unwrap_err().to_string();
        let unknown = error("Up Foo Enter");
        assert!(unknown.starts_with("unknown key `Foo`: ") && unknown.contains("PageUp"), "{unknown}");
        for keys in ["F0", "F21", "F05", "KPx", "X-a", "C-Foo", "hello", "C-M-", "C+c", "Ctrl-"] {
            assert!(error(keys).contains(&format!("`{keys}`")), "{keys}");
        }
        assert!(error(":wq Enter").contains("as text it is written `\":wq\"`"));
        for keys in ["C-é", "C--"] {
            assert!(error(keys).starts_with(&format!("a terminal has no `{keys}`")), "{keys}");
        }
        assert_eq!(error("x \"abc"), "the text `abc` has no closing double quote");
        assert!(error("  ").starts_with("no keys"));
    }

    #[test]
    fn a_paste_cannot_end_its_own_marks() {
        let bracketed = KeyModes { bracketed_paste: true, ..KeyModes::default() };
        assert_eq!(paste("a\r\nb\n\x1b[201~rm\x03\t", &bracketed), b"\x1b[200~a\rb\r[201~rm\t\x1b[201~");
        assert_eq!(paste("ls\n", &KeyModes::default()), b"ls\r");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(keys in "[CMSF0-9a-z\"\\\\ é-]{0,30}|.{0,30}") {
            let _ = parse(&keys, &KeyModes::default());
        }
    }
}
