//! The process that starts the jobs of a project: it ends when all are started, and is not needed after that.
//!
//! One thread for each job waits for what the job is to come after, and starts it. What they know of each other is on a board.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::{
    CHANGE_OF, Cancel, Conditions, Ensured, Failure, Job, JobObject, Kill, Request, Restarted, SessionName,
    State, Status, StdinFrom, Store, WaitFor,
};
use outlive_sys::poll;
use outlive_sys::watch::Watch;

use crate::error::ProjectError;
use crate::ports;
use crate::project::{After, Milestone, Project, ProjectJob, There};
use crate::up::record::{self, Progress, Record, Step, StepState};
use crate::up::there::{self, Part};

/// How often to look whether another `up` or `down` took over, where the kernel does not tell.
const LOOK: Duration = Duration::from_millis(100);

/// What all threads know.
struct Board<'a> {
    store: &'a Store,
    session: SessionName,
    record: Record,
    project: Project,
    ports: BTreeMap<String, u16>,
    /// What the `up` before came to.
    earlier: BTreeMap<String, Step>,
    /// That `up` was not over when this one took its place: what it did is told with this one.
    is_cut_short: bool,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// Another `up` or `down` took over.
    replaced: Cancel,
}

/// Why a job was not started.
enum Stopped {
    /// For a reason that is told.
    Failed(String),
    /// Another `up` or `down` took over.
    Replaced,
}

/// Starts the jobs that a generation of a project wants, and returns when all are started or cannot be. Returns at once if another
/// generation is wanted by now.
///
/// # Errors
///
/// If the store cannot be used, or the project's file cannot be read any more.
pub fn converge(store: &Store, session: &SessionName, generation: &str) -> Result<(), ProjectError> {
    let _held = record::lock(store, session).map_err(ProjectError::Store)?;
    let record = Record::read(store, session).filter(|record| record.generation == generation);
    let Some(record) = record else { return Ok(()) };
    let project = match Project::load(&record.file, &store.config().hosts) {
        Ok(project) => project.in_session(session),
        Err(error) => {
            let step = Step::new(StepState::Failed, None, Some(outlive::chain(&error)));
            let mut progress = Progress::new(generation);
            progress.jobs = record.wanted.iter().map(|name| (name.clone(), step.clone())).collect();
            progress.is_over = true;
            progress.write(store, session).map_err(ProjectError::Store)?;
            return Err(error);
        }
    };
    let replaced = Cancel::new().map_err(ProjectError::Store)?;
    let over = Cancel::new().map_err(ProjectError::Store)?;
    let mut progress = Progress::new(generation);
    // What an earlier `up` came to with other jobs is still so.
    let earlier = Progress::read(store, session).unwrap_or_default();
    let (earlier, is_cut_short) = (earlier.jobs, !earlier.is_over);
    let is_left = |(name, _): &(&String, &Step)| !record.wanted.contains(name);
    progress.jobs.extend(earlier.iter().filter(is_left).map(|(name, step)| (name.clone(), step.clone())));
    let progress = Mutex::new(progress);
    let session = session.clone();
    let ports = ports::assign(store, &project);
    let changed = Condvar::new();
    let board =
        Board { store, session, record, project, ports, earlier, is_cut_short, progress, changed, replaced };
    std::thread::scope(|scope| {
        scope.spawn(|| board.watch(&over));
        let wanted = board.project.jobs.iter().filter(|job| board.record.wanted.contains(&job.name));
        let rising: Vec<_> = wanted.map(|job| scope.spawn(|| board.bring_up(job))).collect();
        for risen in rising {
            risen.join().ok();
        }
        over.cancel();
    });
    if !board.replaced.is_cancelled() {
        board.write(|progress| progress.is_over = true);
    }
    Ok(())
}

