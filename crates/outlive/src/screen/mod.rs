//! The screen of a job that runs in a terminal, derived from its log.
//!
//! The keeper records bytes and sizes; what they look like is worked out here, by whichever program wants to see it. A long log is
//! not read from its first byte: [`checkpoints`] keep the screen of earlier places.

pub(crate) mod apart;
pub(crate) mod checkpoints;
pub(crate) mod export;

use std::io;

use outlive_core::timestamp::Timestamp;
use outlive_screen::Screen;
use outlive_sys::fault::Replacing;

use checkpoints::{Checkpoints, Place};

use crate::job::Job;
use crate::output::Output;
use crate::output::steps::{Step, StepPlace};

/// The screen of a job, as far as its output was read.
#[derive(Debug)]
pub struct JobScreen {
    output: Output,
    place: StepPlace,
    screen: Screen,
    /// The offset from which it is derived: 0, unless what came before is lost.
    from: u64,
    time: Option<Timestamp>,
    checkpoints: Checkpoints,
}

impl JobScreen {
    /// Derives the screen that a job has now; `None` if it does not run in a terminal.
    ///
    /// # Errors
    ///
    /// If its output cannot be read.
    pub fn of(job: &Job) -> io::Result<Option<Self>> {
        let Some(mut screen) = Self::before(job, u64::MAX)? else { return Ok(None) };
        screen.advance()?;
        Ok(Some(screen))
    }

    /// Derives the screen that a job had at this time; `None` if it does not run in a terminal.
    ///
    /// # Errors
    ///
    /// If its output cannot be read.
    pub fn at(job: &Job, time: Timestamp) -> io::Result<Option<Self>> {
        let offset = Output::open(job)?.offset_before_time(time);
        let Some(mut screen) = Self::before(job, offset)? else { return Ok(None) };
        screen.read(Some(time), u64::MAX)?;
        Ok(Some(screen))
    }

    /// Derives the screen that a job had when its output had come to this offset; `None` if it does not run in a terminal.
    ///
    /// # Errors
    ///
    /// If its output cannot be read.
    pub fn at_offset(job: &Job, offset: u64) -> io::Result<Option<Self>> {
        let Some(mut screen) = Self::before(job, offset)? else { return Ok(None) };
        screen.read(None, offset)?;
        Ok(Some(screen))
    }

    /// Begins with the last checkpoint that is not after an offset, or with a blank screen.
    fn before(job: &Job, offset: u64) -> io::Result<Option<Self>> {
        let options = &job.spec().options;
        if !options.pty {
            return Ok(None);
        }
        let output = Output::open(job)?;
        let checkpoints = Checkpoints::new(job);
        let found = checkpoints.last(output.start()..=offset.min(output.end()));
        let from = output.start();
        Ok(Some(match found {
            Some((found, from)) => Self {
                place: output.place_at(found.offset),
                time: Some(found.time),
                screen: found.screen,
                from,
                output,
                checkpoints,
            },
            None => {
                let screen = Screen::new(options.size.unwrap_or_default());
                Self { place: output.place_at(from), time: None, screen, from, output, checkpoints }
            }
        }))
    }

    /// Reads what was printed since; tells whether there was anything.
    ///
    /// # Errors
    ///
    /// If the output cannot be read.
    pub fn advance(&mut self) -> io::Result<bool> {
        self.output.refresh()?;
        self.read(None, u64::MAX)
    }

    /// Reads what the last look at the log has found, as [`Follower::wait_for_screen`](crate::Follower::wait_for_screen) does it; tells
    /// whether there was anything.
    ///
    /// # Errors
    ///
    /// If the output cannot be read.
    pub fn catch_up(&mut self) -> io::Result<bool> {
        self.read(None, u64::MAX)
    }

    pub(crate) fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Reads what was printed up to a time; tells whether there was anything.
    ///
    /// # Errors
    ///
    /// If the output cannot be read.
    pub fn advance_to(&mut self, time: Timestamp) -> io::Result<bool> {
        self.read(Some(time), u64::MAX)
    }

    /// Returns the time of what was printed next; `None` at the end of the log.
    ///
    /// # Errors
    ///
    /// If the output cannot be read.
    pub fn next_time(&mut self) -> io::Result<Option<Timestamp>> {
        let step = self.output.step(&mut self.place.clone())?;
        Ok(step.map(|step| match step {
            Step::Bytes { time: Some(time), .. } | Step::Resize { time, .. } => time,
            Step::Bytes { time: None, .. } | Step::Gone(_) => self.time.unwrap_or(Timestamp(0)),
        }))
    }

    /// Reads on, up to a time if one is given, and up to an offset.
    fn read(&mut self, until: Option<Timestamp>, end: u64) -> io::Result<bool> {
        let mut has_read = false;
        let is_later =
            |time: Option<Timestamp>| until.is_some_and(|until| time.is_some_and(|time| time > until));
        while self.place.offset < end {
            let before = self.place;
            match self.output.step(&mut self.place)? {
                None => break,
                Some(Step::Bytes { time, .. }) if is_later(time) => {
                    self.place = before;
                    break;
                }
                Some(Step::Resize { time, .. }) if is_later(Some(time)) => {
                    self.place = before;
                    break;
                }
                Some(Step::Bytes { time, mut bytes }) => {
                    let beyond = self.place.offset.saturating_sub(end);
                    self.place.offset -= beyond;
                    bytes.truncate(bytes.len().saturating_sub(beyond as usize));
                    self.screen.feed(&bytes);
                    self.time = time.or(self.time);
                    let place = Place { offset: self.place.offset, from: self.from };
                    self.checkpoints.offer(&mut self.screen, self.time, place, self.output.start());
                }
                Some(Step::Resize { time, size }) => {
                    self.screen.resize(size);
                    self.time = Some(time);
                }
                Some(Step::Gone(to)) => {
                    // What was on it is not known any more.
                    self.screen = Screen::new(self.screen.size());
                    self.from = to;
                }
            }
            has_read = true;
        }
        Ok(has_read)
    }

    /// Keeps the screen in the job's directory, for later readers.
    pub fn keep(&mut self) {
        let place = Place { offset: self.place.offset, from: self.from };
        let start = self.output.start();
        self.checkpoints.keep(Replacing::KEPT_SCREEN, &mut self.screen, self.time, place, start);
    }

    /// Returns what the program wrote to the clipboard since this was asked last; see [`Screen::take_clipboard`].
    pub fn take_clipboard(&mut self) -> Option<String> {
        self.screen.take_clipboard()
    }

    /// Returns the screen.
    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Returns the offset from which it is derived: 0, unless what came before was dropped and no checkpoint was kept.
    pub fn derived_from(&self) -> u64 {
        self.from
    }

    /// Returns the offset up to which it is derived.
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// Returns the time of the last output or change of size.
    pub fn time(&self) -> Option<Timestamp> {
        self.time
    }
}
