//! What programs ask their terminal, and the answers that need no emulator.
//!
//! A program that gets no answer waits seconds or for ever, so a job without a viewer is answered from this table. While a viewer's
//! terminal shows the stream, it must not answer as well: [`Queries::strip`] takes the questions out.

use std::io::Write as _;

use super::palette::{Rgb, rgb};
use super::sequence::{Part, Sequences};
use super::size::TerminalSize;

/// The longest query that is recognised; the longest known ones name a few terminal capabilities.
const MAX_QUERY: usize = 256;

/// The size of a character in pixels that is claimed, for programs that ask.
const CELL: (u32, u32) = (8, 16);

/// A question of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query<'a> {
    /// DA1: which kind of terminal.
    Attributes,
    /// DA2: which make and version.
    SecondaryAttributes,
    /// DA3: which unit.
    Unit,
    /// DSR 5: whether it works.
    Status,
    /// CPR: where the cursor is. The extended form is answered with `?`.
    Cursor {
        /// Asked with `?`.
        extended: bool,
    },
    /// Whether the colours are light or dark.
    ColourScheme,
    /// XTVERSION: name and version.
    Version,
    /// Which keyboard modes of kitty are on.
    Keyboard,
    /// How far keys are told apart that have the same byte.
    OtherKeys,
    /// DECRQM: whether a mode is on.
    Mode {
        /// Asked with `?`.
        private: bool,
        /// Its number.
        mode: u16,
    },
    /// A report of XTWINOPS, by its number.
    Window(u16),
    /// What graphics the terminal has, by item.
    Graphics(u16),
    /// OSC 10, 11 and 12: the colour of text, background or cursor.
    Colour {
        /// The number of the command.
        command: u8,
        /// Asked with BEL at the end, and so answered.
        bell: bool,
    },
    /// OSC 4: a colour of the palette.
    Palette {
        /// Its number.
        number: u8,
        /// Asked with BEL at the end, and so answered.
        bell: bool,
    },
    /// DECRQSS: a setting.
    Setting,
    /// XTGETTCAP: capabilities, as names in hexadecimal digits.
    Capability(&'a [u8]),
    /// A read of the clipboard, or a question about images: stripped, and never answered.
    Refused,
}

/// What answers depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The size of the terminal.
    pub size: TerminalSize,
    /// Dark text on a light background.
    pub is_light: bool,
}

/// What became of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The answer was appended.
    Given,
    /// Only an emulator knows: it must be asked for the cursor right after the query.
    NeedsCursor,
    /// There is none.
    Refused,
}

impl Query<'_> {
    /// Recognises a query in a whole sequence.
    pub fn parse(sequence: &[u8]) -> Option<Query<'_>> {
        match *sequence {
            [0x1b, b'Z'] => Some(Query::Attributes),
            [0x1b, b'[', ref inner @ .., last] => control_sequence(inner, last),
            [0x1b, b']', ref inner @ .., 0x07] => command(inner, true),
            [0x1b, b']', ref inner @ .., 0x1b, b'\\'] => command(inner, false),
            [0x1b, b'P', b'$', b'q', .., 0x1b, b'\\'] => Some(Query::Setting),
            [0x1b, b'P', b'+', b'q', ref names @ .., 0x1b, b'\\'] => Some(Query::Capability(names)),
            [0x1b, b'_', b'G', ref inner @ .., 0x1b, b'\\'] => {
                let settings = inner.split(|&byte| byte == b';').next().unwrap_or_default();
                settings.split(|&byte| byte == b',').any(|one| one == b"a=q").then_some(Query::Refused)
            }
            _ => None,
        }
    }

    /// Appends the answer.
    pub fn answer(&self, facts: &Facts, out: &mut Vec<u8>) -> Answer {
        let (columns, rows) = (u32::from(facts.size.columns()), u32::from(facts.size.rows()));
        let (width, height) = CELL;
        let written = match *self {
            Query::Attributes => write!(out, "\x1b[?62;22c"),
            // xterm, at the version that xterm.js claims: programs ask it only for what is answered here.
            Query::SecondaryAttributes => write!(out, "\x1b[>0;276;0c"),
            Query::Unit => write!(out, "\x1bP!|00000000\x1b\\"),
            Query::Status => write!(out, "\x1b[0n"),
            Query::Cursor { .. } => return Answer::NeedsCursor,
            Query::ColourScheme => write!(out, "\x1b[?997;{}n", if facts.is_light { 2 } else { 1 }),
            Query::Version => write!(out, "\x1bP>|outlive({})\x1b\\", crate::VERSION),
            Query::Keyboard => write!(out, "\x1b[?0u"),
            Query::OtherKeys => write!(out, "\x1b[>4;0m"),
            Query::Mode { private, mode } => write!(out, "\x1b[{}{mode};0$y", if private { "?" } else { "" }),
            Query::Window(11) => write!(out, "\x1b[1t"),
            Query::Window(13) => write!(out, "\x1b[3;0;0t"),
            Query::Window(14) => write!(out, "\x1b[4;{};{}t", rows * height, columns * width),
            Query::Window(15) => write!(out, "\x1b[5;{};{}t", rows * height, columns * width),
            Query::Window(16) => write!(out, "\x1b[6;{height};{width}t"),
            Query::Window(18) => write!(out, "\x1b[8;{rows};{columns}t"),
            Query::Window(19) => write!(out, "\x1b[9;{rows};{columns}t"),
            // A title that the program could choose itself would be typed into it.
            Query::Window(20) => write!(out, "\x1b]L\x1b\\"),
            Query::Window(_) => write!(out, "\x1b]l\x1b\\"),
            Query::Graphics(item) => write!(out, "\x1b[?{item};3;0S"),
            Query::Colour { command, bell } => {
                let is_bright = facts.is_light == (command == 11);
                colour(out, format_args!("{command}"), if is_bright { [0xff; 3] } else { [0; 3] }, bell)
            }
            Query::Palette { number, bell } => colour(out, format_args!("4;{number}"), rgb(number), bell),
            Query::Setting => write!(out, "\x1bP0$r\x1b\\"),
            Query::Capability(names) => out.write_all(&[b"\x1bP0+r", names, b"\x1b\\"].concat()),
            Query::Refused => return Answer::Refused,
        };
        written.expect("a vector takes all that is written");
        Answer::Given
    }
}

