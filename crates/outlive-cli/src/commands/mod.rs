//! One verb, one file.

mod agent;
mod attach;
mod clear;
mod completions;
mod cursor;
mod deliver;
mod doctor;
mod events;
mod export;
mod gc;
mod inbox;
mod kill;
mod list;
mod logs;
mod mcp;
mod on_exit;
mod pause;
mod play;
mod probe;
mod project;
mod remove;
mod resize;
mod restart;
mod resume;
mod run;
mod screen;
mod send;
mod session;
mod setup;
mod show;
mod wait;

use std::collections::BTreeMap;
use std::process::ExitCode;

use outlive::{Code, Job, Lease, Listing, SessionName, SpareKeeper, Store};

use crate::args::{Arguments, Verb};
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

    /// Lists the jobs that are to be seen, ended ones too.
    pub(crate) fn list(&self, what: &str) -> Result<Listing, Failure> {
        self.store.list(self.session.as_ref()).map_err(|error| Failure::other(what, &error))
    }

    /// Finds the jobs that are to be changed, each once: a job may be given by its name and its id. One that does not exist is
    /// reported, and keeps nothing from being done to the others; the exit status is that of the first such failure.
    pub(crate) fn find_each(&self, references: &[String]) -> (Vec<Job>, Option<ExitCode>) {
        let (mut jobs, mut failed) = (Vec::<Job>::new(), None);
        for reference in references {
            match self.store.find_to_change(reference, self.session.as_ref()) {
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

/// Does what was asked.
pub(crate) fn run(arguments: Arguments, spare: Option<SpareKeeper>) -> Result<ExitCode, Failure> {
    if arguments.common.as_owner {
        Store::become_owner()?;
    }
    // A keeper that is ready already has the rights that this program had.
    let spare = spare.filter(|_| !arguments.common.as_owner);
    match arguments.verb {
        Verb::Completions { shell } => return Ok(completions::run(shell)),
        // What is wrong with the store does not concern the clients' settings.
        Verb::Setup(setup) => {
            return setup::run(&setup, arguments.common.session.as_ref(), arguments.common.json);
        }
        Verb::Cursor(asked) => return cursor::run(&asked),
        Verb::OnExit(asked) => return on_exit::run(&asked),
        Verb::Reference { page } => {
            render::print(&reference::page(page));
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let store = Store::open()?.with_self_as_keeper().with_self_as_helper().with_spare_keeper(spare);
    if let Verb::Mcp(mcp) = arguments.verb {
        return mcp::run(store, &mcp, arguments.common.session, arguments.common.reader);
    }
    if !matches!(arguments.verb, Verb::Deliver(_)) {
        for warning in store.take_up_notices() {
            render::note(&format!("outlive: warning: {warning}"));
        }
    }
    let reader = arguments.common.reader.unwrap_or_else(outlive::reader_of_environment);
    let session = arguments.common.session;
    let lease = session.clone().or_else(|| inherited_session().ok()).and_then(|name| store.hold_lease(&name));
    let context = Context { store, is_json: arguments.common.json, session, reader, _lease: lease };
    match arguments.verb {
        Verb::Run(run) => run::run(&context, *run),
        Verb::List(list) => list::run(&context, &list),
        Verb::Show(show) => show::run(&context, &show),
        Verb::Logs(logs) => logs::run(&context, &logs),
        Verb::Screen(screen) => screen::run(&context, &screen),
        Verb::Export(export) => export::run(&context, &export),
        Verb::Play(play) => play::run(&context, &play),
        Verb::Wait(wait) => wait::run(&context, &wait),
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
        Verb::Why(why) => project::why::run(&context, &why),
        Verb::Converge(converge) => project::converge::run(&context, &converge),
        Verb::Events(events) => events::run(&context, &events),
        Verb::Session(session) => session::run(&context, session),
        Verb::Inbox(inbox) => inbox::run(&context, &inbox),
        Verb::Agent(agent) => agent::run(&context, &agent),
        Verb::Gc => gc::run(&context),
        Verb::Deliver(deliver) => deliver::run(&context, &deliver),
        Verb::Doctor(arguments) => doctor::run(&context, &arguments),
        Verb::Probe(arguments) => probe::run(&context, &arguments),
        Verb::Mcp(_)
        | Verb::Completions { .. }
        | Verb::Cursor(_)
        | Verb::OnExit(_)
        | Verb::Reference { .. }
        | Verb::Setup(_) => Ok(ExitCode::SUCCESS),
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

/// Does something to each of several jobs. What fails for one is reported, and the others go on; where several are given, each
/// that it was done to is printed with `done`, and with `--json` all of them are under that name. Returns the first failure's
/// exit status.
pub(crate) fn each(
    context: &Context,
    references: &[String],
    done: &str,
    act: impl Fn(&Job) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let (jobs, mut failed) = context.find_each(references);
    let mut ids = Vec::new();
    for job in &jobs {
        match act(job) {
            Ok(()) => ids.push(job.id()),
            Err(failure) => {
                let status = report(&failure.about(job.id()), context.is_json);
                failed.get_or_insert(status);
                continue;
            }
        }
        if !context.is_json && references.len() > 1 {
            render::print(&format!("{} {done}\n", job.id()));
        }
    }
    // Where no job was found, the failures are the whole answer.
    if context.is_json && !jobs.is_empty() {
        render::print_json(&BTreeMap::from([(done, ids)]))?;
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}
