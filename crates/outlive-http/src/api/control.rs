//! What is done to jobs.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use outlive::{
    ControlError, Failure, JobId, JobObject, Kill, Restarted, Signal, Status, Store, TerminalSize,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{find_to_change, session};
use crate::access::Caller;
use crate::extract::Body;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// How to end a job.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KillRequest {
    /// The signal, such as `INT`; with no grace it is only sent, and nothing is waited for
    signal: Option<String>,
    /// The time between the first signal and KILL, in milliseconds; else the job's own
    grace_ms: Option<u64>,
    /// KILL at once
    force: bool,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Killed {
    #[schema(value_type = String)]
    job: JobId,
    #[schema(value_type = String)]
    status: Status,
    /// It had ended before, and nothing of it was left.
    already_ended: bool,
    /// How many processes got a signal.
    signalled: u32,
    /// The processes that are left, with the reason for each.
    #[schema(value_type = Vec<Object>)]
    survivors: Vec<outlive::Survivor>,
    /// Of a job without keeper: what cannot be said for certain.
    untraced: Option<String>,
}

/// The job that something was done to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Done {
    #[schema(value_type = String)]
    job: JobId,
    /// What was done.
    done: &'static str,
}

/// A new name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameRequest {
    /// 1 to 100 characters without control characters
    name: String,
}

/// A new size of a terminal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResizeRequest {
    /// Columns x rows, such as `120x40`
    size: String,
}

/// Another session for a job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransferRequest {
    /// The session that receives it
    to: String,
}

/// Ends a job with everything that it started, and answers when that is done.
#[utoipa::path(post, path = "/v1/jobs/{job}/kill", tag = "control", request_body = KillRequest,
    params(("job" = String, Path, description = "Id or name")), security(("token" = ["drive"])),
    responses((status = 200, description = "What came of it", body = Killed)))]
pub(crate) async fn kill(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Body(body): Body<KillRequest>,
) -> Result<Json<Killed>, Problem> {
    // A grace may be long, and it is the job that is waited for.
    let killed = work::long(&shared, move |store, _| {
        let job = find_to_change(store, &caller, &job)?;
        let failed = |error: ControlError| Failure::from(error).during("kill");
        let name = body.signal.as_deref().filter(|name| !name.is_empty());
        let parse = |name: &str| {
            Signal::parse(name).ok_or_else(|| {
                Failure::usage(format!("there is no signal {name:?}"), "such as INT, TERM or HUP")
            })
        };
        let signal = name.map(parse).transpose()?;
        let by = caller.name;
        let killed = match (signal, body.grace_ms, body.force) {
            (Some(signal), None, false) => store.signal(&job, signal, &by).map_err(failed)?,
            (signal, grace, force) => {
                let grace = grace.map(Duration::from_millis);
                store.kill(&job, &Kill { signal, grace, force, by }).map_err(failed)?
            }
        };
        Ok(Killed {
            job: job.id().clone(),
            status: job.state(store).status,
            already_ended: killed.was_over,
            signalled: killed.signalled,
            survivors: killed.survivors,
            untraced: killed.untraced,
        })
    });
    Ok(Json(killed.await?))
}

/// Does something to a job that needs no more words.
async fn act(
    shared: Shared,
    caller: Caller,
    job: String,
    done: &'static str,
    act: impl FnOnce(&Store, &outlive::Job) -> Result<(), Failure> + Send + 'static,
) -> Result<Json<Done>, Problem> {
    let acted = work::quick(&shared, move |store| {
        let job = find_to_change(store, &caller, &job)?;
        act(store, &job)?;
        Ok(Done { job: job.id().clone(), done })
    });
    Ok(Json(acted.await?))
}

/// Stops every process of a job where it is.
#[utoipa::path(post, path = "/v1/jobs/{job}/pause", tag = "control", security(("token" = ["drive"])),
    params(("job" = String, Path, description = "Id or name")),
    responses((status = 200, description = "It is paused", body = Done)))]
