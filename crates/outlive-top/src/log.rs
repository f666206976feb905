//! The output of one job: the lines that are in view, where that is, and what is searched for.
//!
//! Only what is in view is read, however long the log is: from its end while it is followed, else from a line.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use outlive::{Form, Job, JobScreen, Line, Output, Piece, Search, View, ViewItem};
use outlive_sys::poll;
use outlive_sys::watch::Watches;

use crate::text;
use crate::theme::Theme;

/// What is in view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The end, whatever comes.
    End,
    /// What begins with the line of this number.
    From(u64),
}

/// Lines that were chosen to be copied, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Selection {
    anchor: u64,
    /// The one that keys move.
    pub(crate) head: u64,
}

impl Selection {
    pub(crate) fn range(self) -> std::ops::RangeInclusive<u64> {
        self.anchor.min(self.head)..=self.anchor.max(self.head)
    }
}

/// The output of a job, open.
#[derive(Debug)]
pub(crate) struct Log {
    output: Output,
    /// What stands on its terminal, if it has one.
    pub(crate) screen: Option<JobScreen>,
    /// The lines are shown in place of the screen.
    pub(crate) shows_lines: bool,
    watches: Watches,
    place: Place,
    /// The place is another since the lines were read.
    is_moved: bool,
    width: usize,
    /// How many lines fit.
    height: u64,
    pub(crate) lines: Vec<Line>,
    pub(crate) is_wrapped: bool,
    /// The first column in view, where lines are not wrapped.
    pub(crate) left: usize,
    pub(crate) search: Search,
    /// Numbers of the lines that match, as far as the log was searched.
    matches: Vec<u64>,
    searched_to: u64,
    /// The line that was found last.
    pub(crate) found: Option<u64>,
    pub(crate) selection: Option<Selection>,
}

impl Log {
    pub(crate) fn open(job: &Job) -> io::Result<Self> {
        let mut watches = Watches::new();
        // Before the first look, so that nothing is missed in between.
        watches.add(job.path());
        let screen = JobScreen::of(job)?;
        Ok(Self {
            output: Output::open(job)?,
            shows_lines: screen.is_none(),
            screen,
            watches,
            place: Place::End,
            is_moved: false,
            width: 0,
            height: 0,
            lines: Vec::new(),
            is_wrapped: false,
            left: 0,
            search: Search::default(),
            matches: Vec::new(),
            searched_to: 0,
            found: None,
            selection: None,
        })
    }

