//! What a job waits for in other jobs: seen from their files, and told by the kernel when one of these is replaced.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use outlive_core::after::{After, Milestone};
use outlive_core::file;
use outlive_core::health::is_healthy;
use outlive_core::outcome::{Cause, FILE_BYTES, OUTCOME_AT, Outcome, WaitStatus};
use outlive_core::status::Status;
use outlive_sys::durable;
use outlive_sys::watch::Watch;

/// What holds of another job.
enum Seen {
    /// What is waited for.
    Holds,
    /// That may still come.
    NotYet,
    /// That can never come: why.
    Never(String),
}

/// What still has to come, in the order in which it is waited for.
pub(super) struct Awaited<'a> {
    left: &'a [After],
    /// Tells when a file of the job that is waited for was replaced.
    watch: Option<Watch>,
}

impl<'a> Awaited<'a> {
    pub(super) fn new(after: &'a [After]) -> Self {
        Self { left: after, watch: None }
    }

    /// Returns what to poll for.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().and_then(Watch::fd)
    }

    /// Tells whether it has to look again now and then, because the kernel does not tell.
    pub(super) fn needs_timer(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| !watch.is_pushed())
    }

    /// Closes what was only watched.
    pub(super) fn forget(&mut self) {
        self.watch = None;
    }

    /// Tells whether all of it has come; the inner error is the reason why it never can.
    ///
    /// # Errors
    ///
    /// If the store cannot be read now.
    pub(super) fn look(&mut self, job_dir: impl AsFd) -> io::Result<Result<bool, String>> {
        self.forget();
        while let Some((after, rest)) = self.left.split_first() {
            let path = format!("/proc/self/fd/{}/../{}", job_dir.as_fd().as_raw_fd(), after.job);
            // Before the look: what comes after it is told.
            self.watch = Some(Watch::for_replaced(Path::new(&path)));
            match see(&job_dir, after)? {
                Seen::Holds => self.left = rest,
                Seen::NotYet => return Ok(Ok(false)),
                Seen::Never(why) => return Ok(Err(format!("{after} can no longer come: {why}"))),
            }
        }
        self.forget();
        Ok(Ok(true))
    }
}

fn see(job_dir: impl AsFd, after: &After) -> io::Result<Seen> {
    let dir = match durable::open_dir_in(&job_dir, format!("../{}", after.job).as_str()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Seen::Never("the job was removed".to_owned()));
        }
        dir => dir?,
    };
    let records = durable::read_open_within(&durable::open_ro(&dir, file::OUTCOME)?, FILE_BYTES)?;
    if let Some(outcome) = records.get(OUTCOME_AT as usize..).and_then(Outcome::from_slot) {
        return Ok(of_ended(&outcome, after.milestone));
    }
    let is_there = |name: &str| durable::open_ro(&dir, name).is_ok();
    let holds = match after.milestone {
        // Its keeper has a snapshot when the command runs; while the command waits there is a mark.
        Milestone::Started => {
            let mark = format!("../../{}/{}", outlive_core::WAITING, after.job);
            is_there(file::META) && durable::open_ro(&job_dir, mark.as_str()).is_err()
        }
        Milestone::Ready => is_there(file::READY),
        Milestone::Healthy => durable::read(&dir, file::HEALTH).is_ok_and(|text| is_healthy(&text)),
        Milestone::Completed | Milestone::Succeeded => false,
    };
    Ok(if holds { Seen::Holds } else { Seen::NotYet })
}

fn of_ended(outcome: &Outcome, milestone: Milestone) -> Seen {
    let is_never_started = matches!(outcome.cause, Cause::NeverStarted(_));
    let holds = match milestone {
        Milestone::Started => !is_never_started,
        Milestone::Ready | Milestone::Healthy => false,
        Milestone::Completed => true,
        Milestone::Succeeded => Status::of(outcome) == Status::Completed,
    };
    if holds {
        return Seen::Holds;
    }
    Seen::Never(match (&outcome.cause, outcome.wait_status) {
        (Cause::NeverStarted(_), _) => "it was never started".to_owned(),
        (Cause::Natural, WaitStatus::Exited { code }) => format!("it exited with {code}"),
        _ => match Status::of(outcome) {
            Status::Killed => "it was killed".to_owned(),
            Status::Lost => "it was lost".to_owned(),
            status => format!("it {}", status.word().replace('_', " ")),
        },
    })
}
