//! A row of the page: its characters by column.

use std::ops::Range;

use super::MAX_COLUMNS;

/// The second column of a wide character.
const HALF: char = '\0';

/// The last column of a row, left over because a wide character did not fit.
pub(super) const SPARE: char = '\u{1}';

/// A stretch of blanks that is copied at once.
const BLANKS: &str = "                                ";

/// How far tab stops are apart.
pub(super) const TAB: usize = 8;

/// A row; columns after the last cell are blank.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    cells: Vec<char>,
    /// Combining marks by column, in order.
    marks: Vec<(usize, char)>,
    /// How many columns were written after the last that is kept.
    pub(super) cut: u64,
    /// Set when the text went on in the next row because this one was full.
    wrap: Option<Wrap>,
}

/// The mark of a row that was full. It belongs to the character at the edge and moves with it, as in a terminal: deleting
/// characters before it ends the line, and inserting as many joins it again.
#[derive(Debug, Clone, Copy)]
struct Wrap {
    /// The column of that character.
    at: usize,
    /// The last column.
    edge: usize,
}

impl Row {
    pub(super) fn clear(&mut self) {
        self.cells.clear();
        self.marks.clear();
        self.cut = 0;
        self.wrap = None;
    }

    pub(super) fn is_blank(&self) -> bool {
        self.cut == 0 && !self.wraps() && self.marks.is_empty() && self.end() == 0
    }

    /// Notes that the row was full, up to a width, and the text went on in the next.
    pub(super) fn wrap(&mut self, width: usize) {
        self.wrap = Some(Wrap { at: width - 1, edge: width - 1 });
        if self.cells.len() < width {
            self.cells.resize(width, ' ');
        }
    }

    /// Returns whether the next row goes on with the same line.
    ///
    /// Some programs never write a newline but fill each row with blanks to the edge. They mean lines.
    pub(super) fn goes_on(&self) -> bool {
        let is_filled_up = matches!(self.cells[..], [.., ' ' | '\t', ' ' | '\t']);
        self.wraps() && !is_filled_up
    }

    /// Returns whether the text went on in the next row.
    fn wraps(&self) -> bool {
        self.wrap.is_some_and(|wrap| wrap.at == wrap.edge)
    }

    /// Forgets that, if the character that says so is among these.
    fn unwrap_at(&mut self, range: &Range<usize>) {
        self.wrap = self.wrap.filter(|wrap| !range.contains(&wrap.at));
    }

    /// Forgets that the text went on in the next row.
    pub(super) fn end_line(&mut self) {
        self.wrap = None;
    }

    /// Returns the first of the columns that are blank to the end.
    fn end(&self) -> usize {
        let text = self.cells.iter().rposition(|&cell| !matches!(cell, ' ' | '\t')).map_or(0, |at| at + 1);
        text.max(self.marks.last().map_or(0, |&(at, _)| at + 1))
    }

    /// Blanks a wide character of which one column is before `at` and one is not.
    fn part(&mut self, at: usize) {
        if self.cells.get(at) == Some(&HALF) {
            self.cells[at - 1..=at].fill(' ');
            self.unmark(at - 1..at + 1);
        }
    }

    fn unmark(&mut self, range: Range<usize>) {
        if !self.marks.is_empty() {
            self.marks.retain(|(at, _)| !range.contains(at));
        }
    }

    /// Makes a range ready to be written: there, and without marks and halves of wide characters.
    fn open(&mut self, range: Range<usize>) -> &mut [char] {
        self.unwrap_at(&range);
        self.part(range.start);
        self.part(range.end);
        self.unmark(range.clone());
        if self.cells.len() < range.end {
            self.cells.resize(range.end, ' ');
        }
        &mut self.cells[range]
    }

    pub(super) fn write_ascii(&mut self, at: usize, ascii: &[u8]) {
        if self.cells.len() == at && self.marks.is_empty() {
            self.cells.extend(ascii.iter().map(|&byte| char::from(byte)));
            return;
        }
        let cells = self.open(at..at + ascii.len());
        for (cell, &byte) in cells.iter_mut().zip(ascii) {
            *cell = char::from(byte);
        }
    }

    /// Writes a character that is one or two columns wide.
    pub(super) fn write(&mut self, at: usize, character: char, width: usize) {
        let cells = self.open(at..at + width);
        cells.fill(HALF);
        cells[0] = character;
    }

    /// Adds a combining mark to the character whose last column this is.
    ///
    /// There is at most about one a column: what is piled up beyond that is no writing.
    pub(super) fn mark(&mut self, mut at: usize, mark: char) {
        if self.cells.get(at) == Some(&HALF) {
            at -= 1;
        }
        if self.cells.len() <= at {
            self.cells.resize(at + 1, ' ');
        }
        if self.marks.len() < self.cells.len() + 16 {
            let place = self.marks.partition_point(|&(other, _)| other <= at);
            self.marks.insert(place, (at, mark));
        }
    }

