//! `outlive up`: start the jobs of a project, and tell what became of each.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use outlive::{Conditions, Job, JobId, JobObject, Status, WaitFor};
use outlive_project::{Asked, FILE, Progress, Project, Rising, Step, StepState, bring_up};
use outlive_sys::signal::{catch_interrupt, interrupt_fd, interrupted};
use serde::Serialize;

use crate::args::Up;
use crate::commands::Context;
use crate::commands::project::foreground::{self, Shown};
use crate::commands::project::load;
use crate::failure::{FAILED, Failure, end_interrupted};
use crate::render::{counted, ending, note, one_line, print, print_json};

/// How often `--wait` looks why a job is not ready yet. Most are by then, and nothing is said of them.
const LOOK: Duration = Duration::from_secs(3);

#[derive(Serialize)]
struct Answer<'a> {
    project: &'a str,
    session: String,
    jobs: &'a BTreeMap<String, Step>,
}

pub(crate) fn run(context: &Context, arguments: &Up) -> Result<ExitCode, Failure> {
    let project = load(context, &arguments.project)?;
    if project.jobs.is_empty() {
        let hint = match project.file.ends_with(FILE) {
            true => "add one: [jobs.web] and below it run = \"npm run dev\"",
            false => "add one, such as a line web: npm run dev in a Procfile",
        };
        return Err(Failure::usage(format!("up: {} has no jobs", project.file.display()), hint));
    }
    project.warnings.iter().for_each(|warning| note(&format!("outlive: warning: {warning}")));
    let asked = Asked { names: &arguments.names, profiles: &arguments.profiles };
    let wanted = project.with_dependencies(&asked)?;
    let wanted: Vec<&str> = wanted.iter().map(|job| job.name.as_str()).collect();
    catch_interrupt();
    let jobs = context.store.list(Some(&project.session())).map(|listing| listing.jobs).unwrap_or_default();
    tell_strangers(context, &project, &jobs);
    let before: BTreeSet<JobId> = jobs.iter().map(|job| job.id().clone()).collect();
    let mut rising = bring_up(&context.store, &project, &asked)?;
    if arguments.foreground {
        return foreground::run(
            context,
            &project,
            &mut rising,
            &Shown { before, names: if arguments.names.is_empty() { None } else { Some(wanted) } },
            arguments.down,
        );
    }
    let mut patience = Patience::new(context, &project, arguments);
    let progress = follow(&mut patience, &wanted, &before, &mut rising)?;
    if interrupted() {
        note("\noutlive: no longer waiting; the jobs are started all the same. End them with: outlive down");
        return Ok(end_interrupted());
    }
    if context.is_json {
        print_json(&Answer {
            project: &project.name,
            session: project.session().to_string(),
            jobs: &progress.jobs,
        })?;
    } else {
        summarise(&progress);
    }
    let mut has_failed = progress.jobs.values().any(|step| step.state == StepState::Failed);
    if arguments.wait {
        has_failed |= !wait_ready(&mut patience, &progress)?;
    }
    Ok(if has_failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// How long `up` waits, and what it says meanwhile.
struct Patience<'a> {
    context: &'a Context,
    project: &'a Project,
    waits: bool,
    until: Option<Instant>,
    /// When to look next why it takes so long.
    next_look: Instant,
    told: BTreeMap<String, String>,
}

impl<'a> Patience<'a> {
    fn new(context: &'a Context, project: &'a Project, arguments: &Up) -> Self {
        let now = Instant::now();
        let until = arguments.timeout.map(|timeout| now + timeout);
        let (waits, next_look, told) = (arguments.wait, now + LOOK, BTreeMap::new());
        Self { context, project, waits, until, next_look, told }
    }

    /// Returns how long to wait before this is asked again; none: as long as it takes.
    fn step(&self) -> Option<Duration> {
        let next = self.until.map_or(self.next_look, |until| until.min(self.next_look));
        self.waits.then(|| next.saturating_duration_since(Instant::now()))
    }

    /// Says what is missing where that has not been said, and gives up when the time is over.
    fn look(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        if !self.waits || (now < self.next_look && self.until.is_none_or(|until| now < until)) {
            return Ok(());
        }
        self.next_look = now + LOOK;
        let unready = outlive_project::unready(&self.context.store, self.project)?;
        for (name, why) in &unready {
            if self.told.insert(name.clone(), why.clone()).as_ref() != Some(why) && !self.context.is_json {
                note(&one_line(&format!("waiting for {name}: {why}")));
            }
        }
        if self.until.is_none_or(|until| now < until) {
            return Ok(());
        }
        let names: Vec<&str> = unready.iter().map(|(name, _)| name.as_str()).collect();
        let message = match names.as_slice() {
            [] => "up: not all jobs are started in that time".to_owned(),
            names => format!("up: not ready in that time: {}", names.join(", ")),
        };
        let hint = match names.as_slice() {
            [] => "they are started all the same, in the background; see: outlive status".to_owned(),
            [name, ..] => format!("the jobs go on; see: outlive why {name}"),
        };
        Err(Failure::timed_out(message, hint))
    }
}

/// Tells of each job as something becomes of it, until there is something to tell of all; with `--wait`, until nothing more will be started.
fn follow(
    patience: &mut Patience<'_>,
    wanted: &[&str],
    before: &BTreeSet<JobId>,
    rising: &mut Rising<'_>,
) -> Result<Progress, Failure> {
    let mut told = BTreeMap::new();
    loop {
        let progress = rising.next(patience.step(), interrupt_fd())?.clone();
        if !patience.context.is_json {
            let width = wanted.iter().map(|name| name.len()).max().unwrap_or(0);
            tell(&progress, (patience.project, wanted), before, width, &mut told);
        }
        let is_known = |name: &&str| progress.jobs.get(*name).is_some_and(|step| !step.is_asked_for());
        let has_all = wanted.iter().all(is_known);
        if interrupted() || progress.is_over || (has_all && !patience.waits) {
            return Ok(progress);
        }
        patience.look()?;
    }
}

/// Prints what is new, in the order of the file: what comes after a job of `wanted` of which nothing is known yet is told later. Names
/// are padded to a width. Jobs `before` ran before this command.
pub(super) fn tell(
    progress: &Progress,
    (project, wanted): (&Project, &[&str]),
    before: &BTreeSet<JobId>,
    width: usize,
    told: &mut BTreeMap<String, Step>,
) {
    let is_unknown = |name: &str| wanted.contains(&name) && !progress.jobs.contains_key(name);
    for job in &project.jobs {
        let name = &job.name;
        if is_unknown(name) && !progress.is_over {
            break;
        }
        let Some(step) = progress.jobs.get(name) else { continue };
        if told.get(name) == Some(step) || step.is_asked_for() {
            continue;
        }
        let ran_before = step.job.as_ref().is_some_and(|job| before.contains(job));
        let why = step.why.as_deref().unwrap_or_default();
        let id = step.id().unwrap_or_default();
        let words = match step.state {
            StepState::Waiting => format!("waits for {why}"),
            StepState::Started | StepState::Restarted if ran_before => format!("runs as {id}"),
            StepState::Started => format!("started {id}"),
            StepState::Restarted => format!("restarted as {id}: {why} changed"),
            StepState::Kept => format!("runs as {id}"),
            StepState::Completed => format!("has completed as {id}"),
            StepState::Failed => format!("not started: {why}"),
        };
        // At once: with --foreground, output of jobs is printed at the same time.
        print(&format!("{}\n", one_line(&format!("{name:width$}  {words}"))));
        told.insert(name.clone(), step.clone());
    }
}

/// Says whether anything was done, and what goes on without this command.
fn summarise(progress: &Progress) {
    let count = |states: &[StepState]| {
        progress.jobs.values().filter(|step| states.contains(&step.state)).count() as u64
    };
    let waiting = count(&[StepState::Waiting]);
    if waiting > 0 {
        let jobs = counted(waiting, "job is", "jobs are");
        note(&format!("{jobs} started later, in the background; see: outlive status"));
    } else if count(&[StepState::Started, StepState::Restarted, StepState::Failed]) == 0 {
        note("nothing to do");
    }
}

/// Waits until a job on another machine is ready, if it says when it is; `false` if it cannot be any more.
fn wait_ready_there(patience: &mut Patience<'_>, name: &str) -> Result<bool, Failure> {
    let (context, project) = (patience.context, patience.project);
    if !project.job(name)?.can_be_ready() {
        return Ok(true);
    }
    loop {
        let until = patience.step().map(|step| Instant::now() + step);
        let is_wanted = || !interrupted() && until.is_none_or(|until| Instant::now() < until);
        match outlive_project::ready_there(&context.store, project, name, is_wanted)? {
            Some(Ok(())) => {
                if !context.is_json {
                    print(&format!("{name} is ready\n"));
                }
                return Ok(true);
            }
            Some(Err(why)) => {
                note(&format!("outlive: {name} is not ready: {why}; see: outlive why {name}"));
                return Ok(false);
            }
            None if interrupted() => return Ok(false),
            None => patience.look()?,
        }
    }
}

/// Names the live jobs of the session that the file does not have any more.
fn tell_strangers(context: &Context, project: &Project, jobs: &[Job]) {
    for job in jobs.iter().filter(|job| outlive_project::is_stranger(project, job)) {
        if job.state(&context.store).is_live() {
            note(&format!(
                "outlive: {0} runs and is not in the file; end it with: outlive kill {0}",
                job.id()
            ));
        }
    }
}

/// Waits until all jobs are ready that say when they are; `false` if one cannot be any more, or another has failed.
fn wait_ready(patience: &mut Patience<'_>, progress: &Progress) -> Result<bool, Failure> {
    let (context, session) = (patience.context, patience.project.session());
    let (mut is_ready, mut unchecked) = (true, Vec::new());
    for (name, step) in &progress.jobs {
        let Some(job) = &step.job else { continue };
        if step.host.is_some() {
            is_ready &= wait_ready_there(patience, name)?;
            continue;
        }
        let mut job = context.store.find(job.as_str(), Some(&session))?;
        // One that sleeps until its time is not to be ready before.
        if job.spec().options.schedule.is_set() {
            continue;
        }
        if !job.spec().can_be_ready() {
            unchecked.push(job);
            continue;
        }
        let waited = loop {
            let wanted = WaitFor {
                conditions: Conditions { ready: true, ..Conditions::default() },
                limit: patience.step(),
                stop: interrupt_fd(),
                ..WaitFor::exits(std::slice::from_ref(&job))
            };
            let waited = context.store.wait_for(&wanted)?;
            let is_over = waited.states[0].status.has_ended();
            if (waited.is_reached && !is_over) || interrupted() {
                break waited;
            }
            // A job that is started again meanwhile may be ready with another run.
            match is_over.then(|| context.store.run_after(&job)).flatten() {
                Some(next) => job = next,
                None if waited.is_reached || !waited.can_still_come => break waited,
                None => {}
            }
            patience.look()?;
        };
        let object = JobObject::new(&job, &waited.states[0]);
        let name = job.name().unwrap_or_default();
        match (waited.is_reached && !object.status.has_ended(), waited.can_still_come) {
            (true, _) if !context.is_json => {
                let url = object.ready_place.map(|place| format!(" at {place}")).unwrap_or_default();
                print(&format!("{name} is ready{url}\n"));
            }
            (true, _) => {}
            (false, true) => return Ok(false),
            (false, false) => {
                note(&format!("outlive: {name} is not ready: {}; see: outlive why {name}", ending(&object)));
                is_ready = false;
            }
        }
    }
    // Of those that say nothing of when they are ready, what is known now that all others are: one that cannot begin has ended.
    for job in unchecked {
        let object = JobObject::new(&job, &job.state(&context.store));
        let has_failed = object.status.has_ended() && object.status != Status::Completed;
        if has_failed && context.store.run_after(&job).is_none() {
            let name = job.name().unwrap_or_default();
            note(&format!("outlive: {}; see: outlive why {name}", ending(&object)));
            is_ready = false;
        }
    }
    Ok(is_ready)
}
