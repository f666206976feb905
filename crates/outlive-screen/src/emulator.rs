//! The emulator behind a [`Screen`](crate::Screen): alacritty's, bounded, and mended where it differs from xterm.
//!
//! It also follows what alacritty keeps to itself (scroll region, tab stops, character set), because a checkpoint needs it.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Cursor, Dimensions};
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Osc52, Term, TermMode};
use alacritty_terminal::vte::ansi::{
    CharsetIndex, Handler as _, Mode, NamedMode, NamedPrivateMode, PrivateMode, TabulationClearMode,
};

use crate::grids::Grids;
use crate::links::{Entry, Links};
use crate::metadata::{Metadata, clean};
use crate::screen::Size;

/// The most characters without width on one cell. Writing systems need four, joined emoji ten.
pub(crate) const MAX_ZERO_WIDTH: usize = 16;

/// Below it no character is without width.
pub(crate) const FIRST_ZERO_WIDTH: char = '\u{300}';

/// A tab stop in every so many columns, to begin with.
const TAB_INTERVAL: usize = 8;

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        usize::from(self.rows)
    }

    fn screen_lines(&self) -> usize {
        usize::from(self.rows)
    }

    fn columns(&self) -> usize {
        usize::from(self.columns)
    }
}

pub(crate) struct Emulator {
    pub(crate) term: Term<VoidListener>,
    pub(crate) metadata: Metadata,
    pub(crate) links: Links,
    /// The first row that scrolls, and the one after the last.
    pub(crate) scroll_region: (usize, usize),
    pub(crate) tab_stops: Vec<bool>,
    pub(crate) charset: CharsetIndex,
    /// What was written to the clipboard, and not yet taken.
    pub(crate) clipboard: Option<String>,
    /// What REP repeats.
    pub(crate) last_character: Option<char>,
    /// Rows were changed behind the back of alacritty, which tells what it changed by itself.
    pub(crate) is_all_changed: bool,
    /// How many rows are kept that scrolled away.
    history: usize,
}

fn config(history: usize) -> Config {
    Config { scrolling_history: history, kitty_keyboard: false, osc52: Osc52::Disabled, ..Config::default() }
}

pub(crate) fn tab_stops(columns: usize) -> impl Iterator<Item = bool> {
    (0..columns).map(|column| column.is_multiple_of(TAB_INTERVAL))
}

impl Emulator {
    /// Makes a blank one that keeps so many rows that scrolled away.
    pub(crate) fn new(size: Size, history: usize) -> Self {
        Self {
            term: Term::new(config(history), &size, VoidListener),
            metadata: Metadata::default(),
            links: Links::default(),
            scroll_region: (0, size.screen_lines()),
            tab_stops: tab_stops(size.columns()).collect(),
            charset: CharsetIndex::G0,
            clipboard: None,
            last_character: None,
            is_all_changed: false,
            history,
        }
    }

    pub(crate) fn is_alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    pub(crate) fn resize(&mut self, size: Size) {
        if self.term.columns() == size.columns() && self.term.screen_lines() == size.screen_lines() {
            return;
        }
        self.scroll_region = (0, size.screen_lines());
        let new_stops = tab_stops(size.columns()).skip(self.tab_stops.len());
        self.tab_stops.extend(new_stops);
        self.tab_stops.truncate(size.columns());
        if self.history > 0 {
            self.term.resize(size);
            return;
        }
        let mut grids = Grids::take(&mut self.term);
        self.term.resize(size);
        grids.resize(size);
        grids.put(&mut self.term);
    }

    /// Carries out an operating system command, without its first two bytes and its end.
    pub(crate) fn command(&mut self, command: &[u8]) {
        let split = command.iter().position(|&byte| byte == b';').unwrap_or(command.len());
        let rest = command.get(split + 1..).unwrap_or_default();
        match &command[..split] {
            b"0" | b"2" => self.metadata.set_title(rest),
            b"7" => self.metadata.set_directory(rest),
            b"8" => self.set_link(rest),
            b"52" => self.set_clipboard(rest),
            b"133" => self.metadata.set_mark(rest),
            _ => {}
        }
    }

    /// Takes the selection and the text in base64. A `?` in its place asks for the clipboard, which no program is told.
    fn set_clipboard(&mut self, command: &[u8]) {
        let is_selection = |byte: &u8| matches!(byte, b'c' | b'p' | b'q' | b's' | b'0'..=b'7');
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
        let Some((selection, text)) =
            command.iter().position(|&byte| byte == b';').map(|at| command.split_at(at))
        else {
            return;
        };
        if selection.iter().all(is_selection) && text.len() > 1 && text[1..].iter().all(is_base64) {
            self.clipboard = Some(clean(command, command.len()));
        }
    }

