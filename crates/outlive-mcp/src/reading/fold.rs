//! Folding lines that differ only in numbers, times or hashes, where there is no room for all of them.
//!
//! The first two of each kind are shown; a run of further ones becomes one line that counts them. Errors and what follows them are
//! shown far longer, since their numbers are what a reader looks for.

use std::collections::HashMap;

use outlive::{Line, Weight, hash, weigh};

/// How many lines of a kind are shown.
const SHOWN: u32 = 2;

/// How many errors of a kind are shown.
const SHOWN_ERRORS: u32 = 20;

/// How many lines after an error are shown.
pub(super) const CONTEXT: u64 = 2;

/// A shorter run is shown: the line that counts it would be no shorter.
const SHORTEST: usize = 4;

/// How many kinds are known at most; lines of further kinds are shown.
const KINDS: usize = 4096;

/// What is left of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Line(Line),
    /// Lines like one before them: the number of the first, and how many there are.
    Folded {
        first: u64,
        count: u64,
    },
}

impl Item {
    pub(super) fn line(&self) -> Option<&Line> {
        match self {
            Self::Line(line) => Some(line),
            Self::Folded { .. } => None,
        }
    }

    /// Returns how many lines it is.
    pub(super) fn lines(&self) -> u64 {
        match self {
            Self::Line(line) => u64::from(line.repeated.max(1)),
            Self::Folded { count, .. } => *count,
        }
    }

    /// Returns the number of its first line.
    pub(super) fn first(&self) -> u64 {
        match self {
            Self::Line(line) => line.number,
            Self::Folded { first, .. } => *first,
        }
    }

    /// Returns the number of its last line.
    pub(super) fn last(&self) -> u64 {
        self.first() + self.lines() - 1
    }
}

/// Folds lines as they come.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// How often each kind has come, by the hash of its shape.
    seen: HashMap<u64, u32>,
    /// The run that is not shown yet: its first lines, how many there are, and the last.
    run: Vec<Line>,
    count: u64,
    last: Option<Line>,
    context_left: u64,
}

impl Folder {
    pub(super) fn push(&mut self, line: Line, mut emit: impl FnMut(Item, Weight)) {
        let weight = weigh(&line.text);
        let is_context = self.context_left > 0;
        self.context_left =
            if weight == Weight::Error { CONTEXT } else { self.context_left.saturating_sub(1) };
        let key = hash(&shape(&line.text));
        let has_room = self.seen.len() < KINDS;
        let times = match self.seen.get_mut(&key) {
            Some(times) => times,
            None if has_room => self.seen.entry(key).or_default(),
            None => &mut 0,
        };
        *times = times.saturating_add(1);
        let most = if weight == Weight::Error { SHOWN_ERRORS } else { SHOWN };
        if *times <= most || is_context {
            self.end_run(&mut emit);
            emit(Item::Line(line), weight);
            return;
        }
        self.count += u64::from(line.repeated.max(1));
        if self.run.len() < SHORTEST {
            self.run.push(line);
        } else {
            self.last = Some(line);
        }
    }

    /// The last line of all is shown: it tells how far something came.
    pub(super) fn finish(mut self, mut emit: impl FnMut(Item, Weight)) {
        let last = self.last.take().inspect(|line| self.count -= u64::from(line.repeated.max(1)));
        self.end_run(&mut emit);
        if let Some(line) = last {
            emit(Item::Line(line), Weight::Plain);
        }
    }

    fn end_run(&mut self, emit: &mut impl FnMut(Item, Weight)) {
        if self.run.len() < SHORTEST {
            self.run.drain(..).for_each(|line| emit(Item::Line(line), Weight::Plain));
        } else {
            emit(Item::Folded { first: self.run[0].number, count: self.count }, Weight::Plain);
        }
        self.run.clear();
        (self.count, self.last) = (0, None);
    }
}