    /// Notes that a tab went from here, if nothing is here.
    pub(super) fn tab(&mut self, at: usize) {
        match self.cells.get_mut(at) {
            Some(cell @ ' ') => *cell = '\t',
            Some(_) => {}
            None => {
                self.cells.resize(at, ' ');
                self.cells.push('\t');
            }
        }
    }

    /// Blanks a column that was left over before a wide character which is gone.
    pub(super) fn fill_spare(&mut self) {
        if let Some(cell @ &mut SPARE) = self.cells.last_mut() {
            *cell = ' ';
        }
    }

    /// Returns whether a wide character has this column.
    pub(super) fn is_wide(&self, at: usize) -> bool {
        self.cells.get(at) == Some(&HALF) || self.cells.get(at + 1) == Some(&HALF)
    }

    pub(super) fn erase(&mut self, range: Range<usize>) {
        self.unwrap_at(&range);
        let range = range.start..range.end.min(self.cells.len());
        if range.start >= range.end {
            return;
        }
        if range.end == self.cells.len() {
            self.part(range.start);
            self.unmark(range.start..usize::MAX);
            self.cells.truncate(range.start);
        } else {
            self.open(range).fill(' ');
        }
    }

    /// Moves what is at `at` and after by `count`, within a width.
    pub(super) fn insert(&mut self, at: usize, count: usize, width: usize) {
        self.part(at);
        if at >= self.cells.len() {
            return;
        }
        let count = count.min(width - at);
        self.wrap =
            self.wrap.map(|wrap| Wrap { at: if wrap.at < at { wrap.at } else { wrap.at + count }, ..wrap });
        self.wrap = self.wrap.filter(|wrap| wrap.at <= wrap.edge);
        let wrap = self.wrap;
        // What leaves the row goes first, so that the row never grows beyond its width.
        let kept = self.cells.len().min(width - count);
        self.erase(kept..usize::MAX);
        // What was erased has moved on before, and its mark with it.
        self.wrap = wrap;
        let old = self.cells.len();
        self.cells.resize(old + count, ' ');
        self.cells.copy_within(at..old, at + count);
        self.cells[at..at + count].fill(' ');
        for (column, _) in &mut self.marks {
            if *column >= at {
                *column += count;
            }
        }
    }

    /// Takes columns out.
    pub(super) fn delete(&mut self, at: usize, count: usize) {
        let range = at..(at + count).min(self.cells.len());
        if range.start >= range.end {
            return;
        }
        self.unwrap_at(&range);
        if let Some(wrap) = self.wrap.as_mut().filter(|wrap| wrap.at >= range.end) {
            wrap.at -= range.len();
        }
        self.part(range.start);
        self.part(range.end);
        self.unmark(range.clone());
        for (column, _) in &mut self.marks {
            if *column >= range.end {
                *column -= count;
            }
        }
        self.cells.drain(range);
    }

    /// Appends the row to a line that has so many columns already, and returns how many columns did not fit.
    ///
    /// A tab stays one where it still goes as far as it did.
    pub(super) fn append_to(&self, line: &mut String, columns: &mut usize) -> u64 {
        let end = if self.goes_on() { self.cells.len() } else { self.end() };
        let keeps_tabs = *columns == 0;
        let kept = end.min(MAX_COLUMNS - *columns);
        let mut marks = self.marks.iter().peekable();
        let mut at = 0;
        while at < kept {
            // Rows are often blank, and a program can make many of them with few bytes.
            let cell = self.cells[at];
            if cell == ' ' && self.marks.is_empty() && self.cells[at..kept].starts_with(&[' '; BLANKS.len()])
            {
                line.push_str(BLANKS);
                at += BLANKS.len();
                continue;
            }
            let is_marked = marks.peek().is_some_and(|&&(column, _)| column == at);
            let stop = (at / TAB + 1) * TAB;
            match cell {
                HALF | SPARE => {}
                '\t' if keeps_tabs && !is_marked && stop <= kept && self.is_untouched(at + 1..stop) => {
                    line.push('\t');
                    at = stop;
                    continue;
                }
                '\t' => line.push(' '),
                character => line.push(character),
            }
            while let Some((_, mark)) = marks.next_if(|&&(column, _)| column == at) {
                line.push(*mark);
            }
            at += 1;
        }
        *columns += kept;
        self.cut + (end - kept) as u64
    }

    fn is_untouched(&self, range: Range<usize>) -> bool {
        self.cells[range.clone()].iter().all(|&cell| cell == ' ')
            && !self.marks.iter().any(|(column, _)| range.contains(column))
    }
}
