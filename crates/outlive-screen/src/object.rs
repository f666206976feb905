//! The documented JSON object of a screen, for scripts and other programs.

use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi;
use outlive_core::terminal::size::TerminalSize;
use serde::Serialize;

use crate::metadata::{MOUSE_MODES, Mark};
use crate::screen::Screen;
use crate::view::{CursorShape, Run};

/// A screen as scripts see it. Rows and columns count from 1; unknown is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScreenObject {
    /// Its size, as `120x40`.
    pub size: TerminalSize,
    /// The cursor.
    pub cursor: CursorObject,
    /// The title of the window.
    pub title: Option<String>,
    /// The working directory that the program told.
    pub directory: Option<String>,
    /// The alternate screen is active, as full-screen programs have it.
    pub alternate: bool,
    /// Where the shell is, as far as it tells.
    pub mark: Option<Mark>,
    /// Of the last command that the shell ran, as far as it tells.
    pub command_exit_code: Option<i32>,
    /// What the program asked its terminal for.
    pub modes: ModesObject,
    /// The text of each row, without blanks at its end.
    pub rows: Vec<String>,
    /// The same with colours and attributes, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub styled_rows: Option<Vec<Vec<Run>>>,
}

/// A cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CursorObject {
    /// Its row, the first is 1.
    pub row: u16,
    /// Its column, the first is 1.
    pub column: u16,
    /// Whether it is shown.
    pub visible: bool,
    /// Its shape.
    pub shape: CursorShape,
    /// Whether it blinks.
    pub blinking: bool,
    /// The last column is written, and the next character goes to the next row.
    pub wrap_pending: bool,
}

/// Modes of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ModesObject {
    /// Arrows are sent as `ESC O`.
    pub application_cursor: bool,
    /// The keypad is sent as `ESC O`.
    pub application_keypad: bool,
    /// A paste is put between marks.
    pub bracketed_paste: bool,
    /// The number of the mode that reports the mouse; none if it is not reported.
    pub mouse: Option<u16>,
    /// The number of the mode that says how the mouse is reported; none for the oldest form.
    pub mouse_encoding: Option<u16>,
    /// Focus is reported.
    pub focus: bool,
    /// The keyboard modes of kitty that are on, as bits.
    pub keyboard: u8,
}

impl ModesObject {
    pub(crate) fn of(screen: &Screen) -> Self {
        let (mode, metadata) = (*screen.emulator.term.mode(), &screen.emulator.metadata);
        let first = |modes: &[(TermMode, u16)]| {
            modes.iter().find(|(flag, _)| mode.contains(*flag)).map(|&(_, number)| number)
        };
        let other = |number: u16| {
            let place = MOUSE_MODES.iter().position(|&known| known == number);
            place.filter(|place| metadata.mouse_modes & 1 << place != 0).map(|_| number)
        };
        let keys = screen.key_modes();
        let mouse = [
            (TermMode::MOUSE_MOTION, 1003),
            (TermMode::MOUSE_DRAG, 1002),
            (TermMode::MOUSE_REPORT_CLICK, 1000),
        ];
        let encoding = [(TermMode::SGR_MOUSE, 1006), (TermMode::UTF8_MOUSE, 1005)];
        Self {
            application_cursor: keys.application_cursor,
            application_keypad: keys.application_keypad,
            bracketed_paste: keys.bracketed_paste,
            mouse: first(&mouse).or_else(|| other(9)),
            mouse_encoding: other(1016).or_else(|| first(&encoding)).or_else(|| other(1015)),
            focus: mode.contains(TermMode::FOCUS_IN_OUT),
            keyboard: metadata.keyboards[usize::from(screen.is_alternate())].last().copied().unwrap_or(0),
        }
    }
}

impl CursorObject {
    /// Returns the number by which a terminal is asked for this cursor.
    pub fn style_number(&self) -> u8 {
        let steady = match self.shape {
            CursorShape::Block => 2,
            CursorShape::Underline => 4,
            CursorShape::Bar => 6,
        };
        steady - u8::from(self.blinking)
    }

    fn of(screen: &Screen) -> Self {
        let (cursor, style) = (&screen.emulator.term.grid().cursor, screen.emulator.term.cursor_style());
        Self {
            row: cursor.point.line.0 as u16 + 1,
            column: cursor.point.column.0 as u16 + 1,
            visible: screen.emulator.term.mode().contains(TermMode::SHOW_CURSOR),
            shape: match style.shape {
                ansi::CursorShape::Underline => CursorShape::Underline,
                ansi::CursorShape::Beam => CursorShape::Bar,
                _ => CursorShape::Block,
            },
            blinking: style.blinking,
            wrap_pending: cursor.input_needs_wrap,
        }
    }
}

impl Screen {
    /// Returns the cursor.
    pub fn cursor(&self) -> CursorObject {
        CursorObject::of(self)
    }

    /// Returns what the program asked its terminal for.
    pub fn modes(&self) -> ModesObject {
        ModesObject::of(self)
    }

    /// Returns the object, with or without colours and attributes.
    pub fn object(&self, is_styled: bool) -> ScreenObject {
        ScreenObject {
            size: self.size(),
            cursor: self.cursor(),
            title: self.title().map(str::to_owned),
            directory: self.directory().map(str::to_owned),
            alternate: self.is_alternate(),
            mark: self.mark(),
            command_exit_code: self.emulator.metadata.exit_code,
            modes: self.modes(),
            rows: self.lines(),
            styled_rows: is_styled.then(|| self.rows()),
        }
    }
}
