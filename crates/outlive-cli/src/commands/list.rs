//! `outlive list`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::time::Duration;

use outlive::duration::format_duration;
use outlive::{Job, JobObject, Listeners, NEWER, Port, State, Status, Timestamp, Usage};
use outlive_sys::signal::{catch_interrupt, interrupt_fd, interrupted};
use outlive_sys::{clock, poll, terminal};
use serde::Serialize;

use crate::args::List;
use crate::commands::Context;
use crate::failure::{Failure, chain};
use crate::render::{
    colour, columns, counted, cut, is_coloured, note, one_line, port_list, print, print_json, table,
    usage_cells, width,
};
use crate::served;

/// How many ended jobs are shown unless another number is given: what a person remembers.
const LAST: usize = 10;

/// A command that is longer is cut in a pipe, too: a line of a list stays a line on a screen.
const LONGEST_COMMAND: usize = 60;

/// The directory is shown where that leaves room for the command.
const WIDE: usize = 120;

/// The least room for the command; columns that can be done without make way for it.
const LEAST_COMMAND: usize = 20;

/// The place of the status in a row.
const STATUS: usize = 1;

/// As much of a status as any word without a reason takes.
const LEAST_STATUS: usize = 9;

/// Longer words for a status are cut, a longer directory loses its beginning: neither is to crowd out the command.
const LONGEST_STATUS: usize = 40;
const LONGEST_DIRECTORY: usize = 32;

/// How often `--watch` looks.
const WATCH: Duration = Duration::from_secs(1);

/// A job, and what was looked up because it was asked for.
struct Listed {
    job: Job,
    state: State,
    usage: Option<Usage>,
    /// The inner `None`: not known.
    ports: Option<Option<Vec<Port>>>,
}

/// The job object, and the fields that were asked for.
#[derive(Serialize)]
struct ListedObject<'a> {
    #[serde(flatten)]
    job: JobObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<&'a Option<Vec<Port>>>,
}

pub(crate) fn run(context: &Context, arguments: &List) -> Result<ExitCode, Failure> {
    context.refuse_unknown_session("list")?;
    if arguments.watch {
        return watch(context, arguments);
    }
    // Never freed: the program ends right after, and the kernel is quicker at it.
    let mut jobs = ManuallyDrop::new(listed(context, arguments)?);
    for listed in jobs.iter() {
        if !listed.state.newer.is_empty() {
            note(&format!("outlive: warning: {} {NEWER}", listed.job.id()));
        }
        let usage = listed.usage.iter();
        for warning in usage.flat_map(|usage| listed.job.warnings(&listed.state, usage)) {
            note(&format!("outlive: warning: {warning}"));
        }
    }
    if context.is_json {
        return print_json(&jobs.iter().map(object).collect::<Vec<_>>());
    }
    let left_out = leave_out(&mut jobs, arguments);
    if arguments.quiet {
        print(&jobs.iter().map(|listed| format!("{}\n", listed.job.id())).collect::<String>());
        return Ok(ExitCode::SUCCESS);
    }
    if jobs.is_empty() && left_out == 0 {
        note(nothing(arguments));
        return Ok(ExitCode::SUCCESS);
    }
    if !jobs.is_empty() {
        print(&text(&jobs, arguments));
    }
    if left_out > 0 {
        note(&more(left_out, &jobs, arguments));
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(context: &Context, arguments: &List) -> Result<Vec<Listed>, Failure> {
    let session = context.session.as_ref();
    let listing = context
        .store
        .list_states(session, |job| arguments.filters.fits(job))
        .map_err(|error| Failure::other("list", &error))?;
    // The session of a damaged job is not known, so a list of one session leaves it out.
    for damaged in listing.damaged.iter().filter(|_| context.session.is_none() && !arguments.watch) {
        let name = one_line(&damaged.name.to_string_lossy());
        note(&if damaged.error.is_newer() {
            format!("outlive: warning: {name} {NEWER}")
        } else if damaged.error.is_certain() {
            format!("outlive: warning: {name} is damaged; outlive doctor --fix moves it out of the way")
        } else {
            format!("outlive: warning: {name} could not be read: {}", chain(&damaged.error))
        });
    }
    let mut states = listing.jobs;
    context.store.ask_engine(&mut states.iter_mut().map(|(job, state)| (&*job, state)).collect::<Vec<_>>());
    let mut listeners = Listeners::new();
    let mut jobs = Vec::with_capacity(states.len());
    for (job, mut state) in states {
        context.store.probe_in_passing(&job, &state);
        context.store.look_at_question(&job, &mut state);
        let is_listed = !state.is_removed()
            && (!arguments.live || state.is_live())
            && arguments.filters.fits_state(&state)
            && arguments.has_text(&job, &state);
        if is_listed {
            jobs.push(look_up(context, arguments, &mut listeners, job, state));
        }
    }
    Ok(jobs)
}

/// Looks only where that was asked for: processes are many, and a list is made often.
fn look_up(context: &Context, arguments: &List, listeners: &mut Listeners, job: Job, state: State) -> Listed {
    let is_wanted = arguments.usage || arguments.ports;
    let tree = if is_wanted { job.tree(&context.store, &state) } else { None };
    let usage = arguments.usage.then(|| job.usage(&state, tree.as_ref()));
    let ports = arguments.ports.then(|| tree.map(|tree| tree.ports(listeners)));
    Listed { job, state, usage, ports }
}

fn object(listed: &Listed) -> ListedObject<'_> {
    let job = JobObject::new(&listed.job, &listed.state);
    ListedObject { job, usage: listed.usage.as_ref(), ports: listed.ports.as_ref() }
}

/// Leaves out all but the last ended jobs; returns how many.
fn leave_out(jobs: &mut Vec<Listed>, arguments: &List) -> usize {
    let end = |listed: &Listed| listed.state.outcome.as_ref().map_or(Timestamp(0), |outcome| outcome.ended);
    // Not by their start: a job that ran for long may be the last that ended.
    let mut ends: Vec<(Timestamp, usize)> = jobs
        .iter()
        .enumerate()
        .filter(|(_, listed)| !listed.state.is_live())
        .map(|(at, listed)| (end(listed), at))
        .collect();
    ends.sort_unstable();
    let last = if arguments.all { ends.len() } else { arguments.last.unwrap_or(LAST) };
    ends.truncate(ends.len().saturating_sub(last));
    let left_out: BTreeSet<usize> = ends.into_iter().map(|(_, at)| at).collect();
    let mut at = 0;
    jobs.retain(|_| {
        at += 1;
        !left_out.contains(&(at - 1))
    });
    left_out.len()
}

fn nothing(arguments: &List) -> &'static str {
    match (arguments.live, arguments.filters.is_empty() && arguments.text.is_none()) {
        (_, false) => "no such jobs",
        (true, true) => "no live jobs",
        (false, true) => "no jobs; start one with: outlive run COMMAND",
    }
}

