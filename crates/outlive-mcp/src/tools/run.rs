//! `run`: start a command, and wait a while for its end.

use std::time::Duration;

use outlive::{
    Ensured, Job, JobChoices, Kill, OPTIONS, OptionForm, Request, StartError, Started, Status, Timestamp,
};
use serde_json::Value;

use super::read_output::answer;
use super::{Call, Hints, Kind, Parameter, Tool, servers};
use crate::arguments::{Arguments, shown};
use crate::jobs::{self, BY, summary};
use crate::reading::{Selection, show};
use crate::reply::{Failure, Reply};
use crate::starting;

pub(crate) static TOOL: Tool = Tool {
    name: "run",
    title: "Run a command",
    description: "Start a shell command (dev server, build, tests, watcher) as a background job, and wait up to wait_ms for its end. Ended: exit code and output. Else: a job id; it goes on: use wait or read_output. Do not add &, nohup, sleep or | tail.",
    parameters: &PARAMETERS,
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call,
};

const OWN: [Parameter; 7] = [
    Parameter::required("command", Kind::Text, "Shell command line"),
    Parameter::new("cwd", Kind::Text, "Default: the project's"),
    Parameter::new("env", Kind::Variables, "Variables to add"),
    Parameter::new("wait_ms", Kind::Number, "Default 10000"),
    Parameter::new("background", Kind::Flag, "Do not wait"),
    Parameter::new("max_bytes", Kind::Number, "Size of the answer"),
    Parameter::new(
        "if_running",
        Kind::Word(&IF_RUNNING),
        "If it runs; default new, with the same name reuse",
    ),
];

const IF_RUNNING: [&str; 3] = ["new", "reuse", "restart"];

/// The parameters of `run` alone, then the job options that are declared for MCP.
static PARAMETERS: [Parameter; OWN.len() + option_count()] = {
    let mut all = [OWN[0]; OWN.len() + option_count()];
    let (mut next, mut own, mut option) = (0, 0, 0);
    while own < OWN.len() {
        all[next] = OWN[own];
        (next, own) = (next + 1, own + 1);
    }
    while option < OPTIONS.len() {
        if let Some((name, about)) = OPTIONS[option].surfaces.mcp {
            all[next] = Parameter::new(name, kind(OPTIONS[option].form), about);
            next += 1;
        }
        option += 1;
    }
    all
};

const fn option_count() -> usize {
    let (mut count, mut option) = (0, 0);
    while option < OPTIONS.len() {
        count += OPTIONS[option].surfaces.mcp.is_some() as usize;
        option += 1;
    }
    count
}

const fn kind(form: OptionForm) -> Kind {
    match form {
        OptionForm::Flag => Kind::Flag,
        OptionForm::Text => Kind::Text,
        OptionForm::Number { .. } => Kind::Number,
        OptionForm::Words(words) => Kind::Word(words),
    }
}

/// Variables that keep programs from waiting for input and from printing colours.
const FOR_AGENTS: [(&str, &str); 5] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NO_COLOR", "1"),
];

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let longest_ms = call.longest_ms;
    let wait = call.arguments.number("wait_ms", 0..=longest_ms)?.unwrap_or(10_000);
    let wait = if call.arguments.flag("background")? { 0 } else { wait };
    let request = request(call)?;
    let line = command(call.arguments.value("command"))?;
    let cwd = call.arguments.text("cwd")?.map(|cwd| starting::directory(call, &cwd));
    let running = servers::running_already(call, &line, cwd.as_deref());
    let name = call.arguments.text("name")?;
    let is_named = |job: &Job| name.is_some() && job.name() == name.as_deref();
    let by_default = match &running {
        Some(job) if !is_named(job) => "new",
        _ if name.is_some() => "reuse",
        _ => "new",
    };
    let choice = call.arguments.word("if_running", &IF_RUNNING)?.unwrap_or(by_default);
    let beside = match (running, choice) {
        (Some(job), "reuse") => return reuse(call, job, Duration::from_millis(wait)),
        (Some(job), "restart") => {
            let kill = Kill { signal: None, grace: None, force: false, by: BY.to_owned() };
            call.store.kill(&job, &kill).map_err(|error| jobs::failed(call, "not restarted", error))?;
            let words = format!("; {} was ended for it", job.id());
            jobs::note_delivered(&job, &call.scope.reader);
            Some(words)
        }
        (Some(job), _) => Some(format!("; {} runs the same already", job.id())),
        (None, _) => None,
    };
    let is_once = name.is_some() && choice == "reuse";
    // This answer reports the end, not a concurrent one.
    let (started, claim) = match call.claims.claim_started(|| start(call, &request, is_once)) {
        Ok(started) => started,
        Err(NotStarted::Running(job)) => return reuse(call, job, Duration::from_millis(wait)),
        Err(NotStarted::Failed(error)) => return Err(jobs::failed(call, "not started", error)),
    };
    let job = started.job;
    // If the wait fails, the state is reported all the same.
    jobs::wait_for_start(call, &job, Duration::from_millis(wait)).ok();
    let mut reply = report(call, job, 0)?.after(move || drop(claim));
    reply.header += &beside.unwrap_or_default();
    reply.footers.extend(started.warning.map(|warning| format!("warning: {warning}")));
    Ok(reply)
}

/// Why no job was started.
enum NotStarted {
    Failed(StartError),
    /// Another client has started it at the same time.
    Running(Job),
}

