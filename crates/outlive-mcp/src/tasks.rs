//! A wait as a task: created once, polled by the client, at any later server too.
//!
//! The store holds a task: the condition, the deadline, and in the end the answer. No process waits: a server checks the condition
//! when the client asks. So a task outlives the server, and cancelling it ends no job.

use std::time::Duration;

use outlive::{Task, Timestamp};
use rmcp::model::{
    CallToolResult, CreateTaskResult, DetailedTask, GetTaskResult, JsonObject, Task as Described,
    TaskPayload, TaskStatus,
};
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::reply::{After, Reply};
use crate::scope::Scope;
use crate::tools::{self, wait};
use crate::work::Work;

/// The poll interval that clients are given.
const POLL_MS: u64 = 1000;

/// The longest and default time of a task: waiting costs nothing.
const LONGEST: Duration = Duration::from_secs(86_400);

pub(crate) enum Begun {
    /// Decided already, or no task was made.
    Answer(Reply),
    Task(CreateTaskResult),
}

/// Checks the condition, and makes a task if it does not hold yet.
pub(crate) fn begin(work: &Work, arguments: Map<String, Value>, scope: &Scope) -> Begun {
    let timeout = arguments.get("timeout_ms").filter(|timeout| !timeout.is_null()).cloned();
    let since = work
        .store
        .events(&scope.session, 0)
        .read()
        .ok()
        .and_then(|known| Some(known.last()?.seq))
        .unwrap_or(0);
    let (reply, pinned) = look(work, scope, arguments, Some(since), Some(0));
    let Some(pinned) = pinned.filter(|_| reply.is_pending) else { return Begun::Answer(reply) };
    let mut sized =
        Arguments::new(&wait::TOOL, Map::from_iter([("timeout_ms".to_owned(), timeout.unwrap_or_default())]));
    let millis =
        sized.number("timeout_ms", 0..=u64::try_from(LONGEST.as_millis()).unwrap_or(u64::MAX)).ok().flatten();
    if millis == Some(0) {
        return Begun::Answer(reply);
    }
    let limit = millis.map_or(LONGEST, Duration::from_millis);
    let now = now();
    let contents = json!({
        "format": 1,
        "arguments": pinned,
        "since": since,
        "created_us": now,
        "deadline_us": now.saturating_add(u64::try_from(limit.as_micros()).unwrap_or(u64::MAX)),
    });
    let Value::Object(contents) = contents else { return Begun::Answer(reply) };
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
    let (reply, _) = look(work, scope, arguments, since, Some(0));
    let deadline = task.contents.get("deadline_us").and_then(Value::as_u64).unwrap_or(0);
    if reply.is_pending && now() < deadline {
        return Some((result_of(&task, TaskPayload::Working, Some(reply.header)), Vec::new()));
    }
    let result = as_object(&crate::server::result_of(&reply));
    task.contents.insert("result".to_owned(), Value::Object(result.clone()));
    // If it cannot be saved, the next poll checks again.
    task.save().ok();
    Some((result_of(&task, TaskPayload::Completed { result }, None), reply.after))
}

/// Cancels a task, not its jobs; returns false if there is no such task.
pub(crate) fn cancel(work: &Work, id: &str, scope: &Scope) -> bool {
    let Some(mut task) = work.store.task(&scope.session, id) else { return false };
    if !task.contents.contains_key("result") {
        task.contents.insert("cancelled_us".to_owned(), now().into());
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
    limit: Option<u64>,
) -> (Reply, Option<Map<String, Value>>) {
    if let Some(limit) = limit {
        arguments.insert("timeout_ms".to_owned(), limit.into());
    }
    let given = arguments.clone();
    let Some(tool) = tools::find("wait") else { return (Reply::default(), None) };
    work.with_call(Arguments::new(tool, arguments), scope, since, |call| {
        let pinned = wait::pinned(call, given).ok();
        let mut reply = (tool.call)(call).unwrap_or_else(Reply::from);
        reply.footers.extend(call.arguments.take_notes().into_iter().map(|note| format!("note: {note}")));
        (reply, pinned)
    })
}

fn described(task: &Task, status: TaskStatus) -> Described {
    let created = task.contents.get("created_us").and_then(Value::as_u64).unwrap_or(0);
    let (created, now) = (Timestamp(created).to_string(), Timestamp(now()).to_string());
    Described::new(task.id(), status, created, now).with_poll_interval_ms(POLL_MS)
}

fn result_of(task: &Task, payload: TaskPayload, message: Option<String>) -> GetTaskResult {
    let mut described = described(task, payload.status());
    described.status_message = message;
    GetTaskResult::new(DetailedTask::new(described, payload))
}

fn as_object(result: &CallToolResult) -> JsonObject {
    match serde_json::to_value(result) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

/// Returns the time in microseconds since 1970.
fn now() -> u64 {
    outlive_sys::clock::wall_us()
}
