//! Lines as a person reads them on a terminal: what overwrites does so, colours and styles stay, nothing else drives it.
//!
//! A carriage return, a backspace and a column (`CSI G`) move within the line, erasing in the line (`CSI K`) erases there, so a
//! progress bar is one line in its last state. Colours and styles (SGR) are read and written anew: only what is understood comes
//! out. All else goes as for [`crate::plain`]; nothing moves to another line.

mod style;

use unicode_width::UnicodeWidthChar;

use crate::index::Stream;
use crate::plain::parser::{Csi, Parser, Sink};
use style::Style;

/// The most columns of a line that can still be overwritten; what is longer is handed on in parts.
const MAX_COLUMNS: usize = 16 << 10;

/// Columns between two tab stops.
const TAB: usize = 8;

/// Turns the bytes of a job's streams into the lines that a terminal would show.
#[derive(Debug, Clone)]
pub struct Display {
    /// Standard output's, standard error's, and that of bytes whose stream is not known: a sequence of one may be cut by the
    /// other.
    parsers: [Parser; 3],
    line: Line,
    has_colour: bool,
}

/// The line that is written to.
#[derive(Debug, Clone, Default)]
struct Line {
    cells: Vec<Cell>,
    /// Where the next character goes.
    column: usize,
    style: Style,
}

/// One column.
#[derive(Debug, Clone, Default)]
struct Cell {
    /// The character; none where one that begins further left reaches to here.
    character: Option<char>,
    /// Marks that combine with the character.
    marks: String,
    style: Style,
}

impl Display {
    /// Begins an empty line, with colours and styles or without.
    pub fn new(has_colour: bool) -> Self {
        Self { parsers: Default::default(), line: Line::default(), has_colour }
    }

    /// Takes the next bytes of a stream and appends the lines that they end.
    pub fn push(&mut self, stream: Option<Stream>, bytes: &[u8], out: &mut String) {
        let parser = &mut self.parsers[stream.map_or(2, Stream::index)];
        parser.push(bytes, &mut Writer { line: &mut self.line, out, has_colour: self.has_colour });
    }

    /// Returns the line that is not ended yet. A carriage return ends it where the next character would be written at its
    /// beginning.
    pub fn unfinished(&self) -> String {
        let mut text = String::new();
        self.line.write(&mut text);
        if self.line.column == 0 && !self.line.cells.is_empty() {
            text.push('\r');
        }
        text
    }

    /// Begins anew; what is unfinished is forgotten.
    pub fn clear(&mut self) {
        *self = Self::new(self.has_colour);
    }
}

/// Removes colours and styles from what a [`Display`] made.
pub fn without_styles(mut text: &[u8]) -> Vec<u8> {
    let mut left = Vec::with_capacity(text.len());
    while let Some(start) = memchr::memchr(0x1b, text) {
        left.extend_from_slice(&text[..start]);
        let end = memchr::memchr(b'm', &text[start..]).map_or(text.len(), |end| start + end + 1);
        text = &text[end..];
    }
    left.extend_from_slice(text);
    left
}

impl Line {
    fn put(&mut self, character: char) {
        let width = character.width().unwrap_or(0);
        if width == 0 {
            let end = self.column.min(self.cells.len());
            let before = self.cells[..end].iter_mut();
            if let Some(cell) = before.rev().find(|cell| cell.character.is_some()) {
                cell.marks.push(character);
            }
            return;
        }
        self.reach(self.column + width);
        self.break_up(self.column);
        self.break_up(self.column + width);
        let style = self.style;
        for (place, cell) in self.cells[self.column..self.column + width].iter_mut().enumerate() {
            *cell = Cell { character: (place == 0).then_some(character), marks: String::new(), style };
        }
        self.column += width;
    }