/// Starts a job; with `is_once` unless one of its name runs that was started in the same way.
fn start(call: &Call<'_>, request: &Request, is_once: bool) -> Result<Started, NotStarted> {
    if is_once {
        match call.store.ensure(request).map_err(NotStarted::Failed)? {
            Ensured::Started(started) => return Ok(started),
            Ensured::Running(job) => return Err(NotStarted::Running(job)),
            // The name means another command, too.
            Ensured::Changed(..) => {}
        }
    }
    call.store.start(request).map_err(NotStarted::Failed)
}

/// Answers with a job that runs already, in place of another; one that is not ready yet is waited for.
fn reuse(call: &mut Call<'_>, job: Job, wait: Duration) -> Result<Reply, Failure> {
    if job.spec().can_be_ready() && job.ready_now(&job.state(call.store)).is_none() {
        jobs::wait_for_start(call, &job, wait).ok();
    }
    let cursor = job.cursor(&call.scope.reader, None).unwrap_or(0);
    let mut reply = report(call, job, cursor)?;
    reply.header += "; it ran already and was not started again";
    Ok(reply)
}

/// Reports the state of a job, with its output from this offset on.
fn report(call: &mut Call<'_>, job: Job, from: u64) -> Result<Reply, Failure> {
    let mut state = job.state(call.store);
    let question = jobs::question(call, &job, &mut state);
    let selection = Selection::after(from, call.room_for(&state)?, state.is_live());
    let shown = show(&job, &selection).map_err(|error| Failure::of("cannot read its output", &error))?;
    let has_ended = state.status.has_ended();
    let header = match (has_ended, shown.range.is_some()) {
        (_, true) => format!("{}; {}", summary(&job, &state), shown.lines()),
        (true, false) => format!("{}; no output", summary(&job, &state)),
        (false, false) => format!("{}; no output yet", summary(&job, &state)),
    };
    let (id, end) = (job.id().to_string(), shown.end);
    let has_terminal = job.spec().options.pty;
    let mut reply = answer(&job, header, shown, "");
    if let Some(ports) = servers::ports(call, &job, &state, &reply.header) {
        reply.header += &format!("; {ports}");
    }
    reply.footers.extend(servers::port_conflict(call, &job, &reply.body));
    if state.status == Status::Completed {
        reply.footers.extend(servers::pipeline(&job));
    }
    if let Some(question) = question {
        reply = reply.footer(question);
    } else if !has_ended && has_terminal {
        reply = reply.footer(format!(
            "it goes on: send_input job={id} types, read_screen job={id} shows it; for its end: wait jobs=[\"{id}\"]"
        ));
    } else if !has_ended {
        reply = reply.footer(format!("it goes on; for its end: wait jobs=[\"{id}\"]"));
    } else if state.is_lingering() {
        reply = reply.footer(format!("processes that it started go on: kill job={id} ends them"));
    }
    Ok(jobs::delivers_output(call, reply, job, &state, Some((None, end))))
}

fn request(call: &mut Call<'_>) -> Result<Request, Failure> {
    let line = command(call.arguments.value("command"))?;
    let mut request = starting::fill(call, Request::shell(line)).note_pipe_codes();
    if let Some(cwd) = call.arguments.text("cwd")? {
        request = request.cwd(starting::directory(call, &cwd));
    }
    if let Some(placement) = call.placement.take() {
        request = request.placed_by(placement);
    }
    let arguments = &mut call.arguments;
    for (name, value) in FOR_AGENTS {
        request = request.env(name, value);
    }
    for (name, value) in arguments.variables("env")? {
        request = request.env(name, value);
    }
    Ok(request.options(choices(arguments)?))
}

/// Reads the options of the job.
fn choices(arguments: &mut Arguments) -> Result<JobChoices, Failure> {
    let mut choices = JobChoices::default();
    for option in OPTIONS {
        let Some((name, _)) = option.surfaces.mcp else { continue };
        if let Some(text) = text(arguments, name, option.form)? {
            option.set(&mut choices, text.as_bytes(), Timestamp(outlive_sys::clock::wall_us())).map_err(
                |error| {
                    Failure::new(format!("{name}: {error}"))
                        .next(format!("call run again with another {name}"))
                },
            )?;
        }
    }
    Ok(choices)
}

/// Returns a parameter as the text that the option parses.
fn text(arguments: &mut Arguments, name: &str, form: OptionForm) -> Result<Option<String>, Failure> {
    match form {
        OptionForm::Text => arguments.text(name),
        OptionForm::Flag => Ok(arguments.choice_of_two(name)?.map(|is_true| is_true.to_string())),
        OptionForm::Number { least, most, unit } => {
            let bound = |bound: i64| u64::try_from(bound).unwrap_or(0);
            let number = arguments.number(name, bound(least)..=bound(most))?;
            Ok(number.map(|number| format!("{number}{unit}")))
        }
        // Models often give a boolean where there are two words.
        OptionForm::Words(&[no, yes]) if arguments.choice_of_two(name).is_ok() => {
            Ok(arguments.choice_of_two(name)?.map(|is_true| if is_true { yes } else { no }.to_owned()))
        }
        OptionForm::Words(words) => Ok(arguments.word(name, words)?.map(str::to_owned)),
    }
}

/// Returns the command; the error for anything but a string shows the right call.
fn command(value: Option<&Value>) -> Result<String, Failure> {
    let wrong = match value {
        None => "run needs command".to_owned(),
        Some(Value::String(line)) if line.trim().is_empty() => "command is empty".to_owned(),
        Some(Value::String(line)) => return Ok(line.clone()),
        Some(other) => {
            format!("command must be one line for the shell, and is {}", shown(&other.to_string()))
        }
    };
    Err(Failure::new(wrong).next("for example run command=\"npm run dev\" name=\"web\""))
}
