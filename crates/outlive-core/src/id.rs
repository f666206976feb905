//! Names of things: job ids, session names, nonces.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::rawtext::{from_hex, hex};

/// The digits of an id's random part: no letter that is taken for another.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The longest slug: an id is typed and read aloud.
const SLUG: usize = 20;

/// Why a name was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// More than the limit.
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    /// A character that is not allowed.
    #[error("{0:?} is not allowed in it: only letters, digits, '-', '_' and '.' are")]
    Character(char),
    /// A character that it must not begin with.
    #[error("it begins with {0:?}, and must begin with a letter or digit")]
    First(char),
}

/// FNV-1a: short, and the same in every version.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Declares a kind of name: how long it may be, and which characters it may have at its beginning and after it.
macro_rules! names {
    ($($(#[$about:meta])* $Name:ident, $most:literal, $first:expr, $more:expr;)*) => { $(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $Name(String);

        impl $Name {
            /// The most bytes of it.
            pub const MAX: usize = $most;

            /// Takes it as it stands.
            ///
            /// # Errors
            ///
            /// If it could not be the name of a directory, or could be mistaken for something else.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                if text.is_empty() {
                    return Err(NameError::Empty);
                }
                if text.len() > Self::MAX {
                    return Err(NameError::TooLong(Self::MAX));
                }
                let (first, more): (fn(&u8) -> bool, &[u8]) = ($first, $more);
                let is_allowed =
                    |(place, byte): (usize, u8)| first(&byte) || (place > 0 && more.contains(&byte));
                let Some((place, byte)) = text.bytes().enumerate().find(|&at| !is_allowed(at)) else {
                    return Ok(Self(text.to_owned()));
                };
                // What stands before it is allowed, and so of one byte each.
                let character = text[place..].chars().next().unwrap_or_default();
                match place == 0 && more.contains(&byte) {
                    true => Err(NameError::First(character)),
                    false => Err(NameError::Character(character)),
                }
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// So that one is found in a map by its text.
        impl Borrow<str> for $Name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(&self.0)
            }
        }

        impl TryFrom<String> for $Name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::parse(&text)
            }
        }

        impl From<$Name> for String {
            fn from(name: $Name) -> Self {
                name.0
            }
        }
    )* };
}

names! {
    /// The id of a job: a word that says what it is, and four characters that make it unique, `vite-3f9c`.
    JobId, 48, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit(), b"-_";
    /// The name of a session.
    SessionName, 64, u8::is_ascii_alphanumeric, b"-_.";
    /// The name of a queue.
    QueueName, 64, u8::is_ascii_alphanumeric, b"-_.";
}

impl JobId {
    /// The longest that [`JobId::generate`] makes.
    pub const GENERATED_MAX: usize = SLUG + 5;

    /// Makes an id from what people call the thing (its name, or its program) and random bits.
    pub fn generate(hint: &str, random: u32) -> Self {
        let tail: String =
            (0..4).map(|place| ALPHABET[(random >> (5 * place)) as usize & 31] as char).collect();
        Self(format!("{}-{tail}", slug(hint)))
    }

    /// Returns the word that it begins with and its last part, `vite` and `3f9c`; `None` of an id that has only one part.
    pub fn parts(&self) -> Option<(&str, &str)> {
        self.0.rsplit_once('-')
    }
}

/// Reduces any text to a short lower-case word.
fn slug(hint: &str) -> String {
    let mut slug = String::new();
    for c in hint.chars() {
        if slug.len() >= SLUG {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "job".to_owned() } else { slug.to_owned() }
}

impl Default for SessionName {
    /// The session of jobs that are started without naming one.
    fn default() -> Self {
        Self("default".to_owned())
    }
}

/// 128 random bits: unlike an id, never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(pub [u8; 16]);

impl fmt::Display for Nonce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The text is not 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not 32 hexadecimal digits")]
pub struct NonceError;

impl TryFrom<String> for Nonce {
    type Error = NonceError;
    fn try_from(text: String) -> Result<Self, NonceError> {
        from_hex(&text).and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(NonceError)
    }
}

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> Self {
        nonce.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_id_says_what_it_is() {
        assert_eq!(JobId::generate("vite", 0).as_str(), "vite-0000");
        assert_eq!(JobId::generate("/usr/bin/My Prog!", u32::MAX).as_str(), "usr-bin-my-prog-zzzz");
        assert_eq!(JobId::generate("…", 1).as_str(), "job-1000");
        assert_eq!(JobId::generate("", 32).as_str(), "job-0100");
        assert_eq!(JobId::generate("my prog", 0).parts(), Some(("my-prog", "0000")));
    }

    proptest! {
        #[test]
        fn any_hint_makes_a_valid_id(hint in ".*", random: u32) {
            let id = JobId::generate(&hint, random);
            prop_assert_eq!(JobId::parse(id.as_str()), Ok(id));
        }

        #[test]
        fn a_nonce_comes_back(bytes: [u8; 16]) {
            prop_assert_eq!(Nonce::try_from(Nonce(bytes).to_string()), Ok(Nonce(bytes)));
        }
    }

    #[test]
    fn what_leaves_the_directory_is_no_name() {
        for text in ["", ".", "..", "../x", "a/b", "-a", ".hidden", "a b", "a\0", "a@b", &"x".repeat(65)] {
            assert!(SessionName::parse(text).is_err(), "{text:?}");
            assert!(JobId::parse(text).is_err(), "{text:?}");
        }
        assert!(JobId::parse("Upper").is_err());
        assert!(SessionName::parse("My.project_1-a").is_ok());
    }
}
