//! Selecting lines with those around them, as `grep -C` does.

use std::collections::VecDeque;

/// What a selection lets through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected<T> {
    /// A line that was asked for, or stands near one.
    Line(T),
    /// Lines were left out here.
    Break,
}

/// Lets through lines that match, with so many before and after each.
#[derive(Debug)]
pub struct Context<T> {
    before: usize,
    after: usize,
    held: VecDeque<T>,
    after_left: usize,
    /// Lines were left out since the last one that was let through.
    is_broken: bool,
    has_begun: bool,
}

impl<T> Context<T> {
    /// Asks for so many lines before and after each match.
    pub fn new(before: usize, after: usize) -> Self {
        Self { before, after, held: VecDeque::new(), after_left: 0, is_broken: false, has_begun: false }
    }

    /// Takes the next line and hands on what it lets through.
    pub fn push(&mut self, line: T, is_match: bool, mut emit: impl FnMut(Selected<T>)) {
        if is_match {
            if self.is_broken && self.has_begun && self.before + self.after > 0 {
                emit(Selected::Break);
            }
            self.held.drain(..).for_each(|line| emit(Selected::Line(line)));
            emit(Selected::Line(line));
            (self.after_left, self.is_broken, self.has_begun) = (self.after, false, true);
        } else if self.after_left > 0 {
            self.after_left -= 1;
            emit(Selected::Line(line));
        } else {
            self.held.push_back(line);
            if self.held.len() > self.before {
                self.held.pop_front();
                self.is_broken = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn select(matches: &[bool], before: usize, after: usize) -> Vec<Selected<usize>> {
        let mut context = Context::new(before, after);
        let mut selected = Vec::new();
        for (number, &is_match) in matches.iter().enumerate() {
            context.push(number, is_match, |line| selected.push(line));
        }
        selected
    }

    #[test]
    fn neighbours_join_and_breaks_are_marked() {
        let matches = [false, true, false, false, false, false, true, true, false];
        let lines =
            |numbers: &[usize]| numbers.iter().map(|&number| Selected::Line(number)).collect::<Vec<_>>();
        assert_eq!(select(&matches, 0, 0), lines(&[1, 6, 7]));
        let mut expected = lines(&[0, 1, 2]);
        expected.push(Selected::Break);
        expected.extend(lines(&[5, 6, 7, 8]));
        assert_eq!(select(&matches, 1, 1), expected);
        assert_eq!(select(&matches, 2, 2), lines(&[0, 1, 2, 3, 4, 5, 6, 7, 8]));
    }

    proptest! {
        #[test]
        fn exactly_the_lines_near_a_match_come_in_order(matches in prop::collection::vec(any::<bool>(), 0..40), before in 0usize..4, after in 0usize..4) {
            let near = |line: usize| {
                let from = line.saturating_sub(after);
                let to = (line + before).min(matches.len() - 1);
                matches[from..=to].contains(&true)
            };
            let expected: Vec<usize> = (0..matches.len()).filter(|&line| near(line)).collect();
            let selected = select(&matches, before, after);
            let lines: Vec<usize> = selected.iter().filter_map(|line| match line { Selected::Line(line) => Some(*line), Selected::Break => None }).collect();
            prop_assert_eq!(lines, expected);
            // A break stands exactly where two neighbours are not consecutive.
            let mut last = None;
            let mut is_break = false;
            for line in &selected {
                match line {
                    Selected::Break => is_break = true,
                    Selected::Line(line) => {
                        if before + after > 0 {
                            prop_assert_eq!(is_break, last.is_some_and(|last: usize| last + 1 != *line));
                        }
                        (last, is_break) = (Some(*line), false);
                    }
                }
            }
            prop_assert!(!is_break);
        }
    }
}