fn colour(
    out: &mut Vec<u8>,
    what: std::fmt::Arguments<'_>,
    [red, green, blue]: Rgb,
    bell: bool,
) -> std::io::Result<()> {
    let end = if bell { "\x07" } else { "\x1b\\" };
    write!(out, "\x1b]{what};rgb:{red:02x}{red:02x}/{green:02x}{green:02x}/{blue:02x}{blue:02x}{end}")
}

/// Reads a number of at most five digits; nothing is 0.
fn number(digits: &[u8]) -> Option<u16> {
    if digits.len() > 5 {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    if digits.is_empty() { Some(0) } else { digits.parse().ok() }
}

fn control_sequence(inner: &[u8], last: u8) -> Option<Query<'_>> {
    let (private, rest) = match inner {
        [private @ b'<'..=b'?', rest @ ..] => (*private, rest),
        rest => (0, rest),
    };
    let first = rest.split(|&byte| byte == b';').next().unwrap_or_default();
    Some(match (private, last) {
        (0, b'c') if number(rest)? == 0 => Query::Attributes,
        (b'>', b'c') if number(rest)? == 0 => Query::SecondaryAttributes,
        (b'=', b'c') if number(rest)? == 0 => Query::Unit,
        (0, b'n') if number(rest)? == 5 => Query::Status,
        (0 | b'?', b'n') if number(rest)? == 6 => Query::Cursor { extended: private != 0 },
        (b'?', b'n') if number(rest)? == 996 => Query::ColourScheme,
        (b'>', b'q') if number(rest)? == 0 => Query::Version,
        (b'?', b'u') if rest.is_empty() => Query::Keyboard,
        (b'?', b'm') if number(rest)? == 4 => Query::OtherKeys,
        (0 | b'?', b'p') => {
            let mode = number(rest.strip_suffix(b"$")?)?;
            Query::Mode { private: private != 0, mode }
        }
        (0, b't') => match number(first)? {
            report @ (11 | 13..=16 | 18..=21) => Query::Window(report),
            _ => return None,
        },
        (b'?', b'S') => Query::Graphics(number(first)?),
        _ => return None,
    })
}

fn command(inner: &[u8], bell: bool) -> Option<Query<'_>> {
    let inner = inner.strip_suffix(b";?")?;
    Some(match inner {
        b"10" | b"11" | b"12" => Query::Colour { command: u8::try_from(number(inner)?).ok()?, bell },
        [b'4', b';', palette @ ..] => Query::Palette { number: u8::try_from(number(palette)?).ok()?, bell },
        [b'5', b'2', b';', ..] => Query::Refused,
        _ => return None,
    })
}

/// Finds queries in an output stream.
#[derive(Debug, Clone)]
pub struct Queries {
    sequences: Sequences,
    /// Bytes of all parts that were handed over.
    position: u64,
}

impl Default for Queries {
    fn default() -> Self {
        Self { sequences: Sequences::new(MAX_QUERY), position: 0 }
    }
}

