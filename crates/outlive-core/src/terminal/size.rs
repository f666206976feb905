//! The size of a terminal.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many columns and rows a terminal has.
///
/// Neither is ever zero, which programs divide by, nor so large that a screen of it would not fit into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TerminalSize {
    columns: u16,
    rows: u16,
}

words! {
    /// What the size of a viewer's own terminal means for the job's.
    pub enum Sizing {
        /// Nothing.
        Fixed = "fixed",
        /// The job's has it while the viewer is the one that was used last.
        Latest = "latest",
        /// The job's fits into those of all such viewers.
        Smallest = "smallest",
    }
}

/// What is wrong with a size, and what to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write columns x rows, such as 120x40, at most {}x{}", TerminalSize::MOST.columns, TerminalSize::MOST.rows)]
pub struct SizeError;

impl TerminalSize {
    /// The largest.
    pub const MOST: Self = Self { columns: 1000, rows: 500 };

    /// Makes a size; what is too small or too large is brought within the bounds.
    pub fn new(columns: u16, rows: u16) -> Self {
        Self { columns: columns.clamp(1, Self::MOST.columns), rows: rows.clamp(1, Self::MOST.rows) }
    }

    /// Reads `120x40`.
    ///
    /// # Errors
    ///
    /// If it is something else, or out of bounds.
    pub fn parse(text: &str) -> Result<Self, SizeError> {
        let (columns, rows) = text.trim().split_once(['x', 'X', '×']).ok_or(SizeError)?;
        let number = |text: &str| text.trim().parse::<u16>().map_err(|_| SizeError);
        let (columns, rows) = (number(columns)?, number(rows)?);
        let size = Self::new(columns, rows);
        if (size.columns, size.rows) == (columns, rows) { Ok(size) } else { Err(SizeError) }
    }

    /// Returns the number of columns.
    pub fn columns(self) -> u16 {
        self.columns
    }

    /// Returns the number of rows.
    pub fn rows(self) -> u16 {
        self.rows
    }

    /// Returns it in three bytes, as an index record has it: twelve bits each.
    pub fn to_bytes(self) -> [u8; 3] {
        let [low, middle, high, _] = (u32::from(self.columns) << 12 | u32::from(self.rows)).to_le_bytes();
        [low, middle, high]
    }

    /// Reads what [`TerminalSize::to_bytes`] wrote.
    pub fn from_bytes([low, middle, high]: [u8; 3]) -> Self {
        let bits = u32::from_le_bytes([low, middle, high, 0]);
        Self::new((bits >> 12) as u16, (bits & 0xfff) as u16)
    }
}

/// Wide enough for what programs print in columns, and a tolerable amount of text for a model that reads it.
impl Default for TerminalSize {
    fn default() -> Self {
        Self { columns: 120, rows: 40 }
    }
}

impl fmt::Display for TerminalSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.columns, self.rows)
    }
}

impl TryFrom<String> for TerminalSize {
    type Error = SizeError;

    fn try_from(text: String) -> Result<Self, SizeError> {
        Self::parse(&text)
    }
}

impl From<TerminalSize> for String {
    fn from(size: TerminalSize) -> Self {
        size.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_size_comes_back(columns in 1u16..=1000, rows in 1u16..=500) {
            let size = TerminalSize::new(columns, rows);
            prop_assert_eq!((size.columns(), size.rows()), (columns, rows));
            prop_assert_eq!(TerminalSize::from_bytes(size.to_bytes()), size);
            prop_assert_eq!(TerminalSize::parse(&size.to_string()), Ok(size));
        }

        #[test]
        fn any_bytes_are_a_size_within_bounds(bytes: [u8; 3]) {
            let size = TerminalSize::from_bytes(bytes);
            prop_assert!(size.columns() >= 1 && size.columns() <= 1000 && size.rows() >= 1 && size.rows() <= 500);
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for wrong in
            ["", "80", "x", "80x", "0x24", "80x0", "1001x24", "80x501", "80x24x3", "-1x2", "99999999x1"]
        {
            assert_eq!(TerminalSize::parse(wrong), Err(SizeError), "{wrong}");
        }
    }
}
