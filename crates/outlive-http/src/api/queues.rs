//! Queues: who runs, who waits, and how many may run at once.

use axum::Json;
use axum::extract::{Path, State};
use outlive::{Code, Failure, JobId, QueueChange, QueueName, QueueObject, Store};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::Caller;
use crate::extract::Body;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// A queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Queue {
    #[schema(value_type = String)]
    queue: QueueName,
    /// How many of its jobs run at once
    parallel: u32,
    /// No more of its jobs are started
    paused: bool,
    /// Its jobs that run
    #[schema(value_type = Vec<String>)]
    running: Vec<JobId>,
    /// Its jobs that wait, in the order in which they are started
    #[schema(value_type = Vec<String>)]
    queued: Vec<JobId>,
}

impl Queue {
    /// Leaves out the jobs that the caller does not see.
    fn seen_by(caller: &Caller, store: &Store, queue: QueueObject) -> Self {
        let QueueObject { queue, parallel, paused, running, queued } = queue;
        let seen = |jobs: Vec<JobId>| match &caller.session {
            None => jobs,
            Some(own) => jobs.into_iter().filter(|job| store.find(job.as_str(), Some(own)).is_ok()).collect(),
        };
        Self { queue, parallel, paused, running: seen(running), queued: seen(queued) }
    }
}

/// What to change; what is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueRequest {
    /// Whether more of its jobs are started
    paused: Option<bool>,
    /// How many of its jobs run at once
    parallel: Option<u64>,
}

/// Lists the queues, with their jobs by id.
#[utoipa::path(get, path = "/v1/queues", tag = "queues", security(("token" = ["view"])),
    responses((status = 200, description = "The queues", body = Vec<Queue>)))]
pub(crate) async fn list(State(shared): State<Shared>, caller: Caller) -> Result<Json<Vec<Queue>>, Problem> {
    let listed = work::quick(&shared, move |store| {
        let queues = store.list_queues()?;
        Ok(queues.into_iter().map(|queue| Queue::seen_by(&caller, store, queue)).collect())
    });
    Ok(Json(listed.await?))
}

/// Pauses or resumes a queue, or says how many of its jobs run at once.
#[utoipa::path(post, path = "/v1/queues/{queue}", tag = "queues", request_body = QueueRequest, security(("token" = ["drive"])),
    params(("queue" = String, Path, description = "Its name")),
    responses((status = 200, description = "The queue as it is now", body = Queue)))]
pub(crate) async fn change(
    State(shared): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<QueueRequest>,
) -> Result<Json<Queue>, Problem> {
    let hint = r#"such as {"paused": true} or {"parallel": 2}"#;
    let name = QueueName::parse(&name)
        .map_err(|error| Failure::usage(format!("queue: {error}"), "GET /v1/queues lists them"))?;
    if let Some(own) = &caller.session {
        let words = format!("queues are for all sessions, and this token is for {own} alone");
        return Err(Failure::new(Code::Forbidden, words).hint("use a token without a session").into());
    }
    let paused = body.paused.map(|paused| if paused { QueueChange::Pause } else { QueueChange::Resume });
    let changes: Vec<QueueChange> =
        paused.into_iter().chain(body.parallel.map(QueueChange::Parallel)).collect();
    let changed = work::quick(&shared, move |store| {
        let mut changed = None;
        for change in changes {
            changed = Some(store.change_queue(&name, change)?);
        }
        let queue = changed.ok_or_else(|| Failure::usage("queue: there is nothing to change", hint))?;
        Ok(Queue::seen_by(&caller, store, queue))
    });
    Ok(Json(changed.await?))
}
