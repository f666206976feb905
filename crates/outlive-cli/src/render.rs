//! Output for people: aligned, coloured on a terminal only.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

pub(crate) use outlive::one_line;

use outlive::duration::{format_duration, format_size};
use outlive::{JobObject, Port, Status, Survival, Usage};
use outlive_sys::poll;
use serde::Serialize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::failure::Failure;

/// Prints text to standard output. Where its reader has gone away, the program ends quietly.
pub(crate) fn print(text: &str) {
    print_bytes(text.as_bytes());
}

pub(crate) fn print_bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        give_up(&error);
    }
}

/// Ends the program because standard output takes no more: quietly where its reader has gone away, with a word where it
/// could not be written.
pub(crate) fn give_up(error: &io::Error) -> ! {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    note(&format!("outlive: standard output: {}", crate::failure::chain(error)));
    std::process::exit(i32::from(crate::failure::FAILED))
}

/// Lets a program that follows something end once nothing reads what it prints, though there is nothing to print: `logs -f | head -1`.
pub(crate) fn end_with_reader() {
    std::thread::spawn(|| {
        let stdout = io::stdout();
        loop {
            match poll::unread(stdout.as_fd(), None) {
                Ok(true) => give_up(&io::ErrorKind::BrokenPipe.into()),
                // A signal came.
                Ok(false) => {}
                // The next write will tell.
                Err(_) => return,
            }
        }
    });
}

/// Prints a note to standard error.
pub(crate) fn note(text: &str) {
    let mut stderr = io::stderr().lock();
    // With standard error closed the note is lost.
    writeln!(stderr, "{}", for_stderr(&crate::served::addressed(text), "  ")).ok();
}

/// Breaks a line between words where standard error is a terminal that it does not fit; `indent` begins the next lines.
pub(crate) fn for_stderr(text: &str, indent: &str) -> String {
    let stderr = io::stderr();
    let columns = if stderr.is_terminal() { outlive_sys::terminal::columns(&stderr) } else { None };
    columns.map_or_else(|| text.to_owned(), |columns| wrapped(text, columns, indent))
}

/// Breaks a line between words where standard output is a terminal that it does not fit; `indent` begins the next lines.
pub(crate) fn for_stdout(text: &str, indent: &str) -> String {
    width().map_or_else(|| text.to_owned(), |columns| wrapped(text, columns, indent))
}

/// Breaks a line between words; `indent` begins the next lines. A word that is longer than a line is left whole.
pub(crate) fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for (number, word) in text.split(' ').enumerate() {
        let last = lines.last_mut().expect("there is a line from the beginning");
        if number > 0 && last.width() + 1 + word.width() > width && last.trim() != "" {
            lines.push(format!("{indent}{word}"));
        } else {
            last.push_str(if number > 0 { " " } else { "" });
            last.push_str(word);
        }
    }
    lines.join("\n")
}

/// Prints a value as JSON in one line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<ExitCode, Failure> {
    let json = serde_json::to_string(value).map_err(|error| Failure::other("json", &error))?;
    print(&format!("{json}\n"));
    Ok(ExitCode::SUCCESS)
}

/// Prints a value with `--json`, else its text for people.
pub(crate) fn answer(
    is_json: bool,
    value: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<ExitCode, Failure> {
    if is_json {
        return print_json(value);
    }
    print(&text());
    Ok(ExitCode::SUCCESS)
}

/// Tells whether standard output is to be coloured.
pub(crate) fn is_coloured() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns the width to keep to; none where nothing is to be cut.
pub(crate) fn width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.or_else(|| outlive_sys::terminal::columns(&stdout)).or(Some(80))
}

/// Colours a text as the status calls for.
pub(crate) fn colour(status: Status, text: &str, is_coloured: bool) -> Cow<'_, str> {
    let code = match status {
        Status::Queued | Status::Starting | Status::Running => "36",
        Status::Completed => "32",
        Status::Failed | Status::Lost => "31",
        Status::Killed | Status::TimedOut => "33",
    };
    if is_coloured { format!("\x1b[{code}m{text}\x1b[0m").into() } else { text.into() }
}

/// Tells in one line how a job ended: `tests-3f9c failed: exited with 1 after 42s`.
pub(crate) fn ending(job: &JobObject) -> String {
    let status = job.status.word().replace('_', " ");
    one_line(&format!("{} {status}{}", job.job, job.how_it_ended()))
}

/// Writes processor time, memory and a number of processes for people; `-` is not known.
pub(crate) fn usage_cells(usage: &Usage) -> [String; 3] {
    let unknown = || "-".to_owned();
    [
        usage.cpu_ms.map_or_else(unknown, format_duration),
        usage.memory_bytes.map_or_else(unknown, format_size),
        usage.processes.map_or_else(unknown, |count| count.to_string()),
    ]
}

