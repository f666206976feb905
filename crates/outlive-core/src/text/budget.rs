//! The beginning and the end of something long, within a budget, and what was left out between.
//!
//! A reader with little room (a model, a small screen) mostly wants how it began and how it ended, and the errors in
//! between. What is left out is counted exactly, so that a reader can ask for it.

use std::collections::VecDeque;

use crate::duration::{QuantityError, parse_size};

/// How much there is room for. What is not said is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// Lines.
    pub lines: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Tokens of a language model, as [`estimate_tokens`] counts them.
    pub tokens: Option<u64>,
}

impl Budget {
    /// Reads `200l` or `200lines`, `2000t` or `2000tokens`, `8K` or any other size in bytes; several with commas.
    ///
    /// # Errors
    ///
    /// If it is anything else.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let mut budget = Self::default();
        for part in text.split(',') {
            let part = part.trim();
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let number = part[..end].parse().map_err(|_| QuantityError::Size);
            match part[end..].trim() {
                "l" | "line" | "lines" => budget.lines = Some(number?),
                "t" | "token" | "tokens" => budget.tokens = Some(number?),
                _ => budget.bytes = Some(parse_size(part)?),
            }
        }
        Ok(budget)
    }

    /// Returns this part of it.
    fn part(self, numerator: u64, denominator: u64) -> Self {
        let part = |amount: Option<u64>| amount.map(|amount| amount * numerator / denominator);
        Self { lines: part(self.lines), bytes: part(self.bytes), tokens: part(self.tokens) }
    }

    /// Tells whether so much has room.
    fn takes(self, used: &Used) -> bool {
        let takes = |limit: Option<u64>, used: u64| limit.is_none_or(|limit| used <= limit);
        takes(self.lines, used.lines) && takes(self.bytes, used.bytes) && takes(self.tokens, used.tokens)
    }

    fn is_unlimited(self) -> bool {
        self == Self::default()
    }
}

/// Estimates how many tokens a text is for a language model: one for every four bytes, rounded up.
pub fn estimate_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

#[derive(Debug, Clone, Copy, Default)]
struct Used {
    lines: u64,
    bytes: u64,
    tokens: u64,
}

impl Used {
    fn plus(self, bytes: u64) -> Self {
        Self {
            lines: self.lines + 1,
            bytes: self.bytes + bytes,
            tokens: self.tokens + estimate_tokens(bytes),
        }
    }

    fn minus(self, bytes: u64) -> Self {
        Self {
            lines: self.lines - 1,
            bytes: self.bytes - bytes,
            tokens: self.tokens - estimate_tokens(bytes),
        }
    }
}

/// What has room, with what was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted<T> {
    /// The beginning.
    pub head: Vec<T>,
    /// Between the two, if anything was left out.
    pub omitted: Option<Omitted<T>>,
    /// The end.
    pub tail: Vec<T>,
}

/// What was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omitted<T> {
    /// How many lines, counting those that were rescued.
    pub lines: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The first of them.
    pub first: T,
    /// The last of them.
    pub last: T,
    /// Error messages among them.
    pub rescued: Vec<T>,
}

/// Fits lines into a budget while they come.
#[derive(Debug)]
pub struct Fitter<T> {
    head_budget: Budget,
    tail_budget: Budget,
    rescue_budget: Budget,
    head: Vec<T>,
    head_used: Used,
    is_head_full: bool,
    tail: VecDeque<(T, u64, bool)>,
    tail_used: Used,
    rescued: VecDeque<(T, u64)>,
    rescued_used: Used,
    omitted: Used,
    /// The first and the last line that were left out.
    bounds: Option<(T, T)>,
}

impl<T: Clone> Fitter<T> {
    /// Divides a budget: three tenths for the beginning, one for what is rescued, six for the end. A budget without any
    /// limit takes all.
    pub fn new(budget: Budget) -> Self {
        Self::with_parts(budget.part(3, 10), budget.part(1, 10), budget.part(6, 10))
    }

    /// Asks for so many lines of the beginning and of the end.
    pub fn head_and_tail(head: u64, tail: u64) -> Self {
        let lines = |lines| Budget { lines: Some(lines), ..Budget::default() };
        Self::with_parts(lines(head), lines(0), lines(tail))
    }

    fn with_parts(head_budget: Budget, rescue_budget: Budget, tail_budget: Budget) -> Self {
        Self {
            head_budget,
            tail_budget,
            rescue_budget,
            head: Vec::new(),
            head_used: Used::default(),
            is_head_full: false,
            tail: VecDeque::new(),
            tail_used: Used::default(),
            rescued: VecDeque::new(),
            rescued_used: Used::default(),
            omitted: Used::default(),
            bounds: None,
        }
    }

