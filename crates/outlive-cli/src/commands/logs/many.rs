//! The output of several jobs at once: merged by time, each line behind the name of its job.

use std::collections::VecDeque;
use std::io;

use outlive::{Followed, Followers, JobObject, Piece, Stream, Timestamp, View, ViewItem};
use unicode_width::UnicodeWidthStr;

use super::printer::Printer;
use super::{Reading, failure, piece_end};
use crate::args::{Color, Logs};
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{ending, is_coloured, note, one_line};
use crate::served;

/// Colours of names, one after the other: those that are read well on light and dark, without the red of failures.
const COLOURS: [u8; 5] = [36, 33, 32, 35, 34];

/// One of the jobs.
struct Source<'a> {
    reading: Reading<'a>,
    prefix: String,
    view: View,
    position: u64,
    /// What was read and is not printed yet.
    items: VecDeque<ViewItem>,
    is_read: bool,
}

pub(super) fn show(
    context: &Context,
    arguments: &Logs,
    readings: Vec<Reading<'_>>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let has_colour = match arguments.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => is_coloured(),
    };
    let prefixes = prefixes(&readings, has_colour);
    let mut sources = Vec::new();
    for (mut reading, prefix) in readings.into_iter().zip(prefixes) {
        let begin = reading.start.max(reading.output.start());
        let view = reading.view(begin).map_err(|error| failure(reading.job, &error))?;
        let position = reading.start;
        sources.push(Source { reading, prefix, view, position, items: VecDeque::new(), is_read: false });
    }
    print_merged(&mut sources, arguments.follow, printer)?;
    if arguments.follow {
        follow(context, &mut sources, printer)?;
    }
    for source in &mut sources {
        printer.go_on_with(source.reading.job.id(), &source.prefix);
        source.reading.tell_end(printer).map_err(|error| failure(source.reading.job, &error))?;
    }
    printer.flush();
    Ok(())
}

/// Prints what there is. Of each job no more is held than the lines of one piece.
fn print_merged(sources: &mut [Source<'_>], is_followed: bool, printer: &mut Printer) -> Result<(), Failure> {
    loop {
        for source in &mut *sources {
            source.fill(is_followed).map_err(|error| failure(source.reading.job, &error))?;
        }
        let waiting = sources.iter_mut().filter(|source| !source.items.is_empty());
        let Some(next) = waiting.min_by_key(|source| source.items.front().and_then(time)) else {
            return Ok(());
        };
        next.print_first(printer);
    }
}

/// Prints what comes, in the order in which it comes, until the last job is closed.
fn follow(context: &Context, sources: &mut [Source<'_>], printer: &mut Printer) -> Result<(), Failure> {
    let wrong = |error: io::Error| Failure::other("logs", &error);
    let jobs = sources.iter().map(|source| (source.reading.job, source.position));
    let mut followers = Followers::new(&context.store, jobs).map_err(wrong)?;
    loop {
        printer.flush();
        let places = sources.iter().map(|source| (source.reading.job.id().as_str(), source.position));
        served::mark(Stream::Stdout, places);
        let Some((place, followed)) = followers.next_of_any().map_err(wrong)? else { return Ok(()) };
        let (source, is_over) = (&mut sources[place], matches!(followed, Followed::End));
        match followed {
            Followed::Piece(piece) => source.take(&piece).map_err(wrong)?,
            Followed::End | Followed::Nothing => source.end(false).map_err(wrong)?,
        }
        while !source.items.is_empty() {
            source.print_first(printer);
        }
        if is_over && !context.is_json {
            printer.flush();
            let job = source.reading.job;
            note(&format!("outlive: {}", ending(&JobObject::new(job, &job.state(&context.store)))));
        }
    }
}

impl Source<'_> {
    /// Reads on until there is something to print, or nothing more.
    fn fill(&mut self, is_followed: bool) -> io::Result<()> {
        while self.items.is_empty() && !self.is_read {
            let piece = match self.position < self.reading.end && !self.view.is_full() {
                true => self.reading.piece(self.position)?,
                false => None,
            };
            let until = self.reading.arguments.until;
            let is_later = matches!((until, &piece), (Some(until), Some(Piece::Output { time: Some(time), .. })) if time.0 / 1000 > until.0 / 1000);
            match piece.filter(|_| !is_later) {
                Some(piece) => self.take(&piece)?,
                None => self.end(is_followed)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, piece: &Piece) -> io::Result<()> {
        self.position = piece_end(piece);
        if let Piece::Gone { to, .. } = piece {
            self.reading.output.refresh()?;
            self.view.resume(self.reading.output.assembler_at(*to)?);
        }
        self.view.push(piece, |item| self.items.push_back(item));
        Ok(())
    }

    /// Takes what the view still holds; lines that are unfinished only if they are not to be followed.
    fn end(&mut self, is_followed: bool) -> io::Result<()> {
        self.is_read = true;
        self.reading.output.refresh()?;
        let rest = self.reading.output.assembler_at(self.position)?;
        let next = View::new(self.reading.form, rest)
            .stream(self.reading.arguments.stream)
            .search(self.reading.search.clone());
        let view = std::mem::replace(&mut self.view, next);
        let items = &mut self.items;
        match is_followed {
            true => view.finish_ended(|item| items.push_back(item)),
            false => view.finish(|item| items.push_back(item)),
        }
        Ok(())
    }

    fn print_first(&mut self, printer: &mut Printer) {
        if let Some(item) = self.items.pop_front() {
            printer.go_on_with(self.reading.job.id(), &self.prefix);
            printer.item(&item);
        }
    }
}

/// Returns when a line was printed. What has no time comes at once.
fn time(item: &ViewItem) -> Option<Timestamp> {
    match item {
        ViewItem::Line(line) => line.time,
        _ => None,
    }
}

/// Returns what stands before the lines of each job: its name, or its id where several have that name or it has none.
fn prefixes(readings: &[Reading<'_>], has_colour: bool) -> Vec<String> {
    let names: Vec<Option<String>> =
        readings.iter().map(|reading| reading.job.name().map(one_line)).collect();
    let labels: Vec<String> = readings
        .iter()
        .zip(&names)
        .map(|(reading, name)| match name {
            Some(name) if names.iter().filter(|other| other.as_ref() == Some(name)).count() == 1 => {
                name.clone()
            }
            _ => reading.job.id().to_string(),
        })
        .collect();
    let width = labels.iter().map(|label| label.width()).max().unwrap_or(0);
    let prefix = |(number, label): (usize, &String)| {
        let padding = " ".repeat(width - label.width());
        match has_colour {
            true => format!("\x1b[{}m{label}{padding} |\x1b[0m ", COLOURS[number % COLOURS.len()]),
            false => format!("{label}{padding} | "),
        }
    };
    labels.iter().enumerate().map(prefix).collect()
}
