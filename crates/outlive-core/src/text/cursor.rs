//! A place in a job's output, to read on from later.
//!
//! Opaque to callers: a text that is only handed back. It names the job by its nonce, so that a place in one job's output
//! is never taken for a place in that of a later job of the same id.

use std::fmt;
use std::str::FromStr;

use crate::id::Nonce;

/// A place in a job's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The nonce of the job.
    pub nonce: Nonce,
    /// The offset of the next byte.
    pub offset: u64,
}

/// The text is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor")]
pub struct CursorError;

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{:x}", self.nonce, self.offset)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (nonce, offset) = text.trim_end().split_once('-').ok_or(CursorError)?;
        let nonce = Nonce::try_from(nonce.to_owned()).map_err(|_| CursorError)?;
        let offset = u64::from_str_radix(offset, 16).map_err(|_| CursorError)?;
        Ok(Self { nonce, offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_comes_back(nonce: [u8; 16], offset: u64) {
            let cursor = Cursor { nonce: Nonce(nonce), offset };
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }

        #[test]
        fn any_text_is_read_without_harm(text in ".*") {
            prop_assert!(text.parse::<Cursor>().is_err());
        }
    }
}