impl Queries {
    /// Returns how many bytes are behind it: all but those of a sequence that has begun.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Takes the next bytes, and hands over each query with the offset of its end, counted from the first byte of the stream.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Query<'_>, u64)) {
        let position = &mut self.position;
        self.sequences.push(bytes, |part| {
            let (Part::Text(bytes) | Part::Sequence(bytes) | Part::Long(bytes)) = part;
            *position += bytes.len() as u64;
            if let Part::Sequence(sequence) = part
                && let Some(query) = Query::parse(sequence)
            {
                each(query, *position);
            }
        });
    }

    /// Takes the next bytes, and appends them without queries. The beginning of a sequence follows when it is known not to be one.
    pub fn strip(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.sequences.push(bytes, |part| match part {
            Part::Sequence(sequence) if Query::parse(sequence).is_some() => {}
            Part::Text(bytes) | Part::Sequence(bytes) | Part::Long(bytes) => out.extend_from_slice(bytes),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts() -> Facts {
        Facts { size: TerminalSize::new(120, 40), is_light: false }
    }

    fn answers(inputs: &[&[u8]]) -> (String, Vec<u64>) {
        let (mut queries, mut out, mut cursors) = (Queries::default(), Vec::new(), Vec::new());
        for input in inputs {
            queries.push(input, |query, end| {
                if query.answer(&facts(), &mut out) == Answer::NeedsCursor {
                    cursors.push(end);
                }
            });
        }
        (String::from_utf8(out).unwrap(), cursors)
    }

    #[test]
    fn queries_are_answered_as_terminals_answer_them() {
        for (query, answer) in [
            ("\x1b[c", "\x1b[?62;22c"),
            ("\x1b[0c", "\x1b[?62;22c"),
            ("\x1bZ", "\x1b[?62;22c"),
            ("\x1b[>c", "\x1b[>0;276;0c"),
            ("\x1b[>0c", "\x1b[>0;276;0c"),
            ("\x1b[=c", "\x1bP!|00000000\x1b\\"),
            ("\x1b[5n", "\x1b[0n"),
            ("\x1b[?996n", "\x1b[?997;1n"),
            ("\x1b[>q", concat!("\x1bP>|outlive(", env!("CARGO_PKG_VERSION"), ")\x1b\\")),
            ("\x1b[?u", "\x1b[?0u"),
            ("\x1b[?4m", "\x1b[>4;0m"),
            ("\x1b[?2026$p", "\x1b[?2026;0$y"),
            ("\x1b[4$p", "\x1b[4;0$y"),
            ("\x1b[14t", "\x1b[4;640;960t"),
            ("\x1b[16t", "\x1b[6;16;8t"),
            ("\x1b[18t", "\x1b[8;40;120t"),
            ("\x1b[21t", "\x1b]l\x1b\\"),
            ("\x1b[?1;1;0S", "\x1b[?1;3;0S"),
            ("\x1b]10;?\x07", "\x1b]10;rgb:ffff/ffff/ffff\x07"),
            ("\x1b]11;?\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
            ("\x1b]4;196;?\x07", "\x1b]4;196;rgb:ffff/0000/0000\x07"),
            ("\x1bP$qm\x1b\\", "\x1bP0$r\x1b\\"),
            ("\x1bP+q544e\x1b\\", "\x1bP0+r544e\x1b\\"),
            ("\x1b]52;c;?\x07", ""),
            ("\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\", ""),
        ] {
            let stream = format!("text{query}more");
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(answers(&[stream.as_bytes()]).0, answer, "{query:?}");
            assert_eq!(answers(&bytes).0, answer, "{query:?}");
            let (mut queries, mut out) = (Queries::default(), Vec::new());
            bytes.iter().for_each(|byte| queries.strip(byte, &mut out));
            assert_eq!(out, b"textmore", "{query:?}");
        }
    }

    #[test]
    fn a_light_terminal_says_so() {
        let mut out = Vec::new();
        let query = Query::parse(b"\x1b]11;?\x07").unwrap();
        assert_eq!(query.answer(&Facts { is_light: true, ..facts() }, &mut out), Answer::Given);
        assert_eq!(out, b"\x1b]11;rgb:ffff/ffff/ffff\x07");
    }

    #[test]
    fn the_cursor_is_asked_for_at_the_end_of_the_query() {
        assert_eq!(answers(&[b"ab\x1b[", b"6nc\x1b[?6n"]), (String::new(), vec![6, 12]));
    }

    #[test]
    fn what_is_no_query_passes() {
        let stream =
            b"\x1b[2J\x1b[1;31mred\x1b[6m\x1b]0;title\x07\x1b]52;c;YQ==\x07\x1b[4t\x1b[?25h\x1b[3 q\x1b[!p\x1b[22;0t\xff";
        let (mut queries, mut out) = (Queries::default(), Vec::new());
        stream.chunks(3).for_each(|bytes| queries.strip(bytes, &mut out));
        assert_eq!(out, stream);
        assert_eq!(answers(&[stream]), (String::new(), Vec::new()));
    }

    proptest! {
        #[test]
        fn any_bytes_pass_without_harm_and_without_growth(
            chunks in proptest::collection::vec(proptest::collection::vec(
                prop_oneof![Just(0x1bu8), Just(b'['), Just(b']'), Just(b'?'), Just(b';'), Just(b'c'), any::<u8>()], 0..40), 0..20)
        ) {
            let (mut queries, mut out) = (Queries::default(), Vec::new());
            for chunk in &chunks {
                queries.strip(chunk, &mut out);
                queries.push(chunk, |query, _| { query.answer(&facts(), &mut Vec::new()); });
            }
            prop_assert!(out.len() <= chunks.iter().map(|chunk| chunk.len() * 2).sum::<usize>());
        }
    }
}
