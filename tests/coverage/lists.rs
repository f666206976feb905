//! What is settled without a proof: `s0.txt` to `s4.txt`.
//!
//! A line of these is one or more ids, `S0-12` or `S0-12..15`, and a verdict: `superseded by ` with the command that does it here in
//! backquotes, `reversed: ` what holds here instead of a limit, `not applicable because `, or `open: ` why it is not met.

use std::collections::BTreeMap;

use crate::Id;

/// How a line is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Another way leads to it; a test shows it with `instead!`.
    Superseded,
    /// A limit that is not kept; a test shows what holds with `instead!`.
    Reversed,
    /// Nothing that outlive could have.
    NotApplicable,
    /// Not met.
    Open,
}

impl Verdict {
    const ALL: [(Self, &str, &str); 4] = [
        (Self::Superseded, "superseded by ", "superseded"),
        (Self::Reversed, "reversed: ", "reversed"),
        (Self::NotApplicable, "not applicable because ", "not applicable"),
        (Self::Open, "open: ", "open"),
    ];

    /// The word that it is counted under.
    pub(crate) fn class(self) -> &'static str {
        Self::ALL.iter().find(|(verdict, ..)| *verdict == self).map_or("", |(.., class)| class)
    }
}

/// A verdict, and the text that the page has.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
}

/// Reads the lists, and says what is wrong with them.
pub(crate) fn settled(lists: &[String]) -> (BTreeMap<Id, Settled>, Vec<String>) {
    let (mut settled, mut problems) = (BTreeMap::new(), Vec::new());
    for line in lists.iter().flat_map(|list| list.lines()).filter(|line| !line.trim().is_empty()) {
        let begins =
            Verdict::ALL.iter().filter_map(|(verdict, begin, _)| Some((line.find(begin)?, begin, *verdict)));
        let Some((at, begin, verdict)) = begins.min_by_key(|(at, ..)| *at) else {
            problems.push(format!("a list has a line without a verdict: {line}"));
            continue;
        };
        if line[at + begin.len()..].trim().is_empty() {
            problems.push(format!("a list gives no reason: {line}"));
        }
        match ids(&line[..at]) {
            Some(ids) => {
                for id in ids {
                    let text = line[at..].trim().to_owned();
                    if settled.insert(id, Settled { verdict, text }).is_some() {
                        problems.push(format!("{id} is settled twice"));
                    }
                }
            }
            None => problems.push(format!("a list has a line that does not begin with ids: {line}")),
        }
    }
    (settled, problems)
}

/// Returns ids that are separated by spaces, ranges spelled out; none if anything else is there.
fn ids(text: &str) -> Option<Vec<Id>> {
    let mut found = Vec::new();
    for word in text.split_whitespace() {
        let (first, last) = word.split_once("..").unwrap_or((word, ""));
        let Id(design, first) = Id::parse(first)?;
        let last = if last.is_empty() { first } else { last.parse().ok()? };
        found.extend((first..=last).map(|number| Id(design, number)));
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_alone_in_lists_and_in_ranges() {
        assert_eq!(ids("S0-1 S1-20 S0-3..4 "), Some(vec![Id(0, 1), Id(1, 20), Id(0, 3), Id(0, 4)]));
        for text in ["", "S0", "S0-1, S0-2", "S0-01", "S0-1..x", "and S0-1"] {
            assert_eq!(ids(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_line_has_ids_and_a_verdict_with_a_reason() {
        let list =
            "S0-1 open: not yet\n\nS0-2..3 reversed: open: to all\nS0-4 fine\nno ids open: x\nS0-5 open: \n";
        let (settled, problems) = settled(&[list.to_owned()]);
        assert_eq!(settled.len(), 4);
        assert_eq!(
            (settled[&Id(0, 1)].verdict, settled[&Id(0, 3)].verdict),
            (Verdict::Open, Verdict::Reversed)
        );
        assert_eq!(settled[&Id(0, 3)].text, "reversed: open: to all");
        assert_eq!(problems.len(), 3, "{problems:?}");
    }
}
