//! What a job printed as a recording, for other programs and for people.

use std::io::{self, Write};

use outlive_core::file;
use outlive_core::outcome::WaitStatus;
use outlive_core::terminal::size::TerminalSize;
use outlive_core::terminal::typed::{self, Typed};
use outlive_core::timestamp::Timestamp;
use outlive_screen::export::{Cast, CastHeader, Event, Transcript, html};
use outlive_sys::durable;

use crate::job::Job;
use crate::job::state::State;
use crate::output::Output;
use crate::output::steps::Step;

/// Brings a terminal back to how it began.
const RESET: &[u8] = b"\x1bc";

/// What a recording is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportForm {
    /// asciicast, version 3.
    Cast,
    /// The rows that the program left behind.
    Text,
    /// These rows in their colours, as a page.
    Html,
}

/// What a recording lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// The offset from which on there is output: 0, unless earlier output was dropped.
    pub start: u64,
    /// Rows of the beginning are left out, because there are too many.
    pub is_cut: bool,
}

impl Job {
    /// Writes what the job has printed so far, with the sizes that its terminal had, what was typed where that is recorded, and how it
    /// ended. A job on pipes is recorded as if it had printed to a terminal of the usual size.
    ///
    /// # Errors
    ///
    /// If its output cannot be read, or the recording cannot be written.
    pub fn export(&self, state: &State, form: ExportForm, out: &mut impl Write) -> io::Result<Exported> {
        let mut recording = Recording::of(self, state)?;
        let start = recording.place.offset;
        let is_cut = match form {
            ExportForm::Cast => {
                let command = self.spec().command_line();
                let header = CastHeader {
                    size: recording.size,
                    start: recording.time,
                    command: Some(&command),
                    title: self.name(),
                };
                let mut text = String::new();
                let mut cast = Cast::begin(&header, &mut text);
                recording.each(|time, event| {
                    cast.push(time, event, &mut text);
                    out.write_all(text.as_bytes())?;
                    text.clear();
                    Ok(())
                })?;
                cast.finish(&mut text);
                out.write_all(text.as_bytes())?;
                false
            }
            ExportForm::Text | ExportForm::Html => {
                let mut transcript = Transcript::new(recording.size);
                recording.each(|_, event| {
                    transcript.push(event);
                    Ok(())
                })?;
                let is_cut = transcript.is_full();
                let text = if form == ExportForm::Text { transcript.text() } else { html(transcript) };
                out.write_all(text.as_bytes())?;
                is_cut
            }
        };
        out.flush()?;
        Ok(Exported { start, is_cut })
    }
}

/// A job's output as events of a terminal.
struct Recording {
    output: Output,
    place: crate::output::steps::StepPlace,
    is_terminal: bool,
    size: TerminalSize,
    time: Timestamp,
    /// The file of what was typed.
    typed: Vec<u8>,
    /// The status and the time of the end.
    exit: Option<(i32, Timestamp)>,
}

impl Recording {
    fn of(job: &Job, state: &State) -> io::Result<Self> {
        let mut output = Output::open(job)?;
        let place = output.place_at(output.start());
        let started = state.meta.as_ref().and_then(|meta| meta.started).unwrap_or(job.spec().created);
        // Where the beginning was dropped, it begins with the size and the time of what is left.
        let (size, time) = match output.step(&mut place.clone())? {
            Some(Step::Resize { size, time }) => (Some(size), Some(time)),
            Some(Step::Bytes { time, .. }) => (None, time),
            Some(Step::Gone(_)) | None => (None, None),
        };
        let exit = state.outcome.as_ref().and_then(|outcome| match outcome.wait_status {
            WaitStatus::Exited { code } => Some((code, outcome.ended)),
            WaitStatus::Signaled { signal, .. } => Some((128 + signal, outcome.ended)),
            WaitStatus::Unknown => None,
        });
        let typed = match job.spec().options.record_input {
            true => read_typed(job)?,
            false => Vec::new(),
        };
        Ok(Self {
            typed,
            is_terminal: job.spec().options.pty,
            size: size.or(job.spec().options.size).unwrap_or_default(),
            time: if place.offset == 0 { started } else { time.unwrap_or(started) },
            exit,
            output,
            place,
        })
    }

