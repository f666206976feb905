//! Clears a job's output without disturbing its keeper.

use std::io;

use outlive_core::control::Request;
use outlive_core::{file, segment};
use outlive_sys::durable;
use outlive_sys::fault::{self, Point};

use crate::control::ControlError;
use crate::job::Job;
use crate::output::Output;
use crate::screen::checkpoints::Checkpoints;
use crate::store::Store;

impl Store {
    /// Drops a job's output so far, the screens that were kept of it, and what was typed. Offsets and line numbers continue.
    ///
    /// # Errors
    ///
    /// If its keeper cannot be reached, or the store cannot be written.
    pub fn clear(&self, job: &Job) -> Result<(), ControlError> {
        let state = job.state(self);
        let failed = |source: io::Error| ControlError::Store(job.id().clone(), source);
        let asked = state.is_live().then(|| self.ask_to_accept(job, &state, &Request::Clear));
        match asked {
            Some(Err(error)) if error.is_keeper_gone() && self.ends_now(job) => {
                clear_ended(job).map_err(failed)?;
            }
            Some(answer) => answer?,
            None => clear_ended(job).map_err(failed)?,
        }
        drop_screens(job).map_err(failed)
    }
}

/// Does the same without a keeper: makes an empty segment at the end, then removes the others, and what was typed. Idempotent, so two processes may
/// run it at the same time.
fn clear_ended(job: &Job) -> io::Result<()> {
    let (output, dir) = (Output::open(job)?, job.dir()?);
    let end = output.end();
    match fault::step(Point::ClearMake, || durable::create_new(&dir, &segment::name(end))) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for start in output.segment_starts().filter(|&start| start != end) {
        fault::step(Point::ClearDrop, || durable::remove(&dir, &segment::name(start)))?;
    }
    match fault::step(Point::ClearDrop, || durable::remove(&dir, file::INPUT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the screens that were drawn by what is gone.
fn drop_screens(job: &Job) -> io::Result<()> {
    let start = Output::open(job)?.start();
    Checkpoints::new(job).remove(|screen| screen.offset <= start)
}
