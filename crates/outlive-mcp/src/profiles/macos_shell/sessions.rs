//! Shell sessions: a directory and an environment that processes start from, and whose they are.
//!
//! `default` is the session of the connection. `dev` is a session of the store of its own, `CONNECTION.dev`: so `dev` of two
//! connections are two sessions, and a server sees the family of its own.

use std::path::PathBuf;

use outlive::{Job, Output, RawText, Running, Session, SessionError, SessionName, SessionSettings, Store};
use serde_json::{Value, json};

use crate::arguments::shown;
use crate::jobs::delivers_all;
use crate::reply::{Failure, Reply};
use crate::scope::{Scope, mark};
use crate::starting;
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

/// What the connection's own session is called.
const DEFAULT: &str = "default";

/// The most bytes of a session's name that the project takes; a longer project name is cut and ends with a hash.
const FAMILY: usize = 30;

/// The most bytes that the caller's name for the session takes: the rest of a name, after the dot.
const CALLED: usize = SessionName::MAX - FAMILY - 1;

/// How often closing is tried again when a process was started in the session meanwhile.
const ATTEMPTS: usize = 5;

pub(super) static LIST: Tool = Tool {
    name: "list_shell_sessions",
    title: "List shell sessions",
    description: "Lists shell sessions with their working directory, how many background processes run in each, and what those use together.",
    parameters: &[],
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    waits: false,
    call: list,
};

pub(super) static CREATE: Tool = Tool {
    name: "create_shell_session",
    title: "Create a shell session",
    description: "Creates a shell session: a working directory and environment variables that its commands start from.",
    parameters: &[
        Parameter::required("name", Kind::Text, "Session name"),
        Parameter::new("cwd", Kind::Text, "Initial working directory"),
        Parameter::new("env", Kind::Variables, "Initial environment variables"),
    ],
    hints: Hints { read_only: false, destructive: false, idempotent: false, open_world: false },
    waits: false,
    call: create,
};

pub(super) static CLOSE: Tool = Tool {
    name: "close_shell_session",
    title: "Close a shell session",
    description: "Closes a shell session. If background processes still run in it, it asks what is to become of them: say running \"kill\" or \"transfer\" (to the default session).",
    parameters: &[
        Parameter::required("session", Kind::Text, "Session name or ID to close"),
        Parameter::new(
            "running",
            Kind::Word(&RUNNING),
            "What becomes of running background processes: kill all, or transfer them to the default session",
        ),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: false },
    waits: true,
    call: close,
};

/// What the caller may choose for running processes.
const RUNNING: [&str; 2] = ["kill", "transfer"];

/// Returns how the names of a connection's other sessions begin, before the dot.
fn family(own: &SessionName) -> String {
    let own = own.as_str();
    if own.len() <= FAMILY { own.to_owned() } else { format!("{}-{:08x}", &own[..FAMILY - 9], mark(own)) }
}

/// Passes on the other sessions of a connection that is gone, with their settings and jobs.
pub(super) fn inherit(store: &Store, gone: &SessionName, heir: &SessionName) -> Result<(), SessionError> {
    let prefix = format!("{}.", family(gone));
    for session in store.list_sessions()? {
        let Some(rest) = session.name.as_str().strip_prefix(&prefix) else { continue };
        let Ok(new) = SessionName::parse(&format!("{}.{rest}", family(heir))) else { continue };
        if let Some(settings) = session.settings.filter(|settings| settings.closed.is_none()) {
            match store.create_session(&new, settings.cwd, settings.env_set) {
                // The heir has one of this name: its own settings stay.
                Ok(()) | Err(SessionError::Exists(_)) => {}
                Err(error) => return Err(error),
            }
        }
        store.inherit((&session.name, gone), (&new, heir))?;
        // What is left of it has no jobs.
        store.close_session(&session.name, Running::Refuse).ok();
    }
    Ok(())
}

