//! `outlive session`: make, list, show and close sessions, and move jobs between them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use outlive::{RawText, Running, SessionError, SessionName, SessionObject};
use outlive_project::Record;

use crate::args::Session;
use crate::commands::{Context, each};
use crate::failure::Failure;
use crate::local_time;
use crate::render::{counted, note, one_line, print, print_json, table, usage_cells, width};

pub(crate) fn run(context: &Context, arguments: Session) -> Result<ExitCode, Failure> {
    match arguments {
        Session::Create { name, cwd, env } => create(context, &name, cwd, env),
        Session::List { usage } => list(context, usage),
        Session::Show { name, show_env } => show(context, name, show_env),
        Session::Close { name, running } => close(context, &name, running),
        Session::Transfer { jobs, to } => each(context, context.find_each(&jobs), "transferred", |job| {
            Ok(context.store.transfer(job, &to)?)
        }),
    }
}

/// With --session, other sessions are not even named.
fn visible(context: &Context, name: &SessionName) -> Result<(), Failure> {
    match &context.session {
        Some(own) if own != name => Err(SessionError::Unknown(name.clone()).into()),
        _ => Ok(()),
    }
}

fn create(
    context: &Context,
    name: &SessionName,
    cwd: Option<PathBuf>,
    env: Vec<(String, OsString)>,
) -> Result<ExitCode, Failure> {
    visible(context, name)?;
    let cwd = cwd.as_deref().map(directory).transpose()?;
    let env: BTreeMap<String, RawText> =
        env.into_iter().map(|(name, value)| (name, RawText::from(value.as_bytes()))).collect();
    context.store.create_session(name, cwd, env)?;
    tell(context, name, "")
}

/// Returns the directory as every later command means it.
fn directory(path: &Path) -> Result<RawText, Failure> {
    let hint = "give an existing directory with --cwd";
    let shown = path.display();
    match path.canonicalize() {
        Ok(path) if path.is_dir() => Ok(RawText::from(path.as_os_str().as_bytes())),
        Ok(_) => Err(Failure::usage(format!("session: {shown} is not a directory"), hint)),
        Err(error) => {
            Err(Failure::usage(format!("session: {shown}: {}", crate::failure::chain(&error)), hint))
        }
    }
}

fn list(context: &Context, with_usage: bool) -> Result<ExitCode, Failure> {
    let sessions = context.store.list_sessions().map_err(SessionError::from)?;
    let objects: Vec<SessionObject> = sessions
        .iter()
        .filter(|session| context.session.as_ref().is_none_or(|own| *own == session.name))
        .map(|session| session.object(with_usage.then(|| session.usage(&context.store)), false))
        .collect();
    if context.is_json {
        return print_json(&objects);
    }
    if objects.is_empty() {
        note("no sessions; one begins with its first job: outlive --session NAME run 'LINE'");
        return Ok(ExitCode::SUCCESS);
    }
    let mut header = vec!["SESSION", "STATE", "LIVE", "ENDED"];
    if with_usage {
        header.extend(["CPU", "MEMORY", "PROCS"]);
    }
    header.push("DIRECTORY");
    let mut rows = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    rows.extend(objects.iter().map(|object| row(context, object)));
    print(&table(&rows, width(), |_, _, cell| cell.into()));
    Ok(ExitCode::SUCCESS)
}

fn row(context: &Context, object: &SessionObject) -> Vec<String> {
    let mut row = vec![
        object.session.to_string(),
        object.state.to_owned(),
        object.live.to_string(),
        object.ended.to_string(),
    ];
    row.extend(object.usage.iter().flat_map(usage_cells));
    // The jobs of a project each say where they run; all belong to the directory of its file.
    let project = || Record::read(&context.store, &object.session);
    let of_project = || project().and_then(|record| Some(record.file.parent()?.display().to_string()));
    row.push(object.cwd.clone().or_else(of_project).map_or_else(|| "-".to_owned(), |cwd| one_line(&cwd)));
    row
}

fn show(context: &Context, name: Option<SessionName>, with_values: bool) -> Result<ExitCode, Failure> {
    let name = name.map_or_else(|| context.own_session(), Ok)?;
    visible(context, &name)?;
    let session = context.store.session(&name)?;
    let object = session.object(Some(session.usage(&context.store)), with_values);
    if context.is_json {
        return print_json(&object);
    }
    let mut text = format!("session    {name}\nstate      {}\n", object.state);
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!("{name:<10} {}\n", one_line(&value)));
        }
    };
    line("directory", object.cwd);
    for (name, value) in &object.env {
        line("variable", Some(format!("{name}={value}")));
    }
    line("made", object.created_at.as_deref().map(local_time::of_object));
    line("closed", object.closed_at.as_deref().map(local_time::of_object));
    line("live", Some(count(object.live, &object.live_jobs)));
    line("ended", Some(object.ended.to_string()));
    if let Some(usage) = object.usage.filter(|_| object.live > 0) {
        let [cpu, memory, _] = usage_cells(&usage);
        let processes = usage.processes.map(|count| format!(", {}", counted(count, "process", "processes")));
        let processes = processes.unwrap_or_default();
        line("uses", Some(format!("{cpu} of processor time, {memory} of memory{processes}")));
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}

fn count(live: usize, jobs: &[outlive::JobId]) -> String {
    let names: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    if names.is_empty() { live.to_string() } else { format!("{live}: {}", names.join(" ")) }
}

fn close(context: &Context, name: &SessionName, running: Running) -> Result<ExitCode, Failure> {
    visible(context, name)?;
    let closed = context.store.close_session(name, running)?;
    let what = match (running, closed.live.len()) {
        (_, 0) => String::new(),
        (Running::Transfer, count) => format!(", {count} given to the session default"),
        (_, count) => format!(", {count} ended"),
    };
    tell(context, name, &format!(" closed{what}"))
}

/// Prints the session, or its name with what was done.
fn tell(context: &Context, name: &SessionName, done: &str) -> Result<ExitCode, Failure> {
    if context.is_json {
        return print_json(&context.store.session(name)?.object(None, false));
    }
    print(&format!("{name}{done}\n"));
    Ok(ExitCode::SUCCESS)
}
