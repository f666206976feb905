//! Fitting lines into the room of an answer: whole where they fit, else alike lines folded and the middle left out.

use std::collections::VecDeque;

use outlive::{Budget, Fitter, Form, Line, Search, ViewItem, Weight, weigh};

use super::fold::{CONTEXT, Folder, Item};
use super::{Room, Selection, Shown};
use crate::reply::{MARK, push_line, thousands};

/// Collects lines, only the last ones if asked for, and fits them into the room.
pub(super) struct Sink {
    base: u64,
    room: Room,
    tail: Option<(usize, VecDeque<Line>)>,
    /// All lines, as long as there is room for all.
    whole: Option<Vec<Line>>,
    whole_bytes: usize,
    /// None where each line is wanted as it is.
    folder: Option<Folder>,
    fitter: Fitter<Item>,
    range: Option<(u64, u64)>,
    /// With a search, lines have their numbers, and matches are counted.
    search: Option<Search>,
    matches: u64,
    /// How many lines there are, shown or not.
    lines: u64,
    notes: Vec<String>,
}

impl Sink {
    pub(super) fn new(selection: &Selection, base: u64, tail: Option<u64>) -> Self {
        let budget = Budget { bytes: Some(selection.room.cut as u64), ..Budget::default() };
        Self {
            base,
            room: selection.room,
            tail: tail.map(|count| (usize::try_from(count).unwrap_or(usize::MAX), VecDeque::new())),
            whole: Some(Vec::new()),
            whole_bytes: 0,
            folder: (selection.form == Form::Rendered).then(Folder::default),
            fitter: Fitter::for_reasons(budget, CONTEXT),
            range: None,
            search: Some(selection.search.clone()).filter(|search| !search.is_everything()),
            matches: 0,
            lines: 0,
            notes: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, item: ViewItem) {
        match item {
            ViewItem::Line(line) => self.line(line),
            ViewItem::Gone { from, to } => self
                .notes
                .push(format!("{} bytes of older output are no longer kept", to.saturating_sub(from))),
            ViewItem::Break | ViewItem::Omitted(_) => {}
        }
    }

    fn line(&mut self, mut line: Line) {
        line.number += self.base;
        self.matches += u64::from(self.search.as_ref().is_some_and(|search| search.is_match(&line.text)));
        // So that one long line does not displace all others.
        cut(&mut line, (self.room.whole / 4).max(200));
        match &mut self.tail {
            None => self.fit(line),
            Some((0, _)) => {}
            Some((count, lines)) => {
                if lines.len() >= *count {
                    lines.pop_front();
                }
                lines.push_back(line);
            }
        }
    }

    /// Keeps a line, whole as long as all have room; from then on alike lines are folded, and the middle is left out.
    fn fit(&mut self, line: Line) {
        let last = line.number + u64::from(line.repeated.saturating_sub(1));
        self.range = Some((self.range.map_or(line.number, |(first, _)| first), last));
        self.whole_bytes += self.shown(&line).len();
        match &mut self.whole {
            Some(lines) => lines.push(line),
            None => self.fold(line),
        }
        if self.whole_bytes > self.room.whole {
            self.whole.take().into_iter().flatten().for_each(|line| self.fold(line));
        }
    }

    fn fold(&mut self, mut line: Line) {
        cut(&mut line, (self.room.cut / 4).max(200));
        match self.folder.take() {
            None => {
                let weight = weigh(&line.text);
                self.push(Item::Line(line), weight);
            }
            Some(mut folder) => {
                folder.push(line, |item, weight| self.push(item, weight));
                self.folder = Some(folder);
            }
        }
    }

    fn push(&mut self, item: Item, weight: Weight) {
        let bytes = match &item {
            Item::Line(line) => self.shown(line).len(),
            Item::Folded { count, .. } => folded(*count).len(),
        };
        self.lines += item.lines();
        self.fitter.push_as(item, bytes as u64, weight);
    }

    /// Returns a line as it is shown.
    fn shown(&self, line: &Line) -> String {
        let words = String::from_utf8_lossy(&line.text);
        let prefix = self.search.as_ref().map(|search| {
            let has_context = search.before + search.after > 0;
            let sign = if has_context && !search.is_match(&line.text) { '-' } else { ':' };
            format!("{}{sign} ", line.number)
        });
        let mut text = String::new();
        push_line(&mut text, &format!("{}{words}{}", prefix.unwrap_or_default(), suffix(line)));
        text
    }

    pub(super) fn finish(mut self, shown: &mut Shown) {
        if let Some((_, lines)) = self.tail.take() {
            lines.into_iter().for_each(|line| self.fit(line));
        }
        shown.range = self.range;
        shown.matches = self.search.as_ref().map(|_| self.matches);
        shown.notes.append(&mut self.notes);
        if let Some(lines) = self.whole.take() {
            shown.text = lines.iter().map(|line| self.shown(line)).collect();
            return;
        }
        if let Some(folder) = self.folder.take() {
            folder.finish(|item, weight| self.push(item, weight));
        }
        let budget = Fitter::for_reasons(Budget::default(), 0);
        let fitted = std::mem::replace(&mut self.fitter, budget).finish();
        let shown_lines: u64 = fitted.head.iter().chain(&fitted.tail).map(Item::lines).sum();
        let mut hidden = Hidden::default();
        fitted.head.iter().for_each(|item| self.show(item, shown, &mut hidden));
        if let Some(omitted) = fitted.omitted {
            let (first, last) = (omitted.first.first(), omitted.last.last());
            let lines = self.lines - shown_lines;
            hidden.add(first, lines);
            let rescued: Vec<&Line> = omitted.rescued.iter().filter_map(Item::line).collect();
            let of_them = match (rescued.is_empty(), omitted.errors) {
                (true, _) => String::new(),
                (false, 0) => ", with these warnings:".to_owned(),
                (false, errors) => {
                    format!(", with {errors} {}:", if errors == 1 { "error" } else { "errors" })
                }
            };
            shown.text += &format!("{MARK} {} lines left out: {first}-{last}{of_them}\n", thousands(lines));
            for line in &rescued {
                let words = self.shown(line);
                let number = if self.search.is_some() { String::new() } else { format!("{}: ", line.number) };
                shown.text += &format!("{number}{words}");
            }
            if !rescued.is_empty() {
                shown.text += &format!("{MARK} end of those left out\n");
            }
        }
        fitted.tail.iter().for_each(|item| self.show(item, shown, &mut hidden));
        shown.omitted = hidden.first.map(|first| (first, hidden.lines));
    }

    fn show(&self, item: &Item, shown: &mut Shown, hidden: &mut Hidden) {
        match item {
            Item::Line(line) => {
                hidden.lines_after += item.lines();
                shown.text += &self.shown(line);
            }
            Item::Folded { first, count } => {
                hidden.add(*first, *count);
                shown.text += &folded(*count);
            }
        }
    }
}

/// The lines from the first to the last that are not shown.
#[derive(Debug, Default)]
struct Hidden {
    /// The number of the first.
    first: Option<u64>,
    lines: u64,
    /// How many are shown after the last that is not.
    lines_after: u64,
}

impl Hidden {
    fn add(&mut self, first: u64, count: u64) {
        if self.first.is_none() {
            (self.first, self.lines_after) = (Some(first), 0);
        }
        self.lines += std::mem::take(&mut self.lines_after) + count;
    }
}

fn folded(count: u64) -> String {
    format!("{MARK} … {} lines like this\n", thousands(count))
}

/// Says what of a line is not shown.
fn suffix(line: &Line) -> String {
    let mut suffix = String::new();
    if line.cut_bytes > 0 {
        suffix += &format!(" […{} more]", line.cut_bytes);
    }
    if line.repeated > 1 && !line.text.is_empty() {
        suffix += &format!(" [{} times]", line.repeated);
    }
    suffix
}

/// Cuts a line at the border of a character.
fn cut(line: &mut Line, widest: usize) {
    if line.text.len() <= widest {
        return;
    }
    let mut end = widest;
    while end > widest.saturating_sub(4) && line.text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    line.cut_bytes += (line.text.len() - end) as u64;
    line.text.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_between_characters() {
        let mut line = Line {
            number: 1,
            stream: None,
            time: None,
            text: "é".repeat(100).into_bytes(),
            repeated: 1,
            cut_bytes: 0,
            lost_bytes: 0,
            is_ended: true,
        };
        cut(&mut line, 51);
        assert_eq!((String::from_utf8(line.text).unwrap().len(), line.cut_bytes), (50, 150));
    }
}
