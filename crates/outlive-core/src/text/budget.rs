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
    /// Error messages among them, each with its context, and warnings as far as they had room beside the errors.
    pub rescued: Vec<T>,
    /// How many error messages are among them, rescued or not.
    pub errors: u64,
}

/// What a line means to a reader with little room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Nothing is known of it.
    Plain,
    /// It looks like a warning.
    Warning,
    /// It looks like an error message.
    Error,
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
    tail: VecDeque<(T, u64, Weight)>,
    tail_used: Used,
    errors: Rescued<T>,
    warnings: Rescued<T>,
    /// How many lines after an error are rescued with it.
    context: u64,
    context_left: u64,
    error_count: u64,
    omitted: Used,
    /// The first and the last line that were left out.
    bounds: Option<(T, T)>,
}

/// Lines that were left out and are shown all the same: the last that have room, with the place of each.
#[derive(Debug)]
struct Rescued<T> {
    lines: VecDeque<(u64, T, u64)>,
    used: Used,
}

impl<T> Rescued<T> {
    fn new() -> Self {
        Self { lines: VecDeque::new(), used: Used::default() }
    }

    /// Of what has no room, what came first goes: what went wrong last is nearest to the end.
    fn push(&mut self, place: u64, line: T, bytes: u64, budget: Budget) {
        self.lines.push_back((place, line, bytes));
        self.used = self.used.plus(bytes);
        while !budget.takes(&self.used) {
            let Some((_, _, bytes)) = self.lines.pop_front() else { break };
            self.used = self.used.minus(bytes);
        }
    }
}

impl<T: Clone> Fitter<T> {
    /// Divides a budget: three tenths for the beginning, one for what is rescued, six for the end. A budget without any
    /// limit takes all.
    pub fn new(budget: Budget) -> Self {
        Self::with_parts(budget.part(3, 10), budget.part(1, 10), budget.part(6, 10))
    }

    /// Divides a budget for a reader that needs the reasons: two tenths for the beginning, four for what is rescued, with so many
    /// lines after each error, four for the end.
    pub fn for_reasons(budget: Budget, context: u64) -> Self {
        Self { context, ..Self::with_parts(budget.part(2, 10), budget.part(4, 10), budget.part(4, 10)) }
    }

    /// Asks for so many lines of the beginning and of the end.
    pub fn head_and_tail(head: u64, tail: u64) -> Self {
        let lines = |lines| Budget { lines: Some(lines), ..Budget::default() };
        Self::with_parts(lines(head), lines(0), lines(tail))
    }

    /// Asks for as much of the end as has room.
    pub fn end(budget: Budget) -> Self {
        let none = Budget { lines: Some(0), ..Budget::default() };
        Self::with_parts(none, none, budget)
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
            errors: Rescued::new(),
            warnings: Rescued::new(),
            context: 0,
            context_left: 0,
            error_count: 0,
            omitted: Used::default(),
            bounds: None,
        }
    }

    /// Takes the next line, of so many bytes, and whether it is an error message.
    pub fn push(&mut self, line: T, bytes: u64, is_error: bool) {
        self.push_as(line, bytes, if is_error { Weight::Error } else { Weight::Plain });
    }

    /// Takes the next line, of so many bytes.
    pub fn push_as(&mut self, line: T, bytes: u64, weight: Weight) {
        let used = self.head_used.plus(bytes);
        if !self.is_head_full && self.head_budget.takes(&used) {
            self.head_used = used;
            self.head.push(line);
            return;
        }
        self.is_head_full = true;
        self.tail.push_back((line, bytes, weight));
        self.tail_used = self.tail_used.plus(bytes);
        while !self.tail_budget.takes(&self.tail_used) {
            let Some((line, bytes, weight)) = self.tail.pop_front() else { break };
            self.tail_used = self.tail_used.minus(bytes);
            self.omit(line, bytes, weight);
        }
    }

    /// Leaves a line out.
    fn omit(&mut self, line: T, bytes: u64, weight: Weight) {
        self.omitted = self.omitted.plus(bytes);
        match &mut self.bounds {
            Some((_, last)) => *last = line.clone(),
            None => self.bounds = Some((line.clone(), line.clone())),
        }
        let (place, budget) = (self.omitted.lines, self.rescue_budget);
        let is_context = self.context_left > 0;
        self.context_left = self.context_left.saturating_sub(1);
        match weight {
            Weight::Error => {
                self.error_count += 1;
                self.context_left = self.context;
                self.errors.push(place, line, bytes, budget);
            }
            _ if is_context => self.errors.push(place, line, bytes, budget),
            Weight::Warning => self.warnings.push(place, line, bytes, budget),
            Weight::Plain => {}
        }
    }

    /// Returns what has room.
    pub fn finish(self) -> Fitted<T> {
        let mut rescued = self.errors;
        // Warnings take what errors leave.
        for (place, line, bytes) in self.warnings.lines.into_iter().rev() {
            let used = rescued.used.plus(bytes);
            if !self.rescue_budget.takes(&used) {
                break;
            }
            rescued.used = used;
            rescued.lines.push_back((place, line, bytes));
        }
        rescued.lines.make_contiguous().sort_by_key(|(place, ..)| *place);
        let omitted = self.bounds.map(|(first, last)| Omitted {
            lines: self.omitted.lines,
            bytes: self.omitted.bytes,
            first,
            last,
            rescued: rescued.lines.into_iter().map(|(_, line, _)| line).collect(),
            errors: self.error_count,
        });
        Fitted { head: self.head, omitted, tail: self.tail.into_iter().map(|(line, ..)| line).collect() }
    }
}