/// Returns the store's name for what a session of the connection is called.
fn name_of(scope: &Scope, called: &str) -> Option<SessionName> {
    if called == DEFAULT {
        return Some(scope.session.clone());
    }
    let mut name = String::new();
    for byte in called.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            // Any other byte, a dot included, is a dot and two hexadecimal digits; two dots mark a name that was cut.
            other => name.push_str(&format!(".{other:02x}")),
        }
    }
    if name.len() > CALLED {
        name = format!("{}..{:08x}", &name[..CALLED - 10], mark(called));
    }
    SessionName::parse(&format!("{}.{name}", family(&scope.session))).ok().filter(|_| !called.is_empty())
}

/// Returns the caller's name for a session. A server that sees all sessions uses the store's names, since two projects may both
/// have a `dev`.
pub(super) fn called(scope: &Scope, session: &SessionName) -> String {
    if scope.sees_all {
        return session.to_string();
    }
    if *session == scope.session {
        return DEFAULT.to_owned();
    }
    let name = session.as_str().strip_prefix(&family(&scope.session)).and_then(|rest| rest.strip_prefix('.'));
    let name = name.unwrap_or(session.as_str());
    decoded(name).unwrap_or_else(|| name.to_owned())
}

/// Undoes what [`name_of`] does to a character; `None` if something was cut.
fn decoded(name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut parts = name.split('.');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Tells whether this server sees a session: its project's own, another of the project, or any if it sees all.
pub(super) fn is_in_sight(scope: &Scope, session: &SessionName) -> bool {
    let is_family = || {
        let rest = session.as_str().strip_prefix(&family(&scope.session));
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    scope.sees_all || *session == scope.session || is_family()
}

/// Finds the session that a caller means, by what it is called or by its own name, closed ones included.
pub(super) fn meant(call: &Call<'_>, given: &str) -> Result<SessionName, Failure> {
    let name = given.trim();
    let called = name_of(call.scope, name);
    let own = SessionName::parse(name).ok().filter(|name| is_in_sight(call.scope, name));
    // A name that was cut is shown with its two dots, and comes back so.
    let cut = SessionName::parse(&format!("{}.{name}", family(&call.scope.session))).ok();
    let is_there = |name: &SessionName| *name == call.scope.session || call.store.session(name).is_ok();
    let mut named = called.into_iter().chain(own).chain(cut.filter(|_| name.contains("..")));
    named.find(is_there).ok_or_else(|| not_found(given))
}

/// Says that there is no such session.
fn not_found(given: &str) -> Failure {
    Failure::new(format!("Session '{}' not found", shown(given)))
}

/// Finds the session that something is to be started in. One that is not there, or was closed, is made.
pub(super) fn open(call: &Call<'_>) -> Result<SessionName, Failure> {
    let Some(given) = call.arguments.text("session")? else { return Ok(call.scope.session.clone()) };
    let found = meant(call, &given).ok();
    let is_open = |name: &SessionName| {
        *name == call.scope.session
            || call.store.session(name).is_ok_and(|session| !is_closed(call.scope, &session))
    };
    if let Some(name) = found.filter(is_open) {
        return Ok(name);
    }
    let name = name_of(call.scope, given.trim()).ok_or_else(|| not_found(&given))?;
    let base = directory_of(call, None);
    let cwd = RawText::from(std::os::unix::ffi::OsStrExt::as_bytes(base.as_os_str()));
    match call.store.create_session(&name, Some(cwd), std::collections::BTreeMap::new()) {
        // Another call has made it meanwhile.
        Ok(()) | Err(SessionError::Exists(_)) => Ok(name),
        Err(error) => Err(Failure::of("the session cannot be made", &error)),
    }
}

/// Tells whether a session was closed and nothing of it runs. The default session never is.
fn is_closed(scope: &Scope, session: &Session) -> bool {
    session.name != scope.session
        && session.live.is_empty()
        && session.settings.as_ref().is_some_and(|settings| settings.closed.is_some())
}

/// Returns the directory that processes of a session with these settings start in.
fn directory_of(call: &Call<'_>, settings: Option<&SessionSettings>) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let said = settings.and_then(|settings| settings.cwd.as_ref());
    said.map(|cwd| PathBuf::from(std::ffi::OsStr::from_bytes(&cwd.0)))
        .or_else(|| call.scope.directory.clone())
        // It may be gone by now; then nothing starts, and the caller is told.
        .unwrap_or_else(|| call.scope.here.clone())
}

/// Returns the caller's `cwd`, with `~` and from where the session's processes start; without one, that.
pub(super) fn directory(call: &Call<'_>, settings: Option<&SessionSettings>) -> Result<PathBuf, Failure> {
    let base = directory_of(call, settings);
    let Some(given) = call.arguments.text("cwd")? else { return Ok(base) };
    let path = base.join(starting::expand_home(&given));
    if path.is_dir() {
        return Ok(path);
    }
    Err(Failure::new(format!("Directory '{}' does not exist", shown(&path.display().to_string()))))
}

fn list(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let failed = |error: std::io::Error| Failure::of("the sessions cannot be listed", &error);
    let mut sessions = call.store.list_sessions().map_err(failed)?;
    sessions.retain(|session| is_in_sight(call.scope, &session.name) && !is_closed(call.scope, session));
    let is_default = |session: &Session| session.name == call.scope.session;
    if !sessions.iter().any(is_default) {
        let settings = call.store.session_settings(&call.scope.session);
        let name = call.scope.session.clone();
        sessions.push(Session { name, settings, live: Vec::new(), ended: Vec::new() });
    }
    sessions.sort_by_key(|session| !is_default(session));
    let described: Vec<Value> = sessions.iter().map(|session| describe(call, session)).collect();
    let output: u64 = sessions.iter().map(output_bytes).sum();
    Ok(Reply::json(&json!({"sessions": described, "totalOutputBytes": output})))
}

fn describe(call: &Call<'_>, session: &Session) -> Value {
    let settings = session.settings.as_ref().filter(|settings| settings.closed.is_none());
    let usage = session.usage(call.store);
    json!({
        "id": session.name.as_str(),
        "name": called(call.scope, &session.name),
        "cwd": directory_of(call, settings).to_string_lossy(),
        "created": settings.map(|settings| settings.created.to_string()),
        "backgroundProcesses": session.live.len(),
        "resourceUsage": {
            "cpuMs": usage.cpu_ms.unwrap_or(0),
            "memoryBytes": usage.memory_bytes.unwrap_or(0),
            "processes": usage.processes.unwrap_or(0),
            "outputBytes": output_bytes(session),
        },
    })
}

/// Returns how much output of a session is kept.
fn output_bytes(session: &Session) -> u64 {
    let kept = |job: &Job| Output::open(job).map_or(0, |output| output.end() - output.start());
    session.live.iter().chain(&session.ended).map(kept).sum()
}

fn create(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let given = call.arguments.required("name", "dev")?;
    let given = given.trim();
    let exists = || Failure::new(format!("Session '{}' already exists", shown(given)));
    let name = name_of(call.scope, given).ok_or_else(|| Failure::new("A session needs a name"))?;
    let is_open = call.store.session(&name).is_ok_and(|session| !is_closed(call.scope, &session));
    if name == call.scope.session || is_open {
        return Err(exists());
    }
    let cwd = directory(call, None)?;
    let mut env = std::collections::BTreeMap::new();
    for (name, value) in call.arguments.variables("env")? {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Failure::new(format!("'{}' cannot be an environment variable", shown(&name))));
        }
        env.insert(name, RawText::from(value.as_bytes()));
    }
    let text = RawText::from(std::os::unix::ffi::OsStrExt::as_bytes(cwd.as_os_str()));
    match call.store.create_session(&name, Some(text), env) {
        Ok(()) => {}
        Err(SessionError::Exists(_)) => return Err(exists()),
        Err(error) => return Err(Failure::of("the session cannot be made", &error)),
    }
    Ok(Reply::json(&json!({
        "sessionId": name.as_str(),
        "name": called(call.scope, &name),
        "cwd": cwd.to_string_lossy(),
    })))
}

