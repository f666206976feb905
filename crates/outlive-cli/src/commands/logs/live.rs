//! The line of a terminal that still changes: written on where it grows, drawn anew where it was overwritten.

use unicode_width::UnicodeWidthStr;

/// Ends colours and styles.
const USUAL: &str = "\x1b[0m";

/// What stands on the terminal of a line that is not ended.
pub(super) struct LiveLine {
    columns: usize,
    shown: String,
}

impl LiveLine {
    pub(super) fn new(columns: usize) -> Self {
        Self { columns: columns.max(1), shown: String::new() }
    }

    /// Returns what to write so that the terminal shows the lines that were ended since, and the unfinished one.
    pub(super) fn update(&mut self, ended: &str, unfinished: &str) -> String {
        let unfinished = unfinished.trim_end_matches('\r');
        let text = format!("{ended}{unfinished}");
        // A coloured line ends in the usual look; where it grows, its last look goes on.
        let (shown, look) = match self.shown.strip_suffix(USUAL) {
            Some(shown) => {
                (shown, shown.rfind('\x1b').and_then(|at| shown[at..].split_inclusive('m').next()))
            }
            None => (self.shown.as_str(), None),
        };
        let written = match text.strip_prefix(shown) {
            Some(USUAL) => String::new(),
            Some(more) => format!("{}{more}", look.unwrap_or_default()),
            None => self.erased() + &text,
        };
        unfinished.clone_into(&mut self.shown);
        written
    }

    /// Goes back to the beginning of the line, over all rows that it takes, and erases them.
    fn erased(&self) -> String {
        let rows = without_sequences(&self.shown).width().saturating_sub(1) / self.columns;
        let up = if rows > 0 { format!("\x1b[{rows}A") } else { String::new() };
        format!("\r{up}\x1b[J")
    }
}

/// Leaves out the sequences for colours: nothing else is in a line.
fn without_sequences(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |left, part| left + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_grows_is_written_on_and_one_that_changes_is_drawn_anew() {
        let mut line = LiveLine::new(10);
        assert_eq!(line.update("", "10%"), "10%");
        assert_eq!(line.update("", "10% done"), " done");
        assert_eq!(line.update("", "20%\r"), "\r\x1b[J20%");
        assert_eq!(line.update("20%\nnext\n", ""), "\nnext\n");
        assert_eq!(line.update("", "\x1b[0;31mover ten columns\x1b[0m"), "\x1b[0;31mover ten columns\x1b[0m");
        assert_eq!(line.update("", "\x1b[0;31mover ten columns now\x1b[0m"), "\x1b[0;31m now\x1b[0m");
        assert_eq!(line.update("", "\x1b[0;31mover ten columns now\x1b[0m"), "");
        assert_eq!(line.update("", "short"), "\r\x1b[1A\x1b[Jshort", "it took two rows");
    }
}
