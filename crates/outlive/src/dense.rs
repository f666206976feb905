//! Output without its blank lines, numbered anew: the view of designs that never kept them.

use std::collections::VecDeque;
use std::io;

use outlive_core::index::Stream;
use outlive_core::lines::Line;

use crate::job::Job;
use crate::output::{Output, Piece};

/// Which lines count as blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// Those without any character.
    Empty,
    /// Those without any character but spaces.
    Whitespace,
}

impl Blank {
    pub(crate) fn is_blank(self, text: &[u8]) -> bool {
        match self {
            Self::Empty => text.is_empty(),
            Self::Whitespace => String::from_utf8_lossy(text).trim().is_empty(),
        }
    }
}

/// The lines that are not blank.
#[derive(Debug, Default)]
pub struct Dense {
    /// How many there are, an unfinished one included, as far as the log reaches back.
    pub total: u64,
    /// The last of them; their numbers count from 1 and pass over those that are blank.
    pub lines: VecDeque<Line>,
}

impl Job {
    /// Returns the last `window` lines that are not blank, of one stream or of both, unfinished ones included. Such lines are
    /// not in the index: the log is read from its beginning.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn dense(&self, blank: Blank, stream: Option<Stream>, window: usize) -> io::Result<Dense> {
        let mut output = Output::open(self)?;
        let mut offset = output.start();
        let mut assembler = output.assembler_at(offset)?;
        let mut dense = Dense::default();
        let mut keep = |mut line: Line| {
            if (stream.is_some() && line.stream != stream) || blank.is_blank(&line.text) {
                return;
            }
            dense.total += 1;
            line.number = dense.total;
            if dense.lines.len() == window {
                dense.lines.pop_front();
            }
            if window > 0 {
                dense.lines.push_back(line);
            }
        };
        while let Some(piece) = output.piece(offset)? {
            match piece {
                Piece::Output { stream, time, bytes, .. } => {
                    offset += bytes.len() as u64;
                    assembler.push(stream, time, &bytes, &mut keep);
                }
                Piece::Gone { to, .. } => offset = to,
            }
        }
        assembler.unfinished().into_iter().for_each(keep);
        Ok(dense)
    }
}