/// Tells whether a line looks like an error message.
pub fn looks_like_error(line: &[u8]) -> bool {
    weigh(line) == Weight::Error
}

/// Guesses what a line means.
pub fn weigh(line: &[u8]) -> Weight {
    const ERRORS: &[&[u8]] =
        &[b"error", b"fail", b"panic", b"exception", b"fatal", b"traceback", b"cannot", b"denied", b"not ok"];
    let line = &line[..line.len().min(2000)];
    let lower = line.to_ascii_lowercase();
    // The beginnings of lines of pytest that explain a failure.
    if line.starts_with(b"E   ") || ERRORS.iter().any(|word| stands_in(word, line, &lower)) {
        Weight::Error
    } else if stands_in(b"warn", line, &lower) {
        Weight::Warning
    } else {
        Weight::Plain
    }
}

/// Tells whether a word stands in a line at the beginning of a word (`TypeError` has two, `thiserror` one), and not as none of it
/// (`0 errors`).
fn stands_in(word: &[u8], line: &[u8], lower: &[u8]) -> bool {
    memchr::memmem::find_iter(lower, word).any(|at| {
        let is_inside = at > 0 && line[at - 1].is_ascii_lowercase() && line[at].is_ascii_lowercase();
        let before = lower[..at].trim_ascii_end();
        let is_none = before == b"no"
            || before.ends_with(b" no")
            || before.strip_suffix(b"0").is_some_and(|before| !before.last().is_some_and(u8::is_ascii_digit));
        !is_inside && !is_none
    })
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
            prop_assert!(fitted.omitted.as_ref().is_none_or(|omitted| omitted.rescued.is_sorted()));
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
    fn errors_come_with_what_follows_and_before_warnings() {
        let budget = Budget { bytes: Some(200), ..Budget::default() };
        let rescued = |weigh: fn(u64) -> Weight| {
            let mut fitter = Fitter::for_reasons(budget, 2);
            (0..1000).for_each(|number| fitter.push_as(number, 10, weigh(number)));
            let omitted = fitter.finish().omitted.unwrap();
            (omitted.rescued, omitted.errors)
        };
        let warning = |number| if number % 100 == 50 { Weight::Warning } else { Weight::Plain };
        assert_eq!(rescued(warning), (vec![250, 350, 450, 550, 650, 750, 850, 950], 0));
        let both = |number| match number {
            300 | 500 => Weight::Error,
            250 | 310 | 900 => Weight::Warning,
            _ => Weight::Plain,
        };
        assert_eq!(rescued(both), (vec![300, 301, 302, 310, 500, 501, 502, 900], 2));
        let many = |number| if number % 5 == 0 { Weight::Error } else { Weight::Plain };
        let (lines, count) = rescued(many);
        assert_eq!(lines.len(), 8);
        assert!(count > 150, "{count}");
    }

    #[test]
    fn words_are_errors_where_they_mean_one() {
        for (line, weight) in [
            ("TypeError: x is not a function", Weight::Error),
            ("E       assert 1 == 2", Weight::Error),
            ("not ok 3 - sums", Weight::Error),
            ("10 errors", Weight::Error),
            ("test result: FAILED. 9 passed; 3 failed", Weight::Error),
            ("   Compiling thiserror v2.0.1", Weight::Plain),
            ("0 errors, 0 failures", Weight::Plain),
            ("no errors found", Weight::Plain),
            ("warning: unused variable", Weight::Warning),
            ("WARN deprecated inflight@1.0.6", Weight::Warning),
            ("0 warnings", Weight::Plain),
        ] {
            assert_eq!(weigh(line.as_bytes()), weight, "{line}");
        }
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
