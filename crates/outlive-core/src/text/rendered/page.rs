//! The page: rows that can still change, the cursor, and the lines that have left.

use std::collections::VecDeque;
use std::ops::Range;

use unicode_width::UnicodeWidthChar;

use super::row::{Row, SPARE, TAB};
use super::{MAX_COLUMNS, MAX_ROWS, RenderedLine};

/// Where the next character goes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    pub(super) row: usize,
    pub(super) column: usize,
    /// The last column was just written: the next character goes to the next row.
    pub(super) is_past_edge: bool,
    /// Whether G0 and G1 are the charset of lines and corners.
    pub(super) draws_lines: [bool; 2],
}

/// The page.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// Always as many as the window is high.
    rows: VecDeque<Row>,
    /// Columns that are kept of a row.
    width: usize,
    /// Whether a line that is longer goes on in the next row; else it goes on to the right and is cut.
    has_edge: bool,
    pub(super) cursor: Cursor,
    pub(super) saved: Cursor,
    /// Which of G0 and G1 is in use.
    pub(super) charset: usize,
    /// The rows that scroll.
    region: Range<usize>,
    pub(super) wraps: bool,
    pub(super) inserts: bool,
    /// The page below the alternate screen, while that is shown; nothing of the screen stays once it is closed.
    main: Option<Box<Self>>,
    /// What can be repeated.
    previous: Option<char>,
    lines: Lines,
}

impl Page {
    pub(super) fn new(columns: Option<usize>, rows: usize) -> Self {
        let width = columns.unwrap_or(MAX_COLUMNS).clamp(2, MAX_COLUMNS);
        Self {
            rows: vec![Row::default(); rows].into(),
            width,
            has_edge: columns.is_some(),
            cursor: Cursor::default(),
            saved: Cursor::default(),
            charset: 0,
            region: 0..rows,
            wraps: true,
            inserts: false,
            main: None,
            previous: None,
            lines: Lines::default(),
        }
    }

    /// Hands on the lines that cannot change any more.
    pub(super) fn take_ready(&mut self, emit: impl FnMut(RenderedLine)) {
        let lines = match &mut self.main {
            Some(main) => &mut main.lines,
            None => &mut self.lines,
        };
        lines.ready.drain(..).for_each(emit);
    }

    /// Shows the alternate screen, empty and with the cursor at its top, or the main page again as it was. Modes are common
    /// to both.
    pub(super) fn show_alternate(&mut self, is_on: bool) {
        let (wraps, inserts) = (self.wraps, self.inserts);
        if !is_on && let Some(main) = self.main.take() {
            *self = *main;
        } else if is_on && self.main.is_none() {
            let screen = Self::new(self.has_edge.then_some(self.width), self.height());
            let main = std::mem::replace(self, screen);
            self.main = Some(Box::new(main));
        }
        (self.wraps, self.inserts) = (wraps, inserts);
    }

    /// Makes an alternate screen that its program left open the page: what is on it comes after the main page.
    fn keep_alternate(&mut self) {
        if let Some(mut main) = self.main.take() {
            main.close();
            main.lines.ready.append(&mut self.lines.ready);
            self.lines.ready = main.lines.ready;
        }
    }

    /// Lets all that is on the page leave it, but for blank lines at its end.
    pub(super) fn close(&mut self) {
        self.keep_alternate();
        let end = self.rows.iter().rposition(|row| !row.is_blank()).map_or(0, |last| last + 1);
        for row in self.rows.range(..end) {
            self.lines.push(row);
        }
        self.lines.close();
    }

    /// Begins anew, as a terminal that is reset.
    pub(super) fn reset(&mut self) {
        self.show_alternate(false);
        self.erase_rows(0..self.height());
        self.cursor = Cursor::default();
        self.saved = Cursor::default();
        self.charset = 0;
        self.region = 0..self.height();
        self.wraps = true;
        self.inserts = false;
    }

    fn row(&mut self) -> &mut Row {
        &mut self.rows[self.cursor.row]
    }

    // Writing.

    pub(super) fn print_ascii(&mut self, mut ascii: &[u8]) {
        self.previous = ascii.last().map(|&byte| char::from(byte));
        if self.inserts || self.cursor.draws_lines[self.charset] {
            for &byte in ascii {
                self.print(char::from(byte));
            }
            return;
        }
        while !ascii.is_empty() {
            self.wrap_if_past_edge();
            let at = self.cursor.column;
            let room = self.width.saturating_sub(at);
            let (now, later) = ascii.split_at(room.min(ascii.len()));
            if !now.is_empty() {
                self.fill_spare_above(now.len());
                self.row().write_ascii(at, now);
            }
            self.advance(now.len());
            ascii = later;
            if room == 0 {
                self.advance(ascii.len());
                return;
            }
        }
    }