    /// Returns what to poll for.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watches.fd()
    }

    /// Tells whether more may have come since it was read.
    pub(crate) fn has_changed(&self) -> bool {
        self.fd().is_some_and(|fd| poll::readable(fd, Some(Duration::ZERO)).unwrap_or(false))
    }

    /// Tells how long a change may go unnoticed; none where the kernel pushes.
    pub(crate) fn nap(&self) -> Option<Duration> {
        self.watches.nap()
    }

    pub(crate) fn is_followed(&self) -> bool {
        self.place == Place::End
    }

    /// Reads what is in view in so many rows of this width.
    pub(crate) fn read(&mut self, width: usize, height: usize) -> io::Result<()> {
        self.watches.changed();
        (self.width, self.height, self.is_moved) = (width, height as u64, false);
        if let Some(screen) = self.screen.as_mut().filter(|_| !self.shows_lines) {
            screen.advance()?;
            return Ok(());
        }
        self.output.refresh()?;
        if let Place::From(first) = self.place {
            self.lines = self.lines_from(first, self.height)?;
            let rows: usize = self.lines.iter().map(|line| self.row_count(line, width)).sum();
            if rows >= height {
                // Lines before it may no longer be kept.
                self.place = Place::From(self.lines.first().map_or(first, |line| line.number));
                return Ok(());
            }
            // The end is in view, and stays there.
            self.place = Place::End;
        }
        self.lines = self.output.tail(self.height, None)?;
        // Lines that take several rows push the first ones out of view.
        let mut rows = 0;
        let is_beyond = |line: &Line| {
            let is_beyond = rows >= height;
            rows += self.row_count(line, width);
            is_beyond
        };
        let hidden = self.lines.iter().rposition(is_beyond).map_or(0, |place| place + 1);
        self.lines.drain(..hidden);
        let last = self.last();
        if let Some(selection) = &mut self.selection {
            selection.head = selection.head.min(last);
        }
        Ok(())
    }

    /// Counts the rows that a line takes.
    fn row_count(&self, line: &Line, width: usize) -> usize {
        if !self.is_wrapped {
            return 1;
        }
        text::rows(&text::read(&line.text, Theme { is_coloured: false }), width, true, 0).len()
    }

    /// Reads lines from a number on.
    fn lines_from(&mut self, first: u64, count: u64) -> io::Result<Vec<Line>> {
        let mut place = self.output.offset_before_line(first);
        let assembler = self.output.assembler_at(place)?;
        let mut view = View::new(Form::Raw, assembler).from_line(first).limit(Some(count));
        let mut lines = Vec::new();
        let mut take = |item: ViewItem| {
            if let ViewItem::Line(line) = item {
                lines.push(line);
            }
        };
        // What is printed meanwhile is left to the next look.
        let end = self.output.end();
        while !view.is_full()
            && place < end
            && let Some(piece) = self.output.piece(place)?
        {
            place = match &piece {
                Piece::Output { offset, bytes, .. } => offset + bytes.len() as u64,
                Piece::Gone { to, .. } => {
                    view.resume(self.output.assembler_at(*to)?);
                    *to
                }
            };
            view.push(&piece, &mut take);
        }
        if !view.is_full() {
            view.finish(take);
        }
        Ok(lines)
    }

    fn first(&self) -> u64 {
        match self.place {
            Place::From(number) => number,
            Place::End => self.lines.first().map_or(1, |line| line.number),
        }
    }

    fn last(&self) -> u64 {
        self.lines.last().map_or(1, |line| line.number)
    }

    fn go(&mut self, place: Place) {
        (self.place, self.is_moved) = (place, true);
    }

    /// Reads the lines at a place that was gone to: several keys may come between two looks.
    fn arrive(&mut self) {
        if self.is_moved {
            // The next look shows what is wrong, if it stays so.
            self.read(self.width, self.height as usize).ok();
        }
    }

    /// Moves by lines: up or down. With a selection, its end is moved and kept in view.
    pub(crate) fn scroll(&mut self, lines: i64) {
        if self.is_followed() || self.selection.is_some() {
            self.arrive();
        }
        if let Some(selection) = &mut self.selection {
            selection.head = selection.head.saturating_add_signed(lines).max(1);
            let head = selection.head;
            return self.show_line(head);
        }
        self.go(Place::From(self.first().saturating_add_signed(lines).max(1)));
    }

    pub(crate) fn page(&mut self, pages: i64) {
        self.scroll(pages * i64::try_from(self.height.max(2) - 1).unwrap_or(1));
    }

    pub(crate) fn half_page(&mut self, pages: i64) {
        self.scroll(pages * i64::try_from(self.height.max(2) / 2).unwrap_or(1));
    }

    pub(crate) fn go_to_start(&mut self) {
        if let Some(selection) = &mut self.selection {
            selection.head = 1;
        }
        self.go(Place::From(1));
    }

    pub(crate) fn go_to_end(&mut self) {
        self.go(Place::End);
        self.arrive();
        let last = self.last();
        if let Some(selection) = &mut self.selection {
            selection.head = last;
        }
    }

    /// Follows, or stays at the lines in view.
    pub(crate) fn toggle_follow(&mut self) {
        self.arrive();
        self.go(if self.is_followed() { Place::From(self.first()) } else { Place::End });
    }

    /// Brings a line into view.
    fn show_line(&mut self, number: u64) {
        if number < self.first() {
            self.go(Place::From(number));
        } else if number > self.last() {
            self.go(Place::From((number + 1).saturating_sub(self.height).max(1)));
        }
    }

    /// Begins to select at the last line in view, or ends it.
    pub(crate) fn toggle_selection(&mut self) {
        self.arrive();
        let last = self.last();
        self.selection = match self.selection {
            None if !self.lines.is_empty() => Some(Selection { anchor: last, head: last }),
            _ => None,
        };
        if self.selection.is_some() {
            // What is selected does not run away.
            self.go(Place::From(self.first()));
        }
    }

    /// Returns the lines to copy: the selected ones, else those in view.
    pub(crate) fn lines_to_copy(&mut self, most: u64) -> io::Result<Vec<Line>> {
        self.arrive();
        match self.selection.map(Selection::range) {
            Some(range) => self.lines_from(*range.start(), (range.end() - range.start() + 1).min(most)),
            None => Ok(self.lines.clone()),
        }
    }

    /// Searches for something else; goes to the last match that is not after the lines in view, else to the first after them.
    pub(crate) fn find(&mut self, search: Search) -> io::Result<bool> {
        (self.search, self.matches, self.searched_to, self.found) = (search, Vec::new(), 0, None);
        self.arrive();
        self.search_on()?;
        let last = self.last();
        let place = self.matches.partition_point(|&number| number <= last);
        let found = place.checked_sub(1).or((!self.matches.is_empty()).then_some(0));
        Ok(self.go_to_match(found))
    }

    /// Goes to the next match, or the one before.
    pub(crate) fn find_next(&mut self, is_back: bool) -> io::Result<bool> {
        self.arrive();
        self.search_on()?;
        let from = self.focus();
        let found = match is_back {
            true => self.matches.partition_point(|&number| number < from).checked_sub(1),
            false => Some(self.matches.partition_point(|&number| number <= from)),
        };
        Ok(self.go_to_match(found))
    }

    /// The line that a search goes on from.
    fn focus(&self) -> u64 {
        match self.selection {
            Some(selection) => selection.head,
            None => self.found.unwrap_or_else(|| self.first()),
        }
    }

    fn go_to_match(&mut self, place: Option<usize>) -> bool {
        let Some(&number) = place.and_then(|place| self.matches.get(place)) else { return false };
        self.found = Some(number);
        // What was found does not run away.
        self.go(Place::From(self.first()));
        self.show_line(number);
        if let Some(selection) = &mut self.selection {
            selection.head = number;
        }
        true
    }

    /// Searches what came since.
    fn search_on(&mut self) -> io::Result<()> {
        let Some(pattern) = self.search.include.clone() else { return Ok(()) };
        self.output.refresh()?;
        let from = self.searched_to.max(self.output.start());
        let end = self.output.end();
        let matches = &mut self.matches;
        self.output.find_lines(from, &pattern, None, |line| {
            // An unfinished line may have matched before.
            if matches.last().is_none_or(|&last| last < line.number) {
                matches.push(line.number);
            }
        })?;
        self.searched_to = end;
        Ok(())
    }
}