    fn set_link(&mut self, command: &[u8]) {
        let mut entry = self.links.enter(command);
        if matches!(entry, Entry::Full) {
            self.drop_unused_links();
            entry = self.links.enter(command);
        }
        let link = match entry {
            Entry::Link(link) => Some(link),
            Entry::Full | Entry::None => None,
        };
        self.term.grid_mut().cursor.template.set_hyperlink(link);
    }

    fn drop_unused_links(&mut self) {
        let mut used = std::collections::HashSet::new();
        let grids = Grids::take(&mut self.term);
        for grid in [&grids.primary, &grids.alternate] {
            let templates = [&grid.cursor.template, &grid.saved_cursor.template];
            used.extend(templates.into_iter().filter_map(Cell::hyperlink));
            let lines = (grid.topmost_line().0..=grid.bottommost_line().0).map(Line);
            used.extend(lines.flat_map(|line| grid[line].into_iter().filter_map(Cell::hyperlink)));
        }
        grids.put(&mut self.term);
        self.links.retain(|link| used.contains(link));
    }

    /// Gives the tab stops to the emulator, which moves its cursor.
    pub(crate) fn place_tab_stops(&mut self) {
        self.term.clear_tabs(TabulationClearMode::All);
        for column in (0..self.tab_stops.len()).filter(|&column| self.tab_stops[column]) {
            self.term.goto(0, column);
            self.term.set_horizontal_tabstop();
        }
    }

    /// REP: repeats the last character, at most once for each cell.
    pub(crate) fn repeat(&mut self, count: usize) {
        let cells = self.term.columns() * self.term.screen_lines();
        if let Some(character) = self.last_character {
            (0..count.min(cells)).for_each(|_| self.input(character));
        }
    }

    /// IND: as a line feed, but never to the first column.
    pub(crate) fn index(&mut self) {
        self.term.linefeed();
        self.moves();
    }

    /// DECSTR: what a program expects that begins, and no cell changes.
    pub(crate) fn soft_reset(&mut self) {
        let cursor = &self.term.grid().cursor;
        let (point, input_needs_wrap) = (cursor.point, cursor.input_needs_wrap);
        for mode in [NamedPrivateMode::CursorKeys, NamedPrivateMode::Origin] {
            self.unset_private_mode(PrivateMode::Named(mode));
        }
        for mode in [NamedPrivateMode::ShowCursor, NamedPrivateMode::LineWrap] {
            self.set_private_mode(PrivateMode::Named(mode));
        }
        self.unset_mode(Mode::Named(NamedMode::Insert));
        self.unset_keypad_application_mode();
        self.set_active_charset(CharsetIndex::G0);
        self.scroll_region = (0, self.term.screen_lines());
        let grid = self.term.grid_mut();
        grid.saved_cursor = Default::default();
        // Setting the region moves the cursor.
        self.term.set_scrolling_region(1, None);
        self.term.grid_mut().cursor = Cursor { point, input_needs_wrap, ..Cursor::default() };
    }

    pub(crate) fn is_in_scroll_region(&self) -> bool {
        let (top, bottom) = self.scroll_region;
        (top..bottom).contains(&(self.term.grid().cursor.point.line.0 as usize))
    }

    /// To be called before the cursor is put into another row without alacritty: it takes the row that the cursor leaves for changed.
    pub(crate) fn leave_row(&mut self) {
        self.term.move_backward(0);
    }

    pub(crate) fn moves(&mut self) {
        self.term.grid_mut().cursor.input_needs_wrap = false;
    }

    /// Moves the cursor up or down; the scroll region holds one that is in it, as xterm does.
    pub(crate) fn move_rows(&mut self, rows: i64) {
        let (top, bottom) = self.scroll_region;
        let last_row = self.term.screen_lines() - 1;
        self.leave_row();
        let cursor = &mut self.term.grid_mut().cursor;
        let row = usize::try_from(cursor.point.line.0).unwrap_or(0);
        let first = if row >= top { top } else { 0 };
        let last = if row < bottom { bottom - 1 } else { last_row };
        let moved = (row as i64 + rows).clamp(first as i64, last as i64);
        cursor.point.line = Line(moved as i32);
        cursor.input_needs_wrap = false;
    }

