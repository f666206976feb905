//! A wait as a task: asked once, looked at whenever the client likes, by whichever server it has then.
//!
//! A task is a file below its session, `tasks/<id>.json`: what is waited for, until when, and in the end the answer. Nobody waits: whoever
//! asks for the task has a look. So it outlives the server, and cancelling it ends nothing but itself.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use outlive::{Store, Timestamp};
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

/// How often a client should look.
const POLL_MS: u64 = 1000;

/// How long a task is waited for that says nothing of it: it costs nothing to wait.
const LONGEST: Duration = Duration::from_secs(86_400);

/// How long a task is kept.
const KEPT: Duration = Duration::from_secs(7 * 86_400);

/// What a call of `wait` came to.
pub(crate) enum Begun {
    /// It is answered already.
    Answer(Reply),
    /// It goes on as a task.
    Task(CreateTaskResult),
}

/// A task as it is kept.
struct Task {
    path: PathBuf,
    id: String,
    contents: Map<String, Value>,
}

/// Calls `wait` for a client that takes tasks.
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
    let id: String = outlive_sys::random::bytes16().iter().map(|byte| format!("{byte:02x}")).collect();
    let task = Task { path: directory(&work.store, scope).join(format!("{id}.json")), id, contents };
    sweep(&directory(&work.store, scope));
    match task.write() {
        Ok(()) => Begun::Task(CreateTaskResult::new(
            task.described(TaskStatus::Working).with_status_message(reply.header),
        )),
        // Where the store cannot be written, the client calls again.
        Err(_) => Begun::Answer(reply),
    }
}

/// Tells how a task is doing; none if there is none of this id. What is to be done once the client has the answer is returned, too.
pub(crate) fn get(work: &Work, id: &str, scope: &Scope) -> Option<(GetTaskResult, Vec<After>)> {
    let mut task = Task::open(&work.store, scope, id)?;
    if task.contents.contains_key("cancelled_us") {
        return Some((task.result(TaskPayload::Cancelled, None), Vec::new()));
    }
    if let Some(Value::Object(result)) = task.contents.get("result").cloned() {
        return Some((task.result(TaskPayload::Completed { result }, None), Vec::new()));
    }
    let arguments = task.contents.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
    let since = task.contents.get("since").and_then(Value::as_u64);
    let (reply, _) = look(work, scope, arguments, since, Some(0));
    let deadline = task.contents.get("deadline_us").and_then(Value::as_u64).unwrap_or(0);
    if reply.is_pending && now() < deadline {
        return Some((task.result(TaskPayload::Working, Some(reply.header)), Vec::new()));
    }
    let result = as_object(&crate::server::result_of(&reply));
    task.contents.insert("result".to_owned(), Value::Object(result.clone()));
    // Where it cannot be kept it is found out anew.
    task.write().ok();
    Some((task.result(TaskPayload::Completed { result }, None), reply.after))
}

/// Ends the waiting, and nothing else; false if there is no such task.
pub(crate) fn cancel(work: &Work, id: &str, scope: &Scope) -> bool {
    let Some(mut task) = Task::open(&work.store, scope, id) else { return false };
    if !task.contents.contains_key("result") {
        task.contents.insert("cancelled_us".to_owned(), now().into());
        task.write().ok();
    }
    true
}

/// Has a look; returns the arguments with the jobs that are meant now, too.
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

impl Task {
    /// Opens a task of this session.
    fn open(store: &Store, scope: &Scope, id: &str) -> Option<Self> {
        // What is no id of ours names no file.
        let is_id =
            id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let path = directory(store, scope).join(format!("{id}.json"));
        let text = fs::read(&path).ok().filter(|_| is_id)?;
        match serde_json::from_slice(&text).ok()? {
            Value::Object(contents) => Some(Self { path, id: id.to_owned(), contents }),
            _ => None,
        }
    }

    /// Writes it beside its place, and gives it its name: nobody reads half of it.
    fn write(&self) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        match fs::DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let temporary = directory.join(format!("{}.{}.tmp", self.id, std::process::id()));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = serde_json::to_vec(&self.contents)
            .map_err(io::Error::other)
            .and_then(|bytes| file.write_all(&bytes));
        let renamed = written.and_then(|()| fs::rename(&temporary, &self.path));
        if renamed.is_err() {
            fs::remove_file(&temporary).ok();
        }
        renamed
    }

    fn described(&self, status: TaskStatus) -> Described {
        let created = self.contents.get("created_us").and_then(Value::as_u64).unwrap_or(0);
        let described =
            Described::new(&self.id, status, Timestamp(created).to_string(), Timestamp(now()).to_string());
        described.with_poll_interval_ms(POLL_MS)
    }

    fn result(&self, payload: TaskPayload, message: Option<String>) -> GetTaskResult {
        let mut described = self.described(payload.status());
        described.status_message = message;
        GetTaskResult::new(DetailedTask::new(described, payload))
    }
}

fn directory(store: &Store, scope: &Scope) -> PathBuf {
    store.root().join("sessions").join(scope.session.as_str()).join("tasks")
}

/// Removes what is older than any client remembers.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|data| data.modified()).ok();
        if changed.is_some_and(|changed| changed.elapsed().is_ok_and(|age| age >= KEPT)) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn as_object(result: &CallToolResult) -> JsonObject {
    match serde_json::to_value(result) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

/// Microseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
