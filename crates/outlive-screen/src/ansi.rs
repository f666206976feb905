//! A text that draws a screen on another terminal of the same size, whatever that showed before.

use std::fmt::Write as _;

use alacritty_terminal::grid::{Cursor, Dimensions as _, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{self, CharsetIndex, StandardCharset};

use crate::grids::Grids;
use crate::metadata::MOUSE_MODES;
use crate::screen::Screen;
use crate::view::{Color, Run, Style, Underline, runs};

/// Brings a terminal to a known state. The order matters: xterm restores cursor, attributes and origin mode when it leaves the
/// alternate screen, so that comes before them (and some restore a link); the cursor is saved at home, so that a stray restore finds defaults.
const RESET: &str = concat!(
    "\x1b]8;;\x1b\\",                               // no link
    "\x1b[?1049l\x1b]8;;\x1b\\",                    // the primary screen
    "\x1b[0m\x1b[r\x1b[?69l\x1b[?6l",               // attributes, scroll region, margins, origin
    "\x1b[4l\x1b[20l\x1b[?7h",                      // insert, newline, autowrap
    "\x1b(B\x1b)B\x1b*B\x1b+B\x0f",                 // character sets
    "\x1b[?25h\x1b[?1l\x1b>",                       // cursor, cursor keys, keypad
    "\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l",    // mouse
    "\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l", // how it is reported
    "\x1b[?1004l\x1b[?2004l",                       // focus, paste
    "\x1b[<16u",                                    // keyboard modes
    "\x1b[H\x1b7\x1b[2J",
);

/// Modes that are off after [`RESET`], by the flag of the emulator.
const MODES: [(TermMode, &str); 10] = [
    (TermMode::APP_CURSOR, "\x1b[?1h"),
    (TermMode::APP_KEYPAD, "\x1b="),
    (TermMode::MOUSE_REPORT_CLICK, "\x1b[?1000h"),
    (TermMode::MOUSE_DRAG, "\x1b[?1002h"),
    (TermMode::MOUSE_MOTION, "\x1b[?1003h"),
    (TermMode::UTF8_MOUSE, "\x1b[?1005h"),
    (TermMode::SGR_MOUSE, "\x1b[?1006h"),
    (TermMode::FOCUS_IN_OUT, "\x1b[?1004h"),
    (TermMode::BRACKETED_PASTE, "\x1b[?2004h"),
    (TermMode::LINE_FEED_NEW_LINE, "\x1b[20h"),
];

/// Writing to text cannot fail.
struct Text(String);

impl Text {
    fn push(&mut self, text: &str) {
        self.0.push_str(text);
    }

    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.0.write_fmt(arguments).expect("text takes all that is written");
    }

    fn color(&mut self, color: Color, base: u8) {
        match color {
            Color::Default => {}
            Color::Palette(number @ 0..=7) => self.put(format_args!(";{}", base - 8 + number)),
            Color::Palette(number) => self.put(format_args!(";{base};5;{number}")),
            Color::Rgb(red, green, blue) => self.put(format_args!(";{base};2;{red};{green};{blue}")),
        }
    }

    /// Sets attributes and link, whatever they were.
    fn style(&mut self, style: &Style) {
        self.push("\x1b[0");
        for (is_on, number) in [
            (style.bold, ";1"),
            (style.dim, ";2"),
            (style.italic, ";3"),
            (style.inverse, ";7"),
            (style.hidden, ";8"),
            (style.strikeout, ";9"),
        ] {
            self.push(if is_on { number } else { "" });
        }
        self.push(match style.underline {
            Underline::None => "",
            Underline::Single => ";4",
            Underline::Double => ";4:2",
            Underline::Curly => ";4:3",
            Underline::Dotted => ";4:4",
            Underline::Dashed => ";4:5",
        });
        self.color(style.foreground, 38);
        self.color(style.background, 48);
        match style.underline_color {
            Color::Default => {}
            Color::Palette(number) => self.put(format_args!(";58:5:{number}")),
            Color::Rgb(red, green, blue) => self.put(format_args!(";58:2::{red}:{green}:{blue}")),
        }
        self.push("m");
    }

    /// Writes runs, and returns to no attributes.
    fn runs(&mut self, runs: &[Run]) {
        for run in runs {
            let is_plain = run.style == Style::default();
            if !is_plain {
                self.style(&run.style);
            }
            if let Some(link) = &run.style.link {
                self.put(format_args!("\x1b]8;;{link}\x1b\\"));
            }
            self.push(&run.text);
            if run.style.link.is_some() {
                self.push("\x1b]8;;\x1b\\");
            }
            if !is_plain {
                self.push("\x1b[0m");
            }
        }
    }

    fn rows(&mut self, grid: &Grid<Cell>) {
        for line in 0..grid.screen_lines() as i32 {
            let runs = runs(grid, Line(line));
            if !runs.is_empty() {
                self.put(format_args!("\x1b[{};1H", line + 1));
                self.runs(&runs);
            }
        }
    }

    fn keyboard(&mut self, stack: &[u8]) {
        for modes in stack {
            self.put(format_args!("\x1b[>{modes}u"));
        }
    }

    /// Places the cursor, with the attributes and character sets that it writes with. `top` is the first row that counts.
    fn cursor(&mut self, grid: &Grid<Cell>, cursor: &Cursor<Cell>, top: usize) {
        let (row, column) = (cursor.point.line.0 + 1 - top as i32, cursor.point.column.0);
        if cursor.input_needs_wrap {
            // Only writing the last column makes a terminal wait with the wrap.
            let row_cells = &grid[cursor.point.line];
            let is_spacer = row_cells[Column(column)].flags.contains(Flags::WIDE_CHAR_SPACER);
            let start = if is_spacer { column.saturating_sub(1) } else { column };
            let cell = &row_cells[Column(start)];
            self.put(format_args!("\x1b[{row};{}H", start + 1));
            // Half of a wide character is a blank, as in the rows.
            let is_torn = cell.flags.contains(Flags::WIDE_CHAR) && start == column;
            let text = std::iter::once(if is_torn { ' ' } else { cell.c });
            let text = text.chain(cell.zerowidth().into_iter().flatten().copied());
            self.runs(&[Run { text: text.collect(), style: Style::of(cell) }]);
        } else {
            self.put(format_args!("\x1b[{row};{}H", column + 1));
        }
        for (index, mark) in [
            (CharsetIndex::G0, '('),
            (CharsetIndex::G1, ')'),
            (CharsetIndex::G2, '*'),
            (CharsetIndex::G3, '+'),
        ] {
            if cursor.charsets[index] == StandardCharset::SpecialCharacterAndLineDrawing {
                self.put(format_args!("\x1b{mark}0"));
            }
        }
        let style = Style::of(&cursor.template);
        if style != Style::default() {
            self.style(&style);
        }
        if let Some(link) = &style.link {
            self.put(format_args!("\x1b]8;;{link}\x1b\\"));
        }
    }
}

