//! Views of a job's output: which lines, in which form, how many.
//!
//! A view takes pieces of the log and emits lines. It is the same for a finished log and for a followed one; only a view with a
//! budget waits for the end.

use outlive_core::budget::{Budget, Fitter, Omitted, looks_like_error};
use outlive_core::context::{Context, Selected};
use outlive_core::display::{Display, without_styles};
use outlive_core::index::Stream;
use outlive_core::lines::{Assembler, Line};
use outlive_core::plain::Plain;
use outlive_core::rendered::Rendered;
use outlive_core::timestamp::Timestamp;

use crate::output::search::Search;
use crate::output::{Loss, Piece};

/// The form of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// As printed.
    #[default]
    Raw,
    /// Without control sequences.
    Plain,
    /// Line by line as a terminal shows it: carriage returns overwrite, and nothing else drives the terminal.
    Display {
        /// Whether colours and styles stay.
        has_colour: bool,
    },
    /// As a terminal would show it at the end.
    Rendered,
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Number of lines from the beginning and from the end.
    HeadAndTail(u64, u64),
    /// As much of the end as fits.
    End(Budget),
    /// As much as fits, including errors from the middle.
    Budget(Budget),
}

/// What a view emits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewItem {
    /// A line to show, in UTF-8 unless the form is raw. In a rendered view it has its number on the page, and no stream if
    /// both are shown. A loss is a line, too, in the place of what was lost.
    Line(Line),
    /// Lines that did not match were skipped here.
    Break,
    /// Lines were omitted here to fit the budget.
    Omitted(Box<Omitted<Line>>),
    /// Output that was dropped for the cap.
    Gone {
        /// Offset of the first missing byte.
        from: u64,
        /// Offset of the first byte that is kept again.
        to: u64,
    },
}

/// Turns pieces of a log into lines.
#[derive(Debug)]
pub struct View {
    stream: Option<Stream>,
    from_line: u64,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    source: Source,
    search: Search,
    context: Context<Line>,
    fitter: Option<Fitter<Line>>,
    limit: Option<u64>,
    most_bytes: Option<usize>,
    shown: u64,
}

#[derive(Debug)]
enum Source {
    Raw(Assembler),
    Plain(Assembler, Box<[Plain; 3]>),
    Display(Assembler, Box<[Display; 3]>),
    Rendered { page: Box<Rendered>, lines: u64, time: Option<Timestamp> },
}

impl View {
    /// Starts a view at an offset of the log; `assembler` has its unfinished lines.
    pub fn new(form: Form, assembler: Assembler) -> Self {
        let source = match form {
            Form::Raw => Source::Raw(assembler),
            Form::Plain => Source::Plain(assembler, Box::default()),
            Form::Display { has_colour } => {
                Source::Display(assembler, Box::new(std::array::from_fn(|_| Display::new(has_colour))))
            }
            Form::Rendered => Source::Rendered { page: Box::new(Rendered::new(None)), lines: 0, time: None },
        };
        Self {
            stream: None,
            from_line: 0,
            since: None,
            until: None,
            source,
            search: Search::default(),
            context: Context::new(0, 0),
            fitter: None,
            limit: None,
            most_bytes: None,
            shown: 0,
        }
    }

    /// Shows only one stream.
    pub fn stream(mut self, stream: Option<Stream>) -> Self {
        self.stream = stream;
        self
    }

    /// Shows only lines from this number on.
    pub fn from_line(mut self, number: u64) -> Self {
        self.from_line = number;
        self
    }

    /// Shows only lines of this time.
    pub fn between(mut self, since: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        (self.since, self.until) = (since, until);
        self
    }

    /// Shows only lines that match.
    pub fn search(mut self, search: Search) -> Self {
        self.context = Context::new(search.before, search.after);
        self.search = search;
        self
    }

    /// Shows only as much as fits.
    pub fn fit(mut self, fit: Option<Fit>) -> Self {
        self.fitter = fit.map(|fit| match fit {
            Fit::HeadAndTail(head, tail) => Fitter::head_and_tail(head, tail),
            Fit::End(budget) => Fitter::end(budget),
            Fit::Budget(budget) => Fitter::new(budget),
        });
        self
    }

