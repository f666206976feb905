//! Looking at jobs.

use std::io::{self, Write};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use outlive::{
    Code, Failure, Job, JobDetails, JobObject, LabelFilter, Labels, Listeners, Port, Status, Store, Usage,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::written::Written;
use super::{find, session};
use crate::access::Caller;
use crate::extract::Params;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// So many jobs come unless another number is asked for, and the most that can be.
const PAGE: usize = 200;
const MOST: usize = 2000;

/// So many bytes an object is expected to have.
const OBJECT: usize = 1024;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// Only jobs of this session
    session: Option<String>,
    /// Only jobs of this group
    group: Option<String>,
    /// Only jobs with one of these statuses, separated by commas
    status: Option<String>,
    /// Only jobs with this label, of any value or of this one: `NAME` or `NAME=VALUE`
    label: Option<String>,
    /// Only jobs of which something runs
    #[serde(default)]
    live: bool,
    /// Only runs of jobs with a schedule
    #[serde(default)]
    scheduled: bool,
    /// Only jobs whose id, name or command has this text
    search: Option<String>,
    /// Only jobs that are older than this one, as `next` of the page before says
    after: Option<String>,
    /// The most jobs, up to 2000; else 200
    limit: Option<usize>,
    /// With what each live job uses
    #[serde(default)]
    usage: bool,
    /// With where each live job listens
    #[serde(default)]
    ports: bool,
}

/// A page of the list. It is written member by member, in this order: see `listed`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Jobs {
    /// The newest first.
    jobs: Vec<Listed>,
    /// Where the next page begins; none: this is the last.
    next: Option<String>,
    /// How many jobs fit the filter in all.
    total: usize,
    /// Directories in the store that cannot be read as jobs.
    damaged: usize,
}

/// A job, and what was asked for with it.
#[derive(Debug, Serialize, ToSchema)]
struct Listed {
    #[serde(flatten)]
    job: JobObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<Vec<Port>>,
}

/// Lists jobs, the newest first.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", params(Filter), security(("token" = ["view"])),
    responses((status = 200, description = "The jobs", body = Jobs)))]
pub(crate) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
    Params(filter): Params<Filter>,
) -> Result<Response, Problem> {
    let known = Arc::clone(&shared);
    let bytes = work::quick(&shared, move |store| listed(store, &known.written, &caller, &filter)).await?;
    Ok(([(CONTENT_TYPE, "application/json")], bytes).into_response())
}

/// Lists jobs, and writes the answer: most of a page is as it was in the one before.
fn listed(store: &Store, written: &Written, caller: &Caller, filter: &Filter) -> Result<Vec<u8>, Failure> {
    let session = caller.session(session(filter.session.as_deref())?)?;
    let hint = "a status is starting, running, completed, failed, killed, timed_out or lost";
    let parse = |word: &str| {
        Status::parse(word).ok_or_else(|| Failure::usage(format!("there is no status {word:?}"), hint))
    };
    let words = filter.status.as_deref().filter(|words| !words.is_empty());
    let statuses: Option<Vec<Status>> =
        words.map(|words| words.split(',').map(parse).collect()).transpose()?;
    let label: Option<LabelFilter> = filter
        .label
        .as_deref()
        .map(|label| {
            label.parse().map_err(|error| Failure::usage(format!("label: {error}"), "such as owner=ci"))
        })
        .transpose()?;
    let wanted = filter.search.as_deref().unwrap_or_default().to_lowercase();
    let none = Labels::new();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    let fits = |job: &Job| {
        let spec = job.spec();
        (!filter.scheduled || spec.options.schedule.is_set())
            && (filter.group.is_none() || spec.options.group == filter.group)
            && label.as_ref().is_none_or(|label| label.matches(spec.labels.as_ref().unwrap_or(&none)))
            && (wanted.is_empty()
                || has(job.id().as_str())
                || job.name().is_some_and(has)
                || has(&spec.command_line()))
    };
    let listing =
        store.list_states(session.as_ref(), fits).map_err(|error| Failure::other("list", &error))?;
    let damaged = if caller.session.is_none() { listing.damaged.len() } else { 0 };
    let mut jobs = listing.jobs;
    jobs.retain(|(_, state)| {
        !state.is_removed()
            && (!filter.live || state.is_live())
            && statuses.as_ref().is_none_or(|wanted| wanted.contains(&state.status))
    });
    jobs.reverse();
    let total = jobs.len();
    let begin = match &filter.after {
        None => 0,
        Some(after) => {
            jobs.iter().position(|(job, _)| job.id().as_str() == after).map(|at| at + 1).ok_or_else(|| {
                Failure::new(Code::NotFound, format!("the page began after {after}, which is gone"))
                    .hint("begin again without `after`")
            })?
        }
    };
    let limit = filter.limit.unwrap_or(PAGE).clamp(1, MOST);
    let next = (begin + limit < total).then(|| jobs[begin + limit - 1].0.id().to_string());
    jobs.truncate(begin + limit);
    let mut page = jobs.split_off(begin.min(jobs.len()));
    store.ask_engine(&mut page.iter_mut().map(|(job, state)| (&*job, state)).collect::<Vec<_>>());
    for (job, state) in &mut page {
        store.probe_in_passing(job, state);
        store.look_at_question(job, state);
    }
    let failed = |error: io::Error| Failure::other("list", &error);
    let outputs = store.count_outputs(&page);
    let mut listeners = Listeners::new();
    let mut answer = Vec::with_capacity(page.len() * OBJECT);
    answer.extend_from_slice(b"{\"jobs\":[");
    for (at, ((job, state), output)) in page.iter().zip(outputs).enumerate() {
        if at > 0 {
            answer.push(b',');
        }
        written.write(job, state, output, &mut answer).map_err(failed)?;
        let is_looked_at = state.is_live() && (filter.usage || filter.ports);
        let tree = is_looked_at.then(|| job.tree(store, state)).flatten();
        if filter.usage {
            member(&mut answer, "usage", &job.usage(state, tree.as_ref())).map_err(failed)?;
        }
        if let Some(tree) = tree.filter(|_| filter.ports) {
            member(&mut answer, "ports", &tree.ports(&mut listeners)).map_err(failed)?;
        }
        answer.push(b'}');
    }
    answer.push(b']');
    member(&mut answer, "next", &next).map_err(failed)?;
    member(&mut answer, "total", &total).map_err(failed)?;
    member(&mut answer, "damaged", &damaged).map_err(failed)?;
    answer.push(b'}');
    Ok(answer)
}

/// Writes another member of an object.
fn member(to: &mut Vec<u8>, name: &str, value: &impl Serialize) -> io::Result<()> {
    write!(to, ",\"{name}\":")?;
    Ok(serde_json::to_writer(to, value)?)
}

/// Shows all that is known of a job, as `outlive show --json` does.
#[utoipa::path(get, path = "/v1/jobs/{job}", tag = "jobs", security(("token" = ["view"])),
    params(("job" = String, Path, description = "Id, name, or the beginning of an id")),
    responses((status = 200, description = "The job", body = JobDetails)))]
pub(crate) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<JobDetails>, Problem> {
    let shown = work::quick(&shared, move |store| {
        let job = find(store, &caller, &job)?;
        let mut state = job.state(store);
        store.ask_engine(&mut [(&job, &mut state)]);
        store.look_for_input_wait(&job, &mut state);
        store.probe_in_passing(&job, &state);
        if state.status.has_ended() {
            job.note_access();
        }
        Ok(JobDetails::new(store, &job, &state, false))
    });
    Ok(Json(shown.await?))
}
