//! Output as a terminal would have left it: progress bars in their last state, what was erased gone.
//!
//! The page is endless upwards and as wide as it is said to be. Its last rows, the window, are a terminal's screen: the
//! cursor moves there, and text there can still change. A row that leaves the window at its top is final and is handed
//! on. Memory is bounded by the window: a few times [`MAX_ROWS`] of [`MAX_COLUMNS`], whatever the input; so is the time for each byte.
//!
//! What is done: CR, LF, BS, TAB, VT, FF; cursor up, down, forward, back, column, row, position and their relatives
//! (`A`–`H`, `I`, `Z`, `` ` ``, `a`, `d`, `e`, `f`), save and restore; erase in line, in display and of characters; insert
//! and delete characters and rows, insert mode; scroll regions, scrolling, index and reverse index; repeat; wrapping on
//! and off; the line-drawing charset; full reset; wide characters and combining marks. Colours, titles, links and all
//! else are ignored. How input is taken apart, what is invalid and which characters are dropped, is as for
//! [`crate::plain`].
//!
//! It is tested against a terminal emulator. What differs from one, on purpose:
//! - A line feed goes to the beginning of the next row. A terminal gets `\r\n` from its driver, a pipe only `\n`.
//! - Nothing of an alternate screen that was closed is left. One that is open when the stream ends, or from which more than
//!   [`MAX_ROWS`] lines have scrolled away, counts as left open by a program that failed: its text follows the page. It is
//!   one for modes 47, 1047 and 1049 alike, begins empty with the cursor at its top, and the cursor comes back for each.
//! - Without columns, lines do not wrap; what is right of [`MAX_COLUMNS`] is counted and not kept. With columns, a line that
//!   wrapped is one line, as when it is copied; but not after a row that was filled up with blanks, which is how some
//!   programs end a line.
//! - A tab that goes over blank columns stays a tab, tab stops are always eight columns apart, and blanks at the end of a
//!   line and blank lines at the end of the page are not there.
//! - Clearing the display erases the window and keeps nothing of it, as xterm does; some terminals scroll it away first.
//!   Lines that have left the window stay, also when the scrollback is cleared or the terminal reset.
//! - Deleted rows are gone; some terminals keep them if they are deleted at the top of the screen.
//! - Half a wide character that is erased, deleted or shifted away takes its other half with it.
//! - Origin mode, soft reset, own tab stops, the screen alignment test and character sets other than ASCII and line
//!   drawing are not there. A character is repeated for one row at most.

mod page;
mod row;
mod sequences;

use std::fmt;

use crate::plain::parser::Parser;
use page::Page;

/// The most columns of a line; what is right of it is counted.
pub const MAX_COLUMNS: usize = 4096;

/// The most rows that can still change; no screen has more.
pub const MAX_ROWS: usize = 500;

/// The rows that can still change where the height of the terminal is not given: more than most screens have, so that a
/// display that went up to its top finds it.
pub const DEFAULT_ROWS: usize = 200;

/// How much is taken before lines are handed on, which bounds how many wait.
const PIECE_BYTES: usize = 4096;

/// A line that a terminal would have left, or a run of lines that are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedLine {
    /// Its text, without blanks at its end.
    pub text: String,
    /// How many such lines there are in a row, at least 1.
    pub repeated: u32,
    /// How many columns more each of them has.
    pub cut_columns: u64,
}

impl RenderedLine {
    fn is_blank(&self) -> bool {
        self.text.is_empty() && self.cut_columns == 0
    }
}

/// Writes the text, then what there is to note in brackets. A run of blank lines is one blank line.
impl fmt::Display for RenderedLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)?;
        if self.cut_columns > 0 {
            write!(out, " [{} more columns]", self.cut_columns)?;
        }
        if self.repeated > 1 && !self.is_blank() {
            write!(out, " [{} times]", self.repeated)?;
        }
        Ok(())
    }
}

/// Renders a stream. A clone can be finished to see what is on the page now.
#[derive(Debug, Clone)]
pub struct Rendered {
    parser: Parser,
    page: Page,
    columns: Option<usize>,
}

impl Rendered {
    /// Begins with an empty page, so many columns wide (2 at least, [`MAX_COLUMNS`] at most), or without an edge at which
    /// lines wrap.
    pub fn new(columns: Option<usize>) -> Self {
        Self { parser: Parser::default(), page: Page::new(columns, DEFAULT_ROWS), columns }
    }

    /// Begins with an empty page whose window has the height of the terminal on which the command ran, [`MAX_ROWS`] at
    /// most. Programs that place the cursor by row need it to be right.
    pub fn with_rows(self, rows: usize) -> Self {
        Self { page: Page::new(self.columns, rows.clamp(1, MAX_ROWS)), ..self }
    }

    /// Takes the next bytes and hands on each line that cannot change any more.
    pub fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(RenderedLine)) {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.parser.push(piece, &mut self.page);
            self.page.take_ready(&mut emit);
        }
    }

    /// Ends the stream, hands on what is still on the page, and begins anew.
    pub fn finish(&mut self, emit: impl FnMut(RenderedLine)) {
        self.parser.finish(&mut self.page);
        self.page.close();
        self.page.take_ready(emit);
        self.page = Page::new(self.columns, self.page.height());
    }
}

#[cfg(test)]
mod tests;
