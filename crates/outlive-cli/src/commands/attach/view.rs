//! Drawing a job's screen on a person's own terminal.
//!
//! Drawn is what the emulator made of the output, row by row, and only rows that changed: nothing that the job printed reaches the
//! terminal as it is.

use outlive::{CursorObject, ModesObject, Run, Screen, SeenRows, styled};
use unicode_width::UnicodeWidthChar;

/// Takes the whole window, and keeps what was on it and the title for [`LEAVE`].
pub(crate) const ENTER: &str = "\x1b[22;0t\x1b[?1049h\x1b[0m\x1b[2J\x1b[H";

/// Gives the window back as it was: keyboard, mouse, focus, paste, cursor, attributes, then the screen and the title.
pub(crate) const LEAVE: &str = "\x1b[=0u\x1b[?1l\x1b>\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2026l\x1b[0 q\x1b[0m\x1b[?25h\x1b[?1049l\x1b[23;0t";

/// What is drawn on a person's terminal.
#[derive(Debug, Default)]
pub(crate) struct View {
    columns: usize,
    rows: usize,
    /// Each row as it was drawn last.
    drawn: Vec<String>,
    /// The rows of the screen that this was made of, and the first row and column that are in the window.
    seen: SeenRows,
    corner: (usize, usize),
    /// The cursor as it was shown last.
    cursor: Option<CursorObject>,
    modes: Option<ModesObject>,
    /// What the program asked its terminal for is left alone: nothing is typed into it.
    is_recording: bool,
    title: Option<String>,
    /// Shown in place of the last row.
    notice: Option<String>,
}

impl View {
    /// Makes a view for a terminal of this size.
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        Self { columns: columns.into(), rows: rows.into(), ..Self::default() }
    }

    /// Makes a view of something that was recorded.
    pub(crate) fn of_recording(columns: u16, rows: u16) -> Self {
        Self { is_recording: true, ..Self::new(columns, rows) }
    }

    /// The terminal has this size now; all is drawn again.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        (self.columns, self.rows) = (columns.into(), rows.into());
        self.drawn.clear();
    }

    /// Shows a line at the bottom, or takes it away.
    pub(crate) fn set_notice(&mut self, notice: Option<String>) {
        if self.notice != notice {
            self.notice = notice;
            self.seen = SeenRows::default();
        }
    }

    /// Returns what brings the terminal from what is on it to this screen; `None` if that is on it.
    pub(crate) fn draw(&mut self, screen: &Screen) -> Option<String> {
        let (cursor, size) = (screen.cursor(), screen.size());
        let (top, left) = (
            pan(usize::from(cursor.row), usize::from(size.rows()), self.rows),
            pan(usize::from(cursor.column), usize::from(size.columns()), self.columns),
        );
        let mut text = String::new();
        if self.drawn.len() != self.rows {
            text.push_str("\x1b[0m\x1b[2J");
            (self.drawn, self.seen) = (vec![String::new(); self.rows], SeenRows::default());
        }
        if std::mem::replace(&mut self.corner, (top, left)) != (top, left) {
            self.seen = SeenRows::default();
        }
        // Also those that the window has and the screen has not.
        let beyond = usize::from(size.rows()).saturating_sub(top)..self.rows;
        let changed = screen.unseen_rows(&mut self.seen).into_iter().filter_map(|row| row.checked_sub(top));
        for place in changed.filter(|place| *place < self.rows).chain(beyond) {
            let row = match &self.notice {
                Some(notice) if place + 1 == self.rows => {
                    format!("\x1b[7m{}\x1b[0m", clipped(notice, 0, self.columns))
                }
                _ => styled(&clip(&screen.row(top + place), left, self.columns)),
            };
            if self.drawn[place] != row {
                text.push_str(&format!("\x1b[{};1H{row}\x1b[K", place + 1));
                self.drawn[place] = row;
            }
        }
        self.push_modes(screen.modes(), &mut text);
        if screen.title() != self.title.as_deref() {
            let title = screen.title().unwrap_or_default();
            let title: String = title.chars().filter(|character| !character.is_control()).collect();
            text.push_str(&format!("\x1b]2;{title}\x1b\\"));
            self.title = screen.title().map(str::to_owned);
        }
        if text.is_empty() && self.cursor == Some(cursor) {
            return None;
        }
        self.cursor = Some(cursor);
        let (row, column) = (usize::from(cursor.row) - top, usize::from(cursor.column) - left);
        text.push_str(&format!("\x1b[{row};{column}H\x1b[{} q", cursor.style_number()));
        if cursor.visible && row <= self.rows && column <= self.columns {
            text.push_str("\x1b[?25h");
        }
        Some(format!("\x1b[?2026h\x1b[?25l{text}\x1b[?2026l"))
    }

    /// Asks the terminal for what the program asked its own for.
    fn push_modes(&mut self, modes: ModesObject, text: &mut String) {
        if self.is_recording || self.modes == Some(modes) {
            return;
        }
        let mut set =
            |mode: u16, is_on: bool| text.push_str(&format!("\x1b[?{mode}{}", if is_on { 'h' } else { 'l' }));
        set(1, modes.application_cursor);
        set(2004, modes.bracketed_paste);
        set(1004, modes.focus);
        for mode in [9, 1000, 1002, 1003] {
            set(mode, modes.mouse == Some(mode));
        }
        for mode in [1005, 1006, 1015, 1016] {
            set(mode, modes.mouse_encoding == Some(mode));
        }
        text.push_str(if modes.application_keypad { "\x1b=" } else { "\x1b>" });
        if modes.keyboard != self.modes.map_or(0, |modes| modes.keyboard) {
            text.push_str(&format!("\x1b[={}u", modes.keyboard));
        }
        self.modes = Some(modes);
    }
}

