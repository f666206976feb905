//! What each sequence does: mostly what the emulator does, mended where that differs from xterm.

use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::vte::ansi::{
    Attr, CharsetIndex, ClearMode, CursorStyle, Handler, KeyboardModes, KeyboardModesApplyBehavior,
    LineClearMode, Mode, PrivateMode, StandardCharset, TabulationClearMode,
};
use unicode_width::UnicodeWidthChar as _;

use crate::emulator::{Emulator, FIRST_ZERO_WIDTH, tab_stops};

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
        insert_blank(count: usize) moves;
        move_forward(count: usize);
        move_backward(count: usize);
        backspace();
        carriage_return();
        newline() moves;
        reverse_index() moves;
        scroll_up(count: usize);
        scroll_down(count: usize);
        erase_chars(count: usize) moves;
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
        set_cursor_style(style: Option<CursorStyle>);
    }

    #[inline]
    fn input(&mut self, character: char) {
        if character.is_control() {
            return;
        }
        let width = if character < FIRST_ZERO_WIDTH { 1 } else { character.width().unwrap_or(0) };
        (0..width).for_each(|offset| self.drop_half(offset));
        if self.term.mode().contains(TermMode::INSERT) {
            self.drop_last(width);
        }
        if width > 0 || self.takes_zero_width() {
            self.term.input(character);
        }
        self.last_character = Some(character);
    }

    fn linefeed(&mut self) {
        if self.term.mode().contains(TermMode::LINE_FEED_NEW_LINE) {
            self.term.newline();
        } else {
            self.term.linefeed();
        }
        self.moves();
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

    fn move_backward_tabs(&mut self, count: u16) {
        for _ in 0..count {
            let column = self.term.grid().cursor.point.column.0;
            let before = self.tab_stops[..column].iter().rposition(|&is_set| is_set).unwrap_or(0);
            self.goto_col(before);
            if before == 0 {
                break;
            }
        }
    }

    /// The emulator also clears cells before the cursor when there are not so many behind it.
    fn delete_chars(&mut self, count: usize) {
        let behind = self.term.columns() - self.term.grid().cursor.point.column.0;
        self.term.delete_chars(count.min(behind));
        self.moves();
    }

    /// xterm moves to the first column after inserting or deleting rows.
    fn insert_blank_lines(&mut self, count: usize) {
        if self.is_in_scroll_region() {
            self.term.insert_blank_lines(count);
            self.carriage_return();
        }
    }

    fn delete_lines(&mut self, count: usize) {
        if self.is_in_scroll_region() {
            self.term.delete_lines(count);
            self.carriage_return();
        }
    }

    fn decaln(&mut self) {
        self.term.decaln();
        self.set_scrolling_region(1, None);
        self.goto(0, 0);
    }

    fn clear_screen(&mut self, mode: ClearMode) {
        let cursor = &self.term.grid().cursor;
        let (line, needs_wrap) = (cursor.point.line, cursor.input_needs_wrap);
        match mode {
            // The cursor is behind the last column then.
            ClearMode::Below if needs_wrap => {
                if line < self.term.bottommost_line() {
                    self.term.grid_mut().reset_region(line + 1..);
                    self.is_all_changed = true;
                }
                return;
            }
            // The emulator leaves the first row when the cursor is in the second.
            ClearMode::Above if line == Line(1) => self.term.grid_mut().reset_region(Line(0)..Line(1)),
            _ => {}
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