/// Returns a line without what differs between lines of a kind: each number is `0`, each hash `#`, and there are no blanks and
/// one of repeated punctuation, as in bars.
fn shape(line: &[u8]) -> Vec<u8> {
    let mut shape = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(&byte) = rest.first() {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
        let length = match byte {
            byte if is_word(&byte) => rest.iter().take_while(|byte| is_word(byte)).count(),
            _ => rest.iter().take_while(|&&next| next == byte).count(),
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        let has_digits = word.iter().any(u8::is_ascii_digit);
        if has_digits && length >= 7 && word.iter().all(u8::is_ascii_hexdigit) {
            shape.push(b'#');
        } else if has_digits {
            let digit = |byte: &u8| if byte.is_ascii_digit() { b'0' } else { *byte };
            shape.extend(word.iter().map(digit));
            shape.dedup_by(|next, before| *next == b'0' && *before == b'0');
        } else if is_word(&byte) {
            shape.extend_from_slice(word);
        } else if !byte.is_ascii_whitespace() {
            shape.push(byte);
        }
    }
    // `1`, `1.5` and `1,000` are one kind, and so are a number and a hash of digits alone.
    let text = String::from_utf8_lossy(&shape).replace('#', "0");
    text.replace("0.0", "0").replace("0,0", "0").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, text: &str) -> Line {
        let text = text.as_bytes().to_vec();
        Line {
            number,
            stream: None,
            time: None,
            text,
            repeated: 1,
            cut_bytes: 0,
            lost_bytes: 0,
            is_ended: true,
        }
    }

    fn fold(texts: &[String]) -> Vec<String> {
        let (mut folder, mut shown) = (Folder::default(), Vec::new());
        let mut emit = |item: Item, _| {
            shown.push(match item {
                Item::Line(line) => String::from_utf8(line.text).unwrap(),
                Item::Folded { first, count } => format!("{first}: {count}"),
            });
        };
        for (number, text) in (1..).zip(texts) {
            folder.push(line(number, text), &mut emit);
        }
        folder.finish(&mut emit);
        shown
    }

    #[test]
    fn alike_are_lines_that_differ_in_numbers_times_and_hashes() {
        for (one, other) in [
            ("[ 3%] step 7 of 200", "[100%] step 200 of 200"),
            ("12:00:01 tick", "9:59:59 tick"),
            ("took 1.5 s", "took 20 s"),
            ("got 4f2a9c81e", "got 0123456789"),
            ("[=====>    ]", "[=>  ]"),
            ("test_17 ok", "test_1 ok"),
        ] {
            assert_eq!(shape(one.as_bytes()), shape(other.as_bytes()), "{one}");
        }
        for (one, other) in [("a 1", "b 1"), ("1 passed", "1 failed"), ("", "x")] {
            assert_ne!(shape(one.as_bytes()), shape(other.as_bytes()), "{one}");
        }
    }

    #[test]
    fn a_run_is_counted_and_its_end_is_shown() {
        let mut texts: Vec<String> = (1..=100).map(|number| format!("step {number}")).collect();
        assert_eq!(fold(&texts), ["step 1", "step 2", "3: 97", "step 100"]);
        texts.push("done".to_owned());
        assert_eq!(fold(&texts), ["step 1", "step 2", "3: 98", "done"]);
        let few: Vec<String> = (1..=5).map(|number| format!("step {number}")).collect();
        assert_eq!(fold(&few), few, "a few are shown as they are");
    }

    #[test]
    fn errors_stand_out_of_a_run_with_what_follows() {
        let text = |number: u32| match number % 30 {
            0 => format!("case {number} FAILED"),
            1 if number > 1 => format!("  left: {number}"),
            _ => format!("case {number} ok"),
        };
        let texts: Vec<String> = (1..=100).map(text).collect();
        let shown = fold(&texts);
        for wanted in
            ["case 30 FAILED", "  left: 31", "case 60 FAILED", "  left: 61", "case 90 FAILED", "  left: 91"]
        {
            assert!(shown.iter().any(|line| line == wanted), "{shown:?}");
        }
        assert!(shown.len() < 25, "{shown:?}");
    }
}
