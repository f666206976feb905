//! Another size for a grid: lines are wrapped anew, and the cursor stays where it was in its line.
//!
//! The emulator has this as well, but made for a window with history: it pushes rows off the top where there is room below, loses
//! the cursor among rows that get longer, and can show remains of rows that a smaller size had hidden.

use alacritty_terminal::grid::{Cursor, Dimensions as _, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};

use crate::screen::Size;

/// Returns the grid in another size. Where not all rows fit, those below the cursor go first.
pub(crate) fn resized(grid: &Grid<Cell>, size: Size, rewraps: bool) -> Grid<Cell> {
    let (columns, lines) = (usize::from(size.columns), usize::from(size.rows));
    let mut rows = Rows { columns, rows: Vec::new(), cursors: [Place::default(); 2] };
    let mut start = 0;
    while start < grid.screen_lines() {
        let end = if rewraps { end_of_line(grid, start) } else { start + 1 };
        rows.push(Joined::new(grid, start, end), rewraps);
        start = end;
    }
    let dropped = (rows.cursors[0].row + 1).saturating_sub(lines);
    let moved = |cursor: &Cursor<Cell>, place: Place| {
        let mut cursor = cursor.clone();
        cursor.point.line = Line(place.row.saturating_sub(dropped).min(lines - 1) as i32);
        cursor.point.column = Column(place.column);
        cursor.input_needs_wrap = place.needs_wrap;
        cursor
    };
    let mut new = Grid::new(lines, columns, 0);
    new.cursor = moved(&grid.cursor, rows.cursors[0]);
    new.saved_cursor = moved(&grid.saved_cursor, rows.cursors[1]);
    for (line, row) in rows.rows.into_iter().skip(dropped).take(lines).enumerate() {
        for (column, cell) in row.into_iter().enumerate() {
            new[Line(line as i32)][Column(column)] = cell;
        }
    }
    new
}

/// Returns the row after the last of the line that begins in `start`.
fn end_of_line(grid: &Grid<Cell>, start: usize) -> usize {
    let goes_on = |row: &usize| grid[Line(*row as i32)][grid.last_column()].flags.contains(Flags::WRAPLINE);
    start + 1 + (start..grid.screen_lines() - 1).take_while(goes_on).count()
}

fn is_blank(cell: &Cell) -> bool {
    let is_alone = cell.zerowidth().is_none_or(<[char]>::is_empty);
    cell.c == ' ' && is_alone && !cell.flags.contains(Flags::WIDE_CHAR_SPACER)
}

/// A line in one piece.
struct Joined {
    cells: Vec<Cell>,
    /// Without the blanks at its end.
    length: usize,
    /// Where the cursors are, if they are in it, and whether a wrap is pending: then that is after the character.
    cursors: [Option<(usize, bool)>; 2],
}

impl Joined {
    fn new(grid: &Grid<Cell>, start: usize, end: usize) -> Self {
        let (mut cells, mut cursors) = (Vec::new(), [None; 2]);
        for (line, column) in
            (start..end).flat_map(|row| (0..grid.columns()).map(move |column| (row as i32, column)))
        {
            for (place, cursor) in cursors.iter_mut().zip([&grid.cursor, &grid.saved_cursor]) {
                if (cursor.point.line, cursor.point.column) == (Line(line), Column(column)) {
                    let needs_wrap = cursor.input_needs_wrap;
                    *place = Some((cells.len() + usize::from(needs_wrap), needs_wrap));
                }
            }
            let mut cell = grid[Line(line)][Column(column)].clone();
            // It only kept a wide character from being cut.
            let is_filler = cell.flags.contains(Flags::LEADING_WIDE_CHAR_SPACER) && line + 1 < end as i32;
            if !is_filler {
                cell.flags.remove(Flags::WRAPLINE | Flags::LEADING_WIDE_CHAR_SPACER);
                cells.push(cell);
            }
        }
        let length = cells.iter().rposition(|cell| !is_blank(cell)).map_or(0, |last| last + 1);
        Self { cells, length, cursors }
    }
}

/// A place among all rows.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    row: usize,
    column: usize,
    needs_wrap: bool,
}

/// The rows of the new width, before it is known which of them are kept.
struct Rows {
    columns: usize,
    rows: Vec<Vec<Cell>>,
    cursors: [Place; 2],
}

impl Rows {
    fn push(&mut self, line: Joined, rewraps: bool) {
        let Joined { mut cells, length, cursors } = line;
        // What fits keeps the colours behind its end.
        let fits = length <= self.columns || !rewraps;
        cells.truncate(if fits { self.columns } else { length });
        if fits && cells.last().is_some_and(|cell| cell.flags.contains(Flags::WIDE_CHAR)) {
            cells.pop();
        }
        let kept = if fits { cells.len() } else { length };
        let mut row = Vec::with_capacity(self.columns);
        for (offset, cell) in cells.into_iter().enumerate() {
            let width = if cell.flags.contains(Flags::WIDE_CHAR) { 2 } else { 1 };
            if row.len() + width > self.columns {
                self.wrap(&mut row);
            }
            self.place(cursors, &row, |cursor| (cursor == offset).then_some(row.len()));
            row.push(cell);
        }
        self.place(cursors, &row, |cursor| cursor.checked_sub(kept).map(|behind| row.len() + behind));
        self.rows.push(row);
    }

    /// Ends a row whose line goes on.
    fn wrap(&mut self, row: &mut Vec<Cell>) {
        if row.len() < self.columns {
            row.push(Cell { flags: Flags::LEADING_WIDE_CHAR_SPACER, ..Cell::default() });
        }
        if let Some(last) = row.last_mut() {
            last.flags.insert(Flags::WRAPLINE);
        }
        self.rows.push(std::mem::take(row));
    }

    /// Places the cursors that have a column in the row that is being made.
    fn place(
        &mut self,
        cursors: [Option<(usize, bool)>; 2],
        row: &[Cell],
        column: impl Fn(usize) -> Option<usize>,
    ) {
        for (place, cursor) in self.cursors.iter_mut().zip(cursors) {
            let Some((cursor, needs_wrap)) = cursor else { continue };
            let Some(column) = column(cursor) else { continue };
            // After a character in the last column comes the next row.
            let is_full = needs_wrap || row.last().is_some_and(|cell| !is_blank(cell));
            let needs_wrap = column == self.columns && is_full;
            *place = Place { row: self.rows.len(), column: column.min(self.columns - 1), needs_wrap };
        }
    }
}
