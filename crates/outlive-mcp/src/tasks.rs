//! A wait as a task: created once, polled by the client, at any later server too.
//!
//! The store holds a task: the condition, the deadline, and in the end the answer. No process waits: a server checks the condition
//! when the client asks. So a task outlives the server, and cancelling it ends no job.

use outlive::{Task, Timestamp};
use outlive_sys::clock::wall_us;
use rmcp::model::{
    CreateTaskResult, DetailedTask, GetTaskResult, JsonObject, Task as Described, TaskPayload, TaskStatus,
};
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::reply::{After, Reply};
use crate::scope::Scope;
use crate::tools::wait;
use crate::work::Work;

/// The poll interval that clients are given.
const POLL_MS: u64 = 1000;

pub(crate) enum Begun {
    /// Decided already, or no task was made.
    Answer(Reply),
    Task(CreateTaskResult),
}

/// Checks the condition, and makes a task if it does not hold yet.
pub(crate) fn begin(work: &Work, mut arguments: Arguments, scope: &Scope) -> Begun {
    let notes = arguments.take_notes();
    let arguments = arguments.into_values();
    let timeout = arguments.get("timeout_ms").cloned().unwrap_or_default();
    let known = work.store.events(&scope.session, 0).read().unwrap_or_default();
    let since = known.last().map_or(0, |last| last.seq);
    let (mut reply, pinned) = look(work, scope, arguments, Some(since));
    reply.footers.extend(notes);
    let Some(pinned) = pinned.filter(|_| reply.is_pending) else { return Begun::Answer(reply) };
    let mut sized = Arguments::new(&wait::TOOL, Map::from_iter([("timeout_ms".to_owned(), timeout)]));
    // By default a task takes as long as it may: waiting costs nothing.
    let millis = sized.number("timeout_ms", 0..=wait::LONGEST).ok().flatten().unwrap_or(wait::LONGEST);
    if millis == 0 {
        return Begun::Answer(reply);
    }
    let now = wall_us();
    let Value::Object(contents) = json!({
        "format": 1,
        "arguments": pinned,
        "since": since,
        "created_us": now,
        "deadline_us": now.saturating_add(millis * 1000),
    }) else {
        return Begun::Answer(reply);
    };
    match work.store.create_task(&scope.session, contents) {
        Ok(task) => Begun::Task(CreateTaskResult::new(
            described(&task, TaskStatus::Working).with_status_message(reply.header),
        )),
        // If the store cannot be written, the client calls again.
        Err(_) => Begun::Answer(reply),
    }
}

/// Returns the state of a task, with the actions for when the client has it; `None` if there is no such task.
pub(crate) fn get(work: &Work, id: &str, scope: &Scope) -> Option<(GetTaskResult, Vec<After>)> {
    let mut task = work.store.task(&scope.session, id)?;
    if task.contents.contains_key("cancelled_us") {
        return Some((result_of(&task, TaskPayload::Cancelled, None), Vec::new()));
    }
    if let Some(Value::Object(result)) = task.contents.get("result").cloned() {
        return Some((result_of(&task, TaskPayload::Completed { result }, None), Vec::new()));
    }
    let arguments = task.contents.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
    let since = task.contents.get("since").and_then(Value::as_u64);
    let (reply, _) = look(work, scope, arguments, since);
    let deadline = task.contents.get("deadline_us").and_then(Value::as_u64).unwrap_or(0);
    if reply.is_pending && wall_us() < deadline {
        return Some((result_of(&task, TaskPayload::Working, Some(reply.header)), Vec::new()));
    }
    let result = match serde_json::to_value(crate::server::result_of(&reply)) {
        Ok(Value::Object(result)) => result,
        _ => JsonObject::new(),
    };
    task.contents.insert("result".to_owned(), Value::Object(result.clone()));
    // If it cannot be saved, the next poll checks again.
    task.save().ok();
    Some((result_of(&task, TaskPayload::Completed { result }, None), reply.after))
}

/// Cancels a task, not its jobs; returns false if there is no such task.
pub(crate) fn cancel(work: &Work, id: &str, scope: &Scope) -> bool {
    let Some(mut task) = work.store.task(&scope.session, id) else { return false };
    if !task.contents.contains_key("result") {
        task.contents.insert("cancelled_us".to_owned(), wall_us().into());
        task.save().ok();
    }
    true
}

/// Checks the condition; also returns the arguments with the ids of the jobs that they mean now.
fn look(
    work: &Work,
    scope: &Scope,
    mut arguments: Map<String, Value>,
    since: Option<u64>,
) -> (Reply, Option<Map<String, Value>>) {
    // It does not wait.
    arguments.insert("timeout_ms".to_owned(), 0.into());
    let given = arguments.clone();
    work.with_call(Arguments::new(&wait::TOOL, arguments), scope, since, |call| {
        let pinned = wait::pinned(call, given).ok();
        let mut reply = (wait::TOOL.call)(call).unwrap_or_else(Reply::from);
        reply.footers.extend(call.arguments.take_notes());
        (reply, pinned)
    })
}

fn described(task: &Task, status: TaskStatus) -> Described {
    let created = task.contents.get("created_us").and_then(Value::as_u64).unwrap_or(0);
    let (created, now) = (Timestamp(created).to_string(), Timestamp(wall_us()).to_string());
    Described::new(task.id(), status, created, now).with_poll_interval_ms(POLL_MS)
}

fn result_of(task: &Task, payload: TaskPayload, message: Option<String>) -> GetTaskResult {
    let mut described = described(task, payload.status());
    described.status_message = message;
    GetTaskResult::new(DetailedTask::new(described, payload))
}
