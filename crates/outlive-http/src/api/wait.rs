//! Waiting for jobs.

use std::os::fd::AsFd;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use outlive::{
    Conditions, Failure, HttpAddress, InputWanted, JobObject, Until as Wanted, WaitFor, WaitReason,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::find;
use crate::access::Caller;
use crate::extract::Params;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// How much of the output's end comes with the answer.
const TAIL_BYTES: usize = 2000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Until {
    /// Wait at most so long; else as long as it takes, or the client stays
    timeout_ms: Option<u64>,
    /// Until it is ready
    #[serde(default)]
    ready: bool,
    /// Until a line of its output matches this regular expression
    #[serde(rename = "match")]
    matches: Option<String>,
    /// The wait fails when a line matches this
    fail_match: Option<String>,
    /// The expressions are for small and capital letters alike
    #[serde(default)]
    ignore_case: bool,
    /// The first line that the expressions are for
    from_line: Option<u64>,
    /// Until one of its processes listens on this TCP port
    port: Option<u16>,
    /// Until this address answers with a status below 400
    http: Option<String>,
    /// Until it has printed nothing for so many milliseconds
    idle_ms: Option<u64>,
    /// Until it waits for input
    #[serde(default)]
    input: bool,
}

/// What came.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Waited {
    /// `exit`, `ready`, `match`, `fail_match`, `port`, `http`, `idle`, `input` or `timeout`.
    outcome: &'static str,
    /// Whether what was waited for came.
    reached: bool,
    /// Whether it may still come.
    can_still_come: bool,
    /// The line that decided.
    line: Option<String>,
    /// Its number.
    line_number: Option<u64>,
    /// The end of the output.
    tail: Option<String>,
    /// The job as it is now.
    job: JobObject,
}

/// Waits for the end of a job, or for what comes before it. The wait ends when the client goes.
#[utoipa::path(get, path = "/v1/jobs/{job}/wait", tag = "jobs", security(("token" = ["view"])),
    params(("job" = String, Path, description = "Id, name, or the beginning of an id"), Until),
    responses((status = 200, description = "What came", body = Waited)))]
pub(crate) async fn wait(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Params(until): Params<Until>,
) -> Result<Json<Waited>, Problem> {
    let compile =
        |text: Option<&String>| text.map(|text| outlive::pattern(text, until.ignore_case)).transpose();
    let address = |text: &String| {
        text.parse::<HttpAddress>()
            .map_err(|error| Failure::usage(format!("http: {error}"), "such as http://localhost:8080/"))
    };
    let conditions = Conditions {
        ready: until.ready,
        matches: compile(until.matches.as_ref())?,
        fail_matches: compile(until.fail_match.as_ref())?,
        from_line: until.from_line,
        port: until.port,
        http: until.http.as_ref().map(address).transpose()?,
        idle: until.idle_ms.map(Duration::from_millis),
        input: until.input.then_some(InputWanted::Any),
    };
    let limit = until.timeout_ms.map(Duration::from_millis);
    let waited = work::long(&shared, move |store, cancel| {
        let jobs = [find(store, &caller, &job)?];
        store.probe_in_passing(&jobs[0], &jobs[0].state(store));
        let wanted = WaitFor { conditions, limit, stop: Some(cancel.as_fd()), ..WaitFor::exits(&jobs) };
        let result = store.wait_for(&wanted)?;
        let line = match &result.reason {
            WaitReason::Match(line) | WaitReason::FailMatch(line) | WaitReason::Ready(Some(line)) => {
                Some(line)
            }
            _ => None,
        };
        Ok(Waited {
            outcome: result.reason.word(),
            reached: result.is_reached,
            can_still_come: result.can_still_come,
            line: line.map(|line| String::from_utf8_lossy(&line.text).into_owned()),
            line_number: line.map(|line| line.number),
            tail: outlive::tail_text(&jobs[0], TAIL_BYTES).ok(),
            job: JobObject::new(&jobs[0], &result.states[0]),
        })
    });
    Ok(Json(waited.await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Several {
    /// Ids or names, separated by commas
    jobs: String,
    /// `all`, which is the default, or `any`: the end of one of them is enough
    until: Option<String>,
    /// Wait at most so long; else as long as it takes, or the client stays
    timeout_ms: Option<u64>,
}

/// What came of the wait for several jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitedForSeveral {
    /// `exit` or `timeout`.
    outcome: &'static str,
    /// Whether what was waited for came.
    reached: bool,
    /// The jobs as they are now, in the order of the request.
    jobs: Vec<JobObject>,
}

/// Waits for the end of several jobs, or of one of them. The wait ends when the client goes.
#[utoipa::path(get, path = "/v1/wait", tag = "jobs", security(("token" = ["view"])), params(Several),
    responses((status = 200, description = "What came", body = WaitedForSeveral)))]
pub(crate) async fn wait_for_several(
    State(shared): State<Shared>,
    caller: Caller,
    Params(several): Params<Several>,
) -> Result<Json<WaitedForSeveral>, Problem> {
    let until = match several.until.as_deref() {
        None | Some("all") => Wanted::All,
        Some("any") => Wanted::Any,
        Some(other) => {
            return Err(Failure::usage(format!("until: {other:?} is not known"), "write all or any").into());
        }
    };
    let limit = several.timeout_ms.map(Duration::from_millis);
    let waited = work::long(&shared, move |store, cancel| {
        let references = several.jobs.split(',').filter(|reference| !reference.is_empty());
        let jobs = references.map(|job| find(store, &caller, job)).collect::<Result<Vec<_>, _>>()?;
        if jobs.is_empty() {
            return Err(Failure::usage("wait: no job is named", "such as ?jobs=build-3f9c,test-q2fp"));
        }
        let wanted = WaitFor { until, limit, stop: Some(cancel.as_fd()), ..WaitFor::exits(&jobs) };
        let result = store.wait_for(&wanted)?;
        Ok(WaitedForSeveral {
            outcome: result.reason.word(),
            reached: result.is_reached,
            jobs: jobs.iter().zip(&result.states).map(|(job, state)| JobObject::new(job, state)).collect(),
        })
    });
    Ok(Json(waited.await?))
}