/// Returns how far to move a window over something larger, so that the cursor, which counts from 1, is in it.
fn pan(cursor: usize, size: usize, window: usize) -> usize {
    if size <= window { 0 } else { cursor.saturating_sub(window).min(size - window) }
}

/// Cuts out the columns of a row that are in the window.
fn clip(runs: &[Run], left: usize, columns: usize) -> Vec<Run> {
    let mut place = 0;
    let cut = |run: &Run| {
        let width: usize = run.text.chars().map(|character| character.width().unwrap_or(0)).sum();
        let (start, end) = (place, place + width);
        place = end;
        if start >= left && end <= left + columns {
            return Some(run.clone());
        }
        let text =
            clipped(&run.text, left.saturating_sub(start), (left + columns).saturating_sub(start.max(left)));
        (!text.is_empty()).then(|| Run { text, style: run.style.clone() })
    };
    runs.iter().filter_map(cut).collect()
}

/// Cuts out the columns of a text from `left` on; half of a wide character is a blank.
fn clipped(text: &str, left: usize, columns: usize) -> String {
    let (mut place, mut kept) = (0, String::new());
    for character in text.chars() {
        let width = character.width().unwrap_or(0);
        let (start, end) = (place, place + width);
        place = end;
        if start >= left && end <= left + columns {
            if width > 0 || !kept.is_empty() {
                kept.push(character);
            }
        } else if end > left && start < left + columns {
            kept.push(' ');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_moved_to_where_the_cursor_is() {
        assert_eq!(pan(1, 24, 40), 0);
        assert_eq!((pan(1, 40, 24), pan(24, 40, 24), pan(25, 40, 24), pan(40, 40, 24)), (0, 0, 1, 16));
    }

    #[test]
    fn a_wide_character_at_the_edge_is_a_blank() {
        assert_eq!(clipped("abc", 0, 2), "ab");
        assert_eq!(clipped("a世b", 0, 2), "a ");
        assert_eq!(clipped("世ab", 1, 2), " a");
        assert_eq!(clipped("abc", 5, 2), "");
    }
}
