//! Screens that are kept before the output is dropped that they were drawn by.
//!
//! The cap drops the beginning of the log. What was drawn there and stands on the screen would be lost, so the keeper starts
//! `outlive cursor --keep` in good time, which leaves a checkpoint in the job's directory, and again before that one is too old. A
//! job that prints less than half of its cap pays nothing.

use std::os::fd::OwnedFd;

use outlive_sys::fault::{self, Point};

use crate::start::Keeper;
use crate::terminal::answers::Answers;

/// After each such part of the cap a screen is kept, from half of it on. A process that is not done by then is waited for, so
/// output that comes faster than it is read can still lose its beginning; readers then say so.
const PARTS: u64 = 8;

/// How far screens were kept.
#[derive(Default)]
pub(crate) struct KeptScreens {
    /// The offset of the last one.
    offset: u64,
    /// The process that works it out, or did.
    pid: Option<u32>,
}

impl Answers {
    /// Starts the process that keeps the screen at this offset; returns its pid.
    fn keep_screen(&mut self, dir: &OwnedFd, offset: u64) -> Option<u32> {
        self.screens.offset = offset;
        let mut command = self.screen_process(dir, offset)?;
        let child = fault::step(Point::ScreenExec, || command.arg("--keep").spawn()).ok()?;
        self.screens.pid = Some(child.id());
        self.screens.pid
    }
}

impl Keeper {
    /// Keeps the screen of the terminal, if that is due.
    pub(crate) fn keep_screen(&mut self) {
        let (Some(terminal), Some(cap)) = (&mut self.terminal, self.recorder.cap()) else { return };
        let (end, screens) = (self.recorder.end(), &terminal.answers.screens);
        let is_due = end >= cap / 2 && end >= screens.offset + cap / PARTS;
        if is_due && !screens.pid.is_some_and(|pid| self.containment.excepts(pid)) {
            let started = terminal.answers.keep_screen(&self.dir, end);
            if let Some(pid) = started {
                self.custody.add_worker(pid);
                self.containment.except(pid);
            }
        }
    }
}
