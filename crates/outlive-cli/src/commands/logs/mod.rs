//! `outlive logs`: what a job printed, in the form its reader needs.

mod live;
mod many;
pub(crate) mod pager;
mod printer;
mod runs;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use outlive::{Code, FindError, Fit, Followed, Follower, Form, Job, Output, Piece, Search, Stream, View};

use crate::args::{Color, Logs};
use crate::commands::{Context, project};
use crate::failure::Failure;
use crate::render::{end_with_reader, is_coloured, note, width};
use crate::served;
use live::LiveLine;
use pager::Pager;
use printer::Printer;

/// How far back a page is rendered when only its end is wanted: what stands further up no longer changes it.
const RENDERED_TAIL: u64 = 8 << 20;

pub(crate) fn run(context: &Context, arguments: &Logs) -> Result<ExitCode, Failure> {
    let is_of_many = arguments.jobs.len() != 1;
    let is_resumed = served::is_resumed();
    let resumed = is_resumed.then(|| resumed(arguments));
    let arguments = resumed.as_ref().unwrap_or(arguments);
    if let (Some(since), Some(until)) = (arguments.since, arguments.until)
        && since > until
    {
        let hint = "--since is the earlier time, --until the later one";
        return Err(Failure::usage("logs: --until is before --since, so that nothing is between", hint));
    }
    let jobs = chosen(context, arguments)?;
    let had_ended: Vec<bool> = jobs.iter().map(|job| job.state(&context.store).status.has_ended()).collect();
    if arguments.follow {
        end_with_reader();
    }
    let search = search(arguments)?;
    let form = form(arguments, context.is_json);
    let mut pager = None;
    let out: (Box<dyn Write>, _) = if arguments.pager && io::stdout().is_terminal() && !context.is_json {
        let (started, input) = Pager::start()?;
        pager = Some(started);
        (Box::new(input), None)
    } else {
        (Box::new(io::stdout()), width().map(LiveLine::new))
    };
    let mut printer = Printer::new(context.is_json, arguments.timestamps, jobs[0].id(), form, out);
    let reading = |job| {
        Reading::new(context, arguments, job, search.clone(), form).map_err(|error| failure(job, &error))
    };
    if !context.is_json && !is_resumed {
        jobs.iter().for_each(|job| runs::tell_not_begun(context, job));
    }
    if is_of_many {
        let readings = jobs.iter().map(reading).collect::<Result<_, _>>()?;
        many::show(context, arguments, readings, &mut printer)?;
    } else {
        let mut runs = runs::of(context, arguments, &jobs[0])?;
        // Those before were shown before the connection of a caller elsewhere broke off.
        let place =
            runs.iter().position(|(job, _)| served::place(Stream::Stdout, job.id().as_str()).is_some());
        let is_joined = runs.len() > 1;
        runs.drain(..place.unwrap_or(0));
        for (job, wanted) in &runs {
            if is_joined {
                note(&format!("outlive: run {}, {}", job.id(), job.state(&context.store).summary()));
            }
            let mut reading = Reading::new(context, wanted, job, search.clone(), form)
                .map_err(|error| failure(job, &error))?;
            let done =
                if reading.is_bytewise() { reading.copy(&mut printer) } else { reading.show(&mut printer) };
            done.and_then(|()| reading.tell_end(&mut printer)).map_err(|error| failure(job, &error))?;
        }
        if let Some((last, _)) = runs.pop().filter(|(job, _)| runs::are_followed(arguments, job)) {
            runs::follow(context, arguments, last, &search, &mut printer)?;
        }
    }
    // The pager sees the end of its input once nothing holds it open.
    drop(printer);
    if let Some(pager) = pager {
        pager.wait();
    }
    for (job, had_ended) in jobs.iter().zip(had_ended) {
        if job.state(&context.store).status.has_ended() {
            job.note_access();
        }
        if (had_ended || arguments.follow) && shows_end(arguments) {
            job.mark_delivered(&context.reader);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is left to do for a caller elsewhere whose connection broke off: to follow, from the place that it came to.
fn resumed(arguments: &Logs) -> Logs {
    let (lines, from_line, tail, since) = (None, None, None, None);
    Logs { lines, from_line, tail, since, ..arguments.clone() }
}

/// Finds the jobs that are meant, each once; there is at least one.
fn chosen(context: &Context, arguments: &Logs) -> Result<Vec<Job>, Failure> {
    if arguments.jobs.len() == 1 {
        return Ok(vec![find(context, &arguments.jobs[0])?]);
    }
    for (option, is_given) in [
        ("--bytes", arguments.bytes.is_some()),
        ("--cursor", arguments.cursor.is_some()),
        ("--from-line", arguments.from_line.is_some()),
        ("--head", arguments.head.is_some()),
        ("--budget", arguments.budget.is_some()),
        ("--rendered", arguments.rendered),
    ] {
        if is_given {
            return Err(Failure::usage(
                format!("logs: {option} is for one job"),
                "name one job, or leave it out",
            ));
        }
    }
    if let Some(group) = &arguments.group {
        return context.of_group("logs", group);
    }
    let mut jobs = Vec::<Job>::new();
    for reference in &arguments.jobs {
        let job = find(context, reference)?;
        if jobs.iter().all(|known| known.id() != job.id()) {
            jobs.push(job);
        }
    }
    if jobs.is_empty()
        && let Some(session) = &context.session
    {
        jobs = context.list("logs")?.jobs;
        if jobs.is_empty() {
            let message = format!("session {session} has no jobs");
            return Err(Failure::new(Code::NotFound, message)
                .during("logs")
                .hint("`outlive session list` shows the sessions"));
        }
    }
    // In the directory of a project, those of the project are meant.
    if jobs.is_empty() {
        jobs = project::newest_jobs_here(context)?;
    }
    match jobs.is_empty() {
        true => Err(Failure::usage(
            "logs: whose?",
            "outlive logs JOB…, or --group NAME or --session NAME; `outlive list` shows the jobs",
        )),
        false => Ok(jobs),
    }
}

/// Finds a job. A number alone is no job but, for a user of `tail`, a number of lines.
fn find(context: &Context, reference: &str) -> Result<Job, Failure> {
    context.find(reference).map_err(|error| {
        let is_number = !reference.is_empty() && reference.bytes().all(|byte| byte.is_ascii_digit());
        let failure = Failure::from(error);
        match is_number {
            true => failure.hint(format!("for the last {reference} lines: outlive logs -n {reference} JOB")),
            false => failure,
        }
    })
}

/// Returns the form in which its reader needs it.
fn form(arguments: &Logs, is_json: bool) -> Form {
    match (arguments.raw, arguments.plain, arguments.rendered, arguments.color) {
        (true, ..) => Form::Raw,
        (_, true, ..) => Form::Plain,
        (_, _, true, _) => Form::Rendered,
        _ if is_json => Form::Raw,
        (.., Color::Always) => Form::Display { has_colour: true },
        (.., Color::Never) => Form::Display { has_colour: false },
        (.., Color::Auto) if io::stdout().is_terminal() => Form::Display { has_colour: is_coloured() },
        (.., Color::Auto) => Form::Raw,
    }
}

/// Tells whether the end of the log is shown, with nothing left out before it but its beginning.
fn shows_end(arguments: &Logs) -> bool {
    let is_cut = arguments.bytes.as_ref().is_some_and(|range| range.end < u64::MAX)
        || arguments.until.is_some()
        || arguments.grep.is_some()
        || arguments.stream.is_some()
        || (arguments.head.is_some() && arguments.tail.is_none())
        || (arguments.from_line.is_some() && arguments.lines.is_some());
    !is_cut
}

/// Tells whether lines are chosen by number, time or amount.
fn chooses_lines(arguments: &Logs) -> bool {
    let Logs { lines, from_line, head, tail, since, until, budget, .. } = arguments;
    [lines, from_line, head, tail].into_iter().any(Option::is_some)
        || [since, until].into_iter().any(Option::is_some)
        || budget.is_some()
}

/// Another program may remove the job while it is read.
fn failure(job: &Job, error: &io::Error) -> Failure {
    match job.is_removed() {
        true => Failure::from(FindError::Unknown(job.id().to_string(), Vec::new())),
        false => Failure::other("logs", error),
    }
}

fn search(arguments: &Logs) -> Result<Search, Failure> {
    let Some(text) = &arguments.grep else { return Ok(Search::default()) };
    let pattern = outlive::pattern(text, arguments.ignore_case)
        .map_err(|error| Failure::from(error).during("logs: --grep"))?;
    let mut search = Search { before: arguments.context, after: arguments.context, ..Search::default() };
    *(if arguments.invert { &mut search.exclude } else { &mut search.include }) = Some(pattern);
    Ok(search)
}

/// One reading of one log.
struct Reading<'a> {
    context: &'a Context,
    arguments: &'a Logs,
    job: &'a Job,
    output: Output,
    search: Search,
    form: Form,
    /// Where it begins.
    start: u64,
    /// Where it ends, unless it is followed.
    end: u64,
}

impl<'a> Reading<'a> {
    fn new(
        context: &'a Context,
        arguments: &'a Logs,
        job: &'a Job,
        search: Search,
        form: Form,
    ) -> io::Result<Self> {
        let output = Output::open(job)?;
        let range_end = arguments.bytes.as_ref().map_or(u64::MAX, |range| range.end);
        let end = output.end().min(range_end);
        let mut reading = Self { context, arguments, job, output, search, form, start: 0, end };
        let place = served::place(Stream::Stdout, job.id().as_str());
        reading.start = place.unwrap_or_else(|| reading.find_start());
        Ok(reading)
    }

    /// Finds where to begin, by the index alone where it can tell.
    fn find_start(&self) -> u64 {
        let arguments = self.arguments;
        if let Some(range) = &arguments.bytes {
            return range.start;
        }
        if let Some(reader) = &arguments.cursor {
            // A cursor beyond the end is no place in this log: everything is new.
            let place =
                self.job.cursor(reader, self.arguments.stream).filter(|&place| place <= self.output.end());
            return place.unwrap_or(0);
        }
        if let Some(line) = arguments.from_line.filter(|_| self.form != Form::Rendered) {
            // Lines before it may be what a line around a match is near to.
            return self.output.offset_before_line(line.saturating_sub(arguments.context as u64));
        }
        if let Some(since) = arguments.since {
            return self.output.offset_before_time(since);
        }
        match self.tail() {
            Some(_) if self.form == Form::Rendered => {
                self.end.saturating_sub(RENDERED_TAIL).max(self.output.start())
            }
            Some(count)
                if self.search.is_everything() && arguments.until.is_none() && arguments.head.is_none() =>
            {
                self.output.offset_before_tail(count, self.arguments.stream)
            }
            _ => 0,
        }
    }

    /// Returns how many lines of the end are wanted.
    fn tail(&self) -> Option<u64> {
        self.arguments.tail.or(self.arguments.lines.filter(|_| self.arguments.from_line.is_none()))
    }

    /// Tells whether bytes are passed on as they come, without looking for lines.
    fn is_bytewise(&self) -> bool {
        let asks_for_lines = chooses_lines(self.arguments)
            || self.arguments.timestamps
            || self.context.is_json
            || !self.search.is_everything();
        !asks_for_lines && self.form != Form::Rendered
    }

    fn copy(&mut self, printer: &mut Printer) -> io::Result<()> {
        let mut position = self.start;
        while position < self.end {
            let Some(piece) = self.piece(position)? else { break };
            position = piece_end(&piece);
            printer.piece(&piece, self.arguments.stream);
            if self.arguments.follow && served::is_marked() {
                printer.flush();
                self.mark(position);
            }
        }
        if self.arguments.follow { self.copy_on(position, printer) } else { self.finish(position, printer) }
    }

    /// Passes on what comes.
    fn copy_on(&mut self, position: u64, printer: &mut Printer) -> io::Result<()> {
        let stream = self.arguments.stream;
        let position = self.follow(position, printer, |_, piece, printer| printer.piece(piece, stream))?;
        self.finish(position, printer)
    }

    fn show(&mut self, printer: &mut Printer) -> io::Result<()> {
        if self.is_plain_search() {
            return self.find(printer);
        }
        // A reader that asked for one end alone expects that the rest is left out.
        printer.options = self.options();
        printer.tells_omitted =
            self.arguments.budget.is_some() || (self.arguments.head.is_some() && self.tail().is_some());
        let begin = self.start.max(self.output.start());
        let is_from_middle = self.arguments.from_line.is_some() || self.arguments.since.is_some();
        if is_from_middle && begin == self.output.start() && self.start == begin && begin > 0 {
            printer.gone(0, begin);
        }
        let (mut view, mut position) = (self.view(begin)?, self.start);
        while position < self.end && !view.is_full() {
            let Some(piece) = self.piece(position)? else { break };
            if let (Some(until), Piece::Output { time: Some(time), .. }) = (self.arguments.until, &piece)
                && time.0 / 1000 > until.0 / 1000
            {
                break;
            }
            position = piece_end(&piece);
            if let Piece::Gone { to, .. } = piece {
                view.resume(self.output.assembler_at(to)?);
            }
            view.push(&piece, |item| printer.item(&item));
        }
        if self.arguments.follow && (self.tail().is_some() || self.arguments.lines.is_some()) {
            if self.search.is_everything() && !self.context.is_json && !self.arguments.timestamps {
                // The end as it stands, unfinished lines too, then the bytes that follow it.
                view.finish(|item| printer.item(&item));
                return self.copy_on(position, printer);
            }
            view.finish_ended(|item| printer.item(&item));
            let rest = self.output.assembler_at(position)?;
            view = View::new(self.form, rest).stream(self.arguments.stream).search(self.search.clone());
        }
        if self.arguments.follow {
            position = self.follow(position, printer, |reading, piece, printer| {
                if let Piece::Gone { to, .. } = piece
                    && let Ok(rest) = reading.output.refresh().and_then(|()| reading.output.assembler_at(*to))
                {
                    view.resume(rest);
                }
                view.push(piece, |item| printer.item(&item));
            })?;
        }
        if self.arguments.cursor.is_some() && position == self.start {
            // An unfinished line that has not grown was shown before.
            view.finish_ended(|item| printer.item(&item));
        } else {
            view.finish(|item| printer.item(&item));
        }
        self.finish(position, printer)
    }

    fn view(&mut self, begin: u64) -> io::Result<View> {
        let arguments = self.arguments;
        let fit = match (arguments.budget, arguments.head, self.tail()) {
            (Some(budget), ..) => Some(Fit::Budget(budget)),
            (_, None, None) => None,
            (_, head, tail) => Some(Fit::HeadAndTail(head.unwrap_or(0), tail.unwrap_or(0))),
        };
        let limit = arguments.lines.filter(|_| arguments.from_line.is_some());
        let assembler = self.output.assembler_at(begin)?;
        Ok(View::new(self.form, assembler)
            .stream(self.arguments.stream)
            .from_line(arguments.from_line.unwrap_or(0))
            .between(arguments.since, arguments.until)
            .search(self.search.clone())
            .limit(limit)
            .fit(fit))
    }

    /// Says that more was printed than could be kept, where the end of the log was read.
    fn tell_end(&mut self, printer: &mut Printer) -> io::Result<()> {
        self.output.refresh()?;
        if let Some(loss) = self.output.lost_at_end().filter(|_| self.arguments.bytes.is_none()) {
            printer.lost(&loss);
            printer.flush();
        }
        Ok(())
    }

    /// Writes down the options that choose lines.
    fn options(&self) -> String {
        let arguments = self.arguments;
        let mut options = String::new();
        if let Some(stream) = self.arguments.stream {
            options += &format!(" --stream {}", stream.word());
        }
        if let Some(pattern) = &arguments.grep {
            options += &format!(" --grep {}", outlive::quote(pattern));
            options += if arguments.invert { " --invert" } else { "" };
            options += if arguments.ignore_case { " -i" } else { "" };
            if arguments.context > 0 {
                options += &format!(" -C {}", arguments.context);
            }
        }
        options
    }

    /// Tells whether the whole log is searched for one pattern and nothing else.
    fn is_plain_search(&self) -> bool {
        let arguments = self.arguments;
        self.search.include.is_some()
            && arguments.context == 0
            && self.form == Form::Raw
            && !arguments.follow
            && self.start == 0
            && arguments.bytes.is_none()
            && arguments.cursor.is_none()
            && !chooses_lines(arguments)
    }

    fn find(&mut self, printer: &mut Printer) -> io::Result<()> {
        let start = self.output.start();
        if start > 0 {
            printer.gone(0, start);
        }
        if let Some(pattern) = &self.search.include {
            self.output.find_lines(start, pattern, self.arguments.stream, |line| printer.line(&line))?;
        }
        printer.finish();
        Ok(())
    }

    /// Reads a piece, no further than the end that was there at the beginning.
    fn piece(&mut self, position: u64) -> io::Result<Option<Piece>> {
        let mut piece = self.output.piece(position)?;
        if let Some(Piece::Output { bytes, .. }) = &mut piece {
            bytes.truncate(usize::try_from(self.end - position).unwrap_or(usize::MAX));
        }
        Ok(piece)
    }

    /// Goes on until the job is closed; returns where it ended.
    fn follow(
        &mut self,
        position: u64,
        printer: &mut Printer,
        mut act: impl FnMut(&mut Self, &Piece, &mut Printer),
    ) -> io::Result<u64> {
        let mut follower = Follower::new(&self.context.store, self.job, position)?;
        loop {
            printer.flush();
            match follower.next(None)? {
                Followed::Piece(piece) => act(self, &piece, printer),
                Followed::End => return Ok(follower.position()),
                Followed::Nothing => {}
            }
            printer.flush();
            self.note_position(follower.position())?;
            self.mark(follower.position());
        }
    }

    /// Tells a caller elsewhere how far this is.
    fn mark(&self, position: u64) {
        served::mark(Stream::Stdout, [(self.job.id().as_str(), position)]);
    }

    /// Only what was really written counts as read.
    fn finish(&mut self, position: u64, printer: &mut Printer) -> io::Result<()> {
        printer.finish();
        self.note_position(position)
    }

    fn note_position(&self, position: u64) -> io::Result<()> {
        match &self.arguments.cursor {
            Some(reader) => self.job.set_cursor(reader, self.arguments.stream, position),
            None => Ok(()),
        }
    }
}

fn piece_end(piece: &Piece) -> u64 {
    match piece {
        Piece::Output { offset, bytes, .. } => offset + bytes.len() as u64,
        Piece::Gone { to, .. } => *to,
    }
}