fn close(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let given = call.arguments.required("session", "dev")?;
    let running = call.arguments.word("running", &RUNNING)?;
    let name = meant(call, &given)?;
    if name == call.scope.session {
        return Err(Failure::new("Cannot close the default session"));
    }
    let (mut killed, mut transferred) = (Vec::new(), Vec::new());
    for _ in 0..ATTEMPTS {
        let session = call.store.session(&name).map_err(|_| not_found(&given))?;
        if is_closed(call.scope, &session) {
            return Err(not_found(&given));
        }
        let ids = || session.live.iter().map(|job| job.id().to_string());
        let how = match running {
            None => Running::Refuse,
            Some("kill") => {
                killed.extend(ids());
                Running::Kill
            }
            Some(_) => {
                for job in &session.live {
                    let given = call.store.transfer(job, &call.scope.session);
                    given.map_err(|error| Failure::of("not closed", &error))?;
                }
                transferred.extend(ids());
                Running::Refuse
            }
        };
        let is_left = || call.store.session(&name).is_ok_and(|session| !session.live.is_empty());
        match call.store.close_session(&name, how) {
            // Another process was started in it meanwhile.
            Ok(_) if running.is_some() && is_left() => {}
            Ok(_) => {
                let reply = Reply::json(&json!({
                    "session": called(call.scope, &name),
                    "closed": true,
                    "killed": killed,
                    "transferred": transferred,
                }));
                let ended = if how == Running::Kill { session.live } else { Vec::new() };
                return Ok(delivers_all(call, reply, ended));
            }
            Err(SessionError::Live(..)) if running.is_none() => return Err(question(call, &session)),
            Err(SessionError::Live(..)) => {}
            Err(error) => return Err(Failure::of("not closed", &error)),
        }
    }
    Err(Failure::new(format!("Session '{}' is not closed: processes are being started in it", shown(&given))))
}

