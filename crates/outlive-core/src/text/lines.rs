//! From chunks of two streams to lines.
//!
//! A line belongs to one stream and may come in pieces, with pieces of the other stream between. Its number is that of
//! its newline among all newlines of the log.

use memchr::{memchr, memchr_iter, memrchr};

use crate::index::{Before, Stream};
use crate::timestamp::Timestamp;

/// The most of a line that is held in memory; what is beyond it is counted.
pub const MAX_LINE: usize = 1 << 20;

/// The most bytes of a character.
const LONGEST_CHARACTER: usize = 4;

/// Colours and styles take less.
const LONGEST_SEQUENCE: usize = 64;

/// A line, or the unfinished end of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From 1, never shifting. An unfinished line has the number that it would get if it were ended next.
    pub number: u64,
    /// The stream; unknown where the index is lost, or a later version wrote it.
    pub stream: Option<Stream>,
    /// When its end was read; unknown where the index is lost.
    pub time: Option<Timestamp>,
    /// Its bytes without the newline, at most [`MAX_LINE`].
    pub text: Vec<u8>,
    /// How many times it occurs in a row; more than once only as a terminal would show it.
    pub repeated: u32,
    /// How many more bytes it has.
    pub cut_bytes: u64,
    /// How many bytes were lost here; more than 0 only for a line that no command printed, which tells of them.
    pub lost_bytes: u64,
    /// Whether its newline has come, or was lost.
    pub is_ended: bool,
}

impl Line {
    /// Leaves out what is beyond so many bytes, and with it a character or control sequence that would be torn.
    pub fn cut(&mut self, most: usize) {
        if self.text.len() <= most {
            return;
        }
        let is_inside = |at: usize| at > 0 && self.text[at] & 0xc0 == 0x80;
        let mut end = most;
        while is_inside(end) && most - end < LONGEST_CHARACTER - 1 {
            end -= 1;
        }
        let from = end.saturating_sub(LONGEST_SEQUENCE);
        if let Some(escape) = memrchr(0x1b, &self.text[from..end]).map(|at| from + at)
            && !self.text[escape + 1..end].iter().any(u8::is_ascii_alphabetic)
        {
            end = escape;
        }
        self.cut_bytes += (self.text.len() - end) as u64;
        self.text.truncate(end);
    }
}

/// Puts lines together.
#[derive(Debug, Default)]
pub struct Assembler {
    number: u64,
    /// Standard output's, standard error's, and that of bytes whose stream is not known.
    open: [Open; LANES.len()],
}

/// The order in which unfinished lines are handed on.
const LANES: [Option<Stream>; 3] = [Some(Stream::Stdout), Some(Stream::Stderr), None];

fn lane(stream: Option<Stream>) -> usize {
    stream.map_or(2, Stream::index)
}

#[derive(Debug, Default)]
struct Open {
    text: Vec<u8>,
    cut_bytes: u64,
    time: Option<Timestamp>,
}

impl Open {
    fn push(&mut self, bytes: &[u8]) {
        let room = MAX_LINE - self.text.len().min(MAX_LINE);
        let (kept, cut) = bytes.split_at(room.min(bytes.len()));
        self.text.extend_from_slice(kept);
        self.cut_bytes += cut.len() as u64;
    }
}

impl Assembler {
    /// Begins at a place before which there was this; the beginnings of its unfinished lines are given with
    /// [`Assembler::resume`].
    pub fn at(before: &Before) -> Self {
        Self { number: before.all_lines(), open: Default::default() }
    }

    /// Gives the beginning of an unfinished line, and how much of it is left out.
    pub fn resume(&mut self, stream: Stream, time: Option<Timestamp>, bytes: &[u8], cut_bytes: u64) {
        let open = &mut self.open[stream.index()];
        open.push(bytes);
        open.time = time;
        open.cut_bytes += cut_bytes;
    }

    /// Takes the next bytes and hands on each line that they end.
    pub fn push(
        &mut self,
        stream: Option<Stream>,
        time: Option<Timestamp>,
        mut bytes: &[u8],
        mut emit: impl FnMut(Line),
    ) {
        while let Some(at) = memchr(b'\n', bytes) {
            let open = &mut self.open[lane(stream)];
            open.push(&bytes[..at]);
            self.number += 1;
            let ended = std::mem::take(open);
            emit(Line {
                number: self.number,
                stream,
                time,
                text: ended.text,
                repeated: 1,
                cut_bytes: ended.cut_bytes,
                lost_bytes: 0,
                is_ended: true,
            });
            bytes = &bytes[at + 1..];
        }
        if !bytes.is_empty() {
            let open = &mut self.open[lane(stream)];
            open.push(bytes);
            open.time = time;
        }
    }

    /// Tells whether this stream has an unfinished line.
    pub fn is_open(&self, stream: Option<Stream>) -> bool {
        let open = &self.open[lane(stream)];
        !open.text.is_empty() || open.cut_bytes > 0
    }

    /// Returns how many lines have ended.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Counts lines that were looked at by other means; there must be no unfinished line of their stream.
    pub fn skip(&mut self, lines: u64) {
        self.number += lines;
    }

