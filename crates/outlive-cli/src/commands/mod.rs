//! One verb, one file.

mod agent;
mod clear;
mod completions;
mod deliver;
mod doctor;
mod events;
mod gc;
mod inbox;
mod kill;
mod list;
mod logs;
mod mcp;
mod on_exit;
mod pause;
mod probe;
mod remove;
mod resume;
mod run;
mod send;
mod session;
mod setup;
mod show;
mod wait;

use std::process::ExitCode;

use outlive::{Code, Job, Lease, SessionName, SpareKeeper, Store};

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

/// Does what was asked.
pub(crate) fn run(arguments: Arguments, spare: Option<SpareKeeper>) -> Result<ExitCode, Failure> {
    match arguments.verb {
        Verb::Completions(completions) => return Ok(completions::run(&completions)),
        // What is wrong with the store does not concern the clients' settings.
        Verb::Setup(setup) => {
            return setup::run(&setup, arguments.common.session.as_ref(), arguments.common.json);
        }
        Verb::OnExit(asked) => return on_exit::run(&asked),
        Verb::Reference(asked) => {
            render::print(&reference::page(asked.page));
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
        Verb::Wait(wait) => wait::run(&context, &wait),
        Verb::Clear(clear) => clear::run(&context, &clear),
        Verb::Send(send) => send::run(&context, send),
        Verb::Kill(kill) => kill::run(&context, &kill),
        Verb::Pause(pause) => pause::run(&context, &pause),
        Verb::Resume(resume) => resume::run(&context, &resume),
        Verb::Remove(remove) => remove::run(&context, &remove),
        Verb::Events(events) => events::run(&context, &events),
        Verb::Session(session) => session::run(&context, session),
        Verb::Inbox(inbox) => inbox::run(&context, &inbox),
        Verb::Agent(agent) => agent::run(&context, &agent),
        Verb::Gc(_) => gc::run(&context),
        Verb::Deliver(deliver) => deliver::run(&context, &deliver),
        Verb::Doctor(arguments) => doctor::run(&context, &arguments),
        Verb::Probe(arguments) => probe::run(&context, &arguments),
        Verb::Mcp(_) | Verb::Completions(_) | Verb::OnExit(_) | Verb::Reference(_) | Verb::Setup(_) => {
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the session that is meant where none is given. Inside a job, new jobs belong to its session.
pub(crate) fn inherited_session() -> Result<SessionName, Failure> {
    match std::env::var("OUTLIVE_SESSION") {
        Ok(name) if !name.is_empty() => SessionName::parse(&name).map_err(|error| {
            Failure::usage(format!("OUTLIVE_SESSION={name:?}: {error}"), "unset it, or give --session NAME")
        }),
        _ => Ok(SessionName::default()),
    }
}

/// Lists the jobs of a group, ended ones too.
pub(crate) fn of_group(context: &Context, what: &str, group: &str) -> Result<Vec<Job>, Failure> {
    let mut jobs =
        context.store.list(context.session.as_ref()).map_err(|error| Failure::other(what, &error))?.jobs;
    jobs.retain(|job| job.spec().options.group.as_deref() == Some(group));
    if jobs.is_empty() {
        let hint = "`outlive list` shows all jobs; `outlive run --group` starts one in a group";
        let message = format!("there is no job of group {group:?}");
        return Err(Failure::new(Code::NotFound, message).during(what).hint(hint));
    }
    Ok(jobs)
}

/// Does something to each of several jobs. All must exist before anything is done to one; after that, what fails for one
/// is reported, and the others go on. Returns the first failure's exit status.
pub(crate) fn each(
    context: &Context,
    references: &[String],
    mut act: impl FnMut(&Job) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let find = |reference: &String| context.store.find_to_change(reference, context.session.as_ref());
    let jobs = references.iter().map(find).collect::<Result<Vec<Job>, _>>()?;
    let mut code = ExitCode::SUCCESS;
    let mut has_failed = false;
    for job in &jobs {
        if let Err(failure) = act(job) {
            let reported = report(&failure, context.is_json);
            if !std::mem::replace(&mut has_failed, true) {
                code = reported;
            }
        }
    }
    Ok(code)
}