    pub(super) fn print(&mut self, character: char) {
        let Some(width) = character.width() else { return };
        self.previous = Some(character);
        if width == 0 {
            return self.mark(character);
        }
        self.wrap_if_past_edge();
        if self.inserts && self.cursor.column + width < self.width {
            let (at, limit) = (self.cursor.column, self.width);
            self.row().insert(at, width, limit);
        }
        if width == 2 && self.has_edge && self.cursor.column + 1 == self.width {
            if !self.wraps {
                self.cursor.is_past_edge = true;
                return;
            }
            let at = self.cursor.column;
            self.row().write(at, SPARE, 1);
            self.wrap();
        }
        let at = self.cursor.column;
        if at + width <= self.width {
            self.fill_spare_above(width);
            let character = self.mapped(character);
            self.row().write(at, character, width);
        }
        self.advance(width);
    }

    /// Prints the last character again; more than a row of it is no picture.
    pub(super) fn repeat(&mut self, count: usize) {
        let count = count.min(self.width);
        match self.previous {
            Some(character) if character.is_ascii() => self.print_ascii(&vec![character as u8; count]),
            Some(character) if character.width() != Some(0) => (0..count).for_each(|_| self.print(character)),
            _ => {}
        }
    }

    /// Moves the cursor over what was written.
    fn advance(&mut self, width: usize) {
        let end = self.cursor.column + width;
        let limit = self.width;
        if end >= limit {
            self.row().end_line();
        }
        if end >= limit && self.has_edge {
            self.cursor.column = limit - 1;
            self.cursor.is_past_edge = true;
        } else {
            self.cursor.column = end;
            let row = self.row();
            row.cut = row.cut.max(end.saturating_sub(limit) as u64);
        }
    }

    fn mark(&mut self, mark: char) {
        let at =
            if self.cursor.is_past_edge { self.cursor.column } else { self.cursor.column.saturating_sub(1) };
        if at < self.width {
            self.row().mark(at, mark);
        }
    }

    fn wrap_if_past_edge(&mut self) {
        if self.cursor.is_past_edge && self.wraps {
            self.wrap();
        }
    }

    fn wrap(&mut self) {
        let width = self.width;
        self.row().wrap(width);
        self.line_feed();
        self.carriage_return();
    }

    /// If so many columns that are about to be written begin with a wide character, then the reason goes for which a
    /// column may have been left over above.
    fn fill_spare_above(&mut self, width: usize) {
        let Cursor { row, column, .. } = self.cursor;
        if row > 0 && (column..column + width).take_while(|&at| at < 2).any(|at| self.rows[row].is_wide(at)) {
            self.rows[row - 1].fill_spare();
        }
    }

    fn mapped(&self, character: char) -> char {
        const LINES: [char; 32] = [
            ' ', '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─',
            '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
        ];
        match character {
            '_'..='~' if self.cursor.draws_lines[self.charset] => LINES[character as usize - '_' as usize],
            _ => character,
        }
    }

    // Moving.

    pub(super) fn carriage_return(&mut self) {
        self.cursor.column = 0;
        self.cursor.is_past_edge = false;
    }

    pub(super) fn backspace(&mut self) {
        if self.cursor.column > 0 {
            self.cursor.column -= 1;
            self.cursor.is_past_edge = false;
        }
    }

    pub(super) fn tab(&mut self) {
        if self.cursor.is_past_edge {
            if self.wraps {
                self.wrap();
            }
            return;
        }
        let at = self.cursor.column;
        if at < self.width {
            self.row().tab(at);
        }
        let stop = (at / TAB + 1) * TAB;
        self.cursor.column = if self.has_edge { stop.min(self.width - 1) } else { stop };
    }

    pub(super) fn tabs(&mut self, count: usize) {
        let stop = (self.cursor.column / TAB).saturating_add(count) * TAB;
        self.cursor.column = stop.min(self.width - 1).max(self.cursor.column);
    }

    pub(super) fn tabs_back(&mut self, count: usize) {
        self.cursor.column = self.cursor.column.div_ceil(TAB).saturating_sub(count) * TAB;
    }

    pub(super) fn line_feed(&mut self) {
        if self.cursor.row + 1 == self.region.end {
            self.scroll_up(self.region.start, 1, true);
        } else if self.cursor.row + 1 < self.rows.len() {
            self.cursor.row += 1;
        }
    }

    pub(super) fn reverse_line_feed(&mut self) {
        if self.cursor.row == self.region.start {
            self.scroll_down(self.region.start, 1);
        } else {
            self.cursor.row = self.cursor.row.saturating_sub(1);
        }
    }

    pub(super) fn move_to(&mut self, row: usize, column: usize) {
        self.cursor.row = row.min(self.rows.len() - 1);
        self.move_to_column(column);
    }

