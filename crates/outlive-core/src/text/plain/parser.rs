//! Takes a terminal's byte stream apart: text, controls and sequences.
//!
//! The states are those of Paul Williams' parser for DEC terminals, as all emulators have them, with these rules of ours:
//! - Any split of the input over calls gives the same calls of the [`Sink`].
//! - A string (OSC, DCS, SOS, PM, APC) ends at ESC, CAN or SUB, an OSC also at BEL. Its contents are not kept.
//! - A sequence of more than [`MAX_SEQUENCE`] bytes is given up: what follows is text again. A terminal would swallow
//!   it until the end of days.
//! - C1 controls (0x80 to 0x9F as a byte that is not part of UTF-8, and U+0080 to U+009F) are dropped by themselves and
//!   begin nothing. Terminals in UTF-8 do the same, and text in an older encoding has those bytes as letters, of which one
//!   in five would begin a string.
//! - Characters that reorder or hide text are dropped, see [`deceives`].
//! - A byte that is not UTF-8 is U+FFFD: one for each longest beginning of a character, as the Unicode standard has it.

use memchr::{memchr, memchr3};

/// The most bytes of one sequence; longer than any title, link or colour, and short enough that little text is hidden.
pub(crate) const MAX_SEQUENCE: usize = 64 << 10;

/// Parameters that are kept; nothing that moves a cursor has more than two, colours seldom more than ten.
const MAX_PARAMETERS: usize = 32;

const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const DEL: u8 = 0x7f;

/// What the parts are handed to.
pub(crate) trait Sink {
    /// Takes printable ASCII, never empty.
    fn text(&mut self, ascii: &[u8]);
    /// Takes a character beyond ASCII.
    fn character(&mut self, character: char);
    /// Takes a C0 control; never ESC, CAN or SUB.
    fn control(&mut self, control: u8);
    /// Takes an escape sequence: its intermediate byte (0 if it has none) and its last.
    fn escape(&mut self, _intermediate: u8, _last: u8) {}
    /// Takes a control sequence.
    fn csi(&mut self, _csi: &Csi) {}
}

/// A control sequence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Csi {
    parameters: [u16; MAX_PARAMETERS],
    length: usize,
    /// `<`, `=`, `>`, `?` or 0.
    pub(crate) private: u8,
    /// From space to `/`, or 0.
    pub(crate) intermediate: u8,
    /// Which function it is.
    pub(crate) last: u8,
    in_subparameter: bool,
    is_malformed: bool,
    /// Parameters and subparameters in the order in which they came; a bit for each that is a subparameter.
    values: [u16; MAX_PARAMETERS],
    last_value: usize,
    subparameters: u32,
}

impl Csi {
    /// Returns the parameters; there is at least one.
    pub(crate) fn parameters(&self) -> &[u16] {
        &self.parameters[..=self.length]
    }

    /// Returns a parameter, 0 where it is left out.
    pub(crate) fn parameter(&self, place: usize) -> u16 {
        self.parameters().get(place).copied().unwrap_or(0)
    }

    /// Returns a parameter that counts or places, for which 0 and left out mean 1.
    pub(crate) fn count(&self, place: usize) -> usize {
        usize::from(self.parameter(place).max(1))
    }

