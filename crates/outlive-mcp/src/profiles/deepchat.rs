//! The tools of DeepChat: `execute_command`, in the foreground for a while or in the background, and `process`.
//!
//! What that design calls a session is a job here, and its conversation is a session. Of what a job printed, a poll
//! shows the end and a log a range of characters; what is long has a file, which is a link into the store.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use outlive::{ControlError, Job, Kill, Output, Request, State, Status, Stdin};
use serde_json::{Map, Value, json};

use super::{Isolation, NoticeStyle, Profile, command, epoch_ms, links, pid, random_digits};
use crate::arguments::shown;
use crate::jobs;
use crate::reply::{Failure, Reply, chain};
use crate::starting;
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(crate) static PROFILE: Profile = Profile {
    name: "deepchat",
    about: "DeepChat's `execute_command` and `process`",
    instructions: "Use execute_command to run shell commands. One that takes longer than yieldMs (10 seconds by default), or \
        that is started with background: true, goes on as a session: use process with its sessionId to poll its output and \
        status, read its log, write to its stdin, kill it or remove it. Sessions survive this conversation's restarts.",
    tools: &[&EXECUTE_COMMAND, &PROCESS],
    isolation: Isolation::Conversation,
    notices: NoticeStyle::None,
    choices: [
        "`execute_command` with `background: true`",
        "not there: `process` with `action: \"poll\"`",
        "`action`: list, poll, log, write, kill, clear, remove",
        "not there: `execute_command`",
        "`bg_` and 12 digits of 36",
        "`sessionId`",
        "running, done, error, killed",
        "done",
        "`killed`, with `timedOut: true`",
        "none",
        "2 s",
        "the whole tree",
        "nothing happens, and that is a success",
        "none",
        "poll: the last 500 characters; log: a range of characters",
        "merged, in the order in which they came",
        "kept",
        "100 MiB on disk; more than 10,000 characters are reported as offloaded, with their file",
        "none",
        "at once, or after `yieldMs` (10 s; at most 45 s)",
        "a line for the shell",
        "the user's",
        "inherited, login or clean",
        "a pipe, with `write` and `eof`; also of a command that was yielded",
        "pipes",
        "everything",
        "30 minutes after the last look",
        "as configured: 50 a session, 200 in all",
        "the conversation's own, else the project's",
        "one background command",
        "none: poll",
        "`{status, sessions: [SessionMeta]}`",
        "milliseconds since 1970",
        "annotations",
        "none",
        "the whole id",
        "Linux",
        "in scope, by the other front ends",
        "required, 5 to 100 characters; it is the job's name",
    ],
};