impl Screen {
    /// Returns a text that draws the screen, with modes, title and cursor, on a terminal of the same size.
    ///
    /// While the alternate screen is active the primary one is drawn first, and is there when the program leaves. Left out are
    /// tab stops, bells, clipboard, and all that a terminal would answer.
    pub fn ansi(&mut self) -> String {
        let grids = Grids::take(&mut self.emulator.term);
        let mut text = Text(RESET.to_owned());
        if grids.is_alternate {
            text.rows(&grids.primary);
            text.cursor(&grids.primary, &grids.primary.cursor, 0);
            text.keyboard(&self.emulator.metadata.keyboards[0]);
            text.push("\x1b[?1049h\x1b[<16u\x1b[0m\x1b]8;;\x1b\\\x1b(B\x1b)B\x1b*B\x1b+B\x1b[2J");
        }
        grids.put(&mut self.emulator.term);

        let emulator = &self.emulator;
        let (grid, mode) = (emulator.term.grid(), *emulator.term.mode());
        text.rows(grid);
        text.cursor(grid, &grid.saved_cursor, 0);
        text.push("\x1b7\x1b[0m\x1b]8;;\x1b\\\x1b(B\x1b)B\x1b*B\x1b+B");
        for (flag, sequence) in MODES {
            text.push(if mode.contains(flag) { sequence } else { "" });
        }
        for (place, number) in MOUSE_MODES.iter().enumerate() {
            if emulator.metadata.mouse_modes & 1 << place != 0 {
                text.put(format_args!("\x1b[?{number}h"));
            }
        }
        text.keyboard(&emulator.metadata.keyboards[usize::from(self.is_alternate())]);
        let (top, bottom) = emulator.scroll_region;
        if (top, bottom) != (0, grid.screen_lines()) {
            text.put(format_args!("\x1b[{};{bottom}r", top + 1));
        }
        // With origin mode no cursor can be placed outside of the region.
        let is_inside = (top..bottom).contains(&(grid.cursor.point.line.0 as usize));
        let has_origin = mode.contains(TermMode::ORIGIN) && is_inside;
        text.push(if has_origin { "\x1b[?6h" } else { "" });
        text.cursor(grid, &grid.cursor, if has_origin { top } else { 0 });
        text.push(if mode.contains(TermMode::LINE_WRAP) { "" } else { "\x1b[?7l" });
        text.push(if mode.contains(TermMode::INSERT) { "\x1b[4h" } else { "" });
        text.push(match emulator.charset {
            CharsetIndex::G0 => "",
            CharsetIndex::G1 => "\x0e",
            CharsetIndex::G2 => "\x1bn",
            CharsetIndex::G3 => "\x1bo",
        });
        text.put(format_args!("\x1b[{} q", cursor_style(&emulator.term.cursor_style())));
        text.push(if mode.contains(TermMode::SHOW_CURSOR) { "" } else { "\x1b[?25l" });
        if let Some(directory) = self.directory() {
            text.push("\x1b]7;file://");
            directory.bytes().for_each(|byte| match byte {
                b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                    text.0.push(char::from(byte));
                }
                _ => text.put(format_args!("%{byte:02X}")),
            });
            text.push("\x1b\\");
        }
        if let Some(title) = self.title() {
            text.put(format_args!("\x1b]2;{title}\x1b\\"));
        }
        text.0
    }
}

/// Returns runs as text with attributes, and without any at its end.
pub fn styled(runs: &[Run]) -> String {
    let mut text = Text(String::new());
    text.runs(runs);
    text.0
}

impl Screen {
    /// Returns the text on the screen with its attributes: its rows up to the last that is not blank.
    pub fn styled_text(&self) -> String {
        let mut rows = self.rows();
        let end = rows.iter().rposition(|runs| !runs.is_empty()).map_or(0, |last| last + 1);
        rows.truncate(end);
        rows.iter().map(|runs| styled(runs) + "\n").collect()
    }
}

/// The number of a cursor's style; 0 is the terminal's own.
fn cursor_style(style: &ansi::CursorStyle) -> u8 {
    let steady = match style.shape {
        ansi::CursorShape::Underline => 4,
        ansi::CursorShape::Beam => 6,
        _ if !style.blinking => return 0,
        _ => 2,
    };
    steady - u8::from(style.blinking)
}
