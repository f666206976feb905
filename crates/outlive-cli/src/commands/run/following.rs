//! What a job prints, passed on while it is waited for, and its exit status.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use outlive::{
    AutoBackground, Followed, Follower, Job, JobObject, Kill, Output, Piece, State, Status, Stream,
    WaitStatus,
};
use outlive_sys::poll::{self, PollFd, PollFlags};
use outlive_sys::signal::{interrupt_fd, interrupted};
use outlive_sys::terminal;
use serde::Serialize;

use crate::args::Timeout;
use crate::commands::Context;
use crate::failure::{FAILED, Failure, end_interrupted};
use crate::render::{ending, note, print_json};
use crate::served;

/// A pipe that can be written to takes so many bytes at once (POSIX: `PIPE_BUF`; macOS has 512, Linux 4096).
const PIPE_ROOM: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// How streaming ended.
enum Streamed {
    /// The main process has ended, and all that it printed was passed on.
    Ended,
    /// The time was over; the rest of the output begins here.
    TimeOver(u64),
    /// Ctrl-C ended the waiting.
    LetGo,
}

/// How long a job is waited for.
pub(super) struct Patience {
    began: Instant,
    /// At most so long.
    limit: Option<Duration>,
    /// Until this says that it is better left to itself.
    rule: Option<AutoBackground>,
}

impl Patience {
    pub(super) fn within(limit: Option<Duration>) -> Self {
        Self { began: Instant::now(), limit, rule: None }
    }

    pub(super) fn by_rule(job: &Job) -> Self {
        Self { rule: Some(AutoBackground::of(job)), ..Self::within(None) }
    }

    /// Returns how much is left; none: until something comes.
    fn left(&self, first_output: Option<Duration>) -> Option<Duration> {
        let limit =
            [self.limit, self.rule.and_then(|rule| rule.due(first_output))].into_iter().flatten().min();
        limit.map(|limit| limit.saturating_sub(self.began.elapsed()))
    }
}

/// Passes both streams on, to our own or to `keep`, until the main process has ended or the time is over.
fn stream(
    context: &Context,
    job: &Job,
    patience: &Patience,
    mut keep: impl FnMut(&Piece),
) -> Result<Streamed, Failure> {
    let failed = |error: io::Error| Failure::other("run", &error);
    let id = job.id().as_str();
    // Where a caller elsewhere goes on: what it has of one stream may end before what it has of the other.
    let shown = [Stream::Stdout, Stream::Stderr].map(|stream| served::place(stream, id).unwrap_or(0));
    let follower = Follower::new(&context.store, job, shown[0].min(shown[1])).map_err(failed)?;
    let mut follower = follower.until_exit().stopped_by(interrupt_fd());
    // Where the output ended when the time was over: a command that prints faster than it is passed on has no other end.
    let mut goal = None;
    let mut first_output = None;
    loop {
        if first_output.is_none() && follower.position() > 0 {
            first_output = Some(patience.began.elapsed());
        }
        let left = patience.left(first_output);
        if left.is_some_and(|left| left.is_zero()) {
            let has_ended = || job.state(&context.store).status.has_ended();
            match goal {
                None => goal = Some(Output::open(job).map_err(failed)?.end()),
                Some(goal) if follower.position() >= goal && !has_ended() => {
                    return Ok(Streamed::TimeOver(follower.position()));
                }
                Some(_) => {}
            }
        }
        match follower.next(left).map_err(failed)? {
            Followed::Piece(piece) if context.is_json => keep(&piece),
            Followed::Piece(piece) if write(job, &unshown(piece.clone(), shown)) => {
                if served::is_marked() {
                    served::mark(Stream::Stdout, [(id, follower.position())]);
                    served::mark(Stream::Stderr, [(id, follower.position())]);
                }
            }
            Followed::Piece(_) => return Ok(Streamed::LetGo),
            Followed::End => return Ok(Streamed::Ended),
            Followed::Nothing if interrupted() => return Ok(Streamed::LetGo),
            Followed::Nothing if left.is_some_and(|left| left.is_zero()) => {
                return Ok(Streamed::TimeOver(follower.position()));
            }
            Followed::Nothing => {}
        }
    }
}