    /// Makes half of a wide character a blank where the other half was erased, in a cell that is about to be written. The emulator would
    /// take the cell beside it for the other half.
    #[inline]
    pub(crate) fn drop_half(&mut self, offset: usize) {
        let halves = Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER;
        let (columns, grid) = (self.term.columns(), self.term.grid_mut());
        let Point { line, column } = grid.cursor.point;
        let column = column + offset;
        if column >= columns || !grid[line][column].flags.intersects(halves) {
            return;
        }
        let row = &mut grid[line];
        let has = |column: Column, flag| column < columns && row[column].flags.contains(flag);
        let is_whole = if row[column].flags.contains(Flags::WIDE_CHAR) {
            has(column + 1, Flags::WIDE_CHAR_SPACER)
        } else {
            column > 0 && has(column - 1, Flags::WIDE_CHAR)
        };
        if !is_whole {
            row[column].clear_wide();
            row[column].flags.remove(Flags::WIDE_CHAR_SPACER);
        }
    }

    /// Makes the cells blank that fall off the end of the row in insert mode. The emulator moves them to the cursor, and if they were
    /// half of a wide character it takes the cell beside it for the other half.
    pub(crate) fn drop_last(&mut self, width: usize) {
        let (columns, last_line) = (self.term.columns(), self.term.bottommost_line());
        let (wraps, bottom) = (self.term.mode().contains(TermMode::LINE_WRAP), self.scroll_region.1);
        let grid = self.term.grid_mut();
        let Point { mut line, mut column } = grid.cursor.point;
        if wraps && grid.cursor.input_needs_wrap {
            (line, column) = (line + 1, Column(0));
        }
        // The row below the scroll region is not written to: the region scrolls.
        let scrolls = line != grid.cursor.point.line && line == Line(bottom as i32);
        if !scrolls && line <= last_line && column + width < columns {
            for column in columns - width..columns {
                grid[line][Column(column)] = Cell::default();
            }
        }
    }

    /// Whether the cell that takes a character without width has room for it.
    pub(crate) fn takes_zero_width(&self) -> bool {
        let grid = self.term.grid();
        let mut column = grid.cursor.point.column;
        if !grid.cursor.input_needs_wrap {
            column.0 = column.0.saturating_sub(1);
        }
        let row = &grid[grid.cursor.point.line];
        if row[column].flags.contains(Flags::WIDE_CHAR_SPACER) {
            column.0 = column.0.saturating_sub(1);
        }
        row[column].zerowidth().is_none_or(|characters| characters.len() < MAX_ZERO_WIDTH)
    }

    pub(crate) fn set_alternate(&mut self, is_on: bool, keeps_cursor: bool) {
        if self.is_alternate() == is_on {
            return;
        }
        let point = self.term.grid().cursor.point;
        self.term.swap_alt();
        if keeps_cursor {
            self.term.grid_mut().cursor.point = point;
        }
    }

    /// Carries out what xterm has and the emulator has not, or differently; returns whether it was that.
    pub(crate) fn change_private_mode(&mut self, mode: PrivateMode, is_on: bool) -> bool {
        match (mode, is_on) {
            // xterm changes its width only where the user permits it.
            (PrivateMode::Named(NamedPrivateMode::ColumnMode), _) => {}
            (PrivateMode::Unknown(47 | 1047), _) => self.set_alternate(is_on, true),
            // The cursor is saved or restored even where the screen stays.
            (PrivateMode::Named(NamedPrivateMode::SwapScreenAndSetRestoreCursor), _)
                if self.is_alternate() == is_on =>
            {
                if is_on {
                    self.save_cursor_position()
                } else {
                    self.restore_cursor_position()
                }
            }
            (PrivateMode::Unknown(1048), true) => self.save_cursor_position(),
            (PrivateMode::Unknown(1048), false) => self.restore_cursor_position(),
            (PrivateMode::Unknown(66), true) => self.set_keypad_application_mode(),
            (PrivateMode::Unknown(66), false) => self.unset_keypad_application_mode(),
            (PrivateMode::Unknown(mode), _) => self.metadata.set_mouse_mode(mode, is_on),
            (PrivateMode::Named(NamedPrivateMode::Origin), false) => {
                self.term.unset_private_mode(mode);
                self.term.goto(0, 0);
            }
            _ => return false,
        }
        true
    }
}