    /// Takes the next line, of so many bytes, and whether it is an error message.
    pub fn push(&mut self, line: T, bytes: u64, is_error: bool) {
        let used = self.head_used.plus(bytes);
        if !self.is_head_full && self.head_budget.takes(&used) {
            self.head_used = used;
            self.head.push(line);
            return;
        }
        self.is_head_full = true;
        self.tail.push_back((line, bytes, is_error));
        self.tail_used = self.tail_used.plus(bytes);
        while !self.tail_budget.takes(&self.tail_used) {
            let Some((line, bytes, is_error)) = self.tail.pop_front() else { break };
            self.tail_used = self.tail_used.minus(bytes);
            self.omit(line, bytes, is_error);
        }
    }

    /// Leaves a line out. Of the errors the last ones are kept: what went wrong last is nearest to the end.
    fn omit(&mut self, line: T, bytes: u64, is_error: bool) {
        self.omitted = self.omitted.plus(bytes);
        match &mut self.bounds {
            Some((_, last)) => *last = line.clone(),
            None => self.bounds = Some((line.clone(), line.clone())),
        }
        if !is_error || self.rescue_budget.is_unlimited() {
            return;
        }
        self.rescued.push_back((line, bytes));
        self.rescued_used = self.rescued_used.plus(bytes);
        while !self.rescue_budget.takes(&self.rescued_used) {
            let Some((_, bytes)) = self.rescued.pop_front() else { break };
            self.rescued_used = self.rescued_used.minus(bytes);
        }
    }

    /// Returns what has room.
    pub fn finish(self) -> Fitted<T> {
        let omitted = self.bounds.map(|(first, last)| Omitted {
            lines: self.omitted.lines,
            bytes: self.omitted.bytes,
            first,
            last,
            rescued: self.rescued.into_iter().map(|(line, _)| line).collect(),
        });
        Fitted { head: self.head, omitted, tail: self.tail.into_iter().map(|(line, ..)| line).collect() }
    }
}

/// Tells whether a line looks like an error message.
pub fn looks_like_error(line: &[u8]) -> bool {
    const WORDS: &[&[u8]] =
        &[b"error", b"fail", b"panic", b"exception", b"fatal", b"traceback", b"cannot", b"denied"];
    let lower: Vec<u8> = line.iter().take(2000).map(u8::to_ascii_lowercase).collect();
    WORDS.iter().any(|word| memchr::memmem::find(&lower, word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_view_and_what_it_leaves_out_add_up_to_the_whole(
            sizes in prop::collection::vec(0u64..50, 0..60),
            lines in prop::option::of(0u64..30),
            bytes in prop::option::of(0u64..400),
            tokens in prop::option::of(0u64..100),
        ) {
            let budget = Budget { lines, bytes, tokens };
            let mut fitter = Fitter::new(budget);
            for (number, &size) in sizes.iter().enumerate() {
                fitter.push(number, size, number % 7 == 0);
            }
            let fitted = fitter.finish();
            let (left_out, left_bytes) = fitted.omitted.as_ref().map_or((0, 0), |omitted| (omitted.lines, omitted.bytes));
            // The head is a beginning, the tail an end, and the numbers of what lies between are exact.
            prop_assert!(fitted.head.iter().copied().eq(0..fitted.head.len()));
            prop_assert!(fitted.tail.iter().copied().eq(sizes.len() - fitted.tail.len()..sizes.len()));
            prop_assert_eq!(fitted.head.len() as u64 + left_out + fitted.tail.len() as u64, sizes.len() as u64);
            let between = &sizes[fitted.head.len()..sizes.len() - fitted.tail.len()];
            prop_assert_eq!(left_bytes, between.iter().sum::<u64>());
            // All that is shown is within the budget.
            let rescued = fitted.omitted.iter().flat_map(|omitted| &omitted.rescued);
            let shown: Vec<u64> = fitted.head.iter().chain(rescued).chain(&fitted.tail).map(|&line| sizes[line]).collect();
            prop_assert!(lines.is_none_or(|limit| shown.len() as u64 <= limit));
            prop_assert!(bytes.is_none_or(|limit| shown.iter().sum::<u64>() <= limit));
            prop_assert!(budget != Budget::default() || left_out == 0);
        }
    }

    #[test]
    fn errors_are_rescued_from_the_middle() {
        let mut fitter = Fitter::new(Budget { lines: Some(20), ..Budget::default() });
        for number in 0..1000 {
            fitter.push(number, 10, number == 300 || number == 500);
        }
        let fitted = fitter.finish();
        assert_eq!(fitted.omitted.unwrap().rescued, [300, 500]);
        assert!(looks_like_error(b"src/x.rs:3: ERROR: no"));
        assert!(!looks_like_error(b"all 12 passed"));
    }

    #[test]
    fn budgets_people_write() {
        let budget = |lines, bytes, tokens| Ok(Budget { lines, bytes, tokens });
        assert_eq!(Budget::parse("200l"), budget(Some(200), None, None));
        assert_eq!(Budget::parse("8K"), budget(None, Some(8192), None));
        assert_eq!(Budget::parse("40 lines, 2000t"), budget(Some(40), None, Some(2000)));
        assert!(Budget::parse("lots").is_err());
        assert!(Budget::parse("").is_err());
    }
}
