//! Views of a job's output: which lines, in which form, how much of them.
//!
//! A view takes pieces of the log as they are read or come in, and hands on lines. It is the same for a log that is over
//! and for one that is followed; only a view that must fit a budget waits for the end.

use outlive_core::budget::{Budget, Fitter, looks_like_error};
use outlive_core::context::{Context, Selected};
use outlive_core::index::Stream;
use outlive_core::lines::{Assembler, Line};
use outlive_core::plain::Plain;
use outlive_core::rendered::Rendered;
use outlive_core::timestamp::Timestamp;

use crate::output::Piece;
use crate::output::search::Search;

/// In which form text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// As it was printed.
    #[default]
    Raw,
    /// Without control sequences.
    Plain,
    /// What a terminal would have left on the page.
    Rendered,
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// So many lines of the beginning and of the end.
    HeadAndTail(u64, u64),
    /// What fits, errors from the middle included.
    Budget(Budget),
}

/// A line of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextLine {
    /// Its number in the log; in a rendered view, on the page.
    pub number: u64,
    /// Whose it is; unknown in a rendered view of both.
    pub stream: Option<Stream>,
    /// When its end came.
    pub time: Option<Timestamp>,
    /// Its text; UTF-8 unless the form is raw.
    pub text: Vec<u8>,
    /// How often it stands there in a row.
    pub repeated: u32,
    /// How much more it has than is shown.
    pub cut: u64,
    /// Whether its newline has come.
    pub is_ended: bool,
}

/// What a view hands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewItem {
    /// A line.
    Line(TextLine),
    /// Lines that did not match were left out here.
    Break,
    /// Lines were left out here to fit.
    Omitted {
        /// The first, by its number.
        from_line: u64,
        /// The last.
        to_line: u64,
        /// How many.
        lines: u64,
        /// How many bytes.
        bytes: u64,
        /// Those of them that tell of errors.
        rescued: Vec<TextLine>,
    },
    /// These bytes were dropped for the cap.
    Gone {
        /// The first.
        from: u64,
        /// The first that is there again.
        to: u64,
    },
    /// So many bytes could not be kept here.
    Lost(u64),
}

/// Turns pieces of a log into lines.
#[derive(Debug)]
pub struct View {
    /// Only one stream.
    stream: Option<Stream>,
    /// Only lines from this number on.
    from_line: u64,
    /// Only lines of this time.
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    source: Source,
    search: Search,
    context: Context<TextLine>,
    fitter: Option<Fitter<TextLine>>,
    /// The first line that was left out before anything could be fitted.
    limit: Option<u64>,
    shown: u64,
}

#[derive(Debug)]
enum Source {
    Raw(Assembler),
    Plain(Assembler, Box<[Plain; 3]>),
    Rendered { page: Box<Rendered>, lines: u64, time: Option<Timestamp> },
}

impl View {
    /// Begins a view at a place of the log whose unfinished lines `assembler` has.
    pub fn new(form: Form, columns: Option<usize>, assembler: Assembler) -> Self {
        let source = match form {
            Form::Raw => Source::Raw(assembler),
            Form::Plain => Source::Plain(assembler, Box::default()),
            Form::Rendered => {
                Source::Rendered { page: Box::new(Rendered::new(columns)), lines: 0, time: None }
            }
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

    /// Shows only what came in this time.
    pub fn between(mut self, since: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        (self.since, self.until) = (since, until);
        self
    }

    /// Shows only lines that are searched for.
    pub fn search(mut self, search: Search) -> Self {
        self.context = Context::new(search.before, search.after);
        self.search = search;
        self
    }

    /// Shows only what fits.
    pub fn fit(mut self, fit: Option<Fit>) -> Self {
        self.fitter = fit.map(|fit| match fit {
            Fit::HeadAndTail(head, tail) => Fitter::head_and_tail(head, tail),
            Fit::Budget(budget) => Fitter::new(budget),
        });
        self
    }

    /// Shows at most so many lines.
    pub fn limit(mut self, lines: Option<u64>) -> Self {
        self.limit = lines;
        self
    }

    /// Tells whether nothing more will be shown, whatever comes.
    pub fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.shown >= limit)
    }