    /// Returns each parameter with its subparameters behind it. What there are too many of is left out.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[u16]> {
        let values = &self.values[..(self.last_value + 1).min(MAX_PARAMETERS)];
        let begins = |place: &usize| self.subparameters & (1 << place) == 0;
        let starts = (0..values.len()).filter(begins);
        starts.map(move |start| {
            let end = (start + 1..values.len()).find(begins).unwrap_or(values.len());
            &values[start..end]
        })
    }

    /// Takes a byte before the last one.
    fn take(&mut self, byte: u8) {
        let push_digit = |value: &mut u16| {
            *value = value.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
        };
        match byte {
            b'0'..=b'9' if self.intermediate == 0 => {
                if !self.in_subparameter {
                    push_digit(&mut self.parameters[self.length]);
                }
                self.values.get_mut(self.last_value).map(push_digit);
            }
            b':' if self.intermediate == 0 => {
                self.in_subparameter = true;
                self.begin_value();
                self.subparameters |= 1u32.checked_shl(self.last_value as u32).unwrap_or(0);
            }
            b';' if self.intermediate == 0 && self.length + 1 < MAX_PARAMETERS => {
                self.length += 1;
                self.in_subparameter = false;
                self.begin_value();
            }
            b' '..=b'/' if self.intermediate == 0 => self.intermediate = byte,
            _ => self.is_malformed = true,
        }
    }

    fn begin_value(&mut self) {
        self.last_value = (self.last_value + 1).min(MAX_PARAMETERS);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Ground,
    /// After ESC, with the intermediate byte.
    Escape(u8),
    /// After ESC and more than one intermediate byte; no such sequence is known.
    EscapeIgnored,
    /// After CSI, before any parameter.
    CsiStart,
    Csi,
    /// In an OSC, which BEL may end.
    Command,
    /// In any other string.
    String,
}

/// The parser.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parser {
    state: State,
    /// Bytes of the sequence so far.
    length: usize,
    csi: Csi,
    /// The beginning of a character.
    partial: [u8; 4],
    partial_length: usize,
}

/// What bytes begin with.
enum Decoded {
    Character(char, usize),
    Invalid(usize),
    Incomplete,
}

fn decode(bytes: &[u8]) -> Decoded {
    let bytes = &bytes[..bytes.len().min(4)];
    let (valid, invalid) = match std::str::from_utf8(bytes) {
        Ok(valid) => (valid, None),
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            (valid, Some(error.error_len()))
        }
    };
    match (valid.chars().next(), invalid) {
        (Some(character), _) => Decoded::Character(character, character.len_utf8()),
        (None, Some(Some(length))) => Decoded::Invalid(length),
        (None, _) => Decoded::Incomplete,
    }
}