    /// Takes the next bytes and counts the lines that they end.
    pub fn pass_over(&mut self, stream: Option<Stream>, time: Option<Timestamp>, bytes: &[u8]) {
        let whole = memrchr(b'\n', bytes).map_or(0, |last| last + 1);
        if whole > 0 {
            self.number += memchr_iter(b'\n', &bytes[..whole]).count() as u64;
            self.open[lane(stream)] = Open::default();
        }
        self.push(stream, time, &bytes[whole..], |_| {});
    }

    /// Hands on the unfinished lines as they are, because what followed them was lost. What comes next is a line apart; as it
    /// has the newline, it has the same number.
    pub fn tear(&mut self, emit: impl FnMut(Line)) {
        let torn = self.unfinished();
        self.open = Default::default();
        torn.into_iter().map(|line| Line { is_ended: true, number: self.number + 1, ..line }).for_each(emit);
    }

    /// Returns the unfinished lines, standard output's first.
    pub fn unfinished(&self) -> Vec<Line> {
        let mut number = self.number;
        let mut lines = Vec::new();
        for stream in LANES {
            let open = &self.open[lane(stream)];
            if !open.text.is_empty() || open.cut_bytes > 0 {
                number += 1;
                lines.push(Line {
                    number,
                    stream,
                    time: open.time,
                    text: open.text.clone(),
                    repeated: 1,
                    cut_bytes: open.cut_bytes,
                    lost_bytes: 0,
                    is_ended: false,
                });
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assemble(chunks: &[(Stream, Vec<u8>)]) -> (Vec<Line>, Vec<Line>) {
        let mut assembler = Assembler::default();
        let mut lines = Vec::new();
        for (stream, bytes) in chunks {
            assembler.push(Some(*stream), None, bytes, |line| lines.push(line));
        }
        (lines, assembler.unfinished())
    }

    #[test]
    fn a_line_in_two_pieces_is_whole() {
        let (lines, rest) = assemble(&[
            (Stream::Stdout, b"one\ntw".to_vec()),
            (Stream::Stderr, b"error\nmore".to_vec()),
            (Stream::Stdout, b"o\n".to_vec()),
        ]);
        let seen: Vec<_> =
            lines.iter().map(|line| (line.number, line.stream.unwrap(), line.text.as_slice())).collect();
        assert_eq!(
            seen,
            [(1, Stream::Stdout, &b"one"[..]), (2, Stream::Stderr, b"error"), (3, Stream::Stdout, b"two")]
        );
        assert_eq!(rest.len(), 1);
        assert_eq!((rest[0].number, rest[0].text.as_slice(), rest[0].is_ended), (4, &b"more"[..], false));
    }

    #[test]
    fn a_huge_line_is_cut_and_counted() {
        let (lines, _) =
            assemble(&[(Stream::Stdout, vec![b'x'; MAX_LINE + 5]), (Stream::Stdout, b"yz\n".to_vec())]);
        assert_eq!((lines[0].text.len(), lines[0].cut_bytes), (MAX_LINE, 7));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..30)), 0..8),
            cut in 1usize..7,
        ) {
            let stream = |out: bool| if out { Stream::Stdout } else { Stream::Stderr };
            let whole: Vec<_> = pieces.iter().map(|(out, bytes)| (stream(*out), bytes.clone())).collect();
            let split: Vec<_> = whole
                .iter()
                .flat_map(|(stream, bytes)| bytes.chunks(cut).map(|part| (*stream, part.to_vec())))
                .collect();
            prop_assert_eq!(assemble(&whole), assemble(&split));
            let mut passing = Assembler::default();
            split.iter().for_each(|(stream, bytes)| passing.pass_over(Some(*stream), None, bytes));
            let (lines, unfinished) = assemble(&whole);
            prop_assert_eq!((passing.number(), passing.unfinished()), (lines.len() as u64, unfinished));
        }
    }

    #[test]
    fn a_line_is_cut_where_nothing_is_torn() {
        let cut = |text: &[u8], most: usize| {
            let (mut lines, mut whole) = (Vec::new(), text.to_vec());
            whole.push(b'\n');
            Assembler::default().push(None, None, &whole, |line| lines.push(line));
            lines[0].cut(most);
            assert_eq!(lines[0].text.len() as u64 + lines[0].cut_bytes, text.len() as u64);
            String::from_utf8_lossy(&lines[0].text).into_owned()
        };
        assert_eq!([cut(b"abcd", 4), cut(b"abcd", 3), cut(b"abcd", 0)], ["abcd", "abc", ""]);
        let text = "a\u{1f980}\u{e9}".as_bytes();
        assert_eq!((0..=7).map(|most| cut(text, most).len()).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 5, 5, 7]);
        let text = b"a\x1b[31mred\x1b[0m";
        assert_eq!(
            [cut(text, 3), cut(text, 5), cut(text, 6), cut(text, 10)],
            ["a", "a", "a\x1b[31m", "a\x1b[31mred"]
        );
        // What is no text is cut all the same.
        assert_eq!(cut(&[0x80; 20], 9).len(), 3 * 6);
    }
}
