//! What a job printed, as text that fits into an answer: the newest of it, without control sequences.

use std::io;

use outlive::{Job, Output, Piece, Plain, Stream};

use crate::reading::pieces;

/// The most bytes of output in an answer: no client takes more.
const ROOM: usize = 1 << 20;

/// Stands where output is left out.
const CUT: &str = "... [output truncated] ...\n";

/// How many lines of the output are shown when a command moves to the background.
const INITIAL_LINES: usize = 20;

/// Output that is being read, of which the newest is kept.
#[derive(Default)]
struct Newest {
    text: Vec<u8>,
    /// A parser for each stream: one stream may print in the middle of the other's character.
    plain: [Plain; 2],
    is_cut: bool,
}

impl Newest {
    fn push(&mut self, stream: Stream, bytes: &[u8]) {
        self.plain[stream.index()].push(bytes, &mut self.text);
        if self.text.len() > 2 * ROOM {
            self.trim();
        }
    }

    /// Takes a piece, of one stream if only that is wanted.
    fn take(&mut self, piece: &Piece, only: Option<Stream>) {
        match piece {
            Piece::Gone { .. } => self.cut(),
            Piece::Output { stream, bytes, lost_before, .. } => {
                if *lost_before > 0 {
                    self.cut();
                }
                let stream = stream.unwrap_or(Stream::Stdout);
                if only.is_none_or(|only| only == stream) {
                    self.push(stream, bytes);
                }
            }
        }
    }

    /// Notes that output is missing here.
    fn cut(&mut self) {
        self.plain.iter_mut().for_each(|plain| plain.finish(&mut self.text));
        if self.text.is_empty() {
            self.is_cut = true;
        } else {
            self.text.extend_from_slice(CUT.as_bytes());
        }
    }

    /// Drops the oldest beyond the room, up to the beginning of a line if that is near.
    fn trim(&mut self) {
        let Some(over) = self.text.len().checked_sub(ROOM).filter(|&over| over > 0) else { return };
        let is_inner = |byte: u8| byte & 0xc0 == 0x80;
        let characters = self.text[over..].iter().take_while(|&&byte| is_inner(byte)).count();
        let line = self.text[over..].iter().take(ROOM / 16).position(|&byte| byte == b'\n').map(|at| at + 1);
        self.text.drain(..over + line.unwrap_or(characters));
        self.is_cut = true;
    }

    /// Returns the text. While more may come, the beginning of a character is not shown.
    fn finish(mut self, has_ended: bool) -> String {
        if has_ended {
            self.plain.iter_mut().for_each(|plain| plain.finish(&mut self.text));
        }
        self.trim();
        let text = String::from_utf8_lossy(&self.text);
        if self.is_cut { format!("{CUT}{text}") } else { text.into_owned() }
    }
}

/// Reads standard output and standard error, each apart.
pub(super) fn streams(job: &Job) -> io::Result<[String; 2]> {
    let (mut stdout, mut stderr) = (Newest::default(), Newest::default());
    pieces(&mut Output::open(job)?, 0, |piece| {
        stdout.take(&piece, Some(Stream::Stdout));
        stderr.take(&piece, Some(Stream::Stderr));
    })?;
    Ok([stdout.finish(true), stderr.finish(true)])
}

/// Reads both streams, in the order in which they came.
pub(super) fn merged(job: &Job, has_ended: bool) -> io::Result<String> {
    // Control sequences take room and are left out.
    const MORE: u64 = 4 * ROOM as u64;
    let mut output = Output::open(job)?;
    let from = output.end().saturating_sub(MORE).max(output.start());
    let mut newest = Newest { is_cut: from > 0, ..Newest::default() };
    pieces(&mut output, from, |piece| newest.take(&piece, None))?;
    Ok(newest.finish(has_ended))
}

/// Shortens a text to its first lines, and says how many more there are.
pub(super) fn initial(text: &str) -> String {
    let count = text.split('\n').count();
    if count <= INITIAL_LINES {
        return text.to_owned();
    }
    let first: Vec<&str> = text.split('\n').take(INITIAL_LINES).collect();
    format!("{}\n… +{} lines", first.join("\n"), count - INITIAL_LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_are_shown() {
        let lines = |count: usize| (1..=count).map(|line| format!("{line}\n")).collect::<String>();
        assert_eq!(initial(""), "");
        assert_eq!(initial(&lines(19)), lines(19));
        assert_eq!(initial(&lines(20)), format!("{}\n… +1 lines", lines(20).trim_end()));
        assert_eq!(initial(&lines(30)), format!("{}\n… +11 lines", lines(20).trim_end()));
    }

    #[test]
    fn the_newest_is_kept_from_the_beginning_of_a_line() {
        let mut newest = Newest::default();
        for number in 0..400_000 {
            newest.push(Stream::Stdout, format!("line {number}\n").as_bytes());
        }
        let text = newest.finish(true);
        let shown = text.strip_prefix(CUT).expect("it says that something is missing");
        assert!(shown.len() <= ROOM && shown.len() > ROOM / 2, "{}", shown.len());
        assert!(shown.starts_with("line ") && shown.ends_with("line 399999\n"));
    }

    #[test]
    fn a_character_in_two_pieces_is_whole_whatever_comes_between() {
        let mut newest = Newest::default();
        newest.push(Stream::Stdout, &[0xc3]);
        newest.push(Stream::Stderr, b"x");
        newest.push(Stream::Stdout, &[0xa4, 0xe2, 0x82]);
        assert_eq!(newest.finish(false), "xä");
    }
}
