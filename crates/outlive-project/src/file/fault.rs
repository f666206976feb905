//! What is wrong in a file, drawn with its place.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(crate) use outlive::nearest;

/// More of a line is not shown, in characters: two lines of a terminal.
const LONGEST_LINE: usize = 160;

/// How much of a longer line is shown before the place.
const BEFORE: usize = 40;

/// A file and its text.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A mistake in a file, with its place and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
    /// The line as it stands.
    excerpt: String,
    /// How many characters of it are meant.
    width: usize,
}

impl Source {
    /// Makes the fault of a line, from 1.
    pub(crate) fn fault_of_line(&self, line: usize, message: &str) -> Box<Fault> {
        let start = self.text.split_inclusive('\n').take(line - 1).map(str::len).sum();
        let length = self.text[start..].lines().next().unwrap_or_default().len();
        self.fault(start..start + length, message)
    }

    /// Makes the fault of a range of bytes.
    pub(crate) fn fault(&self, place: Range<usize>, message: impl Into<String>) -> Box<Fault> {
        let start = (0..=place.start.min(self.text.len())).rev().find(|&at| self.text.is_char_boundary(at));
        let start = start.unwrap_or(0);
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let excerpt = self.text[line_start..].lines().next().unwrap_or_default();
        let meant = self.text.get(start..place.end).unwrap_or_default().lines().next().unwrap_or_default();
        Box::new(Fault {
            path: self.path.clone(),
            line: before.matches('\n').count() + 1,
            column: self.text[line_start..start].chars().count() + 1,
            message: message.into(),
            excerpt: excerpt.to_owned(),
            width: meant.chars().count().max(1),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, column, message, excerpt, width } = self;
        let name = path.file_name().map_or(path.as_path(), Path::new).display();
        // Of a long line, what stands around the place: all of it would push the message off the screen.
        let skipped =
            if excerpt.chars().count() > LONGEST_LINE { (column - 1).saturating_sub(BEFORE) } else { 0 };
        let mut shown: String = excerpt.chars().skip(skipped).take(LONGEST_LINE).collect();
        if excerpt.chars().count() > skipped + LONGEST_LINE {
            shown.push('…');
        }
        let mark = column - 1 - skipped;
        let (excerpt, width) = (shown, (*width).min(LONGEST_LINE.saturating_sub(mark)).max(1));
        // A tab is as wide as the terminal likes: the mark stands below the text only if it has the same ones.
        let indent: String = excerpt.chars().take(mark).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let margin = " ".repeat(line.to_string().len());
        write!(
            formatter,
            "{name}:{line}:{column}: {message}\n{margin} |\n{line} | {excerpt}\n{margin} | {indent}{}",
            "^".repeat(width)
        )
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_drawn_below_its_place() {
        let source = Source { path: "/x/outlive.toml".into(), text: "a = 1\n\té = 22\n".into() };
        let at = source.text.find("22").unwrap();
        let fault = source.fault(at..at + 2, "no");
        assert_eq!((fault.line, fault.column), (2, 6));
        assert_eq!(fault.to_string(), "outlive.toml:2:6: no\n  |\n2 | \té = 22\n  | \t    ^^");
        assert_eq!(source.fault(99..100, "end").line, 3);
    }

    #[test]
    fn of_a_long_line_the_place_is_shown() {
        let text = format!("a = \"{}\" x = \"{}\"", "b".repeat(500_000), "c".repeat(500_000));
        let source = Source { path: "/x/outlive.toml".into(), text };
        let at = source.text.find('x').unwrap();
        for place in [0..1, at..at + 1, 4..400_000, at..source.text.len()] {
            let drawn = source.fault(place, "no").to_string();
            assert!(drawn.lines().all(|line| line.chars().count() < 180), "{}", drawn.len());
        }
        let drawn = source.fault(at..at + 1, "no").to_string();
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[2].chars().nth(lines[3].find('^').unwrap()), Some('x'), "{drawn}");
    }
}