pub(crate) async fn pause(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<Done>, Problem> {
    act(shared, caller, job, "paused", |store, job| {
        store.pause(job).map_err(|error| Failure::from(error).during("pause"))
    })
    .await
}

/// Lets a paused job go on.
#[utoipa::path(post, path = "/v1/jobs/{job}/resume", tag = "control", security(("token" = ["drive"])),
    params(("job" = String, Path, description = "Id or name")),
    responses((status = 200, description = "It goes on", body = Done)))]
pub(crate) async fn resume(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<Done>, Problem> {
    act(shared, caller, job, "resumed", |store, job| {
        store.resume(job).map_err(|error| Failure::from(error).during("resume"))
    })
    .await
}

/// Forgets what a job has printed so far; it goes on undisturbed.
#[utoipa::path(post, path = "/v1/jobs/{job}/clear", tag = "control", security(("token" = ["drive"])),
    params(("job" = String, Path, description = "Id or name")),
    responses((status = 200, description = "It is forgotten", body = Done)))]
pub(crate) async fn clear(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<Done>, Problem> {
    act(shared, caller, job, "cleared", |store, job| {
        store.clear(job).map_err(|error| Failure::from(error).during("clear"))
    })
    .await
}

/// Gives a job to another session, which sees it from now on and gets its events.
#[utoipa::path(post, path = "/v1/jobs/{job}/transfer", tag = "control", request_body = TransferRequest, security(("token" = ["admin"])),
    params(("job" = String, Path, description = "Id or name")),
    responses((status = 200, description = "The session has it", body = Done)))]
pub(crate) async fn transfer(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Body(body): Body<TransferRequest>,
) -> Result<Json<Done>, Problem> {
    let to = caller.session(session(Some(&body.to))?)?.unwrap_or_default();
    act(shared, caller, job, "transferred", move |store, job| Ok(store.transfer(job, &to)?)).await
}

/// Removes an ended job with its output.
#[utoipa::path(delete, path = "/v1/jobs/{job}", tag = "control", security(("token" = ["drive"])),
    params(("job" = String, Path, description = "Id or name")),
    responses((status = 200, description = "It is gone", body = Done)))]
pub(crate) async fn remove(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<Done>, Problem> {
    act(shared, caller, job, "removed", |store, job| Ok(store.remove(job)?)).await
}

/// Gives a job another name.
#[utoipa::path(post, path = "/v1/jobs/{job}/rename", tag = "control", request_body = RenameRequest, security(("token" = ["drive"])),
    params(("job" = String, Path, description = "Id or name")),
    responses((status = 200, description = "It has the name", body = Done)))]
pub(crate) async fn rename(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Body(body): Body<RenameRequest>,
) -> Result<Json<Done>, Problem> {
    act(shared, caller, job, "renamed", move |store, job| Ok(store.rename(job, &body.name)?)).await
}

/// Gives a job's terminal another size.
#[utoipa::path(post, path = "/v1/jobs/{job}/resize", tag = "control", request_body = ResizeRequest, security(("token" = ["drive"])),
    params(("job" = String, Path, description = "Id or name")),
    responses((status = 200, description = "It has the size", body = Done)))]
pub(crate) async fn resize(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Body(body): Body<ResizeRequest>,
) -> Result<Json<Done>, Problem> {
    act(shared, caller, job, "resized", move |store, job| {
        let size = TerminalSize::parse(&body.size)
            .map_err(|error| Failure::usage(format!("size: {error}"), "such as 120x40"))?;
        store.resize(job, size).map_err(|error| Failure::from(error).during("resize"))
    })
    .await
}

/// Ends a job, if it runs, and starts it again as another run.
#[utoipa::path(post, path = "/v1/jobs/{job}/restart", tag = "control", security(("token" = ["drive"])),
    params(("job" = String, Path, description = "Id or name")),
    responses((status = 200, description = "The next run", body = JobObject)))]
pub(crate) async fn restart(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<JobObject>, Problem> {
    let restarted = work::long(&shared, move |store, _| {
        let job = find_to_change(store, &caller, &job)?;
        let next = match store.restart(&job, None, &caller.name)? {
            Restarted::Started(started) => started.job,
            Restarted::Already(next) => next,
        };
        Ok(JobObject::new(&next, &next.state(store)))
    });
    Ok(Json(restarted.await?))
}
