//! The screen of a job that runs in a terminal, derived from its log.
//!
//! The keeper records bytes and sizes; what they look like is worked out here, by whichever program wants to see it. A long log is
//! not read from its first byte: [`checkpoints`] keep the screen of earlier places.

pub(crate) mod apart;
mod checkpoints;

use std::io;

use outlive_core::timestamp::Timestamp;
use outlive_screen::Screen;

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
        screen.read(Some(time))?;
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
        self.read(None)
    }

    /// Reads on, up to a time if one is given.
    fn read(&mut self, until: Option<Timestamp>) -> io::Result<bool> {
        let mut has_read = false;
        let is_later =
            |time: Option<Timestamp>| until.is_some_and(|until| time.is_some_and(|time| time > until));
        loop {
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
                Some(Step::Bytes { time, bytes }) => {
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

    /// Returns the screen.
    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Returns the screen, for views that need to change it for a moment.
    pub fn screen_mut(&mut self) -> &mut Screen {
        &mut self.screen
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
