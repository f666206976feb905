//! Recordings of terminal programs for other programs and for people: asciicast, plain text, HTML.
//!
//! All are made from what happened, in order: output, resizes, and whatever else the caller has.

mod cast;
mod html;
mod transcript;

pub use cast::{Cast, CastHeader};
pub use html::html;
pub use transcript::Transcript;

use outlive_core::terminal::size::TerminalSize;

/// What happened on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The program printed.
    Output(&'a [u8]),
    /// Something was typed.
    Input(&'a [u8]),
    /// The size changed.
    Resize(TerminalSize),
    /// A place that is worth finding again.
    Marker(&'a str),
    /// The program exited with this status.
    Exit(i32),
}