    fn tab(&mut self) {
        let stop = (self.column / TAB + 1) * TAB;
        if self.column >= self.cells.len() {
            self.reach(stop);
            self.cells[self.column..].iter_mut().for_each(|cell| cell.character = None);
            self.cells[self.column].character = Some('\t');
        }
        self.column = stop;
    }

    /// Makes the line at least so long, with blanks.
    fn reach(&mut self, columns: usize) {
        if self.cells.len() < columns {
            self.cells.resize(columns, Cell { character: Some(' '), ..Cell::default() });
        }
    }

    /// Turns what reaches over this column from the left into blanks: half of it is to be overwritten.
    fn break_up(&mut self, column: usize) {
        if self.cells.get(column).is_none_or(|cell| cell.character.is_some()) {
            return;
        }
        let start = self.cells[..column].iter().rposition(|cell| cell.character.is_some()).unwrap_or(0);
        let rest = self.cells[column..].iter().position(|cell| cell.character.is_some());
        let end = rest.map_or(self.cells.len(), |rest| column + rest);
        for cell in &mut self.cells[start..end] {
            *cell = Cell { character: Some(' '), marks: String::new(), style: cell.style };
        }
    }

    /// Erases from the cursor on, up to it, or everything.
    fn erase(&mut self, what: u16) {
        match what {
            0 => {
                self.break_up(self.column);
                self.cells.truncate(self.column);
            }
            1 => {
                self.reach(self.column + 1);
                self.break_up(self.column + 1);
                self.cells[..=self.column].fill(Cell { character: Some(' '), ..Cell::default() });
            }
            2 => self.cells.clear(),
            _ => {}
        }
    }

    /// Writes the text, with the look of each part, and the usual look behind it.
    fn write(&self, out: &mut String) {
        let mut style = Style::default();
        for cell in &self.cells {
            let Some(character) = cell.character else { continue };
            if cell.style != style {
                style = cell.style;
                style.write(out);
            }
            out.push(character);
            out.push_str(&cell.marks);
        }
        if style != Style::default() {
            out.push_str("\x1b[0m");
        }
    }

    /// Hands on what there is and begins anew, in the same style.
    fn hand_on(&mut self, out: &mut String) {
        self.write(out);
        self.cells.clear();
        self.column = 0;
    }
}

struct Writer<'a> {
    line: &'a mut Line,
    out: &'a mut String,
    has_colour: bool,
}