    /// Hands over what happened, in order.
    fn each(&mut self, mut push: impl FnMut(Timestamp, &Event<'_>) -> io::Result<()>) -> io::Result<()> {
        let file = std::mem::take(&mut self.typed);
        // What was typed while output was printed that is gone has no place any more.
        let start = self.place.offset;
        let mut typed = typed::records(&file).filter(|typed| typed.offset >= start).peekable();
        let last = (file.len() as u64 >= typed::LIMIT).then(|| typed::records(&file).last()).flatten();
        let push = &mut |time: Timestamp, event: &Event<'_>| {
            push(time, event)?;
            match last {
                Some(last) if last.time == time && *event == Event::Input(last.bytes) => {
                    push(time, &Event::Marker("what was typed after this is not recorded"))
                }
                _ => Ok(()),
            }
        };
        while let Some(step) = self.output.step(&mut self.place)? {
            let end = self.place.offset;
            match step {
                Step::Bytes { time, bytes } => {
                    self.time = time.unwrap_or(self.time);
                    let mut rest = &bytes[..];
                    // By their places in the log and not by their times: the index has one time for all of some milliseconds.
                    while let Some(typed) = typed.next_if(|typed| typed.offset < end) {
                        let after = usize::try_from(end - typed.offset).unwrap_or(usize::MAX).min(rest.len());
                        let (before, after) = rest.split_at(rest.len() - after);
                        self.push_output(before, push)?;
                        self.push_typed(&typed, push)?;
                        rest = after;
                    }
                    self.push_output(rest, push)?;
                }
                // The keeper records the size again now and then.
                Step::Resize { size, .. } if size == self.size => {}
                Step::Resize { time, size } => {
                    while let Some(typed) =
                        typed.next_if(|typed| (typed.offset, typed.time.0) <= (end, time.0))
                    {
                        self.push_typed(&typed, push)?;
                    }
                    (self.time, self.size) = (time, size);
                    push(time, &Event::Resize(size))?;
                }
                Step::Gone(to) => {
                    push(self.time, &Event::Marker(&format!("output before byte {to} was dropped")))?;
                    push(self.time, &Event::Output(RESET))?;
                }
            }
        }
        typed.try_for_each(|typed| self.push_typed(&typed, push))?;
        self.exit.map_or(Ok(()), |(status, ended)| push(ended, &Event::Exit(status)))
    }

    fn push_output(
        &self,
        bytes: &[u8],
        push: &mut impl FnMut(Timestamp, &Event<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        match (bytes.is_empty(), self.is_terminal) {
            (true, _) => Ok(()),
            (false, true) => push(self.time, &Event::Output(bytes)),
            // The kernel does this for programs in a terminal.
            (false, false) => push(self.time, &Event::Output(&with_returns(bytes))),
        }
    }

    fn push_typed(
        &mut self,
        typed: &Typed<'_>,
        push: &mut impl FnMut(Timestamp, &Event<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.time = self.time.max(typed.time);
        push(typed.time, &Event::Input(typed.bytes))
    }
}

/// Reads the file of what was typed; one that is not there is empty.
fn read_typed(job: &Job) -> io::Result<Vec<u8>> {
    match job.open_file(file::INPUT).and_then(|file| durable::read_open(&file)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Puts a carriage return before each line feed.
fn with_returns(bytes: &[u8]) -> Vec<u8> {
    bytes.split_inclusive(|&byte| byte == b'\n').fold(Vec::with_capacity(bytes.len()), |mut all, line| {
        match line.strip_suffix(b"\n") {
            Some(text) => all.extend([text, b"\r\n"].concat()),
            None => all.extend(line),
        }
        all
    })
}