static EXECUTE_COMMAND: Tool = Tool {
    name: "execute_command",
    title: "Execute a command",
    description: "Execute a shell command. A command that ends within yieldMs returns its output and exit code; a longer one goes on in the background and returns a sessionId for the process tool. Use background: true for servers, watchers and other long-running commands.",
    parameters: &[
        Parameter::required("command", Kind::Text, "The shell command to execute")
            .with(r#"{"minLength": 1}"#),
        Parameter::new("timeout", Kind::Number, "Kill the command after so many milliseconds (default: never)")
            .with(r#"{"type": "number", "minimum": 100}"#),
        Parameter::required("description", Kind::Text, "Brief description of what the command does (5-100 characters)")
            .with(r#"{"minLength": 5, "maxLength": 100}"#),
        Parameter::new(
            "background",
            Kind::Flag,
            "Run the command in the background (recommended for commands taking >10s). Returns immediately with sessionId for use with process tool.",
        ),
        Parameter::new(
            "yieldMs",
            Kind::Number,
            "Foreground grace window in milliseconds before auto-backgrounding the command and returning a sessionId (default 10000, at most 45000). Ignored when background is true.",
        )
        .with(r#"{"type": "number", "minimum": 100}"#),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call: execute,
};

const ACTIONS: [&str; 7] = ["list", "poll", "log", "write", "kill", "clear", "remove"];

static PROCESS: Tool = Tool {
    name: "process",
    title: "Manage background sessions",
    description: "Manage background sessions created by execute_command with background: true, or by foreground commands that yielded a sessionId. Use poll to check output and status, log to get full output with pagination, write to send input to stdin, kill to terminate, clear to empty the output, and remove to clean up sessions.",
    parameters: &[
        Parameter::required("action", Kind::Word(&ACTIONS), "The action to perform"),
        Parameter::new("sessionId", Kind::Text, "Session ID (required for all actions except list)"),
        Parameter::new("offset", Kind::Number, "Starting character for log action (default 0)")
            .with(r#"{"minimum": 0}"#),
        Parameter::new("limit", Kind::Number, "Maximum characters to return for log action (default 1000)")
            .with(r#"{"minimum": 1}"#),
        Parameter::new("data", Kind::Text, "Text to write to stdin (write action only)"),
        Parameter::new("eof", Kind::Flag, "Close stdin after writing (write action only)"),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: false,
    call: process,
};

/// How the ids of its own jobs begin.
const PREFIX: &str = "bg_";

/// The grace of a foreground command before it is yielded, in milliseconds.
const YIELD: u64 = 10_000;

/// The longest of that: under what the most impatient client allows.
const LONGEST_YIELD: u64 = 45_000;

/// The time between the signals of a kill.
const GRACE: Duration = Duration::from_secs(2);

/// How many characters a poll shows.
const POLLED: usize = 500;

/// How many a log shows if nothing is said.
const LOGGED: u64 = 1000;

/// The most that one log shows, whatever is asked for: a client has to hold it in memory, and `totalLength` says that
/// there is more.
const MOST_LOGGED: u64 = 1_000_000;

/// What is longer than so many characters has a file.
const OFFLOADED: u64 = 10_000;

/// So many of such a one are shown of a foreground command.
const PREVIEW: usize = 12_000;

/// An ended session goes when nobody looked at it for so long.
const TTL: Duration = Duration::from_secs(30 * 60);

/// How long a session may leave its input unread before that is told.
const UNREAD: Duration = Duration::from_secs(10);

/// A year, in milliseconds: no command is given longer.
const YEAR: u64 = 366 * 86_400_000;

/// Who asks, for the record.
const BY: &str = "outlive mcp";

fn execute(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let line = text(call, "command", 1, usize::MAX)?;
    let description = text(call, "description", 5, 100)?;
    let timeout = number(call, "timeout", 100)?;
    let window = number(call, "yieldMs", 100)?.unwrap_or(YIELD).min(LONGEST_YIELD);
    let is_background = flag(call, "background")?;
    sweep(call);
    let id = format!("{PREFIX}{}", random_digits(12, 36));
    let mut request =
        starting::identify(starting::fill(call, Request::shell(&line)), &id).stdin(Stdin::Open).grace(GRACE);
    if let Some(shell) = user_shell(call) {
        request = request.with_shell(shell);
    }
    if let Some(name) = starting::name(&description) {
        request = request.name(name);
    }
    if let Some(timeout) = timeout {
        request = request.timeout(Some(Duration::from_millis(timeout.min(YEAR))));
    }
    let job = starting::start(call, "Failed to start the command", &request)?;
    if !is_background {
        // Where it cannot be waited for it goes on in the background.
        jobs::wait_for_start(call, &job, Duration::from_millis(window)).ok();
    }
    let state = job.state(call.store);
    if is_background || !state.status.has_ended() {
        return Ok(Reply::json(&json!({"status": "running", "sessionId": id})));
    }
    Ok(finished(call, job, &state))
}

/// Answers with what a foreground command printed and its exit code. It is no session then, unless there is more of
/// it to be had.
fn finished(call: &Call<'_>, job: Job, state: &State) -> Reply {
    let file = offloaded(call, &job);
    let shown = read(&job, |output| match file {
        Some(_) => output.last_characters(PREVIEW),
        None => output.last_characters(OFFLOADED as usize),
    });
    let mut lines = Vec::new();
    if !shown.is_empty() {
        lines.push(shown.trim_end().to_owned());
    }
    lines.push(match exit_code(state) {
        Some(code) => format!("Exit Code: {code}"),
        None => "Exit Code: null".to_owned(),
    });
    if state.status == Status::TimedOut {
        lines.push("Timed out".to_owned());
    }
    lines.extend(file.as_ref().map(|file| format!("Output offloaded: {}", file.display())));
    let (store, reader) = (std::sync::Arc::clone(call.store), call.scope.reader.clone());
    Reply::plain(lines.join("\n")).tells(&job, state).after(move || {
        jobs::note_delivered(&job, &reader);
        if file.is_none() {
            // One that left processes behind stays, so that they can be ended.
            store.remove(&job).ok();
        }
    })
}

fn process(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let wrong = || invalid(format!("action must be one of {}", ACTIONS.join(", ")));
    let action = match call.arguments.value("action") {
        Some(Value::String(action)) => ACTIONS.into_iter().find(|word| word == action).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    if action == "list" {
        return list(call);
    }
    let id = match call.arguments.value("sessionId") {
        Some(Value::String(id)) if !id.is_empty() => id.clone(),
        None | Some(Value::String(_)) => {
            return Err(Failure::new(format!("sessionId is required for {action} action")));
        }
        Some(_) => return Err(invalid("sessionId must be a string")),
    };
    let job = find(call, &id)?;
    match action {
        "poll" => Ok(poll(call, job)),
        "log" => log(call, job),
        "write" => write(call, job),
        "kill" => kill(call, job),
        "clear" => clear(call, job),
        _ => remove(call, job),
    }
}

/// Lists the sessions of the conversation. Being listed is no look at any of them.
fn list(call: &mut Call<'_>) -> Result<Reply, Failure> {
    sweep(call);
    let sessions: Vec<Value> = super::jobs(call)?.iter().map(|(job, state)| meta(call, job, state)).collect();
    Ok(Reply::json(&json!({"status": "ok", "sessions": sessions})))
}

/// What the list says of a session.
fn meta(call: &Call<'_>, job: &Job, state: &State) -> Value {
    let created = epoch_ms(job.spec().created);
    let since_1970 = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
    let looked = job.last_look().and_then(since_1970).map(|time| time.as_millis() as u64);
    let length = count(job);
    let mut meta = Map::new();
    meta.insert("sessionId".to_owned(), job.id().as_str().into());
    meta.insert("command".to_owned(), command(job).into());
    meta.insert("status".to_owned(), status(state).into());
    meta.insert("createdAt".to_owned(), created.into());
    meta.insert("lastAccessedAt".to_owned(), looked.map_or(created, |looked| looked.max(created)).into());
    if let Some(pid) = pid(state) {
        meta.insert("pid".to_owned(), pid.into());
    }
    meta.insert("outputLength".to_owned(), length.into());
    meta.insert("offloaded".to_owned(), (length > OFFLOADED).into());
    if length > OFFLOADED {
        // So that the file is there for whoever knows where it has to be.
        file(call, job);
    }
    add_end(&mut meta, state);
    meta.into()
}

fn poll(call: &Call<'_>, job: Job) -> Reply {
    let state = job.state(call.store);
    let mut answer = Map::new();
    answer.insert("status".to_owned(), status(&state).into());
    answer.insert("output".to_owned(), read(&job, |output| output.last_characters(POLLED)).into());
    add_file(&mut answer, offloaded(call, &job));
    add_end(&mut answer, &state);
    looked(call, job, &state, &answer.into())
}

fn log(call: &mut Call<'_>, job: Job) -> Result<Reply, Failure> {
    let offset = number(call, "offset", 0)?.unwrap_or(0);
    let limit = number(call, "limit", 1)?.unwrap_or(LOGGED).min(MOST_LOGGED);
    // First how it is, then what it printed: of one that has ended that is all.
    let state = job.state(call.store);
    let mut answer = Map::new();
    answer.insert("status".to_owned(), status(&state).into());
    answer.insert("output".to_owned(), read(&job, |output| output.characters(offset, limit, None)).into());
    answer.insert("totalLength".to_owned(), count(&job).into());
    add_file(&mut answer, offloaded(call, &job));
    add_end(&mut answer, &state);
    Ok(looked(call, job, &state, &answer.into()))
}

fn write(call: &mut Call<'_>, job: Job) -> Result<Reply, Failure> {
    let data = match call.arguments.value("data") {
        None => String::new(),
        Some(Value::String(data)) => data.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(is_true)) => is_true.to_string(),
        Some(_) => return Err(invalid("data must be a string")),
    };
    let eof = flag(call, "eof")?;
    let state = job.state(call.store);
    let id = job.id();
    if state.status.has_ended() {
        return Err(Failure::new(format!("Session {id} is not running")));
    }
    let refused = |error: ControlError| match &error {
        ControlError::Ended(_) => Failure::new(format!("Session {id} is not running")),
        ControlError::Orphaned(_) => Failure::new(format!("Session {id} stdin is not available")),
        ControlError::Refused { code, .. } if code == "no_stdin" || code == "stdin_closed" => {
            Failure::new(format!("Session {id} stdin is not available"))
        }
        // It may have ended a moment ago.
        _ if job.state(call.store).status.has_ended() => Failure::new(format!("Session {id} is not running")),
        _ => Failure::of(&format!("Session {id} stdin was not written"), &error),
    };
    if job.spec().stdin == Stdin::Null {
        return Err(Failure::new(format!("Session {id} stdin is not available")));
    }
    if !data.is_empty() {
        call.store.write_stdin(&job, data.as_bytes(), UNREAD).map_err(refused)?;
    }
    if eof {
        call.store.close_stdin(&job).map_err(refused)?;
    }
    Ok(done(call, job, &state))
}

fn kill(call: &Call<'_>, job: Job) -> Result<Reply, Failure> {
    end(call, &job)?;
    let state = job.state(call.store);
    Ok(done(call, job, &state))
}

/// Ends all of it; one that has ended is left as it is.
fn end(call: &Call<'_>, job: &Job) -> Result<(), Failure> {
    let id = job.id();
    let how = Kill { grace: Some(GRACE), by: BY.to_owned(), ..Kill::default() };
    let killed = match call.store.kill(job, &how) {
        Ok(killed) => killed,
        Err(ControlError::Ended(_)) => return Ok(()),
        Err(error) => return Err(Failure::of(&format!("Session {id} was not killed"), &error)),
    };
    match killed.survivors.first() {
        None => Ok(()),
        Some(left) => Err(Failure::new(format!(
            "Session {id} was not killed: pid {} {} is left, {}",
            left.pid,
            shown(&left.command),
            left.why
        ))),
    }
}

fn clear(call: &Call<'_>, job: Job) -> Result<Reply, Failure> {
    let cleared = call.store.clear(&job);
    cleared.map_err(|error| Failure::of(&format!("Session {} was not cleared", job.id()), &error))?;
    forget_file(call, &job);
    let state = job.state(call.store);
    Ok(done(call, job, &state))
}

fn remove(call: &Call<'_>, job: Job) -> Result<Reply, Failure> {
    end(call, &job)?;
    forget_file(call, &job);
    // Whoever asks for its removal need not be told of its end.
    jobs::note_delivered(&job, &call.scope.reader);
    let removed = call.store.remove(&job);
    removed.map_err(|error| Failure::of(&format!("Session {} was not removed", job.id()), &error))?;
    Ok(Reply::json(&json!({"status": "ok", "sessionId": job.id().as_str()})))
}

/// Answers that what was asked for is done.
fn done(call: &Call<'_>, job: Job, state: &State) -> Reply {
    let answer = json!({"status": "ok", "sessionId": job.id().as_str()});
    looked(call, job, state, &answer)
}

/// Answers, and notes that the session was looked at once the client has it.
fn looked(call: &Call<'_>, job: Job, state: &State, answer: &Value) -> Reply {
    let reader = call.scope.reader.clone();
    let has_ended = state.status.has_ended();
    Reply::json(answer).tells(&job, state).after(move || {
        if has_ended {
            jobs::note_delivered(&job, &reader);
        } else {
            // Where the reader was stays where it was: only the time is new.
            let place = job.cursor(&reader, None).unwrap_or(0);
            job.set_cursor(&reader, None, place).ok();
        }
    })
}

/// Says with what code it exited, and whether its time was over.
fn add_end(object: &mut Map<String, Value>, state: &State) {
    if let Some(code) = exit_code(state) {
        object.insert("exitCode".to_owned(), code.into());
    }
    if state.status == Status::TimedOut {
        object.insert("timedOut".to_owned(), true.into());
    }
}

fn add_file(object: &mut Map<String, Value>, file: Option<PathBuf>) {
    if let Some(file) = file {
        object.insert("offloaded".to_owned(), true.into());
        object.insert("outputFilePath".to_owned(), file.to_string_lossy().into());
    }
}

/// Finds a session of the conversation; one whose time is over is gone.
fn find(call: &Call<'_>, id: &str) -> Result<Job, Failure> {
    let found = super::find(call, id);
    match found {
        Some(job) if is_expired(&job, &job.state(call.store)) => discard(call, &job),
        Some(job) => return Ok(job),
        None => {}
    }
    Err(Failure::new(format!("Session {} not found", shown(id))))
}

/// Removes the sessions of all conversations at which nobody looked for too long. One that runs is never touched.
fn sweep(call: &Call<'_>) {
    let jobs = call.store.list(None).map(|listing| listing.jobs).unwrap_or_default();
    for job in jobs.iter().filter(|job| is_own(job) && is_expired(job, &job.state(call.store))) {
        discard(call, job);
    }
}

fn discard(call: &Call<'_>, job: &Job) {
    forget_file(call, job);
    if let Err(error) = call.store.remove(job) {
        crate::log(&format!("{} stays: {}", job.id(), chain(&error)));
    }
}

fn is_expired(job: &Job, state: &State) -> bool {
    let Some(outcome) = state.outcome.as_ref().filter(|_| is_own(job) && !state.is_live()) else {
        return false;
    };
    let ended = SystemTime::UNIX_EPOCH + Duration::from_micros(outcome.ended.0);
    let looked = job.last_look().filter(|_| job.is_seen()).unwrap_or(ended);
    looked.elapsed().is_ok_and(|idle| idle >= TTL)
}

fn is_own(job: &Job) -> bool {
    job.id().as_str().starts_with(PREFIX)
}

/// Returns the file of what a session printed, if that is long enough to have one.
fn offloaded(call: &Call<'_>, job: &Job) -> Option<PathBuf> {
    let is_long = read(job, |output| output.has_more_characters_than(OFFLOADED));
    is_long.then(|| file(call, job))
}

/// Returns the file of what a session printed where that design has it; where that cannot be, the store's own.
fn file(call: &Call<'_>, job: &Job) -> PathBuf {
    let target = job.log_file().unwrap_or_else(|_| job.path().to_owned());
    let Some(link) = link(job) else { return target };
    match links::point(call.store, &link, &target) {
        Ok(()) => link,
        Err(error) => {
            crate::log(&format!("{} cannot be made: {}", link.display(), chain(&error)));
            target
        }
    }
}

/// Removes the file's link; where that fails, the session goes all the same.
fn forget_file(call: &Call<'_>, job: &Job) {
    if let Some(link) = link(job)
        && let Err(error) = links::unpoint(call.store, &link)
    {
        crate::log(&format!("{} stays: {}", link.display(), chain(&error)));
    }
}

/// Returns where a session's file is: the names of conversations and jobs have nothing in them that leads elsewhere.
fn link(job: &Job) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())?;
    Some(link_below(&home, job.session().as_str(), job.id().as_str()))
}

fn link_below(home: &Path, conversation: &str, id: &str) -> PathBuf {
    home.join(".deepchat/sessions").join(conversation).join(format!("bgexec_{id}.log"))
}

/// Reads of what a session printed; what cannot be read is nothing, and said on standard error.
fn read<T: Default>(job: &Job, look: impl FnOnce(&mut Output) -> std::io::Result<T>) -> T {
    let read = Output::open(job).and_then(|mut output| look(&mut output));
    read.unwrap_or_else(|error| {
        crate::log(&format!("the output of {} cannot be read: {}", job.id(), chain(&error)));
        T::default()
    })
}

fn count(job: &Job) -> u64 {
    read(job, Output::character_count)
}

fn status(state: &State) -> &'static str {
    match state.status {
        Status::Starting | Status::Running => "running",
        Status::Completed => "done",
        Status::Failed | Status::Lost => "error",
        Status::Killed | Status::TimedOut => "killed",
    }
}

fn exit_code(state: &State) -> Option<i32> {
    match state.outcome.as_ref()?.wait_status {
        outlive::WaitStatus::Exited { code } => Some(code),
        _ => None,
    }
}

/// Returns the user's own shell, unless another is configured.
fn user_shell(call: &Call<'_>) -> Option<PathBuf> {
    let shell = std::env::var_os("SHELL").map(PathBuf::from);
    shell.filter(|shell| call.store.config().job.shell.is_none() && shell.is_absolute() && shell.is_file())
}

fn invalid(what: impl std::fmt::Display) -> Failure {
    Failure::new(format!("Invalid arguments: {what}"))
}

/// Returns a text that must be there and have so many characters.
fn text(call: &Call<'_>, name: &str, least: usize, most: usize) -> Result<String, Failure> {
    let Some(value) = call.arguments.value(name) else {
        return Err(invalid(format!("{name} is required")));
    };
    let Value::String(text) = value else { return Err(invalid(format!("{name} must be a string"))) };
    match text.chars().count() {
        count if count < least => Err(invalid(format!("{name} must contain at least {least} character(s)"))),
        count if count > most => Err(invalid(format!("{name} must contain at most {most} character(s)"))),
        _ => Ok(text.clone()),
    }
}

/// Returns a number that is at least this, if there is one. One as a text is taken, too.
fn number(call: &Call<'_>, name: &str, least: u64) -> Result<Option<u64>, Failure> {
    let given = match call.arguments.value(name) {
        None => return Ok(None),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse::<f64>().ok(),
        Some(_) => None,
    };
    match given.filter(|given| given.is_finite()) {
        None => Err(invalid(format!("{name} must be a number"))),
        Some(given) if given < least as f64 => Err(invalid(format!("{name} must be at least {least}"))),
        // Numbers here are far below what a float holds exactly.
        Some(given) => Ok(Some(given.round().min(9e15) as u64)),
    }
}

fn flag(call: &Call<'_>, name: &str) -> Result<bool, Failure> {
    call.arguments.flag(name).map_err(|failure| invalid(failure.into_words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlive::reader_name;

    #[test]
    fn no_conversation_leads_out_of_its_directory() {
        let home = Path::new("/home/u");
        for hostile in ["../../etc", "..", "/etc/passwd", "a/../../b", ".", "a\0b", ""] {
            let name = reader_name(hostile);
            let path = link_below(home, name.as_str(), "bg_abc");
            assert_eq!(path.components().count(), 7, "{path:?}");
            assert!(path.starts_with("/home/u/.deepchat/sessions"), "{path:?}");
            assert!(!path.components().any(|part| part == std::path::Component::ParentDir), "{path:?}");
        }
    }
}
