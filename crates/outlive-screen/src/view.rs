//! What is on a screen: rows of styled text, the cursor, plain text.

use alacritty_terminal::grid::{Dimensions as _, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi;
use outlive_core::terminal::keys::KeyModes;
use serde::Serialize;

use crate::screen::Screen;

/// A colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Color {
    /// The terminal's own, for text or background.
    #[default]
    Default,
    /// One of 256, by its number; the first 16 are named.
    Palette(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

impl Color {
    fn is_default(&self) -> bool {
        *self == Self::Default
    }
}

impl From<ansi::Color> for Color {
    fn from(color: ansi::Color) -> Self {
        match color {
            ansi::Color::Named(name) => u8::try_from(name as usize).map_or(Self::Default, Self::Palette),
            ansi::Color::Indexed(number) => Self::Palette(number),
            ansi::Color::Spec(rgb) => Self::Rgb(rgb.r, rgb.g, rgb.b),
        }
    }
}

/// How text is underlined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Underline {
    /// Not at all.
    #[default]
    None,
    /// With a line.
    Single,
    /// With two lines.
    Double,
    /// With a wave.
    Curly,
    /// With dots.
    Dotted,
    /// With dashes.
    Dashed,
}

impl Underline {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// How text looks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Style {
    /// The colour of the text.
    #[serde(skip_serializing_if = "Color::is_default")]
    pub foreground: Color,
    /// The colour behind it.
    #[serde(skip_serializing_if = "Color::is_default")]
    pub background: Color,
    /// Bold.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bold: bool,
    /// Faint.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dim: bool,
    /// Italic.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub italic: bool,
    /// Text and background change places.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inverse: bool,
    /// There, and not shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// With a line through it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strikeout: bool,
    /// Its underline.
    #[serde(skip_serializing_if = "Underline::is_none")]
    pub underline: Underline,
    /// The colour of the underline, if it is not that of the text.
    #[serde(skip_serializing_if = "Color::is_default")]
    pub underline_color: Color,
    /// The address that it links to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl Style {
    pub(crate) fn of(cell: &Cell) -> Self {
        let has = |flag| cell.flags.contains(flag);
        let underlines = [
            (Flags::UNDERLINE, Underline::Single),
            (Flags::DOUBLE_UNDERLINE, Underline::Double),
            (Flags::UNDERCURL, Underline::Curly),
            (Flags::DOTTED_UNDERLINE, Underline::Dotted),
            (Flags::DASHED_UNDERLINE, Underline::Dashed),
        ];
        Self {
            foreground: cell.fg.into(),
            background: cell.bg.into(),
            bold: has(Flags::BOLD),
            dim: has(Flags::DIM),
            italic: has(Flags::ITALIC),
            inverse: has(Flags::INVERSE),
            hidden: has(Flags::HIDDEN),
            strikeout: has(Flags::STRIKEOUT),
            underline: underlines
                .into_iter()
                .find(|(flag, _)| has(*flag))
                .map_or(Underline::None, |(_, underline)| underline),
            underline_color: cell.underline_color().map_or(Color::Default, Color::from),
            link: cell.hyperlink().map(|link| link.uri().to_owned()),
        }
    }

    /// Whether a blank looks like an empty cell.
    fn is_blank(&self) -> bool {
        let Self { background, inverse, strikeout, underline, link, .. } = self;
        background.is_default() && !inverse && !strikeout && underline.is_none() && link.is_none()
    }
}

/// Characters of one row that look the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The characters.
    pub text: String,
    /// How they look.
    #[serde(flatten)]
    pub style: Style,
}

/// The shape of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CursorShape {
    /// A filled cell.
    Block,
    /// A line below the character.
    Underline,
    /// A line before the character.
    Bar,
}

/// Whether two cells are known to have one style, without making it. Characters without width are compared as well.
fn has_same_style(one: &Cell, other: &Cell) -> bool {
    one.fg == other.fg && one.bg == other.bg && one.flags == other.flags && one.extra == other.extra
}