/// Leaves out of a piece what a caller elsewhere has already.
fn unshown(piece: Piece, shown: [u64; 2]) -> Piece {
    let Piece::Output { stream, time, offset, lost_before, mut bytes } = piece else { return piece };
    let place = shown[stream.map_or(0, Stream::index)];
    let known = usize::try_from(place.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
    let lost_before = lost_before.filter(|_| known == 0);
    Piece::Output { stream, time, offset: offset + known as u64, lost_before, bytes: bytes.split_off(known) }
}

/// Streams the output and takes the command's exit status.
pub(super) fn follow(context: &Context, job: &Job, limit: Timeout, kills: bool) -> Result<ExitCode, Failure> {
    // A script that wants the object reads the output with `logs`.
    match stream(context, job, &Patience::within(limit.0), |_| {})? {
        Streamed::Ended => ended(context, job, true),
        Streamed::LetGo if kills => {
            let request = Kill { by: "Ctrl-C of outlive run".to_owned(), ..Kill::default() };
            context.store.kill(job, &request).map_err(|error| Failure::from(error).during("run"))?;
            note(&format!("\noutlive: {} ended", job.id()));
            Ok(end_interrupted())
        }
        Streamed::LetGo => Ok(let_go(job)),
        Streamed::TimeOver(_) => {
            let message = format!("run: {} is still running", job.id());
            let hint = format!("it goes on; wait for it with: outlive wait {}", job.id());
            Err(Failure::timed_out(message, hint).about(job.id()))
        }
    }
}

/// The job with what it has printed so far.
#[derive(Serialize)]
struct Yielded {
    #[serde(flatten)]
    job: JobObject,
    /// It has not ended.
    goes_on: bool,
    /// What it printed, as text.
    text: String,
    /// Where the rest begins.
    next_byte: u64,
}

/// Passes on what is printed while it is waited for; then the job goes on without us. The reader goes on from there: nothing is lost
/// or repeated.
pub(super) fn yield_when(context: &Context, job: &Job, patience: &Patience) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    let keep = |piece: &Piece| {
        if let Piece::Output { bytes, .. } = piece {
            text.extend_from_slice(bytes);
        }
    };
    let streamed = stream(context, job, patience, keep)?;
    let next_byte = match streamed {
        Streamed::LetGo => return Ok(let_go(job)),
        Streamed::TimeOver(position) => position,
        Streamed::Ended => job.state(&context.store).outcome.map_or(0, |outcome| outcome.totals.bytes),
    };
    // A cursor that cannot be written repeats what was shown, and loses nothing.
    job.set_cursor(&context.reader, None, next_byte).ok();
    let goes_on = matches!(streamed, Streamed::TimeOver(_));
    if context.is_json {
        let object = JobObject::new(job, &job.state(&context.store));
        print_json(&Yielded {
            job: object,
            goes_on,
            text: String::from_utf8_lossy(&text).into_owned(),
            next_byte,
        })?;
    }
    if goes_on {
        if !context.is_json {
            note(&format!(
                "outlive: {0} goes on; the rest: outlive logs {0} --cursor {1}",
                job.id(),
                context.reader
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    ended(context, job, false)
}

/// Ctrl-C ends the waiting, never the job.
fn let_go(job: &Job) -> ExitCode {
    note(&format!("\noutlive: no longer waiting; {0} goes on. Stop it with: outlive kill {0}", job.id()));
    end_interrupted()
}

/// Passes a piece on; `false` if Ctrl-C came while it waited for the reader.
fn write(job: &Job, piece: &Piece) -> bool {
    let written = match piece {
        Piece::Output { stream, bytes, lost_before, .. } => {
            lost_before.inspect(|loss| note(&format!("outlive: {loss}, here")));
            match stream {
                Some(Stream::Stderr) => write_all(io::stderr(), bytes),
                _ => write_all(io::stdout(), bytes),
            }
        }
        Piece::Gone { from, to } => {
            note(&format!("outlive: bytes {from} to {to} are no longer kept"));
            Ok(())
        }
    };
    match written {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        Err(_) => {
            let id = job.id();
            note(&format!(
                "outlive: nobody reads the output any more; {id} goes on. Stop it with: outlive kill {id}"
            ));
            std::process::exit(i32::from(FAILED));
        }
    }
}

/// Writes all, or returns an error of kind `Interrupted` once Ctrl-C came.
///
/// Ctrl-C that comes right before a write does not cut it short, so nothing is written that would have to wait: a pipe that can be
/// written to has room for this much.
fn write_all(to: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    for mut bytes in bytes.chunks(PIPE_ROOM) {
        while !bytes.is_empty() {
            let mut fds = vec![PollFd::new(&to, PollFlags::OUT)];
            fds.extend(interrupt_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            poll::poll(&mut fds, None)?;
            if interrupted() {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            if fds[0].revents().is_empty() {
                continue;
            }
            match terminal::write_once(&to, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Exits as the command did; with `prints_object`, `--json` prints the job.
pub(super) fn ended(context: &Context, job: &Job, prints_object: bool) -> Result<ExitCode, Failure> {
    let state = job.state(&context.store);
    let object = JobObject::new(job, &state);
    if object.output.dropped_bytes > 0 {
        note(&format!("outlive: {} bytes in all could not be kept", object.output.dropped_bytes));
    }
    if let Some(schedule) = &object.schedule {
        let name = job.name().unwrap_or(job.id().as_str());
        note(&format!("outlive: it is run again, {schedule}; end that with: outlive kill {name}"));
    }
    if context.is_json {
        if prints_object {
            print_json(&object)?;
        }
    } else if object.out_of_memory || !matches!(state.status, Status::Completed | Status::Failed) {
        note(&format!("outlive: {}", ending(&object)));
    }
    job.mark_seen();
    job.mark_delivered(&context.reader);
    Ok(own_code(&state))
}

/// Returns the exit status that says how an ended job exited.
pub(crate) fn own_code(state: &State) -> ExitCode {
    let is_lost = state.status == Status::Lost;
    ExitCode::from(match state.outcome.as_ref().map(|outcome| outcome.wait_status) {
        // The record of a lost job is incomplete: 0 would claim a success.
        Some(WaitStatus::Exited { code: 0 }) if is_lost => FAILED,
        Some(WaitStatus::Exited { code }) => u8::try_from(code).unwrap_or(FAILED),
        Some(WaitStatus::Signaled { signal, .. }) => u8::try_from(128 + signal).unwrap_or(FAILED),
        Some(WaitStatus::Unknown) | None => FAILED,
    })
}
