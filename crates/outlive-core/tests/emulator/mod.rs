//! A terminal emulator to compare with: alacritty's, with a scrollback that never ends.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::{Processor, StdSyncHandler};
use outlive_core::rendered::Rendered;

struct Size {
    columns: usize,
    rows: usize,
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.rows
    }

    fn screen_lines(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.columns
    }
}

/// Returns the lines on the scrollback and the screen, without blanks at their ends and without blank lines at the end.
///
/// A newline is given to the emulator as the driver of a terminal would give it. A row that is full goes on in the next
/// one unless it ends in two blanks.
pub(crate) fn emulated(bytes: &[u8], columns: usize, rows: usize) -> Vec<String> {
    let config = Config { scrolling_history: 1_000_000, ..Config::default() };
    let mut term = Term::new(config, &Size { columns, rows }, VoidListener);
    let mut processor = Processor::<StdSyncHandler>::new();
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        processor.advance(&mut term, line);
        if line.ends_with(b"\n") {
            processor.advance(&mut term, b"\r");
        }
    }
    processor.stop_sync(&mut term);
    let grid = term.grid();
    let (mut lines, mut line) = (Vec::new(), String::new());
    for row in grid.topmost_line().0..=grid.bottommost_line().0 {
        let row = &grid[Line(row)];
        for column in 0..columns {
            let cell = &row[Column(column)];
            if !cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
                line.push(if cell.c == '\t' { ' ' } else { cell.c });
                line.extend(cell.zerowidth().into_iter().flatten());
            }
        }
        if !row[Column(columns - 1)].flags.contains(Flags::WRAPLINE) || line.ends_with("  ") {
            lines.push(line.trim_end_matches(' ').to_owned());
            line.clear();
        }
    }
    lines.push(line.trim_end_matches(' ').to_owned());
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines.truncate(end);
    lines
}

/// Returns the lines that [`Rendered`] leaves, each as often as it is there and with tabs as blanks.
pub(crate) fn rendered(bytes: &[u8], mut rendered: Rendered) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |line: outlive_core::rendered::RenderedLine| {
        assert_eq!(line.cut_columns, 0);
        lines.extend(vec![without_tabs(&line.text); line.repeated as usize]);
    };
    rendered.push(bytes, &mut add);
    rendered.finish(add);
    lines
}

fn without_tabs(text: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for character in text.chars() {
        if character == '\t' {
            let stop = (column / 8 + 1) * 8;
            out.extend(std::iter::repeat_n(' ', stop - column));
            column = stop;
        } else {
            out.push(character);
            column += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        }
    }
    out
}