    pub(super) fn move_to_column(&mut self, column: usize) {
        self.cursor.column = column.min(self.width - 1);
        self.cursor.is_past_edge = false;
    }

    pub(super) fn move_forward(&mut self, count: usize) {
        // A cursor that is right of all that is kept stays there.
        let column = (self.cursor.column + count).min(self.width - 1);
        self.cursor.column = column.max(self.cursor.column);
        self.cursor.is_past_edge = false;
    }

    // Erasing, inserting, deleting.

    /// Erases columns of the cursor's row.
    pub(super) fn erase(&mut self, range: Range<usize>) {
        let limit = self.width;
        let row = self.row();
        if range.end >= limit {
            row.end_line();
            row.cut = row.cut.min(range.start.saturating_sub(limit) as u64);
        }
        row.erase(range);
    }

    pub(super) fn erase_rows(&mut self, range: Range<usize>) {
        self.rows.range_mut(range).for_each(Row::clear);
    }

    pub(super) fn height(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn insert_columns(&mut self, count: usize) {
        let (at, limit) = (self.cursor.column, self.width);
        if at < limit {
            self.row().insert(at, count, limit);
        }
    }

    pub(super) fn delete_columns(&mut self, count: usize) {
        let at = self.cursor.column;
        if at < self.width {
            self.row().delete(at, count);
        }
    }

    pub(super) fn insert_rows(&mut self, count: usize) {
        if self.region.contains(&self.cursor.row) {
            self.scroll_down(self.cursor.row, count);
        }
    }

    pub(super) fn delete_rows(&mut self, count: usize) {
        if self.region.contains(&self.cursor.row) {
            self.scroll_up(self.cursor.row, count, false);
        }
    }

    // Scrolling.

    /// Sets which rows scroll, and goes to the first column of the page; `bottom` is not among them.
    pub(super) fn set_region(&mut self, top: usize, bottom: usize) {
        let bottom = bottom.min(self.rows.len());
        if top + 1 < bottom {
            self.region = top..bottom;
            self.move_to(0, 0);
        }
    }

    pub(super) fn scroll_region_up(&mut self, count: usize) {
        self.scroll_up(self.region.start, count, true);
    }

    pub(super) fn scroll_region_down(&mut self, count: usize) {
        self.scroll_down(self.region.start, count);
    }

    /// Moves rows up from the end of the region to `top`; those at the top of the page leave it, if they are kept.
    fn scroll_up(&mut self, top: usize, count: usize, keeps: bool) {
        let count = count.min(self.region.end - top);
        if top == 0 && keeps {
            for row in self.rows.range(..count) {
                self.lines.push(row);
            }
            if self.lines.ready.len() > MAX_ROWS {
                self.keep_alternate();
            }
        }
        if top == 0 && self.region.end == self.rows.len() {
            self.rows.rotate_left(count);
        } else {
            self.rows.make_contiguous()[top..self.region.end].rotate_left(count);
        }
        self.erase_rows(self.region.end - count..self.region.end);
    }

    fn scroll_down(&mut self, top: usize, count: usize) {
        let count = count.min(self.region.end - top);
        self.rows.make_contiguous()[top..self.region.end].rotate_right(count);
        self.erase_rows(top..top + count);
    }
}

/// Makes lines of rows, and runs of lines.
#[derive(Debug, Clone, Default)]
struct Lines {
    /// The line whose rows are leaving.
    open: String,
    columns: usize,
    cut_columns: u64,
    is_open: bool,
    /// The line that left last; another like it may follow.
    last: Option<RenderedLine>,
    ready: Vec<RenderedLine>,
}

impl Lines {
    fn push(&mut self, row: &Row) {
        // A screen can be scrolled away again and again for a few bytes each time; blank rows must cost next to nothing.
        if let Some(last) = &mut self.last
            && last.is_blank()
            && last.repeated < u32::MAX
            && !self.is_open
            && row.is_blank()
        {
            last.repeated += 1;
            return;
        }
        self.cut_columns += row.append_to(&mut self.open, &mut self.columns);
        self.is_open = true;
        if !row.goes_on() {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let length = self.open.trim_end_matches([' ', '\t']).len();
        self.open.truncate(length);
        self.columns = 0;
        let cut_columns = std::mem::take(&mut self.cut_columns);
        match &mut self.last {
            Some(last)
                if last.text == self.open && last.cut_columns == cut_columns && last.repeated < u32::MAX =>
            {
                last.repeated += 1;
            }
            _ => {
                let line = RenderedLine { text: self.open.as_str().into(), repeated: 1, cut_columns };
                self.ready.extend(self.last.replace(line));
            }
        }
        self.open.clear();
    }

    fn close(&mut self) {
        self.end_line();
        self.ready.extend(self.last.take().filter(|line| !line.is_blank()));
    }
}