fn more(left_out: usize, shown: &[Listed], arguments: &List) -> String {
    let count = counted(u64::try_from(left_out).unwrap_or(u64::MAX), "job has", "jobs have");
    let (when, which) =
        (if shown.is_empty() { "" } else { " before these" }, if left_out == 1 { "it" } else { "them" });
    format!("{count} ended{when}; `outlive list --all{}` shows {which}", arguments.conditions())
}

/// Draws the list in place until Ctrl-C: each line over the one that stood there.
fn watch(context: &Context, arguments: &List) -> Result<ExitCode, Failure> {
    let stdout = io::stdout();
    if context.is_json || !stdout.is_terminal() {
        let hint = "in a script: outlive events --follow tells of every change";
        return Err(Failure::usage("list: --watch needs a terminal", hint));
    }
    catch_interrupt();
    let mut drawn = 0;
    while !interrupted() {
        let mut jobs = listed(context, arguments)?;
        let left_out = leave_out(&mut jobs, arguments);
        let mut lines: Vec<String> = match jobs.as_slice() {
            [] => vec![nothing(arguments).to_owned()],
            jobs => text(jobs, arguments).lines().map(str::to_owned).collect(),
        };
        if left_out > 0 {
            lines.push(cut(&more(left_out, &jobs, arguments), width().unwrap_or(WIDE)).into_owned());
        }
        // The newest are at the end; the header stays.
        let rows = terminal::size(&stdout).map_or(24, |(_, rows)| usize::from(rows));
        if lines.len() >= rows {
            lines.drain(1..=(lines.len() + 1 - rows));
        }
        let up = if drawn == 0 { String::new() } else { format!("\x1b[{drawn}A") };
        let frame: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
        print(&format!("\x1b[?2026h\r{up}{frame}\x1b[J\x1b[?2026l"));
        drawn = lines.len();
        if let Some(interrupt) = interrupt_fd() {
            poll::readable(interrupt, Some(WATCH)).map_err(|error| Failure::other("list", &error))?;
        }
    }
    // The terminal has shown `^C` where the shell's prompt comes.
    print("\r\x1b[K");
    Ok(ExitCode::SUCCESS)
}

fn text(jobs: &[Listed], arguments: &List) -> String {
    let terminal = width();
    let width = terminal.filter(|_| !arguments.no_trunc);
    // Of a line on a terminal its width decides.
    let longest = if arguments.no_trunc || terminal.is_some() { usize::MAX } else { LONGEST_COMMAND };
    let has_sessions = jobs.iter().any(|listed| listed.job.session() != jobs[0].job.session());
    let has_directory = width.is_some_and(|width| width >= WIDE);
    let mut rows = vec![header(arguments, has_sessions, has_directory)];
    rows.extend(jobs.iter().map(|listed| row(listed, longest, has_sessions, has_directory)));
    if let Some(width) = width {
        make_room(&mut rows, width);
    }
    let is_coloured = is_coloured();
    let mut text = table(&rows, width, |line, column, cell| match (line, column) {
        (1.., STATUS) => colour(jobs[line - 1].state.status, cell, is_coloured),
        _ => cell.into(),
    });
    if has_sessions && arguments.usage {
        text.push('\n');
        text.push_str(&table(&sums(jobs), width, |_, _, cell| cell.into()));
    }
    text
}