/// Asks the caller what to do with running processes.
fn question(call: &Call<'_>, session: &Session) -> Failure {
    let count = match session.live.len() {
        1 => "1 running background process".to_owned(),
        count => format!("{count} running background processes"),
    };
    let mut text = format!("Session '{}' has {count}:\n", called(call.scope, &session.name));
    for job in &session.live {
        text.push_str(&format!("- {}: {}\n", job.id(), shown(&job.spec().command_line())));
    }
    text.push_str(
        "Kill all of them, or transfer them to the default session? Call close_shell_session again with running \"kill\" or \"transfer\".",
    );
    Failure::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(session: &str) -> Scope {
        let session = SessionName::parse(session).unwrap();
        Scope {
            reader: session.clone(),
            session,
            sees_all: false,
            directory: None,
            here: PathBuf::new(),
            is_remote: false,
            host: None,
        }
    }

    #[test]
    fn a_session_is_called_what_it_was_called() {
        for own in ["web-12345678", &"x".repeat(64)] {
            let scope = scope(own);
            for text in ["dev", "DEV", "my dev", "a.b", "a..b", "../x", "dév", "_", "default.x", "-", "0"] {
                let name = name_of(&scope, text).unwrap();
                assert_eq!(called(&scope, &name), text);
                assert!(is_in_sight(&scope, &name));
                assert_ne!(name, scope.session);
            }
            assert_eq!(name_of(&scope, "default"), Some(scope.session.clone()));
            assert_eq!(called(&scope, &scope.session), "default");
            assert_eq!(name_of(&scope, ""), None);
        }
        assert_eq!(name_of(&scope("web-12345678"), "dev").unwrap().as_str(), "web-12345678.dev");
    }

    #[test]
    fn long_names_stay_apart_and_stay_theirs() {
        let scope = scope(&"x".repeat(64));
        let long: Vec<SessionName> =
            ["a", "b"].map(|end| name_of(&scope, &("y".repeat(500) + end)).unwrap()).into();
        assert_ne!(long[0], long[1]);
        assert!(long.iter().all(|name| is_in_sight(&scope, name)));
        let shown = called(&scope, &long[0]);
        assert!(long[0].as_str().ends_with(&shown) && shown.contains(".."), "{shown}");
    }

    #[test]
    fn others_are_not_in_sight() {
        let own = scope("web-12345678");
        for other in ["web-12345678x", "web-1234567", "default", "api-12345678.dev", "web-12345678-x.dev"] {
            let other = SessionName::parse(other).unwrap();
            assert!(!is_in_sight(&own, &other), "{other}");
            let all = Scope { sees_all: true, ..own.clone() };
            assert!(is_in_sight(&all, &other), "{other}");
            assert_eq!(called(&all, &other), other.as_str());
        }
    }
}
