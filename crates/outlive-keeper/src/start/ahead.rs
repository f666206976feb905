//! A keeper that has no job yet: what is made, and the guard that is forked, while the starter prepares the job.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use outlive_core::launch::{Launch, LaunchError, LaunchReply, VERSION};
use outlive_core::wire::{HEADER, MAX_FRAME};
use outlive_sys::cgroup::Hierarchies;
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::ProcessId;
use outlive_sys::keeper::{FOREGROUND, LOCK_FD, LockPlace, SPARE};
use outlive_sys::region::Region;
use outlive_sys::shared::take;
use outlive_sys::signal::ChildEnds;
use outlive_sys::spawn::Limits;
use outlive_sys::{detach, signal, socket, spawn};

use super::{Common, Handed};
use crate::containment::Preparation;
use crate::guard::{self, Custody, Part, Word};
use crate::on_exit::OnExit;
use crate::recorder::Transit;
use crate::supervise::BUFFER;

/// How long the starter may take to send the rest of its request.
const LAUNCH_LIMIT: Duration = Duration::from_secs(60);

/// What a keeper and its guard need whatever the job is, or what of it could not be made: that is told to the starter of the job.
type Ready = Result<Common, (&'static str, io::Error)>;

/// What there is before the job.
pub(super) struct Ahead {
    starter: UnixStream,
    lock_place: LockPlace,
    preparation: Preparation,
    ready: Ready,
    umask: u32,
    limits: Limits,
}

/// What there is of a job when its launch request has come.
pub(super) struct Received {
    pub(super) handed: Handed,
    /// The program that `outlive` is, where the job needs it later.
    pub(super) helper: Option<OwnedFd>,
    pub(super) preparation: Preparation,
    pub(super) ready: Ready,
    pub(super) umask: u32,
    pub(super) limits: Limits,
}

/// What a guard has of the job of a keeper that died.
pub(super) struct Inherited {
    pub(super) contents: Region,
    pub(super) handed: Handed,
    pub(super) preparation: Preparation,
    pub(super) common: Common,
    pub(super) umask: u32,
    pub(super) limits: Limits,
}

impl Ahead {
    /// Prepares what does not depend on the launch request; an error is an exit status.
    #[inline(never)]
    pub(super) fn prepare() -> Result<Box<Self>, u8> {
        let [starter] = detach::inherited().ok_or(2)?;
        let lock_place = LockPlace::reserve(&starter).map_err(|_| 2)?;
        signal::block_all();
        signal::default_actions();
        let limits = Limits::lift();
        let umask = spawn::set_umask(0o077);
        let mut starter = UnixStream::from(starter);
        // Nobody sees anything of it, so a spare keeper has it before there is a job.
        let (hierarchies, me) = (Hierarchies::discover(), ProcessId::current());
        let ready = Common::new();
        let role = std::env::args_os().nth(1).unwrap_or_default();
        if role == SPARE {
            spawn::leave_directory();
            wake(&mut starter).ok_or(4)?;
        }
        // While the starter prepares the job.
        let is_foreground = role == FOREGROUND;
        let preparation = Preparation::new(hierarchies, me, is_foreground);
        if is_foreground {
            ready.iter().for_each(|common| common.custody.set(Word::Foreground, 1));
        }
        Ok(Box::new(Self { starter, lock_place, preparation, ready, umask, limits }))
    }

    /// Forks: the child is the keeper, the parent its guard, which returns when the keeper has died. Where that is not possible, this
    /// process will say so. As early as can be: a kernel that has let this process run where the starter does finds another place for its
    /// child.
    pub(super) fn part(&mut self) -> Part {
        let Ok(common) = &self.ready else { return Part::Keeper };
        guard::part(common.custody, &common.needed()).unwrap_or_else(|error| {
            self.ready = Err(("its guard", error));
            Part::Keeper
        })
    }

    /// Waits for the launch request.
    #[inline(never)]
    pub(super) fn receive(mut self: Box<Self>) -> Result<(Option<Region>, Box<Received>), u8> {
        let custody = self.ready.as_ref().ok().map(|common| common.custody);
        self.preparation.take_up(self.preparation.owner);
        let starter = &mut self.starter;
        // A starter that sends no request leaves nothing to keep.
        let received = fault::step(Point::LaunchReceive, || {
            receive(starter, custody).ok_or(io::ErrorKind::Other.into())
        });
        let Ok((contents, fds)) = received else {
            self.leave();
            return Err(4);
        };
        let Self { starter, lock_place, preparation, ready, umask, limits } = *self;
        let mut fds = fds;
        let helper = if fds.len() > 6 { fds.pop() } else { None };
        let [lock, done, dir, outcome, index, log] = <[OwnedFd; 6]>::try_from(fds).map_err(|_| 4)?;
        let lock = lock_place.fill(lock).map_err(|_| 4)?;
        let (outcome, index, log) = (outcome.into(), index.into(), Some(log.into()));
        let handed = Handed { lock, done: Some(done), dir, outcome, index, log, starter: Some(starter) };
        Ok((contents, Box::new(Received { handed, helper, preparation, ready, umask, limits })))
    }

    /// Takes over the job of the keeper that died. An error is the exit status of a guard whose keeper had none.
    #[inline(never)]
    pub(super) fn inherit(self: Box<Self>) -> Result<Inherited, u8> {
        let Self { starter, lock_place, preparation, ready, umask, limits } = *self;
        // The keeper that died may have closed or replaced them.
        std::mem::forget((starter, lock_place));
        let common = ready.map_err(|_| 4)?;
        let custody = common.custody;
        let length = usize::try_from(custody.get(Word::Request)).unwrap_or(0);
        if length == 0 {
            // The starter sees that nobody has its job.
            preparation.discard();
            return Err(4);
        }
        let contents = custody.room(length).map_err(|_| 1)?;
        let file = |word| custody.inherit(word).ok_or(1);
        let handed = Handed {
            lock: take(LOCK_FD).ok_or(1)?,
            done: None,
            dir: file(Word::Dir)?,
            outcome: file(Word::Outcome)?.into(),
            index: file(Word::Index)?.into(),
            log: None,
            starter: None,
        };
        Ok(Inherited { contents, handed, preparation, common, umask, limits })
    }

    /// Leaves nothing behind. What the guard has prepared it removes itself, as soon as this process has ended.
    fn leave(self) {
        if self.ready.is_err() {
            self.preparation.discard();
        }
    }
}

impl Received {
    /// Ends a job whose request cannot be understood; returns the exit status.
    pub(super) fn decline(self: Box<Self>, error: LaunchError) -> u8 {
        if self.ready.is_err() {
            self.preparation.discard();
        }
        match (error, self.handed.starter) {
            (LaunchError::Version(_), starter) => {
                if let Some(mut starter) = starter {
                    starter.write_all(&LaunchReply::OtherVersion(VERSION).to_frame()).ok();
                }
                3
            }
            // The starter died half-way. Its intent is in the store: the next front end finds that no keeper holds the lock, and
            // writes the outcome and its event. The session to write to is not known here.
            (LaunchError::Wire(_), _) => 4,
        }
    }

    /// Keeps the program for the end of the job, if it needs one then; only a terminal needs it before.
    #[inline(never)]
    pub(super) fn on_exit(&mut self, launch: &Launch<'_>) -> Option<OnExit> {
        let helper = self.helper.take();
        self.helper =
            helper.as_ref().filter(|_| launch.options.pty).and_then(|helper| helper.try_clone().ok());
        OnExit::new(launch, helper, self.umask, self.limits)
    }

    /// Notes for the guard what came: from now on it goes on with the job.
    pub(super) fn entrust(&self, contents: &Option<Region>, on_exit: Option<&OnExit>) {
        let (Ok(Common { custody, .. }), Some(contents)) = (&self.ready, contents) else { return };
        let Handed { done, dir, outcome, index, starter, .. } = &self.handed;
        for (word, fd) in [
            (Word::Dir, Some(dir.as_fd())),
            (Word::Outcome, Some(outcome.as_fd())),
            (Word::Index, Some(index.as_fd())),
            (Word::OnExit, on_exit.map(OnExit::program)),
            (Word::Done, done.as_ref().map(AsFd::as_fd)),
            (Word::Starter, starter.as_ref().map(AsFd::as_fd)),
        ] {
            fd.into_iter().for_each(|fd| custody.lend(word, fd));
        }
        custody.set(Word::Request, contents.len() as u64);
    }
}

impl Common {
    /// Makes it, before the job is known.
    fn new() -> Ready {
        // Now: without it the command would run, and nothing would read what it prints.
        let buffer = fault::step(Point::BufferMap, || Region::new(BUFFER));
        Ok(Self {
            buffer: buffer.map_err(|error| ("memory for its output", error))?,
            custody: Custody::new().map_err(|error| ("memory for its guard", error))?,
            transit: Transit::new().map_err(|error| ("a pipe", error))?,
            child_ends: fault::step(Point::SignalFd, ChildEnds::new)
                .map_err(|error| ("the signal descriptor", error))?,
            listener: None,
            notices: None,
        })
    }

    /// Lists the descriptors that a keeper has from its beginning to its end, but for those that the page names.
    pub(super) fn needed(&self) -> Vec<RawFd> {
        let [reading, writing] = self.transit.fds();
        vec![LOCK_FD, self.child_ends.as_fd().as_raw_fd(), reading, writing]
    }
}

/// Waits, as a spare keeper that touches nothing, until its starter prepares a job, and answers: it is not stopped. The answer is a frame with
/// nothing in it: front ends of earlier versions expect what a keeper inherits, and execute another one.
fn wake(starter: &mut UnixStream) -> Option<()> {
    starter.read_exact(&mut [0]).ok()?;
    starter.write_all(&[0; HEADER]).ok()
}

/// Reads the frame with the launch request, header included, and the descriptors that come with it; the frame is `None`
/// if it is cut short.
///
/// Behind the page, where the guard finds it: the environment is large, and this process does not need it once the command runs. There is
/// no limit to the wait: this keeper may have been started ahead of need, and its starter's end is the end of the socket.
fn receive(starter: &mut UnixStream, custody: Option<Custody>) -> Option<(Option<Region>, Vec<OwnedFd>)> {
    let mut header = [0; HEADER];
    let fds = socket::receive_with(starter, &mut header).ok()?;
    starter.set_read_timeout(Some(LAUNCH_LIMIT)).ok()?;
    let length = u32::from_le_bytes(header) as usize;
    let mut contents = || {
        let room = |length| custody.map_or_else(|| Region::new(length), |custody| custody.room(length));
        let mut region = room(HEADER + length).ok()?;
        region[..HEADER].copy_from_slice(&header);
        starter.read_exact(&mut region[HEADER..]).ok()?;
        Some(region)
    };
    let contents = if length <= MAX_FRAME { contents() } else { None };
    Some((contents, fds))
}
