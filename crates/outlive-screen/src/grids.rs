//! Both grids of the emulator, which shows only the active one.

use std::mem;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Dimensions as _, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Cell;
use alacritty_terminal::term::{Term, TermMode};

use crate::reflow::resized;
use crate::screen::Size;

/// No screen is so narrow: the emulator resizes its placeholders, whatever the new size.
const PLACEHOLDER_COLUMNS: usize = 1;

/// Both grids. While the primary screen is active, the alternate one is blank: it is cleared when it is entered.
pub(crate) struct Grids {
    pub(crate) primary: Grid<Cell>,
    pub(crate) alternate: Grid<Cell>,
    pub(crate) is_alternate: bool,
}

impl Grids {
    /// Takes both out of the emulator, which cannot be used until they are [put back](Self::put).
    pub(crate) fn take(term: &mut Term<VoidListener>) -> Self {
        let placeholder = || Grid::new(1, PLACEHOLDER_COLUMNS, 0);
        let is_alternate = term.mode().contains(TermMode::ALT_SCREEN);
        let active = mem::replace(term.grid_mut(), placeholder());
        term.swap_alt();
        let other = mem::replace(term.grid_mut(), placeholder());
        if is_alternate {
            Self { primary: other, alternate: active, is_alternate }
        } else {
            term.swap_alt();
            Self { primary: active, alternate: other, is_alternate }
        }
    }

    /// Gives both to an emulator whose primary screen is active.
    ///
    /// The emulator saves the cursor of the primary screen when it leaves it, so that what was saved before is lost.
    pub(crate) fn put(self, term: &mut Term<VoidListener>) {
        if self.is_alternate {
            *term.grid_mut() = self.primary;
            term.swap_alt();
            *term.grid_mut() = self.alternate;
        } else {
            term.swap_alt();
            *term.grid_mut() = self.alternate;
            term.swap_alt();
            *term.grid_mut() = self.primary;
        }
    }

    /// Changes the size of both; lines of the primary screen are wrapped anew, programs draw the alternate one themselves.
    pub(crate) fn resize(&mut self, size: Size) {
        self.primary = resized(&self.primary, size, true);
        self.alternate = resized(&self.alternate, size, false);
        if self.is_alternate {
            // What `put` does to it.
            self.primary.saved_cursor = self.primary.cursor.clone();
        }
    }
}

/// The places of all cells on the screen, row by row.
pub(crate) fn cells(grid: &Grid<Cell>) -> impl Iterator<Item = (Line, Column)> + use<> {
    let columns = grid.columns();
    let lines = i32::try_from(grid.screen_lines()).unwrap_or(i32::MAX);
    (0..lines).flat_map(move |line| (0..columns).map(move |column| (Line(line), Column(column))))
}