    /// Shows at most so many lines.
    pub fn limit(mut self, lines: Option<u64>) -> Self {
        self.limit = lines;
        self
    }

    /// Shows at most so many bytes of a line.
    pub fn cut(mut self, bytes: Option<usize>) -> Self {
        self.most_bytes = bytes;
        self
    }

    /// Tells whether no further line will be shown.
    pub fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.shown >= limit)
    }

    /// Replaces the unfinished lines, after a hole in the log.
    pub fn resume(&mut self, assembler: Assembler) {
        match &mut self.source {
            Source::Raw(old) | Source::Plain(old, _) | Source::Display(old, _) => *old = assembler,
            Source::Rendered { .. } => {}
        }
    }

    /// Takes the next piece of the log.
    pub fn push(&mut self, piece: &Piece, mut emit: impl FnMut(ViewItem)) {
        let (stream, time, bytes) = match piece {
            Piece::Gone { from, to } => {
                emit(ViewItem::Gone { from: *from, to: *to });
                return;
            }
            Piece::Output { stream, time, bytes, lost_before, .. } => {
                lost_before.inspect(|loss| self.lose(loss, &mut emit));
                (*stream, *time, bytes)
            }
        };
        let mut lines = Vec::new();
        match &mut self.source {
            Source::Raw(assembler) => assembler.push(stream, time, bytes, |line| lines.push(line)),
            Source::Plain(assembler, plain) => {
                assembler.push(stream, time, bytes, |line| stripped(plain, line, &mut lines));
            }
            Source::Display(assembler, display) => {
                assembler.push(stream, time, bytes, |line| lines.push(displayed(display, line)));
            }
            Source::Rendered { page, lines: count, time: last } => {
                *last = time;
                if self.stream.is_none() || stream == self.stream {
                    page.push(bytes, |line| lines.push(on_page(line, count, self.stream, time)));
                }
            }
        }
        for line in lines {
            self.select(line, &mut emit);
        }
    }

    /// Ends the lines that a loss tore, and tells of it in its place.
    fn lose(&mut self, loss: &Loss, emit: &mut impl FnMut(ViewItem)) {
        let (mut lines, text) = (Vec::new(), format!("[{loss}]"));
        let assembler = match &mut self.source {
            Source::Raw(assembler) => {
                assembler.tear(|line| lines.push(line));
                assembler
            }
            Source::Plain(assembler, plain) => {
                assembler.tear(|line| stripped(plain, line, &mut lines));
                **plain = Default::default();
                assembler
            }
            Source::Display(assembler, display) => {
                assembler.tear(|line| lines.push(displayed(display, line)));
                display.iter_mut().for_each(Display::clear);
                assembler
            }
            Source::Rendered { page, lines: count, time } => {
                page.tear(&text, |line| lines.push(on_page(line, count, self.stream, *time)));
                return lines.into_iter().for_each(|line| self.select(line, emit));
            }
        };
        lines.push(Line {
            number: assembler.number() + 1,
            stream: None,
            time: loss.time,
            text: text.into_bytes(),
            repeated: 1,
            cut_bytes: 0,
            lost_bytes: loss.bytes,
            is_ended: true,
        });
        lines.into_iter().for_each(|line| self.select(line, emit));
    }

    /// Emits the buffered lines, without unfinished ones.
    pub fn finish_ended(mut self, emit: impl FnMut(ViewItem)) {
        self.hand_over(emit);
    }

    /// Emits the unfinished and the buffered lines.
    pub fn finish(mut self, mut emit: impl FnMut(ViewItem)) {
        let mut lines = Vec::new();
        match &mut self.source {
            Source::Raw(assembler) => lines = assembler.unfinished(),
            Source::Plain(assembler, plain) => {
                for line in assembler.unfinished() {
                    stripped(plain, line, &mut lines);
                }
            }
            Source::Display(assembler, display) => {
                lines = assembler.unfinished().into_iter().map(|line| displayed(display, line)).collect();
            }
            Source::Rendered { page, lines: count, time } => {
                page.finish(|line| lines.push(on_page(line, count, self.stream, *time)));
            }
        }
        for line in lines {
            self.select(line, &mut emit);
        }
        self.hand_over(emit);
    }

    fn hand_over(&mut self, mut emit: impl FnMut(ViewItem)) {
        if let Some(fitter) = self.fitter.take() {
            let mut fitted = fitter.finish();
            if let Some(omitted) = &mut fitted.omitted {
                // A line of several frames is omitted whole, so that its number brings back all of it.
                while let Some(line) = fitted.head.pop_if(|line| line.number == omitted.first.number) {
                    omitted.lines += 1;
                    omitted.bytes += line.text.len() as u64 + 1;
                }
            }
            fitted.head.into_iter().for_each(|line| emit(ViewItem::Line(line)));
            if let Some(omitted) = fitted.omitted {
                emit(ViewItem::Omitted(Box::new(omitted)));
            }
            fitted.tail.into_iter().for_each(|line| emit(ViewItem::Line(line)));
        }
    }

    fn select(&mut self, line: Line, emit: &mut impl FnMut(ViewItem)) {
        // Times are shown in milliseconds, and are compared as shown.
        let is_in_time = self.since.is_none_or(|since| line.time.is_none_or(|time| time >= since))
            && self.until.is_none_or(|until| line.time.is_none_or(|time| time.0 / 1000 <= until.0 / 1000));
        let is_loss = line.lost_bytes > 0;
        let is_of_stream = self.stream.is_none() || line.stream == self.stream || is_loss;
        if !is_in_time || !is_of_stream || self.is_full() {
            return;
        }
        let is_match = is_loss
            || match &self.source {
                Source::Display(..) => self.search.is_match(&without_styles(&line.text)),
                _ => self.search.is_match(&line.text),
            };
        let (fitter, shown, limit, from_line) =
            (&mut self.fitter, &mut self.shown, self.limit, self.from_line);
        let most_bytes = self.most_bytes.unwrap_or(usize::MAX);
        self.context.push(line, is_match, |mut selected| {
            if let Selected::Line(line) = &mut selected {
                line.cut(most_bytes);
            }
            if matches!(&selected, Selected::Line(line) if line.number < from_line) {
                return;
            }
            if limit.is_some_and(|limit| *shown >= limit) {
                return;
            }
            match (selected, &mut *fitter) {
                (Selected::Line(line), Some(fitter)) => {
                    let bytes = line.text.len() as u64 + 1;
                    let is_error = looks_like_error(&line.text);
                    fitter.push(line, bytes, is_error);
                }
                (Selected::Break, Some(_)) => {}
                (Selected::Line(line), None) => {
                    *shown += 1;
                    emit(ViewItem::Line(line));
                }
                (Selected::Break, None) => emit(ViewItem::Break),
            }
        });
    }
}