/// Writes numbers of ports in one line: each once.
pub(crate) fn port_list(ports: &[Port]) -> String {
    let mut numbers: Vec<u16> = ports.iter().map(|port| port.port).collect();
    numbers.dedup();
    if numbers.is_empty() {
        return "-".to_owned();
    }
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Tells what a job survives here, a line for each danger.
pub(crate) fn survival(survival: &Survival) -> [String; 4] {
    let Survival { starter, logout, surroundings, restart, .. } = survival;
    [
        format!("its starter: {starter}"),
        format!("logout: {logout}"),
        format!("the service or container: {surroundings}"),
        format!("a restart: {restart}"),
    ]
}

/// Writes a number of things.
pub(crate) fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// In a terminal that is narrower than this beside the names, values are not broken into smaller parts.
const LEAST_ROOM: usize = 20;

/// All that is known of one thing, a row for each value. A name stands before the first of its values only.
#[derive(Default)]
pub(crate) struct Rows(Vec<Vec<String>>);

impl Rows {
    pub(crate) fn add(&mut self, name: &str, values: impl IntoIterator<Item = impl AsRef<str>>) {
        for (number, value) in values.into_iter().enumerate() {
            let name = if number == 0 { name } else { "" };
            self.0.push(vec![name.to_owned(), one_line(value.as_ref())]);
        }
    }

    /// Aligns the values and paints each cell by its column; nothing is cut. Values that do not fit the terminal go on below, after a
    /// whole word.
    pub(crate) fn text(&self, paint: impl for<'a> Fn(usize, &'a str) -> Cow<'a, str>) -> String {
        table(&self.fitted(width()), None, |_, column, cell| paint(column, cell))
    }

    fn fitted(&self, width: Option<usize>) -> Vec<Vec<String>> {
        let Some(width) = width else { return self.0.clone() };
        let names = self.0.iter().filter_map(|row| row.first()).map(|name| name.width()).max().unwrap_or(0);
        let room = width.saturating_sub(names + 2).max(LEAST_ROOM);
        let mut rows = Vec::new();
        for row in &self.0 {
            let [name, value] = &row[..] else { continue };
            for (number, line) in wrapped(value, room, "").split('\n').enumerate() {
                let name = if number == 0 { name.clone() } else { String::new() };
                rows.push(vec![name, line.to_owned()]);
            }
        }
        rows
    }
}

/// Returns how many columns a text takes.
pub(crate) fn columns(text: &str) -> usize {
    // Most text is plain.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) { text.len() } else { text.width() }
}

/// Cuts a text to a width, marking the cut.
pub(crate) fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return text.into();
    }
    let mut used = 1;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).chain(['…']).collect::<String>().into()
}

/// Aligns rows into columns; the last one takes the rest of the width.
pub(crate) fn table(
    rows: &[Vec<String>],
    width: Option<usize>,
    mut paint: impl for<'a> FnMut(usize, usize, &'a str) -> Cow<'a, str>,
) -> String {
    let mut widths = vec![0; rows.iter().map(Vec::len).max().unwrap_or(0)];
    for row in rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = columns(cell).max(*width));
    }
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let mut used = 0;
        for (column, cell) in row.iter().enumerate() {
            let is_last = column + 1 == row.len();
            let room = width.filter(|_| is_last).map(|width| width.saturating_sub(used).max(10));
            let cell = room.map_or(cell.into(), |room| cut(cell, room));
            let padding = if is_last { 0 } else { widths[column] - columns(&cell) + 2 };
            text.push_str(&paint(number, column, &cell));
            text.extend(std::iter::repeat_n(' ', padding));
            used += widths[column] + 2;
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_the_last_is_cut() {
        let rows = vec![
            vec!["a".to_owned(), "bb".to_owned(), "x".repeat(30)],
            vec!["aaa".to_owned(), "b".to_owned(), "y".to_owned()],
        ];
        let text = table(&rows, Some(20), |_, _, cell| cell.into());
        assert_eq!(text, format!("a    bb  {}…\naaa  b   y\n", "x".repeat(10)));
    }

    #[test]
    fn values_go_on_below_after_a_whole_word() {
        let mut rows = Rows::default();
        rows.add("a", Some("one two three four five"));
        rows.add("name", ["0123456789012345678901234567", "x"]);
        assert_eq!(
            table(&rows.fitted(Some(26)), None, |_, _, cell| cell.into()),
            "a     one two three four\n      five\nname  0123456789012345678901234567\n      x\n"
        );
        assert_eq!(rows.fitted(None).len(), 3);
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("hint: one two three", 10, "  "), "hint: one\n  two\n  three");
        assert_eq!(wrapped("    averylongword x", 6, "    "), "    averylongword\n    x");
        assert_eq!(wrapped("fits", 10, "  "), "fits");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(one_line("a\nb\x1b[31mc\u{9b}"), "a b\u{fffd}[31mc\u{fffd}");
    }
}
