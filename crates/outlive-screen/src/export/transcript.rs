//! All rows that a program left behind: those that scrolled away, and the screen.

use alacritty_terminal::grid::{Dimensions as _, Grid};
use alacritty_terminal::index::Line;
use alacritty_terminal::term::cell::{Cell, Flags};

use super::Event;
use crate::grids::Grids;
use crate::screen::Screen;
use crate::view::{Run, runs};
use outlive_core::terminal::size::TerminalSize;

/// The most rows that are kept of what scrolled away: 30 MiB for 120 columns.
const MAX_HISTORY: usize = 10_000;

/// The rows, as far as output was pushed.
pub struct Transcript(Screen);

/// A row, and whether the next one goes on with its line.
type Row = (Vec<Run>, bool);

impl std::fmt::Debug for Transcript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Transcript").field(&self.0).finish()
    }
}

impl Transcript {
    /// Begins with a blank screen.
    pub fn new(size: TerminalSize) -> Self {
        Self(Screen::with_history(size, MAX_HISTORY))
    }

    /// Takes the next event; only output and sizes count.
    pub fn push(&mut self, event: &Event<'_>) {
        match *event {
            Event::Output(bytes) => self.0.feed(bytes),
            Event::Resize(size) => self.0.resize(size),
            Event::Input(_) | Event::Marker(_) | Event::Exit(_) => {}
        }
    }

    /// Returns the text: lines without blanks at their ends, those that a row was too short for in one piece.
    pub fn text(mut self) -> String {
        let mut text = String::new();
        for (runs, goes_on) in self.rows() {
            runs.iter().for_each(|run| text.push_str(&run.text));
            if !goes_on {
                text.truncate(text.trim_end_matches(' ').len());
                text.push('\n');
            }
        }
        text
    }

    /// Tells whether as many rows have scrolled away as are kept, or more.
    pub fn is_full(&self) -> bool {
        self.0.emulator.term.history_size() >= MAX_HISTORY
    }

    /// The title of the window.
    pub(super) fn title(&self) -> Option<&str> {
        self.0.title()
    }

    /// Returns the primary screen with what scrolled away, and the alternate screen if it is active; none is blank at its end.
    pub(super) fn rows(&mut self) -> Vec<Row> {
        let grids = Grids::take(&mut self.0.emulator.term);
        let mut all = rows(&grids.primary);
        if grids.is_alternate {
            all.extend(rows(&grids.alternate));
        }
        grids.put(&mut self.0.emulator.term);
        all
    }
}

fn rows(grid: &Grid<Cell>) -> Vec<Row> {
    let row = |line: i32| {
        let goes_on = grid[Line(line)][grid.last_column()].flags.contains(Flags::WRAPLINE);
        (runs(grid, Line(line)), goes_on)
    };
    let mut rows: Vec<Row> = (grid.topmost_line().0..=grid.bottommost_line().0).map(row).collect();
    let end = rows.iter().rposition(|(runs, _)| !runs.is_empty()).map_or(0, |last| last + 1);
    rows.truncate(end);
    if let Some((_, goes_on)) = rows.last_mut() {
        *goes_on = false;
    }
    rows
}