/// Strips a line; progress frames become several lines with the same number.
fn stripped(plain: &mut [Plain; 3], line: Line, lines: &mut Vec<Line>) {
    let stripper = &mut plain[line.stream.map_or(2, Stream::index)];
    let mut text = Vec::new();
    stripper.push(&line.text, &mut text);
    if line.is_ended {
        stripper.push(b"\n", &mut text);
    } else {
        // On a copy: the rest of the line continues from the current state.
        std::mem::take(stripper).finish(&mut text);
    }
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let parts = text.split(|&byte| byte == b'\n');
    lines.extend(parts.map(|part| Line { text: part.to_vec(), ..line.clone() }));
}

/// Shows a line as a terminal would; one that is unfinished ends in a carriage return if its end is to be overwritten.
fn displayed(displays: &mut [Display; 3], line: Line) -> Line {
    let display = &mut displays[line.stream.map_or(2, Stream::index)];
    let mut text = String::new();
    display.push(line.stream, &line.text, &mut text);
    if line.is_ended {
        display.push(line.stream, b"\n", &mut text);
        text.pop();
    } else {
        text += &display.unfinished();
        display.clear();
    }
    Line { text: text.into_bytes(), ..line }
}

fn on_page(
    line: outlive_core::rendered::RenderedLine,
    count: &mut u64,
    stream: Option<Stream>,
    time: Option<Timestamp>,
) -> Line {
    let number = *count + 1;
    *count += u64::from(line.repeated);
    let (text, cut_bytes) = (line.text.into_bytes(), line.cut_columns);
    Line { number, stream, time, text, repeated: line.repeated, cut_bytes, lost_bytes: 0, is_ended: true }
}