/// Returns a row of a grid, without blanks at its end.
pub(crate) fn runs(grid: &Grid<Cell>, line: Line) -> Vec<Run> {
    let row = &grid[line];
    let mut runs: Vec<Run> = Vec::new();
    let mut before: Option<&Cell> = None;
    let mut column = 0;
    while column < grid.columns() {
        let cell = &row[Column(column)];
        let is_wide = cell.flags.contains(Flags::WIDE_CHAR);
        let is_followed =
            column + 1 < grid.columns() && row[Column(column + 1)].flags.contains(Flags::WIDE_CHAR_SPACER);
        if before.is_none_or(|before| !has_same_style(before, cell)) {
            let style = Style::of(cell);
            if runs.last().is_none_or(|run| run.style != style) {
                runs.push(Run { text: String::new(), style });
            }
        }
        before = Some(cell);
        let text = &mut runs.last_mut().expect("one was pushed").text;
        // Half of a wide character, whose other half was overwritten, is a blank.
        if is_wide && !is_followed || cell.flags.contains(Flags::WIDE_CHAR_SPACER) || cell.c == '\t' {
            text.push(' ');
        } else {
            text.push(cell.c);
            text.extend(cell.zerowidth().into_iter().flatten());
        }
        column += if is_wide && is_followed { 2 } else { 1 };
    }
    while let Some(run) = runs.last_mut()
        && run.style.is_blank()
    {
        run.text.truncate(run.text.trim_end_matches(' ').len());
        if !run.text.is_empty() {
            break;
        }
        runs.pop();
    }
    runs
}

/// The rows of a screen as a reader saw them last.
#[derive(Debug, Default)]
pub struct SeenRows {
    rows: Vec<Vec<Cell>>,
    /// The last change of the screen that is in them.
    change: u64,
}

impl Screen {
    /// Returns the numbers of the rows, from 0, that are others than they were when this was asked last, and remembers them. The
    /// screen may be another one than then, if that was made later.
    pub fn unseen_rows(&self, seen: &mut SeenRows) -> Vec<usize> {
        let grid = self.emulator.term.grid();
        let seen_change =
            std::mem::replace(&mut seen.change, self.changed.iter().copied().max().unwrap_or(0));
        seen.rows.resize(self.changed.len(), Vec::new());
        let mut unseen = Vec::new();
        // To compare all cells would take longer than all else that is done for a key.
        let rows = self.changed.iter().zip(&mut seen.rows).enumerate();
        for (number, (_, seen)) in rows.filter(|(_, (change, _))| **change > seen_change) {
            let cells = &grid[Line(number as i32)][Column(0)..];
            if seen[..] != *cells {
                seen.clear();
                seen.extend_from_slice(cells);
                unseen.push(number);
            }
        }
        unseen
    }

    /// Returns one row, counted from 0, without blanks at its end; nothing beyond the last.
    pub fn row(&self, number: usize) -> Vec<Run> {
        let grid = self.emulator.term.grid();
        if number < grid.screen_lines() { runs(grid, Line(number as i32)) } else { Vec::new() }
    }

    /// Returns the rows from the top, each without blanks at its end.
    pub fn rows(&self) -> Vec<Vec<Run>> {
        let grid = self.emulator.term.grid();
        (0..grid.screen_lines() as i32).map(|line| runs(grid, Line(line))).collect()
    }

    /// Returns the characters of each row, without blanks at its end.
    pub fn lines(&self) -> Vec<String> {
        let line = |runs: Vec<Run>| runs.iter().map(|run| run.text.as_str()).collect::<String>();
        self.rows().into_iter().map(|runs| line(runs).trim_end_matches(' ').to_owned()).collect()
    }

    /// Returns the text on the screen: its rows up to the last that is not blank.
    pub fn text(&self) -> String {
        let mut lines = self.lines();
        let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        lines.truncate(end);
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// What keys depend on.
    pub fn key_modes(&self) -> KeyModes {
        let mode = self.emulator.term.mode();
        KeyModes {
            application_cursor: mode.contains(TermMode::APP_CURSOR),
            application_keypad: mode.contains(TermMode::APP_KEYPAD),
            bracketed_paste: mode.contains(TermMode::BRACKETED_PASTE),
        }
    }
}
