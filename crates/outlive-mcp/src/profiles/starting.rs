//! What is common to the ways in which profiles start a line for the shell.

use outlive::{Job, JobId, Request, StartError};

use crate::reply::Failure;
use crate::tools::Call;

/// Asks for a line for the shell: in the caller's session, directory and environment, with this id.
pub(crate) fn request(call: &Call<'_>, id: &str, line: &str) -> Request {
    let mut request =
        Request::shell(line).session(call.scope.session.clone()).reader(call.scope.reader.clone());
    if let Ok(id) = JobId::parse(id) {
        request = request.id(id);
    }
    if let Some(directory) = &call.scope.directory {
        request = request.cwd(directory);
    }
    match call.environment.base() {
        Some(variables) => request.environment_base(variables),
        None => request,
    }
}

/// Makes a name of what a caller calls a job: one line, as long as a name may be; none of nothing.
pub(crate) fn name(text: &str) -> Option<String> {
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect();
    Some(line).filter(|line| !line.trim().is_empty())
}

/// Starts it, or says why not. One that was never executed leaves nothing: the caller has no id to ask for it by.
pub(crate) fn start(call: &Call<'_>, what: &str, request: &Request) -> Result<Job, Failure> {
    call.store.start(request).map(|started| started.job).map_err(|error| {
        if let StartError::NeverStarted { job, .. } = &error
            && let Ok(job) = call.store.find(job.as_str(), None)
        {
            crate::jobs::note_told(&job, &call.scope.reader);
            call.store.remove(&job).ok();
        }
        Failure::of(what, &error)
    })
}
