//! Passes on what one job prints to the standard input of another.
//!
//! It is read from the log of the source, which therefore never waits, and may have ended long ago. Every byte goes to the keeper with its
//! place in that log, under a number that belongs to the reading job: a keeper that goes on in place of another takes none of them twice, nor
//! does it when this process was killed and another sends all of it again.

use std::time::Duration;

use outlive_core::control::Place;
use outlive_core::file;
use outlive_core::index::Stream;
use outlive_core::spec::StdinFrom;
use outlive_sys::durable;
use outlive_sys::fault::{self, Point};
use outlive_sys::watch::Watch;

use crate::control::ControlError;
use crate::control::input::InputWriter;
use crate::job::Job;
use crate::output::Piece;
use crate::output::follow::{Followed, Follower};
use crate::store::Store;

/// A command may leave its input unread for as long as it lives; no clock overflows by so much.
const NO_LIMIT: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How often to look whether the reading job has ended, where the kernel does not tell; and how long to leave alone what failed.
const LOOK: Duration = Duration::from_secs(1);

/// Why no more is passed on.
enum Over {
    /// All of it was.
    Passed,
    /// The job does not read any more.
    Unread,
    /// The keeper cannot be asked, or the source not read; perhaps the next time.
    Failed,
}

impl Job {
    /// Tells whether its standard input has had all that the other job printed.
    pub(crate) fn is_fed(&self) -> bool {
        self.open_file(file::FED).is_ok()
    }
}

impl Store {
    /// Passes on what another job prints until that has ended, and then the end of it.
    pub(crate) fn feed(&self, job: &Job, from: &StdinFrom) {
        self.wait_begun(job);
        let number = u64::from_le_bytes(job.spec().nonce.0[..8].try_into().unwrap_or_default());
        // As every writer's, without the first bit, and not 0.
        let place = Place { client: (number >> 1).max(1), offset: from.from };
        while !job.is_fed() && !job.state(self).status.has_ended() {
            let over = InputWriter::new(self, job, place).map_or(Over::Failed, |mut writer| {
                match self.pass_on(job, from, &mut writer) {
                    // Without its end the job would wait for more.
                    Over::Passed if writer.end().is_err() => Over::Failed,
                    over => over,
                }
            });
            match over {
                Over::Failed => std::thread::sleep(LOOK),
                Over::Passed | Over::Unread => {
                    fault::step(Point::FedMake, || durable::create_new(job.dir()?, file::FED)).ok();
                    return;
                }
            }
        }
    }

    fn pass_on(&self, job: &Job, from: &StdinFrom, writer: &mut InputWriter<'_>) -> Over {
        // What is removed prints nothing more.
        let source = match self.open_job(&from.job) {
            Ok(Some(source)) => source,
            Ok(None) => return Over::Passed,
            Err(_) => return Over::Failed,
        };
        // Wakes up when the reading job ends while the source is silent.
        let watch = Watch::for_replaced(job.path());
        let limit = (!watch.is_pushed()).then_some(LOOK);
        let Ok(follower) = Follower::new(self, &source, from.from) else { return Over::Failed };
        let mut follower = follower.stopped_by(watch.fd());
        loop {
            match follower.next(limit) {
                // Of bytes whose stream is not known any more, most are of the first.
                Ok(Followed::Piece(Piece::Output { stream, offset, bytes, .. }))
                    if stream.unwrap_or(Stream::Stdout) == from.stream =>
                {
                    writer.place.offset = offset;
                    match writer.write(&bytes, NO_LIMIT) {
                        Ok(()) => {}
                        Err(ControlError::Ended(_) | ControlError::Refused { .. }) => return Over::Unread,
                        Err(_) if job.state(self).status.has_ended() => return Over::Unread,
                        Err(_) => return Over::Failed,
                    }
                }
                Ok(Followed::Piece(_)) => {}
                Ok(Followed::End) => return Over::Passed,
                // What could not be read is no end.
                Err(_) => return Over::Failed,
                Ok(Followed::Nothing) => {
                    watch.clear();
                    if job.state(self).status.has_ended() {
                        return Over::Unread;
                    }
                }
            }
        }
    }
}
