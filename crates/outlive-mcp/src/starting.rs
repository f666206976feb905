//! Starting commands: what `run` and the profiles share.

use std::path::{Path, PathBuf};

use outlive::{Job, JobId, OwnLabel, Request, RequestError, StartError};

use crate::jobs;
use crate::reply::Failure;
use crate::tools::Call;

/// A year, in milliseconds: the longest timeout of a command.
pub(crate) const YEAR_MS: u64 = 366 * 86_400_000;

/// How many random ids are tried before giving up.
const DRAWS: usize = 20;

/// Fills in what client and project determine: session, reader, directory, environment and labels.
pub(crate) fn fill(call: &Call<'_>, request: Request) -> Request {
    let mut request = request.session(call.scope.session.clone()).reader(call.scope.reader.clone());
    request = request.own_label(OwnLabel::Profile, call.profile.name);
    if let Some(conversation) = outlive::conversation_of_environment().filter(|_| !call.scope.is_remote) {
        request = request.own_label(OwnLabel::Conversation, conversation.as_str());
    }
    if let Some(directory) = &call.scope.directory {
        request = request.cwd(directory);
        if let Some(project) = directory.to_str() {
            request = request.own_label(OwnLabel::Project, project);
        }
    } else if call.scope.is_remote {
        let settings = call.store.session_settings(&call.scope.session);
        if settings.is_none_or(|settings| settings.cwd.is_none()) {
            request = request.cwd(&call.scope.here);
        }
    }
    match call.environment.base() {
        Some(variables) => request.environment_base(variables),
        None => request,
    }
}

/// Resolves a directory against the project's.
pub(crate) fn directory(call: &Call<'_>, given: &str) -> PathBuf {
    let given = expand_home(given);
    call.scope.directory.as_ref().map_or_else(|| given.clone(), |project| project.join(&given))
}

/// Replaces a leading `~` by the user's home.
pub(crate) fn expand_home(path: &str) -> PathBuf {
    let path = Path::new(path);
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    }
}

/// Makes a valid job name of a text: one line, truncated; `None` of a blank one.
pub(crate) fn name(text: &str) -> Option<String> {
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect();
    Some(line).filter(|line| !line.trim().is_empty())
}

/// Gives a request this id. If the id is not valid, the library makes one up.
pub(crate) fn identify(request: Request, id: &str) -> Request {
    match JobId::parse(id) {
        Ok(id) => request.id(id),
        Err(_) => request,
    }
}

/// Starts a job under a random id; if another job has it, under another.
pub(crate) fn start_drawn(
    call: &Call<'_>,
    request: &Request,
    draw: impl Fn() -> String,
) -> Result<Job, StartError> {
    let mut draws = 1;
    loop {
        match call.store.start(&identify(request.clone(), &draw())) {
            Err(StartError::Request(RequestError::Taken(_))) if draws < DRAWS => draws += 1,
            started => return started.map(|started| started.job),
        }
    }
}

/// Starts a job. If its command was never executed, the job is removed.
pub(crate) fn start(call: &Call<'_>, what: &str, request: &Request) -> Result<Job, Failure> {
    call.store.start(request).map(|started| started.job).map_err(|error| {
        forget(call, &error);
        Failure::of(what, &error)
    })
}

/// Removes a job that was never executed: the error reports it, and the caller has no id to ask for more.
pub(crate) fn forget(call: &Call<'_>, error: &StartError) {
    if let StartError::NeverStarted { job, .. } = error
        && let Ok(job) = call.store.find(job.as_str(), None)
    {
        jobs::note_delivered(&job, &call.scope.reader);
        call.store.remove(&job).ok();
    }
}