impl Board<'_> {
    /// Looks whether another generation is wanted, until this one is over.
    fn watch(&self, over: &Cancel) {
        let watch = Watch::new(&self.store.session_dir(&self.session));
        let pause = (!watch.is_pushed()).then_some(LOOK);
        loop {
            watch.clear();
            let record = Record::read(self.store, &self.session);
            if record.is_none_or(|record| record.generation != self.record.generation) {
                self.replaced.cancel();
                // With the lock, so that no thread is between its look and its sleep.
                drop(self.progress());
                self.changed.notify_all();
                return;
            }
            let fds = watch.fd().into_iter().chain([over.as_fd()]);
            if poll::any_readable(fds, pause).is_err() || over.is_cancelled() {
                return;
            }
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress();
        let before = progress.clone();
        change(&mut progress);
        if *progress != before {
            // Where it cannot be written, the jobs are started all the same.
            progress.write(self.store, &self.session).ok();
        }
        self.changed.notify_all();
    }

    fn set(&self, job: &ProjectJob, state: StepState, id: Option<&Job>, why: Option<String>) {
        self.set_step(job, Step::new(state, id.map(|job| job.id().clone()), why));
    }

    fn set_step(&self, job: &ProjectJob, mut step: Step) {
        // Where it was before is known until nothing of it is left there.
        if matches!(step.state, StepState::Waiting | StepState::Failed) && step.host.is_none() {
            step.host = self.earlier.get(&job.name).and_then(|earlier| earlier.host.clone());
        }
        self.write(|progress| drop(progress.jobs.insert(job.name.clone(), step)));
    }

    /// Waits for what a job is to come after, and starts it.
    fn bring_up(&self, job: &ProjectJob) {
        // What runs as the file says is not started, so that it has nothing to wait for.
        let was_there = self.earlier.get(&job.name).is_some_and(|earlier| earlier.host.is_some());
        if job.there.is_none()
            && !was_there
            && let Some(running) = self.unchanged(job)
        {
            let is_told_here = self.is_cut_short || self.record.taken_over.contains(&job.name);
            let earlier = self.earlier.get(&job.name).filter(|_| is_told_here);
            return match earlier.filter(|step| step.job.as_ref() == Some(running.id())) {
                Some(step) => self.set_step(job, step.clone()),
                None => self.set(job, StepState::Kept, Some(&running), None),
            };
        }
        let risen = job.after.iter().try_for_each(|after| self.wait_for(job, after));
        match risen.and_then(|()| self.wait_before(job)).and_then(|()| self.start(job)) {
            Err(Stopped::Failed(why)) => self.set(job, StepState::Failed, None, Some(why)),
            Ok(()) | Err(Stopped::Replaced) => {}
        }
    }

    /// Waits until those are in the job's queue that stand before it in the file, where neither they nor it wait for others: so they are run in
    /// the order of the file.
    fn wait_before(&self, job: &ProjectJob) -> Result<(), Stopped> {
        let queue = job.choices.queue.as_ref().and_then(Option::as_ref);
        let Some(queue) = queue.filter(|_| job.after.is_empty()) else { return Ok(()) };
        let is_before = |other: &&ProjectJob| {
            other.after.is_empty()
                && other.choices.queue.as_ref().and_then(Option::as_ref) == Some(queue)
                && self.record.wanted.contains(&other.name)
        };
        let before = self.project.jobs.iter().take_while(|other| other.name != job.name).filter(is_before);
        let before: Vec<&str> = before.map(|other| other.name.as_str()).collect();
        let mut progress = self.progress();
        while !self.replaced.is_cancelled() && before.iter().any(|name| !progress.jobs.contains_key(*name)) {
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        if self.replaced.is_cancelled() { Err(Stopped::Replaced) } else { Ok(()) }
    }

    /// Returns the live job that runs as the file says. Of one that reads another job this is not known before that is started.
    fn unchanged(&self, job: &ProjectJob) -> Option<Job> {
        if job.stdin_from.is_some() || self.replaced.is_cancelled() {
            return None;
        }
        let last = last_run(self.store, &self.session, &job.name).ok()??;
        let request = job.request(&self.project, &self.ports);
        let is_unchanged = || self.store.differences(&last, &request).is_ok_and(|changed| changed.is_empty());
        (last.state(self.store).is_live() && is_unchanged()).then_some(last)
    }

    /// Waits until something holds of another job.
    fn wait_for(&self, job: &ProjectJob, after: &After) -> Result<(), Stopped> {
        let waits = || self.set(job, StepState::Waiting, None, Some(after.to_string()));
        let step = self.wait_started(after, waits)?;
        if let Some(host) = &step.host {
            return self.wait_for_there(after, host, waits);
        }
        let id = step.job.map(|id| id.to_string()).unwrap_or_default();
        let found = self.store.find(&id, Some(&self.session));
        let mut other = found.map_err(|error| Stopped::Failed(outlive::chain(&error)))?;
        if after.milestone == Milestone::Started {
            return self.wait_begun(&other, after, waits);
        }
        loop {
            let Err(reason) = self.wait_for_run(&other, after, waits)? else { return Ok(()) };
            // A job that is started again, by its policy or by a front end, may come to it with another run.
            let next = || self.store.run_after(&other).or_else(|| self.newer_run(&other));
            other = match (after.milestone != Milestone::Completed).then(next).flatten() {
                Some(next) => next,
                None => return Err(Stopped::Failed(format!("{after} can no longer come: {reason}"))),
            };
        }
    }

    /// Returns the newest run of a job, which may have ended already, if that is another one.
    fn newer_run(&self, job: &Job) -> Option<Job> {
        let last = last_run(self.store, &self.session, job.name()?).ok()??;
        (last.id() != job.id() && last.spec().created >= job.spec().created).then_some(last)
    }

    /// Looks at another job each time something of it changes, until that gives an answer.
    fn look_until<T>(
        &self,
        other: &Job,
        waits: impl Fn(),
        look: impl Fn(&State) -> Option<T>,
    ) -> Result<T, Stopped> {
        let watch = Watch::for_replaced(other.path());
        let pause = (!watch.is_pushed()).then_some(LOOK);
        loop {
            watch.clear();
            let answer = look(&other.state(self.store));
            if self.replaced.is_cancelled() {
                return Err(Stopped::Replaced);
            }
            if let Some(answer) = answer {
                return Ok(answer);
            }
            waits();
            let fds = watch.fd().into_iter().chain([self.replaced.as_fd()]);
            poll::any_readable(fds, pause).map_err(|error| Stopped::Failed(outlive::chain(&error)))?;
        }
    }

    /// Waits until the command of a job runs that may have to wait for its turn in a queue.
    fn wait_begun(&self, other: &Job, after: &After, waits: impl Fn()) -> Result<(), Stopped> {
        let never = |state: &State| format!("{after} can no longer come: it is {}", state.words());
        let begun = self.look_until(other, waits, |state| {
            let is_begun = || state.meta.as_ref().is_none_or(|meta| meta.command.is_some());
            let is_waiting = state.status == Status::Queued;
            (!is_waiting).then(|| if is_begun() { Ok(()) } else { Err(never(state)) })
        })?;
        begun.map_err(Stopped::Failed)
    }

    /// Waits until something holds of one run of another job; the inner error is the reason why it can no longer hold.
    fn wait_for_run(
        &self,
        other: &Job,
        after: &After,
        waits: impl Fn(),
    ) -> Result<Result<(), String>, Stopped> {
        if after.milestone == Milestone::Healthy {
            return self.wait_healthy(other, waits);
        }
        let is_ready = after.milestone == Milestone::Ready;
        let state = other.state(self.store);
        if is_ready && other.ready_now(&state).is_some() && !state.status.has_ended() {
            return Ok(Ok(()));
        }
        let conditions = Conditions { ready: is_ready, ..Conditions::default() };
        if !other.state(self.store).status.has_ended() {
            waits();
        }
        let wanted = WaitFor {
            conditions,
            stop: Some(self.replaced.as_fd()),
            ..WaitFor::exits(std::slice::from_ref(other))
        };
        let waited = self.store.wait_for(&wanted).map_err(|error| Stopped::Failed(outlive::chain(&error)))?;
        if waited.can_still_come && !waited.is_reached {
            return Err(Stopped::Replaced);
        }
        let state = other.state(self.store);
        let is_reached = match after.milestone {
            Milestone::Succeeded => state.status == Status::Completed,
            // It was ready once, which is not enough.
            Milestone::Ready => waited.is_reached && !state.status.has_ended(),
            Milestone::Started | Milestone::Healthy | Milestone::Completed => waited.is_reached,
        };
        if is_reached {
            return Ok(Ok(()));
        }
        let object = JobObject::new(other, &state);
        Ok(Err(match &object.reason {
            _ if !state.status.has_ended() => "it was not ready in its time".to_owned(),
            Some(reason) => reason.clone(),
            None => state.words(),
        }))
    }

    /// Waits until a check of the health of another job has succeeded; the inner error is the reason why it can no longer.
    fn wait_healthy(&self, other: &Job, waits: impl Fn()) -> Result<Result<(), String>, Stopped> {
        self.look_until(other, waits, |state| {
            if state.status.has_ended() {
                let reason = JobObject::new(other, state).reason;
                return Some(Err(reason.unwrap_or_else(|| state.words())));
            }
            other.is_healthy().then_some(Ok(()))
        })
    }

    /// Waits until something holds of a job on another machine.
    fn wait_for_there(&self, after: &After, host: &str, waits: impl Fn()) -> Result<(), Stopped> {
        waits();
        let part = Part::new(self.store, &self.project, host);
        let part = part.map_err(|failure| Stopped::Failed(failure.text()))?;
        let is_wanted = || !self.replaced.is_cancelled();
        let come = part.wait_for(&after.job, after.milestone, is_wanted).ok_or(Stopped::Replaced)?;
        come.map_err(|reason| Stopped::Failed(format!("{after} can no longer come: {reason}")))
    }

    /// Waits until another job is started; `waits` is called if it waits itself.
    fn wait_started(&self, after: &After, waits: impl Fn()) -> Result<Step, Stopped> {
        let mut has_told = false;
        loop {
            let mut progress = self.progress();
            let step = loop {
                if self.replaced.is_cancelled() {
                    return Err(Stopped::Replaced);
                }
                match progress.jobs.get(&after.job) {
                    Some(step) if step.state != StepState::Waiting || !has_told => break step.clone(),
                    _ => progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(progress);
            match step.state {
                StepState::Waiting => {
                    waits();
                    has_told = true;
                }
                StepState::Failed => {
                    return Err(Stopped::Failed(format!(
                        "{after} can no longer come: {} was not started",
                        after.job
                    )));
                }
                _ => return Ok(step),
            }
        }
    }

    /// Starts a job, unless it runs already or has completed.
    fn start(&self, job: &ProjectJob) -> Result<(), Stopped> {
        if self.replaced.is_cancelled() {
            return Err(Stopped::Replaced);
        }
        self.leave_other_places(job)?;
        if let Some(there) = &job.there {
            return self.start_there(job, there);
        }
        let failed = |failure: Failure| Stopped::Failed(failure.text());
        let request = job.request(&self.project, &self.ports);
        let unread = |error| failed(Failure::other("", &error));
        let request = match reading(self.store, &self.session, job, request).map_err(unread)? {
            Ok(request) => request,
            // It comes after that job, which therefore is there.
            Err(name) => return Err(Stopped::Failed(format!("{name}, which it reads, is not there"))),
        };
        let last = last_run(self.store, &self.session, &job.name).map_err(unread)?;
        let is_live = last.as_ref().is_some_and(|last| last.state(self.store).is_live());
        if let Some(port) = self.ports.get(&job.name).filter(|_| !is_live)
            && let Some(holder) = ports::holder(self.store, *port)
        {
            return Err(Stopped::Failed(format!("port {port} is taken by {holder}")));
        }
        let Some(last) = last else {
            let ensured = self.store.ensure(&request).map_err(|error| failed(error.into()))?;
            return self.tell(job, ensured);
        };
        let changed = self.store.differences(&last, &request).map_err(|error| failed(error.into()))?;
        let state = last.state(self.store);
        let is_named = self.record.named.contains(&job.name);
        if state.is_live() && changed.is_empty() {
            self.set(job, StepState::Kept, Some(&last), None);
            return Ok(());
        }
        let is_done = state.status == Status::Completed && !job.can_be_ready() && !is_named;
        if is_done && changed.is_empty() && last.spec().created >= self.record.since {
            self.set(job, StepState::Completed, Some(&last), None);
            return Ok(());
        }
        // As a restart because of another file that changed.
        let file = self.project.file.file_name().unwrap_or_default().to_string_lossy();
        let kill = Kill { signal: job.stop, by: format!("{CHANGE_OF}{file}"), ..Kill::default() };
        // Whether a run came before makes no difference to the reader of a failure.
        let not_replaced = |error| failed(Failure::from(error).during("run"));
        let next = match self.store.replace(&last, request, &kill).map_err(not_replaced)? {
            Restarted::Started(started) => started.job,
            Restarted::Already(job) => job,
        };
        let (step, why) = match state.is_live() {
            true => (StepState::Restarted, Some(changed.join(", "))),
            false => (StepState::Started, None),
        };
        self.set(job, step, Some(&next), why);
        Ok(())
    }

    /// Ends a run of the job on another machine than the file names now: there are never two.
    fn leave_other_places(&self, job: &ProjectJob) -> Result<(), Stopped> {
        let now = job.there.as_ref().map(|there| there.host.as_str());
        let before = self.earlier.get(&job.name).and_then(|earlier| earlier.host.as_deref());
        if let Some(before) = before.filter(|before| Some(*before) != now) {
            let part = Part::new(self.store, &self.project, before);
            let ended =
                part.and_then(|part| part.down(std::slice::from_ref(&job.name)).map_err(Failure::from));
            let why = |failure: Failure| format!("it ran on {before}, and may still: {}", failure.text());
            ended.map_err(|failure| Stopped::Failed(why(failure)))?;
        }
        let last = last_run(self.store, &self.session, &job.name).ok().flatten();
        if let Some(last) = last.filter(|last| now.is_some() && last.state(self.store).is_live()) {
            let kill = Kill { signal: job.stop, by: "outlive up".to_owned(), ..Kill::default() };
            let killed = self.store.kill(&last, &kill);
            killed.map_err(|error| Stopped::Failed(Failure::from(error).text()))?;
        }
        Ok(())
    }

    /// Lets a job be up on another machine.
    fn start_there(&self, job: &ProjectJob, there: &There) -> Result<(), Stopped> {
        // Before it is asked: what is started there is found again, even if this process dies now.
        let asks = Step { why: Some(there.host.clone()), ..Step::there(StepState::Waiting, None, there) };
        self.set_step(job, asks);
        let failed = |failure: Failure| Stopped::Failed(failure.text());
        let part = Part::new(self.store, &self.project, &there.host).map_err(failed)?;
        let (project, name, there) = (self.project.name.clone(), job.name.clone(), there.clone());
        let is_named = self.record.named.contains(&name);
        let brought = there::answer(
            move || part.bring_up(&project, &name, &there, is_named),
            || !self.replaced.is_cancelled(),
        );
        let step = brought.ok_or(Stopped::Replaced)?.map_err(failed)?;
        self.set_step(job, step);
        Ok(())
    }

    fn tell(&self, job: &ProjectJob, ensured: Ensured) -> Result<(), Stopped> {
        match ensured {
            Ensured::Started(started) => self.set(job, StepState::Started, Some(&started.job), None),
            Ensured::Running(running) | Ensured::Changed(running, _) => {
                self.set(job, StepState::Kept, Some(&running), None);
            }
        }
        Ok(())
    }
}

/// Lets a job read what the newest run of another prints, if it is to; the name of that one, if it is not there.
pub(crate) fn reading<'j>(
    store: &Store,
    session: &SessionName,
    job: &'j ProjectJob,
    request: Request,
) -> std::io::Result<Result<Request, &'j str>> {
    let Some((name, stream)) = &job.stdin_from else { return Ok(Ok(request)) };
    let Some(source) = last_run(store, session, name)? else { return Ok(Err(name)) };
    Ok(Ok(request.stdin_from(StdinFrom { job: source.id().clone(), stream: *stream, from: 0 })))
}

/// Finds the newest job of a name in a session: a live one, else the last that ended.
pub(crate) fn last_run(store: &Store, session: &SessionName, name: &str) -> std::io::Result<Option<Job>> {
    let mut jobs = store.list(Some(session))?.jobs;
    jobs.retain(|job| job.name() == Some(name));
    let live = jobs.iter().rposition(|job| job.state(store).is_live());
    Ok(match live {
        Some(at) => Some(jobs.swap_remove(at)),
        None => jobs.pop(),
    })
}