impl Sink for Writer<'_> {
    fn text(&mut self, ascii: &[u8]) {
        ascii.iter().for_each(|&byte| self.character(char::from(byte)));
    }

    fn character(&mut self, character: char) {
        if self.line.column >= MAX_COLUMNS {
            self.line.hand_on(self.out);
        }
        self.line.put(character);
    }

    fn control(&mut self, control: u8) {
        match control {
            b'\n' => {
                self.line.hand_on(self.out);
                self.out.push('\n');
            }
            b'\t' if self.line.column < MAX_COLUMNS => self.line.tab(),
            b'\r' => self.line.column = 0,
            0x08 => self.line.column = self.line.column.saturating_sub(1),
            _ => {}
        }
    }

    fn csi(&mut self, csi: &Csi) {
        match (csi.private, csi.intermediate, csi.last) {
            (0, 0, b'm') if self.has_colour => self.line.style.apply(csi),
            (0, 0, b'K') => self.line.erase(csi.parameter(0)),
            (0, 0, b'G') => self.line.column = (csi.count(0) - 1).min(MAX_COLUMNS),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn displayed(bytes: &[u8], has_colour: bool) -> String {
        let (mut display, mut out) = (Display::new(has_colour), String::new());
        display.push(Some(Stream::Stdout), bytes, &mut out);
        out + &display.unfinished()
    }

    #[test]
    fn a_progress_bar_is_one_line_in_its_last_state() {
        for (bytes, left) in [
            (&b"10%\r20%\r100%\ndone\n"[..], "100%\ndone\n"),
            (b"a long word\rshort\n", "shortg word\n"),
            (b"a long word\r\x1b[Kshort\n", "short\n"),
            (b"a long word\x1b[2K\x1b[1Gshort\n", "short\n"),
            (b"one\r\ntwo\r\r\n", "one\ntwo\n"),
            (b"|\x08/\x08-\x08\\\n", "\\\n"),
            (b"40%\r", "40%\r"),
            (b"a\tb\rx\n", "x\tb\n"),
            (b"a\tb\r12345\n", "12345   b\n"),
            ("漢字\rab\n".as_bytes(), "ab字\n"),
            ("漢字\ra\n".as_bytes(), "a 字\n"),
            ("e\u{301}x\n".as_bytes(), "e\u{301}x\n"),
        ] {
            assert_eq!(displayed(bytes, true), left, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn colours_stay_and_nothing_else_does() {
        for (bytes, left) in [
            (&b"\x1b[31mred\x1b[0m plain\n"[..], "\x1b[0;31mred\x1b[0m plain\n"),
            (b"\x1b[1;4;38;5;200mx\n", "\x1b[0;1;4;38;5;200mx\x1b[0m\n"),
            (b"\x1b[38:2::1:2:3mx\x1b[39m\n", "\x1b[0;38;2;1;2;3mx\x1b[0m\n"),
            (b"\x1b[48;2;1;2;3;1mx\n", "\x1b[0;1;48;2;1;2;3mx\x1b[0m\n"),
            (b"\x1b[91;104mx\x1b[m\n", "\x1b[0;91;104mx\x1b[0m\n"),
            (b"\x1b[4:3mx\x1b[4:0my\n", "\x1b[0;4mx\x1b[0my\n"),
            (b"\x1b[8mhidden\x1b[2J\x1b[H\x1b]0;title\x07\x1b[?25l\n", "hidden\n"),
            (b"\x1b[31mtwo\nlines\n", "\x1b[0;31mtwo\x1b[0m\n\x1b[0;31mlines\x1b[0m\n"),
        ] {
            assert_eq!(displayed(bytes, true), left, "{}", bytes.escape_ascii());
            assert_eq!(
                displayed(bytes, false).into_bytes(),
                without_styles(left.as_bytes()),
                "{}",
                bytes.escape_ascii()
            );
        }
    }

    #[test]
    fn a_line_without_end_loses_nothing_and_takes_little_memory() {
        let (mut display, mut out) = (Display::new(true), String::new());
        for _ in 0..100 {
            display.push(None, &[b'x'; 10_000], &mut out);
            assert!(display.line.cells.len() <= MAX_COLUMNS + TAB);
        }
        out += &display.unfinished();
        assert_eq!(out.len(), 1_000_000);
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..6),
            "[a-z\r\n\t\u{8} é漢\u{301}\u{202e}\u{9b}]{0,6}".prop_map(String::into_bytes),
            "\u{1b}[\\[\\]P_( ]?[0-9;:?]{0,8}[a-zA-Z@`\\\\\u{7}]?".prop_map(String::into_bytes),
        ];
        prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(bytes in bytes(), size in 1usize..9) {
            let (mut display, mut out) = (Display::new(true), String::new());
            for part in bytes.chunks(size) {
                display.push(Some(Stream::Stdout), part, &mut out);
            }
            prop_assert_eq!(out + &display.unfinished(), displayed(&bytes, true));
        }

        #[test]
        fn only_styles_reach_a_terminal(bytes in bytes()) {
            let text = without_styles(displayed(&bytes, true).trim_end_matches('\r').as_bytes());
            let text = String::from_utf8(text).expect("it was text, and sequences are ASCII");
            prop_assert!(!text.chars().any(|left| left.is_control() && left != '\n' && left != '\t'), "{:?}", text);
        }

        #[test]
        fn plain_text_stays_as_it_is(text in "[ -~\né漢字]{0,60}") {
            prop_assert_eq!(displayed(text.as_bytes(), true), text);
        }
    }
}