/// Makes room for the command in a terminal: it cuts the reasons of statuses, then takes columns away, the least important first, and
/// at last cuts the statuses themselves.
fn make_room(rows: &mut [Vec<String>], width: usize) {
    let bare = |row: &Vec<String>| columns(row[STATUS].split(": ").next().unwrap_or_default());
    let bare = rows.iter().map(bare).max().unwrap_or(0);
    // Two more for the colon and the mark of the cut.
    cut_status(rows, width, bare + 2);
    for name in ["DIRECTORY", "STARTED", "PROCS", "TIME", "SESSION"] {
        if missing(rows, width) == 0 {
            return;
        }
        if let Some(column) = rows[0].iter().position(|header| header == name) {
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
    cut_status(rows, width, LEAST_STATUS);
}

/// Cuts the statuses as far as the command lacks room, but not below `least`.
fn cut_status(rows: &mut [Vec<String>], width: usize, least: usize) {
    let room = longest(rows, STATUS).saturating_sub(missing(rows, width)).max(least);
    rows.iter_mut().for_each(|row| row[STATUS] = cut(&row[STATUS], room).into_owned());
}

/// Returns how much room the command lacks.
fn missing(rows: &[Vec<String>], width: usize) -> usize {
    let used: usize = (0..rows[0].len() - 1).map(|column| longest(rows, column) + 2).sum();
    (used + LEAST_COMMAND).saturating_sub(width)
}

fn longest(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().map(|row| columns(&row[column])).max().unwrap_or(0)
}

fn header(arguments: &List, has_sessions: bool, has_directory: bool) -> Vec<String> {
    let mut header = vec!["JOB", "STATUS", "STARTED", "TIME"];
    if has_sessions {
        header.push("SESSION");
    }
    if arguments.usage {
        header.extend(["CPU", "MEMORY", "PROCS"]);
    }
    if arguments.ports {
        header.push("PORTS");
    }
    if has_directory {
        header.push("DIRECTORY");
    }
    header.push("COMMAND");
    header.into_iter().map(str::to_owned).collect()
}

fn row(listed: &Listed, longest: usize, has_sessions: bool, has_directory: bool) -> Vec<String> {
    let Listed { job, state, usage, ports } = listed;
    let unknown = || "-".to_owned();
    let spec = job.spec();
    let started = state.meta.as_ref().and_then(|meta| meta.started);
    let is_ready =
        (spec.can_be_ready() && state.status == Status::Running).then(|| job.ready_now(state).is_some());
    let ready = is_ready.map_or("", |is_ready| if is_ready { ", ready" } else { ", not ready" });
    let status = cut(&(state.summary() + ready), LONGEST_STATUS).into_owned();
    let time = state.runtime_ms().map_or_else(unknown, format_duration);
    let host = served::host_name().map(|host| format!("{host}/")).unwrap_or_default();
    let mut row = vec![format!("{host}{}", spec.job), status, started.map_or_else(unknown, ago), time];
    if has_sessions {
        row.push(job.session().to_string());
    }
    row.extend(usage.iter().flat_map(usage_cells));
    row.extend(ports.iter().map(|ports| port_list(ports.as_deref().unwrap_or_default())));
    if has_directory {
        row.push(directory(&spec.cwd.to_lossy()));
    }
    let mut command = one_line(&spec.command_line());
    if let Some(name) = job.name() {
        command = format!("{}: {command}", one_line(name));
    }
    row.push(cut(&command, longest).into_owned());
    row
}

/// Writes how long ago a time was, in one unit.
fn ago(time: Timestamp) -> String {
    let seconds = clock::wall_us().saturating_sub(time.0) / 1_000_000;
    let (count, unit) = match seconds {
        0..60 => (seconds, 's'),
        60..3600 => (seconds / 60, 'm'),
        3600..86_400 => (seconds / 3600, 'h'),
        _ => (seconds / 86_400, 'd'),
    };
    format!("{count}{unit} ago")
}

/// Writes a directory with the home as `~`; of a long one the end.
fn directory(path: &str) -> String {
    let path = one_line(path);
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1);
    let short = home.and_then(|home| path.strip_prefix(&home).map(|rest| format!("~{rest}"))).unwrap_or(path);
    let longer = short.chars().count().saturating_sub(LONGEST_DIRECTORY);
    if longer == 0 { short } else { format!("…{}", short.chars().skip(longer + 1).collect::<String>()) }
}

/// Sums up what the listed jobs of each session use.
fn sums(jobs: &[Listed]) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<&str, Usage> = BTreeMap::new();
    for listed in jobs {
        *sums.entry(listed.job.session().as_str()).or_default() += listed.usage.unwrap_or_default();
    }
    let header = ["SESSION", "CPU", "MEMORY", "PROCS"].map(str::to_owned).to_vec();
    let rows = sums.iter().map(|(session, usage)| {
        let mut row = vec![(*session).to_owned()];
        row.extend(usage_cells(usage));
        row
    });
    std::iter::once(header).chain(rows).collect()
}
