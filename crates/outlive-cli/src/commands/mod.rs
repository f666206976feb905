//! One verb, one file.

mod agent;
mod attach;
mod boot;
mod clear;
mod complete;
mod completions;
mod cursor;
mod deliver;
mod doctor;
mod events;
mod export;
mod gc;
mod help;
mod inbox;
mod kill;
mod list;
mod logs;
mod man;
mod mcp;
mod next_run;
mod on_exit;
mod open;
mod overview;
mod pause;
mod placed;
mod play;
mod probe;
pub(crate) mod project;
mod queue;
mod remove;
mod resize;
mod restart;
mod resume;
mod rows;
mod rpc;
mod run;
mod screen;
mod send;
mod serve;
mod session;
mod setup;
mod show;
mod token;
mod top;
mod upgrade;
mod version;
mod wait;
mod wake;
mod watch;

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::process::ExitCode;

use outlive::{Code, FindError, Job, Lease, Listing, SessionName, SpareKeeper, Store};

use crate::args::{Arguments, LiveJobs, Verb};
use crate::failure::{Failure, report};
use crate::{reference, render};

/// What every verb needs to know.
pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) is_json: bool,
    /// Whose jobs to see; none: all.
    pub(crate) session: Option<SessionName>,
    /// The reader whose cursors and inbox are used.
    pub(crate) reader: SessionName,
    /// Held to the end: jobs that live with the session go on for as long as this runs.
    _lease: Option<Lease>,
}

impl Context {
    /// Returns the session that is meant where one is needed.
    pub(crate) fn own_session(&self) -> Result<SessionName, Failure> {
        self.session.clone().map_or_else(inherited_session, Ok)
    }

