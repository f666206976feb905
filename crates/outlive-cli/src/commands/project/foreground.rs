//! `outlive up --foreground`: what all jobs of a project print, each line with the name of its job.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outlive::{Cancel, Followed, Follower, Job, JobId, JobObject, Output, Piece, Plain};
use outlive_project::{Progress, Project, Rising, Step, StepState};
use outlive_remote::{self as remote, Client};
use outlive_sys::poll;
use outlive_sys::signal::{interrupt_fd, interrupted};

use crate::commands::Context;
use crate::commands::project::{down, up};
use crate::failure::{Failure, end_interrupted};
use crate::render::{ending, is_coloured, note, print_bytes};

/// Colours of names, one after another: those that are read on light and dark grounds.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

/// How often to look for new runs of jobs.
const LOOK: Duration = Duration::from_millis(500);

/// How long to wait before a machine that cannot be reached is tried again.
const AWAY: Duration = Duration::from_secs(1);

/// Whose output is shown.
pub(super) struct Shown<'a> {
    /// Jobs of the session that were there before this `up`: what they print from now on.
    pub(super) before: BTreeSet<JobId>,
    /// Names of jobs; none: all of the session.
    pub(super) names: Option<Vec<&'a str>>,
}

impl Shown<'_> {
    fn has(&self, job: &Job) -> bool {
        let is_named = |names: &Vec<&str>| job.name().is_some_and(|name| names.contains(&name));
        self.names.as_ref().is_none_or(is_named)
    }
}

/// Shows their output until all have ended, or Ctrl-C.
pub(super) fn run(
    context: &Context,
    project: &Project,
    rising: &mut Rising<'_>,
    shown: &Shown<'_>,
    ends_with_us: bool,
) -> Result<ExitCode, Failure> {
    let over = Cancel::new().map_err(|error| Failure::other("up", &error))?;
    let ended = std::thread::scope(|scope| {
        let (mut told, mut known) = (BTreeMap::new(), BTreeSet::<JobId>::new());
        let (mut known_elsewhere, live_elsewhere) =
            (BTreeSet::<String>::new(), Arc::new(AtomicUsize::new(0)));
        let mut progress = Progress::default();
        let ended = loop {
            if !progress.is_over {
                match rising.next(None, interrupt_fd()) {
                    Ok(next) => progress = next.clone(),
                    Err(error) => break Err(error.into()),
                }
                up::tell(&progress, (project, &[]), &shown.before, width_of(project), &mut told);
            }
            for (name, step) in &progress.jobs {
                let is_shown = shown.names.as_ref().is_none_or(|names| names.contains(&name.as_str()));
                if let (true, Some(host), Some(id)) = (is_shown, &step.host, step.id())
                    && step.state != StepState::Completed
                    && known_elsewhere.insert(id)
                    && let Err(failure) =
                        follow_elsewhere(context, project, name, host, step, &live_elsewhere)
                {
                    note(&format!("outlive: what {name} prints on {host} is not shown: {}", failure.text()));
                }
            }
            let jobs = match context.store.list(Some(&project.session())) {
                Ok(listing) => listing.jobs,
                Err(error) => break Err(Failure::other("up", &error)),
            };
            let mut is_any_live = live_elsewhere.load(Ordering::SeqCst) > 0;
            for job in jobs.into_iter().filter(|job| shown.has(job)) {
                let is_live = job.state(&context.store).is_live();
                is_any_live |= is_live;
                let was_there = shown.before.contains(job.id());
                if (is_live || !was_there) && known.insert(job.id().clone()) {
                    // Of a job that was there already, what it prints from now on.
                    let start =
                        if was_there { Output::open(&job).map_or(0, |output| output.end()) } else { 0 };
                    let name = Name::of(project, job.name().unwrap_or(job.id().as_str()));
                    let over = &over;
                    scope.spawn(move || follow(context, &job, start, &name, over));
                }
            }
            if interrupted() || (progress.is_over && !is_any_live) {
                break Ok(());
            }
            if progress.is_over {
                let fds = interrupt_fd().into_iter();
                poll::any_readable(fds, Some(LOOK)).ok();
            }
        };
        if ended.is_err() || interrupted() {
            over.cancel();
        }
        ended
    });
    ended?;
    match (interrupted(), ends_with_us) {
        (true, true) => down::end(context, project),
        (true, false) => {
            note("\noutlive: the jobs go on; end them with: outlive down");
            Ok(end_interrupted())
        }
        (false, _) => Ok(ExitCode::SUCCESS),
    }
}

