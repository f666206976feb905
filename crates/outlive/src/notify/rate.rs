//! How many of the lines that a reader watches for become events: a few a minute, then one that counts the rest.

use outlive_core::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

/// Lines that are told one by one, in a minute. A reader that gets more reads the output.
const SINGLE: u32 = 5;

/// The minute, in microseconds.
const WINDOW: u64 = 60_000_000;

/// The longest text of a line that is told, in characters.
const CHARACTERS: usize = 300;

/// What was told in the current minute, and what was held back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Rate {
    /// When the minute began.
    #[serde(default)]
    since_us: u64,
    /// How many events it has.
    #[serde(default)]
    told: u32,
    /// The lines that were held back: how many, and the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    count: u64,
    line: u64,
    text: String,
    #[serde(default, rename = "at_us", skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
}

/// A line that is told now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) line: u64,
    pub(crate) text: String,
    pub(crate) at: Option<Timestamp>,
    /// How many lines before it were held back and are not told themselves.
    pub(crate) skipped: u64,
}

impl Rate {
    /// Begins another minute if the last is over, or the clock was set back.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        if now.0 < self.since_us || now.0 - self.since_us >= WINDOW {
            (self.since_us, self.told) = (now.0, 0);
        }
    }

    /// Takes a line that matches; returns what to tell, or holds it back.
    pub(crate) fn take(&mut self, line: u64, text: &[u8], at: Option<Timestamp>) -> Option<Told> {
        let text = cut(text);
        if self.told < SINGLE {
            self.told += 1;
            let skipped = self.held.take().map_or(0, |held| held.count);
            return Some(Told { line, text, at, skipped });
        }
        let count = self.held.as_ref().map_or(0, |held| held.count) + 1;
        self.held = Some(Held { count, line, text, at });
        None
    }

    /// Returns what tells of the lines that were held back, if there is still room for it in this minute, or no later look.
    pub(crate) fn flush(&mut self, is_last: bool) -> Option<Told> {
        if self.told > SINGLE && !is_last {
            return None;
        }
        let Held { count, line, text, at } = self.held.take()?;
        self.told += 1;
        Some(Told { line, text, at, skipped: count - 1 })
    }

    /// Returns when lines that are held back can be told.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.held.as_ref().map(|_| Timestamp(self.since_us + WINDOW))
    }
}

fn cut(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end();
    match text.char_indices().nth(CHARACTERS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line and the skipped ones of each event of one look.
    fn look(rate: &mut Rate, second: u64, lines: std::ops::Range<u64>, is_last: bool) -> Vec<(u64, u64)> {
        rate.begin(Timestamp(1_000_000_000_000 + second * 1_000_000));
        let mut told: Vec<Told> = lines.filter_map(|line| rate.take(line, b"x", None)).collect();
        told.extend(rate.flush(is_last));
        told.into_iter().map(|told| (told.line, told.skipped)).collect()
    }

    #[test]
    fn a_few_lines_are_told_and_the_rest_is_counted() {
        let mut rate = Rate::default();
        assert_eq!(look(&mut rate, 0, 1..3, false), [(1, 0), (2, 0)]);
        assert_eq!(look(&mut rate, 1, 3..1000, false), [(3, 0), (4, 0), (5, 0), (999, 993)]);
        assert_eq!(look(&mut rate, 2, 1000..1010, false), [], "six a minute");
        assert_eq!(rate.due(), Some(Timestamp(1_000_060_000_000)));
        assert_eq!(look(&mut rate, 59, 0..0, false), []);
        assert_eq!(look(&mut rate, 60, 0..0, false), [(1009, 9)], "the next minute tells of them");
        assert_eq!(rate.due(), None);
        assert_eq!(look(&mut rate, 61, 1010..1012, false), [(1010, 0), (1011, 0)]);
    }

    #[test]
    fn what_was_held_back_comes_with_the_next_line_or_at_the_end() {
        let mut rate = Rate::default();
        look(&mut rate, 0, 1..10, false);
        look(&mut rate, 1, 10..13, false);
        assert_eq!(look(&mut rate, 70, 13..14, false), [(13, 3)]);
        let mut rate = Rate::default();
        look(&mut rate, 0, 1..10, false);
        look(&mut rate, 1, 10..13, false);
        assert_eq!(look(&mut rate, 2, 13..13, true), [(12, 2)], "there is no later look");
    }

    #[test]
    fn a_clock_that_is_set_back_begins_another_minute() {
        let mut rate = Rate::default();
        look(&mut rate, 500, 1..10, false);
        assert_eq!(look(&mut rate, 0, 10..11, false), [(10, 0)]);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(cut("é".repeat(301).as_bytes()), format!("{}…", "é".repeat(300)));
        assert_eq!(cut(b"a\xffb \r\n"), "a\u{fffd}b");
    }
}
