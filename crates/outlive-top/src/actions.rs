//! What is done to jobs: in threads, so that the view goes on while a job uses its grace.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use outlive::{Failure, Job, JobId, Kill, Killed, Restarted, Store};
use outlive_sys::pipe::{self, Attempt};

/// Named in the outcome of a job that was ended here.
const BY: &str = "top";

/// A keeper that was asked goes on by itself; what has no keeper is given so long when the view is left.
const LAST_LIMIT: Duration = Duration::from_secs(2);

/// What can be done to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Kill,
    /// With SIGKILL at once.
    KillHard,
    Pause,
    Resume,
    /// Ends it, if it has not ended, and starts it again.
    Restart,
}

impl Action {
    /// The question before it is done, of some jobs.
    pub(crate) fn question(self, jobs: &str) -> String {
        match self {
            Self::KillHard => format!("kill {jobs} at once, without grace?"),
            Self::Restart => format!("restart {jobs}?"),
            _ => format!("kill {jobs}?"),
        }
    }

    /// What is told while it is done.
    pub(crate) fn beginning(self) -> &'static str {
        match self {
            Self::Kill | Self::KillHard => "killing",
            Self::Pause => "pausing",
            Self::Resume => "resuming",
            Self::Restart => "restarting",
        }
    }

    fn act(self, store: &Store, job: &Job) -> Result<String, Failure> {
        match self {
            Self::Kill | Self::KillHard => {
                let kill = Kill { force: self == Self::KillHard, by: BY.to_owned(), ..Kill::default() };
                Ok(killed_text(&store.kill(job, &kill)?))
            }
            Self::Pause => Ok(store.pause(job).map(|()| "paused".to_owned())?),
            Self::Resume => Ok(store.resume(job).map(|()| "goes on".to_owned())?),
            Self::Restart => Ok(Self::restart(store, job)?.0),
        }
    }

    /// Restarts a job; returns what to say, and the new run.
    fn restart(store: &Store, job: &Job) -> Result<(String, JobId), Failure> {
        Ok(match store.restart(job, None, BY)? {
            Restarted::Started(started) => {
                (format!("restarted as {}", started.job.id()), started.job.id().clone())
            }
            Restarted::Already(next) => {
                (format!("was restarted by another program, as {}", next.id()), next.id().clone())
            }
        })
    }
}

fn killed_text(killed: &Killed) -> String {
    match (killed.was_over, &killed.survivors[..], killed.signalled) {
        (true, ..) => "had already ended".to_owned(),
        (_, [], 1) => "ended, 1 process".to_owned(),
        (_, [], count) => format!("ended, {count} processes"),
        (_, [one], _) => format!("not wholly ended: pid {} is left", one.pid),
        (_, [one, more @ ..], _) => {
            format!("not wholly ended: pid {} and {} more are left", one.pid, more.len())
        }
    }
}

/// What became of an action.
#[derive(Debug)]
pub(crate) struct Done {
    /// In a sentence.
    pub(crate) told: Result<String, String>,
    /// The job that was restarted, and its new run.
    pub(crate) restarted: Option<(JobId, JobId)>,
}

/// The actions that are being done.
#[derive(Debug)]
pub(crate) struct Actions {
    woken: OwnedFd,
    wake: Arc<OwnedFd>,
    done: Receiver<Done>,
    tell: Sender<Done>,
    running: usize,
}

impl Actions {
    pub(crate) fn new() -> io::Result<Self> {
        let (woken, wake) = pipe::new()?;
        pipe::set_nonblocking(&woken)?;
        let (tell, done) = mpsc::channel();
        Ok(Self { woken, wake: Arc::new(wake), done, tell, running: 0 })
    }

    /// Begins to do something to a job.
    pub(crate) fn start(&mut self, store: &Arc<Store>, job: Job, action: Action) {
        let (store, tell, wake) = (Arc::clone(store), self.tell.clone(), Arc::clone(&self.wake));
        self.running += 1;
        std::thread::spawn(move || {
            let done = match action {
                Action::Restart => Action::restart(&store, &job).map(|(text, next)| (text, Some(next))),
                action => action.act(&store, &job).map(|text| (text, None)),
            };
            let done = match done {
                Ok((text, next)) => Done {
                    told: Ok(format!("{} {text}", job.id())),
                    restarted: next.map(|next| (job.id().clone(), next)),
                },
                Err(failure) => Done { told: Err(failure.text()), restarted: None },
            };
            // After the end of the view there is no reader.
            tell.send(done).ok();
            pipe::try_write(&*wake, b".");
        });
    }

    /// Returns what is done since.
    pub(crate) fn take_done(&mut self) -> Vec<Done> {
        let mut buffer = [0; 64];
        while let Attempt::Moved(_) = pipe::try_read(&self.woken, &mut buffer) {}
        let done: Vec<Done> = self.done.try_iter().collect();
        self.running -= done.len();
        done
    }

    /// Gives what is being done a moment.
    pub(crate) fn finish(mut self) {
        let deadline = Instant::now() + LAST_LIMIT;
        while self.running > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.done.recv_timeout(left).is_err() {
                return;
            }
            self.running -= 1;
        }
    }
}

impl AsFd for Actions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}