fn width_of(project: &Project) -> usize {
    project.jobs.iter().map(|job| job.name.len()).max().unwrap_or(0)
}

/// What stands before each line of a job.
struct Name {
    prefix: String,
}

impl Name {
    fn of(project: &Project, name: &str) -> Self {
        let width = width_of(project);
        let place = project.jobs.iter().position(|job| job.name == name).unwrap_or(0);
        let prefix = format!("{name:width$} |");
        let colour = COLOURS[place % COLOURS.len()];
        let prefix =
            if is_coloured() { format!("\x1b[{colour}m{prefix}\x1b[0m ") } else { format!("{prefix} ") };
        Self { prefix }
    }

    /// Prints whole lines, each with the name; together, so that lines of other jobs do not come between.
    fn print(&self, lines: &[u8]) {
        let mut text = Vec::with_capacity(lines.len() + self.prefix.len());
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            text.extend_from_slice(self.prefix.as_bytes());
            text.extend_from_slice(line);
        }
        if !text.is_empty() && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        print_bytes(&text);
    }
}

/// Lines of a job, of which pieces come.
#[derive(Default)]
struct Lines {
    plain: Plain,
    open: Vec<u8>,
}

impl Lines {
    /// Prints the lines that are whole now.
    fn push(&mut self, bytes: &[u8], name: &Name) {
        self.plain.push(bytes, &mut self.open);
        let end = self.open.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let rest = self.open.split_off(end);
        name.print(&std::mem::replace(&mut self.open, rest));
    }

    /// Prints what is left, and how the job ended.
    fn end(&self, ending: &str, name: &Name) {
        name.print(&self.open);
        name.print(format!("[{ending}]\n").as_bytes());
    }
}

/// Prints what a job prints, until its last process is gone.
fn follow(context: &Context, job: &Job, start: u64, name: &Name, over: &Cancel) {
    let Ok(follower) = Follower::new(&context.store, job, start) else { return };
    let mut follower = follower.stopped_by(Some(over.as_fd()));
    let mut lines = Lines::default();
    while !over.is_cancelled() {
        match follower.next(None) {
            Ok(Followed::Piece(Piece::Output { bytes, .. })) => lines.push(&bytes, name),
            Ok(Followed::Piece(Piece::Gone { .. }) | Followed::Nothing) => {}
            Ok(Followed::End) => {
                return lines.end(&ending(&JobObject::new(job, &job.state(&context.store))), name);
            }
            Err(_) => return,
        }
    }
}

/// Prints what a job on another machine prints, in a thread of its own, until it has ended; over connections that break off, too. `live`
/// counts those that have not. The thread waits for that machine and cannot be called back: it ends with this program.
fn follow_elsewhere(
    context: &Context,
    project: &Project,
    name: &str,
    host: &str,
    step: &Step,
    live: &Arc<AtomicUsize>,
) -> Result<(), Failure> {
    let (Some(rules), Some(job)) = (context.store.config().hosts.get(host), &step.job) else { return Ok(()) };
    let client = Client::named(host, rules, note)?;
    // Of a job that was there already, what it prints from now on.
    let start = if step.state == StepState::Kept { client.end_of_output(job.as_str())? } else { 0 };
    let (name, job, host) = (Name::of(project, name), job.to_string(), host.to_owned());
    let live = Arc::clone(live);
    live.fetch_add(1, Ordering::SeqCst);
    std::thread::spawn(move || {
        let (mut lines, mut follow, mut is_away) = (Lines::default(), client.follow(&job, start), false);
        loop {
            match follow.receive() {
                Ok(remote::Followed::Bytes(_, bytes)) => lines.push(&bytes, &name),
                Ok(remote::Followed::Gone(..)) => {}
                Ok(remote::Followed::End) => {
                    let words = client.job(&job).map(|job| {
                        let reason = job.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                        format!("{host}/{} {}{reason}", job.job, job.status.replace('_', " "))
                    });
                    lines.end(&words.unwrap_or_else(|_| format!("{host}/{job} has ended")), &name);
                    break;
                }
                Err(error) if error.is_passing() => {
                    if !std::mem::replace(&mut is_away, true) {
                        note(&format!("outlive: {}; trying again until it is back", outlive::chain(&error)));
                    }
                    std::thread::sleep(AWAY);
                    continue;
                }
                Err(error) => {
                    note(&format!("outlive: {}", Failure::from(error).text()));
                    break;
                }
            }
            is_away = false;
        }
        live.fetch_sub(1, Ordering::SeqCst);
    });
    Ok(())
}
