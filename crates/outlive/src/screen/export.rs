//! What a job printed as a recording, for other programs and for people.

use std::io::{self, Write};

use outlive_core::outcome::WaitStatus;
use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;
use outlive_screen::export::{Cast, CastHeader, Event, Transcript, html};

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
    /// Writes what the job has printed so far, with the sizes that its terminal had and how it ended. A job on pipes is recorded as
    /// if it had printed to a terminal of the usual size.
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
        Ok(Self {
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
        while let Some(step) = self.output.step(&mut self.place)? {
            match step {
                Step::Bytes { time, bytes } => {
                    self.time = time.unwrap_or(self.time);
                    // The kernel does this for programs in a terminal.
                    let bytes = if self.is_terminal { bytes } else { with_returns(&bytes) };
                    push(self.time, &Event::Output(&bytes))?;
                }
                // The keeper records the size again now and then.
                Step::Resize { size, .. } if size == self.size => {}
                Step::Resize { time, size } => {
                    (self.time, self.size) = (time, size);
                    push(time, &Event::Resize(size))?;
                }
                Step::Gone(to) => {
                    push(self.time, &Event::Marker(&format!("output before byte {to} was dropped")))?;
                    push(self.time, &Event::Output(RESET))?;
                }
            }
        }
        self.exit.map_or(Ok(()), |(status, ended)| push(ended, &Event::Exit(status)))
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
