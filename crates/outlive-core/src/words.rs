//! Enumerations whose values are words: in JSON, on the command line and for people.

/// Declares an enumeration with the word of each value.
macro_rules! words {
    ($(#[$attribute:meta])* pub enum $Name:ident { $($(#[$about:meta])* $Value:ident = $word:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $Name { $($(#[$about])* #[serde(rename = $word)] $Value,)* }

        impl $Name {
            /// All of them, in this order.
            pub const ALL: [Self; Self::WORDS.len()] = [$(Self::$Value),*];

            /// The words of all of them.
            pub const WORDS: &[&str] = &[$($word),*];

            /// Returns the word.
            pub fn word(self) -> &'static str {
                match self { $(Self::$Value => $word,)* }
            }

            /// Reads the word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.word() == word)
            }
        }
    };
}