    /// Replaces what is known of unfinished lines, where the log goes on after a hole.
    pub fn resume(&mut self, assembler: Assembler) {
        match &mut self.source {
            Source::Raw(old) | Source::Plain(old, _) => *old = assembler,
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
                if *lost_before > 0 {
                    emit(ViewItem::Lost(*lost_before));
                }
                (*stream, *time, bytes)
            }
        };
        let mut lines = Vec::new();
        match &mut self.source {
            Source::Raw(assembler) => assembler.push(stream, time, bytes, |line| lines.push(line.into())),
            Source::Plain(assembler, plain) => {
                assembler.push(stream, time, bytes, |line| stripped(plain, line, &mut lines));
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

    /// Hands on what had to wait, but not lines that have not ended yet.
    pub fn finish_ended(mut self, emit: impl FnMut(ViewItem)) {
        self.hand_over(emit);
    }

    /// Hands on what has not ended yet, and what had to wait.
    pub fn finish(mut self, mut emit: impl FnMut(ViewItem)) {
        let mut lines = Vec::new();
        match &mut self.source {
            Source::Raw(assembler) => lines.extend(assembler.unfinished().into_iter().map(TextLine::from)),
            Source::Plain(assembler, plain) => {
                for line in assembler.unfinished() {
                    stripped(plain, line, &mut lines);
                }
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
                // A line of several frames is left out whole, so that asking for it by its number brings all of it.
                while let Some(line) = fitted.head.pop_if(|line| line.number == omitted.first.number) {
                    omitted.lines += 1;
                    omitted.bytes += line.text.len() as u64 + 1;
                }
            }
            fitted.head.into_iter().for_each(|line| emit(ViewItem::Line(line)));
            if let Some(omitted) = fitted.omitted {
                let (from_line, to_line) = (omitted.first.number, omitted.last.number);
                let (lines, bytes, rescued) = (omitted.lines, omitted.bytes, omitted.rescued);
                emit(ViewItem::Omitted { from_line, to_line, lines, bytes, rescued });
            }
            fitted.tail.into_iter().for_each(|line| emit(ViewItem::Line(line)));
        }
    }

    fn select(&mut self, line: TextLine, emit: &mut impl FnMut(ViewItem)) {
        // Times are shown to the millisecond, and a line is of the time that is shown.
        let is_in_time = self.since.is_none_or(|since| line.time.is_none_or(|time| time >= since))
            && self.until.is_none_or(|until| line.time.is_none_or(|time| time.0 / 1000 <= until.0 / 1000));
        let is_of_stream = self.stream.is_none() || line.stream == self.stream;
        if !is_in_time || !is_of_stream || self.is_full() {
            return;
        }
        let is_match = self.search.is_match(&line.text);
        let (fitter, shown, limit, from_line) =
            (&mut self.fitter, &mut self.shown, self.limit, self.from_line);
        self.context.push(line, is_match, |selected| {
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

impl From<Line> for TextLine {
    fn from(line: Line) -> Self {
        Self {
            number: line.number,
            stream: line.stream,
            time: line.time,
            text: line.text,
            repeated: 1,
            cut: line.cut_bytes,
            is_ended: line.is_ended,
        }
    }
}

/// Strips a line; one with progress frames in it becomes several with the same number.
fn stripped(plain: &mut [Plain; 3], line: Line, lines: &mut Vec<TextLine>) {
    let stripper = &mut plain[line.stream.map_or(2, Stream::index)];
    let mut text = Vec::new();
    stripper.push(&line.text, &mut text);
    if line.is_ended {
        stripper.push(b"\n", &mut text);
    } else {
        // Only looked at: when the rest comes, it goes on from here.
        std::mem::take(stripper).finish(&mut text);
    }
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    for part in text.split(|&byte| byte == b'\n') {
        lines.push(Line { text: part.to_vec(), ..line.clone() }.into());
    }
}

fn on_page(
    line: outlive_core::rendered::RenderedLine,
    count: &mut u64,
    stream: Option<Stream>,
    time: Option<Timestamp>,
) -> TextLine {
    let number = *count + 1;
    *count += u64::from(line.repeated);
    TextLine {
        number,
        stream,
        time,
        text: line.text.into_bytes(),
        repeated: line.repeated,
        cut: line.cut_columns,
        is_ended: true,
    }
}
