//! The emulator behind a [`Screen`](crate::Screen): alacritty's, bounded, and mended where it differs from xterm.
//!
//! It also follows what alacritty keeps to itself (scroll region, tab stops, character set), because a checkpoint needs it.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Osc52, Term, TermMode};
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorStyle, Handler, KeyboardModes, KeyboardModesApplyBehavior,
    LineClearMode, Mode, NamedMode, NamedPrivateMode, PrivateMode, StandardCharset, TabulationClearMode,
};
use unicode_width::UnicodeWidthChar as _;

use crate::grids::Grids;
use crate::links::{Entry, Links};
use crate::metadata::Metadata;
use crate::screen::Size;

/// The most characters without width on one cell. Writing systems need four, joined emoji ten.
pub(crate) const MAX_ZERO_WIDTH: usize = 16;

/// Below it no character is without width.
const FIRST_ZERO_WIDTH: char = '\u{300}';

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
    /// What REP repeats.
    pub(crate) last_character: Option<char>,
    /// How many rows are kept that scrolled away.
    history: usize,
}

fn config(history: usize) -> Config {
    Config { scrolling_history: history, kitty_keyboard: false, osc52: Osc52::Disabled, ..Config::default() }
}

fn tab_stops(columns: usize) -> impl Iterator<Item = bool> {
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
            last_character: None,
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
            b"133" => self.metadata.set_mark(rest),
            _ => {}
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

    /// DECSTR: what a program expects that begins, and no cell changes.
    pub(crate) fn soft_reset(&mut self) {
        let point = self.term.grid().cursor.point;
        for mode in [NamedPrivateMode::CursorKeys, NamedPrivateMode::Origin] {
            self.unset_private_mode(PrivateMode::Named(mode));
        }
        self.set_private_mode(PrivateMode::Named(NamedPrivateMode::ShowCursor));
        self.unset_mode(Mode::Named(NamedMode::Insert));
        self.unset_keypad_application_mode();
        self.set_active_charset(CharsetIndex::G0);
        self.scroll_region = (0, self.term.screen_lines());
        let grid = self.term.grid_mut();
        grid.cursor = Default::default();
        grid.saved_cursor = Default::default();
        // Setting the region moves the cursor.
        self.term.set_scrolling_region(1, None);
        self.term.grid_mut().cursor.point = point;
    }

    fn moves(&mut self) {
        self.term.grid_mut().cursor.input_needs_wrap = false;
    }

    /// Moves the cursor up or down; the scroll region holds one that is in it, as xterm does.
    fn move_rows(&mut self, rows: i64) {
        let (top, bottom) = self.scroll_region;
        let last_row = self.term.screen_lines() - 1;
        let cursor = &mut self.term.grid_mut().cursor;
        let row = usize::try_from(cursor.point.line.0).unwrap_or(0);
        let first = if row >= top { top } else { 0 };
        let last = if row < bottom { bottom - 1 } else { last_row };
        let moved = (row as i64 + rows).clamp(first as i64, last as i64);
        cursor.point.line = Line(moved as i32);
        cursor.input_needs_wrap = false;
    }

    /// Whether the cell that takes a character without width has room for it.
    fn takes_zero_width(&self) -> bool {
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

    fn set_alternate(&mut self, is_on: bool, keeps_cursor: bool) {
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
    fn change_private_mode(&mut self, mode: PrivateMode, is_on: bool) -> bool {
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

/// Methods that the emulator has. After those marked with `moves` the next character no longer wraps, as in xterm.
macro_rules! delegate {
    ($($name:ident($($argument:ident: $Type:ty),*) $($moves:ident)?;)*) => {
        $(#[inline]
        fn $name(&mut self, $($argument: $Type),*) {
            self.term.$name($($argument),*);
            $(self.$moves();)?
        })*
    };
}

impl Handler for Emulator {
    delegate! {
        goto(line: i32, column: usize);
        goto_line(line: i32);
        insert_blank(count: usize);
        move_forward(count: usize);
        move_backward(count: usize);
        backspace();
        carriage_return();
        linefeed() moves;
        newline() moves;
        reverse_index() moves;
        move_backward_tabs(count: u16) moves;
        scroll_up(count: usize);
        scroll_down(count: usize);
        erase_chars(count: usize);
        delete_chars(count: usize);
        move_forward_tabs(count: u16);
        save_cursor_position();
        restore_cursor_position();
        clear_line(mode: LineClearMode);
        terminal_attribute(attribute: Attr);
        set_mode(mode: Mode);
        unset_mode(mode: Mode);
        set_keypad_application_mode();
        unset_keypad_application_mode();
        configure_charset(index: CharsetIndex, charset: StandardCharset);
        decaln();
        set_cursor_style(style: Option<CursorStyle>);
    }

    #[inline]
    fn input(&mut self, character: char) {
        if character.is_control() {
            return;
        }
        let has_width = character < FIRST_ZERO_WIDTH || character.width() != Some(0);
        if has_width || self.takes_zero_width() {
            self.term.input(character);
        }
        self.last_character = Some(character);
    }

    fn goto_col(&mut self, column: usize) {
        let last = self.term.last_column();
        let cursor = &mut self.term.grid_mut().cursor;
        cursor.point.column = Column(column).min(last);
        cursor.input_needs_wrap = false;
    }

    fn move_up(&mut self, rows: usize) {
        self.move_rows(-(rows as i64));
    }

    fn move_down(&mut self, rows: usize) {
        self.move_rows(rows as i64);
    }

    fn move_up_and_cr(&mut self, rows: usize) {
        self.move_rows(-(rows as i64));
        self.carriage_return();
    }

    fn move_down_and_cr(&mut self, rows: usize) {
        self.move_rows(rows as i64);
        self.carriage_return();
    }

    /// A tab only moves: it writes no cell, and does not wrap.
    fn put_tab(&mut self, count: u16) {
        if !self.term.grid().cursor.input_needs_wrap {
            self.term.move_forward_tabs(count);
        }
    }

    fn set_horizontal_tabstop(&mut self) {
        self.tab_stops[self.term.grid().cursor.point.column.0] = true;
        self.term.set_horizontal_tabstop();
    }

    fn clear_tabs(&mut self, mode: TabulationClearMode) {
        match mode {
            TabulationClearMode::Current => self.tab_stops[self.term.grid().cursor.point.column.0] = false,
            TabulationClearMode::All => self.tab_stops.fill(false),
        }
        self.term.clear_tabs(mode);
    }

    /// xterm moves to the first column after inserting or deleting rows.
    fn insert_blank_lines(&mut self, count: usize) {
        self.term.insert_blank_lines(count);
        self.carriage_return();
    }

    fn delete_lines(&mut self, count: usize) {
        self.term.delete_lines(count);
        self.carriage_return();
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        // The emulator leaves the first row when the cursor is in the second.
        if matches!(mode, ClearMode::Above) && self.term.grid().cursor.point.line == Line(1) {
            self.term.grid_mut().reset_region(Line(0)..Line(1));
        }
        self.term.clear_screen(mode);
    }

    fn reset_state(&mut self) {
        self.term.reset_state();
        let (columns, rows) = (self.term.columns(), self.term.screen_lines());
        self.scroll_region = (0, rows);
        self.tab_stops = tab_stops(columns).collect();
        self.charset = CharsetIndex::G0;
        self.last_character = None;
        self.metadata.keyboards = Default::default();
        self.metadata.mouse_modes = 0;
    }

    fn set_private_mode(&mut self, mode: PrivateMode) {
        if !self.change_private_mode(mode, true) {
            self.term.set_private_mode(mode);
        }
    }

    fn unset_private_mode(&mut self, mode: PrivateMode) {
        if !self.change_private_mode(mode, false) {
            self.term.unset_private_mode(mode);
        }
    }

    fn set_scrolling_region(&mut self, top: usize, bottom: Option<usize>) {
        let rows = self.term.screen_lines();
        let bottom = bottom.unwrap_or(rows).min(rows);
        if top < bottom {
            self.scroll_region = (top - 1, bottom);
            self.term.set_scrolling_region(top, Some(bottom));
        }
    }

    fn set_active_charset(&mut self, index: CharsetIndex) {
        self.charset = index;
        self.term.set_active_charset(index);
    }

    fn push_title(&mut self) {
        self.metadata.push_title();
    }

    fn pop_title(&mut self) {
        self.metadata.pop_title();
    }

    fn push_keyboard_mode(&mut self, modes: KeyboardModes) {
        self.metadata.push_keyboard(self.is_alternate(), modes);
    }

    fn pop_keyboard_modes(&mut self, count: u16) {
        self.metadata.pop_keyboards(self.is_alternate(), count);
    }

    fn set_keyboard_mode(&mut self, modes: KeyboardModes, behavior: KeyboardModesApplyBehavior) {
        self.metadata.set_keyboard(self.is_alternate(), modes, behavior);
    }
}