/// Whether a character makes text look like what it is not: the controls of writing direction (with which code reads
/// other than it runs) and tags, which a terminal does not show and a model reads. The zero-width joiner, which emoji and scripts
/// need, is none.
fn deceives(character: char) -> bool {
    matches!(
        character,
        '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

fn character(character: char, sink: &mut impl Sink) {
    if !deceives(character) && !matches!(character, '\u{80}'..='\u{9f}') {
        sink.character(character);
    }
}

fn invalid(bytes: &[u8], sink: &mut impl Sink) {
    if !matches!(bytes, [0x80..=0x9f]) {
        sink.character(char::REPLACEMENT_CHARACTER);
    }
}

impl Parser {
    /// Takes the next bytes.
    pub(crate) fn push(&mut self, mut bytes: &[u8], sink: &mut impl Sink) {
        while !bytes.is_empty() {
            let taken = match self.state {
                State::Ground if self.partial_length > 0 => self.complete(bytes[0], sink),
                State::Ground => self.ground(bytes, sink),
                State::Command | State::String => self.string(bytes),
                _ if self.length >= MAX_SEQUENCE => {
                    self.state = State::Ground;
                    0
                }
                _ => self.sequence(bytes[0], sink),
            };
            bytes = &bytes[taken..];
        }
    }

    /// Ends the input: a character or sequence that is unfinished stays so.
    pub(crate) fn finish(&mut self, sink: &mut impl Sink) {
        if self.partial_length > 0 {
            invalid(&self.partial[..self.partial_length], sink);
        }
        *self = Self::default();
    }

    fn ground(&mut self, bytes: &[u8], sink: &mut impl Sink) -> usize {
        let text = bytes.iter().position(|byte| !matches!(byte, b' '..=b'~')).unwrap_or(bytes.len());
        if text > 0 {
            sink.text(&bytes[..text]);
            return text;
        }
        match bytes[0] {
            ESC => self.begin(State::Escape(0)),
            CAN | SUB | DEL => {}
            control @ ..b' ' => sink.control(control),
            _ => match decode(bytes) {
                Decoded::Character(decoded, length) => {
                    character(decoded, sink);
                    return length;
                }
                Decoded::Invalid(length) => {
                    invalid(&bytes[..length], sink);
                    return length;
                }
                Decoded::Incomplete => {
                    self.partial[..bytes.len()].copy_from_slice(bytes);
                    self.partial_length = bytes.len();
                    return bytes.len();
                }
            },
        }
        1
    }

    /// Goes on with a character of which the beginning is known; returns how many bytes were taken.
    fn complete(&mut self, byte: u8, sink: &mut impl Sink) -> usize {
        self.partial[self.partial_length] = byte;
        match decode(&self.partial[..=self.partial_length]) {
            Decoded::Character(decoded, _) => character(decoded, sink),
            Decoded::Invalid(length) => {
                invalid(&self.partial[..length], sink);
                // The byte that made it invalid begins something else.
                self.partial_length = 0;
                return 0;
            }
            Decoded::Incomplete => {
                self.partial_length += 1;
                return 1;
            }
        }
        self.partial_length = 0;
        1
    }

    fn begin(&mut self, state: State) {
        self.state = state;
        self.length = 1;
    }

    fn string(&mut self, bytes: &[u8]) -> usize {
        let bytes = &bytes[..bytes.len().min(MAX_SEQUENCE - self.length.min(MAX_SEQUENCE))];
        if bytes.is_empty() {
            self.state = State::Ground;
            return 0;
        }
        let aborted = memchr3(ESC, CAN, SUB, bytes);
        let before = &bytes[..aborted.unwrap_or(bytes.len())];
        let ended = if self.state == State::Command { memchr(BEL, before) } else { None };
        match ended.or(aborted) {
            Some(end) if bytes[end] == ESC => {
                self.begin(State::Escape(0));
                end + 1
            }
            Some(end) => {
                self.state = State::Ground;
                end + 1
            }
            None => {
                self.length += bytes.len();
                bytes.len()
            }
        }
    }

    /// Takes a byte of an escape or control sequence; returns how many bytes were taken.
    fn sequence(&mut self, byte: u8, sink: &mut impl Sink) -> usize {
        self.length += 1;
        match (self.state, byte) {
            (_, ESC) => self.begin(State::Escape(0)),
            (_, CAN | SUB) => self.state = State::Ground,
            (_, ..b' ') => sink.control(byte),
            (_, DEL) => {}
            (_, 0x80..) => {
                self.state = State::Ground;
                return 0;
            }
            (State::Escape(0), b'[') => {
                self.csi = Csi::default();
                self.state = State::CsiStart;
            }
            (State::Escape(0), b']') => self.state = State::Command,
            (State::Escape(0), b'P' | b'X' | b'^' | b'_') => self.state = State::String,
            (State::Escape(0), b' '..=b'/') => self.state = State::Escape(byte),
            (State::Escape(_) | State::EscapeIgnored, b' '..=b'/') => self.state = State::EscapeIgnored,
            (State::Escape(intermediate), _) => {
                self.state = State::Ground;
                sink.escape(intermediate, byte);
            }
            (State::CsiStart, b'<'..=b'?') => {
                self.csi.private = byte;
                self.state = State::Csi;
            }
            (State::CsiStart | State::Csi, b'@'..=b'~') => {
                self.state = State::Ground;
                self.csi.last = byte;
                if !self.csi.is_malformed {
                    sink.csi(&self.csi);
                }
            }
            (State::CsiStart | State::Csi, _) => {
                self.csi.take(byte);
                self.state = State::Csi;
            }
            (State::EscapeIgnored | State::Ground | State::Command | State::String, _) => {
                self.state = State::Ground;
            }
        }
        1
    }
}
