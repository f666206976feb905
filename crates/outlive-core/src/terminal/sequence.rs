//! Splits a terminal's byte stream into text and whole escape sequences, however the reads were cut.
//!
//! The states are those of `vte`, which the emulator uses: a sequence that is whole here is whole there. Sequences up to a limit
//! are handed over in one piece; longer ones pass in pieces and are never kept.

use memchr::{memchr, memchr3};

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;

/// A part of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text and control characters. It ends where the input does, even within a character.
    Text(&'a [u8]),
    /// A sequence from ESC to its last byte. One that ESC cut short has no last byte; one that CAN or SUB cut short ends with it.
    Sequence(&'a [u8]),
    /// A piece of a sequence that is longer than the limit.
    Long(&'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    EscapeIntermediate,
    Csi,
    /// In an OSC, which BEL may end.
    Command,
    /// In a DCS, SOS, PM or APC.
    String,
    /// After ESC in a string: `\` belongs to the string, anything else to the next sequence. The ESC is not yet handed over.
    StringEnd,
}

/// The splitter.
#[derive(Debug, Clone)]
pub struct Sequences {
    state: State,
    /// The beginning of a sequence whose end has not been seen, within the limit.
    held: Vec<u8>,
    /// Pieces of the current sequence were handed over as [`Part::Long`].
    is_long: bool,
    limit: usize,
}

/// What a byte does to the current sequence.
enum Step {
    Goes,
    /// It is the last byte.
    Ends,
    /// It is the first byte after the sequence.
    Ended,
}

impl Sequences {
    /// Makes a splitter that keeps at most `limit` bytes of an unfinished sequence.
    pub fn new(limit: usize) -> Self {
        Self { state: State::Ground, held: Vec::new(), is_long: false, limit }
    }

    /// Whether no sequence has begun without its end.
    pub fn is_at_ground(&self) -> bool {
        self.state == State::Ground
    }

    /// Splits the next bytes.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Part<'_>)) {
        // The current sequence goes from `start` to `at`, after what is held.
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() {
            if self.state == State::Ground {
                at += memchr(ESC, &bytes[at..]).unwrap_or(bytes.len() - at);
                if at > start {
                    each(Part::Text(&bytes[start..at]));
                }
                start = at;
                if at < bytes.len() {
                    self.state = State::Escape;
                    at += 1;
                }
                continue;
            }
            at += self.unchanging(&bytes[at..]);
            if at == bytes.len() {
                break;
            }
            let resumes_after_escape = self.state == State::StringEnd && at == start;
            match self.step(bytes[at]) {
                Step::Goes => at += 1,
                Step::Ends => {
                    at += 1;
                    if resumes_after_escape {
                        self.hand_over(b"\x1b\\", &mut each);
                    } else {
                        self.hand_over(&bytes[start..at], &mut each);
                    }
                    self.state = State::Ground;
                    start = at;
                }
                // The ESC that ended the sequence is the byte before this one, or it came with an earlier input.
                Step::Ended if self.state == State::StringEnd => {
                    let end = if resumes_after_escape { at } else { at - 1 };
                    self.hand_over(&bytes[start..end], &mut each);
                    self.state = State::Escape;
                    start = end;
                    if resumes_after_escape {
                        self.held.push(ESC);
                    }
                }
                Step::Ended => {
                    self.hand_over(&bytes[start..at], &mut each);
                    self.state = State::Escape;
                    start = at;
                    at += 1;
                }
            }
        }
        if self.state != State::Ground {
            let is_escape_last = self.state == State::StringEnd && bytes.len() > start;
            self.keep(&bytes[start..bytes.len() - usize::from(is_escape_last)], &mut each);
        }
    }

    /// Returns how many of the next bytes go on with the sequence and change nothing.
    fn unchanging(&self, bytes: &[u8]) -> usize {
        let until_aborted = || memchr3(ESC, CAN, SUB, bytes).unwrap_or(bytes.len());
        match self.state {
            State::Csi => bytes.iter().take_while(|byte| matches!(byte, b' '..=b'?')).count(),
            State::Command => {
                let aborted = until_aborted();
                memchr(BEL, &bytes[..aborted]).unwrap_or(aborted)
            }
            State::String => until_aborted(),
            _ => 0,
        }
    }

    fn step(&mut self, byte: u8) -> Step {
        match (self.state, byte) {
            (State::StringEnd, b'\\') => return Step::Ends,
            (State::StringEnd, _) => return Step::Ended,
            (_, CAN | SUB) => return Step::Ends,
            (State::Command | State::String, ESC) => self.state = State::StringEnd,
            // Only BEL is left: the rest was skipped.
            (State::Command | State::String, _) => return Step::Ends,
            (_, ESC) => return Step::Ended,
            (State::Escape, b'[') => self.state = State::Csi,
            (State::Escape, b']') => self.state = State::Command,
            (State::Escape, b'P' | b'X' | b'^' | b'_') => self.state = State::String,
            (State::Escape, b' '..=b'/') => self.state = State::EscapeIntermediate,
            (State::Escape | State::EscapeIntermediate, b'0'..=b'~') => return Step::Ends,
            (State::Csi, b'@'..=b'~') => return Step::Ends,
            _ => {}
        }
        Step::Goes
    }

    /// Hands over the current sequence, of which `rest` has not been seen before.
    fn hand_over(&mut self, rest: &[u8], each: &mut impl FnMut(Part<'_>)) {
        if self.is_long || self.held.len() + rest.len() > self.limit {
            self.pass(rest, each);
        } else if self.held.is_empty() {
            each(Part::Sequence(rest));
        } else {
            self.held.extend_from_slice(rest);
            each(Part::Sequence(&self.held));
        }
        self.held.clear();
        self.is_long = false;
    }

    /// Keeps the beginning of a sequence for the next input.
    fn keep(&mut self, rest: &[u8], each: &mut impl FnMut(Part<'_>)) {
        if self.is_long || self.held.len() + rest.len() > self.limit {
            self.pass(rest, each);
            self.held.clear();
            self.is_long = true;
        } else {
            self.held.extend_from_slice(rest);
        }
    }

    fn pass(&self, rest: &[u8], each: &mut impl FnMut(Part<'_>)) {
        for piece in [&self.held[..], rest] {
            if !piece.is_empty() {
                each(Part::Long(piece));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(limit: usize, inputs: &[&[u8]]) -> Vec<(char, Vec<u8>)> {
        let (mut sequences, mut parts) = (Sequences::new(limit), Vec::<(char, Vec<u8>)>::new());
        for input in inputs {
            sequences.push(input, |part| match (part, parts.last_mut()) {
                (Part::Text(text), Some(('t', last))) => last.extend(text),
                (Part::Long(piece), Some(('l', last))) => last.extend(piece),
                (Part::Text(text), _) => parts.push(('t', text.to_vec())),
                (Part::Sequence(sequence), _) => parts.push(('s', sequence.to_vec())),
                (Part::Long(piece), _) => parts.push(('l', piece.to_vec())),
            });
            assert!(sequences.held.len() <= limit);
        }
        parts
    }

    #[test]
    fn sequences_end_where_terminals_end_them() {
        for (stream, parts) in [
            ("a\x1b[1;2Hb", vec!["a", "\x1b[1;2H", "b"]),
            ("\x1b]0;t\x07x", vec!["\x1b]0;t\x07", "x"]),
            ("\x1b]0;t\x1b\\x", vec!["\x1b]0;t\x1b\\", "x"]),
            ("\x1b]0;t\x1b[mx", vec!["\x1b]0;t", "\x1b[m", "x"]),
            ("\x1bPq\x07x\x18y", vec!["\x1bPq\x07x\x18", "y"]),
            ("\x1b(0\x1b7\x1b c", vec!["\x1b(0", "\x1b7", "\x1b c"]),
            ("\x1b[1\x1b[2J", vec!["\x1b[1", "\x1b[2J"]),
            ("\x1b[1\x1ax", vec!["\x1b[1\x1a", "x"]),
            ("\x1b\x1b]0;\x07", vec!["\x1b", "\x1b]0;\x07"]),
            ("\x1b]0;\x1b\x18x", vec!["\x1b]0;", "\x1b\x18", "x"]),
        ] {
            let whole = split(64, &[stream.as_bytes()]);
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(whole, split(64, &bytes), "{stream:?}");
            let texts: Vec<_> = whole.iter().map(|(_, part)| String::from_utf8_lossy(part)).collect();
            assert_eq!(texts, parts, "{stream:?}");
        }
    }

    #[test]
    fn a_long_sequence_passes_without_being_kept() {
        let long = [b"\x1b]0;".to_vec(), vec![b'x'; 1 << 20], b"\x07y".to_vec()].concat();
        let pieces: Vec<&[u8]> = long.chunks(1000).collect();
        let (text, sequence) = (('t', b"y".to_vec()), ('l', long[..long.len() - 1].to_vec()));
        assert_eq!(split(64, &[&long]), [sequence.clone(), text.clone()]);
        assert_eq!(split(64, &pieces), [sequence, text]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_parts(
            stream in proptest::collection::vec(prop_oneof![
                Just(b"\x1b".to_vec()), Just(b"\x1b]".to_vec()), Just(b"\x1b\\".to_vec()), Just(b"\x1b[".to_vec()), Just(b"\x1bP".to_vec()),
                Just(b"\x07".to_vec()), Just(b"\x18".to_vec()), any::<[u8; 3]>().prop_map(|b| b.to_vec()),
            ], 0..20).prop_map(|parts| parts.concat()),
            cuts in proptest::collection::vec(0usize..60, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let inputs: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            let parts = split(1000, &inputs);
            prop_assert_eq!(&parts, &split(1000, &[&stream]));
            // What is missing is the beginning of a sequence at the very end.
            let joined: Vec<u8> = parts.into_iter().flat_map(|(_, part)| part).collect();
            prop_assert!(stream.starts_with(&joined));
        }
    }
}