    /// Refuses a session that has neither jobs nor settings: most likely its name was mistyped.
    pub(crate) fn refuse_unknown_session(&self, what: &str) -> Result<(), Failure> {
        let Some(session) = &self.session else { return Ok(()) };
        // One whose jobs were all removed still has its events.
        let is_there = || self.store.session(session).is_ok() || self.store.session_dir(session).is_dir();
        if *session == SessionName::default() || is_there() {
            return Ok(());
        }
        let sessions = self.store.list_sessions().map_err(|error| Failure::other(what, &error))?;
        let names: Vec<String> = sessions.iter().map(|session| session.name.to_string()).collect();
        let hint = match names.as_slice() {
            [] => "there is none yet; `outlive run --session NAME` starts one".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        let message = format!("there is no session {:?}", session.as_str());
        Err(Failure::new(Code::NotFound, message).during(what).hint(hint))
    }

    /// Lists the jobs that are to be seen, ended ones too; of a session that there is.
    pub(crate) fn list(&self, what: &str) -> Result<Listing, Failure> {
        self.refuse_unknown_session(what)?;
        self.store.list(self.session.as_ref()).map_err(|error| Failure::other(what, &error))
    }

    /// Finds a job that is only read. In the directory of a project a name means its job, if no session is given.
    pub(crate) fn find(&self, reference: &str) -> Result<Job, FindError> {
        match self.named_here(reference) {
            Some(job) => Ok(job),
            None => self.store.find(reference, self.session.as_ref()),
        }
    }

    /// Finds a job that is to be changed; as [`Context::find`], but not by the beginning of its id.
    pub(crate) fn find_to_change(&self, reference: &str) -> Result<Job, FindError> {
        match self.named_here(reference) {
            Some(job) => Ok(job),
            None => self.store.find_to_change(reference, self.session.as_ref()),
        }
    }

    fn named_here(&self, reference: &str) -> Option<Job> {
        if self.session.is_some() { None } else { project::job_named_here(&self.store, reference) }
    }

    /// Finds the jobs that are to be changed, each once: a job may be given by its name and its id. One that does not exist is
    /// reported, and keeps nothing from being done to the others; the exit status is that of the first such failure.
    pub(crate) fn find_each(&self, references: &[String]) -> (Vec<Job>, Option<ExitCode>) {
        let (mut jobs, mut failed) = (Vec::<Job>::new(), None);
        for reference in references {
            match self.find_to_change(reference) {
                Ok(job) if jobs.iter().any(|known| known.id() == job.id()) => {}
                Ok(job) => jobs.push(job),
                Err(error) => {
                    let status = report(&error.into(), self.is_json);
                    failed.get_or_insert(status);
                }
            }
        }
        (jobs, failed)
    }

    /// Finds the jobs that are named, or those live ones, all or of a group, of which `is_meant` tells by whether they are paused. The
    /// job that this program runs in is meant only where it is named.
    pub(crate) fn find_live(
        &self,
        what: &str,
        arguments: &LiveJobs,
        is_meant: impl Fn(bool) -> bool,
    ) -> Result<(Vec<Job>, Option<ExitCode>), Failure> {
        let mut jobs = match (&arguments.group, arguments.all) {
            (Some(group), _) => self.of_group(what, group)?,
            (None, true) => self.list(what)?.jobs,
            (None, false) if arguments.jobs.is_empty() => return Err(unnamed(what, "--group NAME or --all")),
            (None, false) => return Ok(self.find_each(&arguments.jobs)),
        };
        jobs.retain(|job| {
            let state = job.state(&self.store);
            let is_paused = state.meta.as_ref().is_some_and(|meta| meta.paused);
            state.is_live() && !state.is_elsewhere() && is_meant(is_paused) && !self.store.is_inside(job)
        });
        if jobs.is_empty() {
            render::note(&format!("no live jobs to {what}"));
        }
        Ok((jobs, None))
    }

    /// Tells whether a job is paused.
    pub(crate) fn is_paused(&self, job: &Job) -> bool {
        job.state(&self.store).meta.as_ref().is_some_and(|meta| meta.paused)
    }

    /// Lists the jobs of a group, ended ones too.
    pub(crate) fn of_group(&self, what: &str, group: &str) -> Result<Vec<Job>, Failure> {
        let mut jobs = self.list(what)?.jobs;
        jobs.retain(|job| job.spec().options.group.as_deref() == Some(group));
        if jobs.is_empty() {
            let hint = "`outlive list` shows all jobs; `outlive run --group` starts one in a group";
            let message = format!("there is no job of group {group:?}");
            return Err(Failure::new(Code::NotFound, message).during(what).hint(hint));
        }
        Ok(jobs)
    }
}

/// Opens the store of this user, for a program that can be all of outlive's programs.
fn open_store() -> Result<Store, Failure> {
    Ok(Store::open()?.with_self_as_keeper().with_self_as_helper())
}

/// Does what was asked.
pub(crate) fn run(arguments: Arguments, spare: Option<SpareKeeper>) -> Result<ExitCode, Failure> {
    if arguments.common.as_owner {
        Store::become_owner()?;
    }
    // A keeper that is ready already has the rights that this program had.
    let spare = spare.filter(|_| !arguments.common.as_owner);
    match arguments.verb {
        Some(Verb::Help { topic }) => return help::run(&topic),
        Some(Verb::Man { directory }) => return man::run(&directory),
        Some(Verb::Complete(asked)) => return Ok(complete::run(&asked)),
        Some(Verb::Completions { shell }) => return Ok(completions::run(shell)),
        // What is wrong with the store does not concern the clients' settings.
        Some(Verb::Setup(setup)) => {
            return setup::run(&setup, arguments.common.session.as_ref(), arguments.common.json);
        }
        Some(Verb::Cursor(asked)) => return cursor::run(&asked),
        Some(Verb::OnExit(asked)) => return on_exit::run(&asked),
        Some(Verb::NextRun(asked)) => return next_run::run(&asked),
        Some(Verb::Placed(asked)) => return placed::run(&asked),
        Some(Verb::Rpc { greet }) => return rpc::run(greet),
        Some(Verb::Reference { page }) => {
            render::print(&reference::page(page));
            return Ok(ExitCode::SUCCESS);
        }
        Some(Verb::Version) => return version::run(arguments.common.json),
        _ => {}
    }
    let store = open_store()?.with_spare_keeper(spare);
    if let Some(Verb::Mcp(mcp)) = arguments.verb {
        return mcp::run(store, &mcp, arguments.common.session, arguments.common.reader);
    }
    if let Some(Verb::Serve(serve)) = arguments.verb {
        return serve::run(store, &serve, arguments.common.json);
    }
    if let Some(Verb::Top(top)) = arguments.verb {
        return top::run(store, top, arguments.common.session);
    }
    if !matches!(arguments.verb, Some(Verb::Deliver(_))) {
        for warning in store.take_up_notices() {
            render::note(&format!("outlive: warning: {warning}"));
        }
    }
    let reader = arguments.common.reader.unwrap_or_else(outlive::reader_of_environment);
    let session = arguments.common.session;
    let lease = session.clone().or_else(|| inherited_session().ok()).and_then(|name| store.hold_lease(&name));
    let context = Context { store, is_json: arguments.common.json, session, reader, _lease: lease };
    let Some(verb) = arguments.verb else { return overview::run(&context) };
    match verb {
        Verb::Run(run) => run::run(&context, *run),
        // What it knows of the jobs is not freed one by one, nor their files closed.
        Verb::List(list) => list::run(&ManuallyDrop::new(context), &list),
        Verb::Show(show) => show::run(&context, &show),
        Verb::Logs(logs) => logs::run(&context, &logs),
        Verb::Screen(screen) => screen::run(&context, &screen),
        Verb::Export(export) => export::run(&context, &export),
        Verb::Play(play) => play::run(&context, &play),
        Verb::Wait(wait) => wait::run(&context, &wait),
        Verb::Wake(wake) => wake::run(&context, &wake),
        Verb::Watch(watch) => watch::run(&context, &watch),
        Verb::Clear(jobs) => clear::run(&context, &jobs),
        Verb::Send(send) => send::run(&context, send),
        Verb::Attach(attach) => attach::run(&context, &attach),
        Verb::Resize(resize) => resize::run(&context, &resize),
        Verb::Kill(kill) => kill::run(&context, &kill),
        Verb::Restart(restart) => restart::run(&context, &restart),
        Verb::Pause(jobs) => pause::run(&context, &jobs),
        Verb::Resume(jobs) => resume::run(&context, &jobs),
        Verb::Remove(jobs) => remove::run(&context, &jobs),
        Verb::Up(up) => project::up::run(&context, &up),
        Verb::Down(down) => project::down::run(&context, &down),
        Verb::Status(status) => project::status::run(&context, &status),
        Verb::Queue(queue) => queue::run(&context, queue),
        Verb::Why(why) => project::why::run(&context, &why),
        Verb::Template(template) => project::template::run(&context, &template),
        Verb::Import(import) => project::import::run(&context, &import),
        Verb::Converge(converge) => project::converge::run(&context, &converge),
        Verb::Open(open) => open::run(&context, &open),
        Verb::Token(token) => token::run(&context, token),
        Verb::Events(events) => events::run(&context, &events),
        Verb::Session(session) => session::run(&context, session),
        Verb::Inbox(inbox) => inbox::run(&context, &inbox),
        Verb::Agent(agent) => agent::run(&context, &agent),
        Verb::Gc => gc::run(&context),
        Verb::Deliver(deliver) => deliver::run(&context, &deliver),
        Verb::Doctor(arguments) => doctor::run(&context, &arguments),
        Verb::Upgrade(upgrade) => upgrade::run(&context, &upgrade),
        Verb::Rows(rows) => rows::run(&context, &rows),
        Verb::Boot => boot::run(&context),
        Verb::Probe(arguments) => probe::run(&context, &arguments),
        Verb::Mcp(_)
        | Verb::Serve(_)
        | Verb::Rpc { .. }
        | Verb::Top(_)
        | Verb::Complete(_)
        | Verb::Completions { .. }
        | Verb::Help { .. }
        | Verb::Man { .. }
        | Verb::Cursor(_)
        | Verb::OnExit(_)
        | Verb::NextRun(_)
        | Verb::Placed(_)
        | Verb::Reference { .. }
        | Verb::Setup(_)
        | Verb::Version => Ok(ExitCode::SUCCESS),
    }
}

/// Returns the session that is meant where none is given. Inside a job, new jobs belong to its session.
fn inherited_session() -> Result<SessionName, Failure> {
    match std::env::var("OUTLIVE_SESSION") {
        Ok(name) if !name.is_empty() => SessionName::parse(&name).map_err(|error| {
            Failure::usage(format!("OUTLIVE_SESSION={name:?}: {error}"), "unset it, or give --session NAME")
        }),
        _ => Ok(SessionName::default()),
    }
}

/// Refuses a verb for several jobs that names none of them.
pub(crate) fn unnamed(verb: &str, conditions: &str) -> Failure {
    let hint = format!("name jobs, or say which with {conditions}");
    Failure::usage(format!("{verb}: no job is named"), hint)
}

/// Does something to each of several jobs that were found. What fails for one is reported, and the others go on; each that it was
/// done to is printed with `done`, and with `--json` all of them are under that name. Returns the first failure's exit status.
pub(crate) fn each(
    context: &Context,
    (jobs, failed): (Vec<Job>, Option<ExitCode>),
    done: &str,
    act: impl Fn(&Job) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    each_saying(context, (jobs, failed), done, |job| act(job).map(|()| None))
}

/// As [`each`]; where `act` returns words, these are printed in place of `done`: it was so already.
pub(crate) fn each_saying(
    context: &Context,
    (jobs, mut failed): (Vec<Job>, Option<ExitCode>),
    done: &str,
    act: impl Fn(&Job) -> Result<Option<&'static str>, Failure>,
) -> Result<ExitCode, Failure> {
    // Where no job was found, the failures are the whole answer.
    let has_answer = !jobs.is_empty() || failed.is_none();
    let mut ids = Vec::new();
    for job in &jobs {
        let said = match act(job) {
            Ok(said) => said,
            Err(failure) => {
                let status = report(&failure.about(job.id()), context.is_json);
                failed.get_or_insert(status);
                continue;
            }
        };
        ids.push(job.id());
        if !context.is_json {
            let said = said.map_or_else(|| done.replace('_', " "), str::to_owned);
            render::print(&format!("{} {said}\n", job.id()));
        }
    }
    if context.is_json && has_answer {
        render::print_json(&BTreeMap::from([(done, ids)]))?;
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}
