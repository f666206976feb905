//! `outlive run`: start a job, and wait for it where that was asked.

mod following;
mod placement;
mod word;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::process::ExitCode;
use std::time::Duration;

use outlive::{
    After, Code, Ensured, FindError, Job, JobChoices, JobObject, Milestone, Output, Request, Sizing, Status,
    Stdin, StdinFrom, Store, Stream, TerminalSize,
};
use outlive_sys::terminal;

pub(crate) use self::following::own_code;
use self::following::{Patience, ended, follow, yield_when};
use crate::args::{Run, Timeout};
use crate::commands::Context;
use crate::commands::attach::{self, Left, Manner, Prefix};
use crate::failure::{Failure, TIMED_OUT};
use crate::render::{note, print, print_json};
use crate::served;

/// How much of our own input is passed on at a time.
const INPUT_PIECE: usize = 64 << 10;

/// Options of `run` that a user may well write behind the command, and few programs have.
const LATE_OPTIONS: [&str; 9] = [
    "--name",
    "--group",
    "--wait",
    "--on-exit",
    "--ready-port",
    "--ready-on",
    "--restart-on-change",
    "--queue",
    "--after",
];

/// Others that many programs have: only a person is told of them.
const USUAL_OPTIONS: [&str; 6] = ["--cwd", "--env", "--ensure", "--timeout", "--session", "--notify"];

/// A command may leave its input unread for as long as it lives; no clock overflows by so much.
const INPUT_LIMIT: Duration = Duration::from_secs(10 * 365 * 86_400);

pub(crate) fn run(context: &Context, mut arguments: Run) -> Result<ExitCode, Failure> {
    let (wait, yield_limit) = (arguments.wait, arguments.yield_after);
    let (is_auto, is_ensured, kills) =
        (arguments.auto_background, arguments.ensure, arguments.kill_on_interrupt);
    let choices = &mut arguments.options.0;
    // A person who waits for a job in a terminal is in it.
    let is_interactive = wait.is_some_and(|limit| limit.0.is_none())
        && choices.pty == Some(true)
        && !context.is_json
        && attach::is_possible();
    if is_interactive && choices.size.is_none() {
        choices.size =
            terminal::size(io::stdout()).map(|(columns, rows)| Some(TerminalSize::new(columns, rows)));
    }
    let has_open_input = choices.stdin == Some(Stdin::Open);
    // What is typed or piped belongs to the job that it was given to, and not to one that runs already.
    let is_fed = arguments.stdin_from.is_some();
    let passes_input =
        wait.is_some() && !is_interactive && !is_ensured && !is_fed && passes_input(&arguments.options.0);
    let choices = &mut arguments.options.0;
    if passes_input {
        choices.stdin = Some(Stdin::Open);
    }
    if let Some((id, _)) = served::places(Stream::Stdout).first().filter(|_| wait.is_some()) {
        // A caller elsewhere lost its connection after the start.
        outlive_sys::signal::catch_interrupt();
        let job = context.store.find(id, None)?;
        let limit = wait.and_then(|limit| limit.0);
        let limit = Timeout(limit.map(|limit| limit.saturating_sub(served::elapsed())));
        return if is_interactive { interact(context, &job) } else { follow(context, &job, limit, kills) };
    }
    if arguments.sync.is_some() {
        let hint = "say which: --on HOST, a name from [hosts] of config.toml";
        return Err(Failure::usage("run: --sync copies to another machine", hint));
    }
    let placement = placement::take(&mut arguments)?;
    let mut request = request(context, arguments)?;
    if let Some(placement) = placement {
        request = request.placed_by(placement);
    }
    if wait.is_some() || yield_limit.is_some() || is_auto {
        outlive_sys::signal::catch_interrupt();
    }
    let ensured = match is_ensured {
        true => context.store.ensure(&request)?,
        false => Ensured::Started(context.store.start(&request)?),
    };
    let (job, pid) = match ensured {
        Ensured::Started(started) => {
            started.warning.iter().for_each(|warning| note(&format!("outlive: warning: {warning}")));
            warn_of_namesake(context, &started.job);
            (started.job, started.pid)
        }
        Ensured::Running(job) => (job, None),
        Ensured::Changed(job, changed) => return Err(other(&job, &changed)),
    };
    if wait.is_some() {
        served::mark(Stream::Stdout, [(job.id().as_str(), 0)]);
    }
    if passes_input {
        pass_on_input(&job)?;
    } else if wait.is_some() && has_open_input {
        note(&format!("outlive: its input is open: outlive send {0} TEXT, outlive send {0} --eof", job.id()));
    }
    match (wait, yield_limit) {
        (Some(_), _) if is_interactive => interact(context, &job),
        (Some(limit), _) => follow(context, &job, limit, kills),
        (None, Some(limit)) => yield_when(context, &job, &Patience::within(Some(limit))),
        (None, None) if is_auto => yield_when(context, &job, &Patience::by_rule(&job)),
        (None, None) => announce(context, &job, pid),
    }
}

/// Warns where another live job of the session has the name that was given: most likely one was wanted, and not two.
fn warn_of_namesake(context: &Context, job: &Job) {
    if let Some(other) = context.store.live_namesake(job) {
        note(&format!(
            "outlive: warning: {} has this name and runs, too; with --ensure a job is started once",
            other.id()
        ));
    }
}

/// The job of that name is another one.
fn other(job: &Job, changed: &[&str]) -> Failure {
    let id = job.id();
    let message = format!("run: {id} has that name and runs, with another {}", changed.join(", "));
    Failure::new(Code::Changed, message)
        .about(id)
        .hint(format!("leave it as it is, or replace it: outlive kill {id}, then run this again"))
}

/// Tells whether our own standard input goes to the job that is waited for: a pipe or a file, and where its input was asked to be
/// open also what is typed.
fn passes_input(choices: &JobChoices) -> bool {
    let is_piped = || {
        let kind = File::from(io::stdin().as_fd().try_clone_to_owned()?).metadata()?.file_type();
        io::Result::Ok(kind.is_fifo() || kind.is_file())
    };
    match choices.stdin {
        Some(Stdin::Null) => false,
        Some(Stdin::Open) if io::stdin().is_terminal() => true,
        Some(Stdin::Open) | None => is_piped().unwrap_or(false),
    }
}

/// Writes our standard input to the job as it comes, and its end, until the job has ended. This program does not wait for that.
fn pass_on_input(job: &Job) -> Result<(), Failure> {
    let store = Store::open()?;
    let job = store.find(job.id().as_str(), None)?;
    std::thread::spawn(move || {
        let mut buffer = vec![0; INPUT_PIECE];
        loop {
            match io::stdin().read(&mut buffer) {
                Ok(0) => break,
                // A job that has ended or closed its input reads no more.
                Ok(count) if store.write_stdin(&job, &buffer[..count], INPUT_LIMIT).is_err() => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        store.close_stdin(&job).ok();
    });
    Ok(())
}

/// Shows the job in this terminal, and takes its exit status.
fn interact(context: &Context, job: &Job) -> Result<ExitCode, Failure> {
    let prefix = Prefix::parse(attach::PREFIX).unwrap_or_default();
    let manner = Manner { sizing: Sizing::Latest, is_view_only: false, prefix };
    match attach::show(&context.store, job, manner)? {
        Left::Ended => {
            attach::print_last(job)?;
            ended(context, job, true)
        }
        Left::Detached | Left::Told => {
            note(&format!("detached; {0} goes on: outlive attach {0}", job.id()));
            // It was waited for, and has not ended: what stands after `&&` is not for now.
            Ok(ExitCode::from(TIMED_OUT))
        }
        Left::Cut(error) => Err(Failure::from(error).during("run")),
    }
}

fn request(context: &Context, arguments: Run) -> Result<Request, Failure> {
    let hint = "a line for the shell is one argument, in quotes; a program comes with its arguments: outlive run sleep 300";
    if arguments.options.0.timeout == Some(Some(0)) {
        let hint = "without --timeout, and with --timeout none, it runs as long as it takes";
        return Err(Failure::usage("run: --timeout 0 would end it at once", hint));
    }
    if let Some(Some(line)) = &arguments.options.0.on_exit
        && line.0.trim_ascii().is_empty()
    {
        return Err(Failure::usage("run: --on-exit has no line to run", "leave it out, or write a line"));
    }
    let is_line = arguments.begins_with_line();
    if !arguments.is_program && !is_line {
        warn_of_late_option(context, &arguments.command);
    }
    if let Some(Some(pattern)) = &arguments.options.0.watch {
        check_watch(context, pattern)?;
    }
    let mut request = match arguments.command.as_slice() {
        [] => return Err(Failure::usage("run: there is no command to run", hint)),
        // Executed as a program, it fails at once, with the reason.
        [word] if !arguments.is_program && is_unknown_here(context, &arguments, word) => {
            Request::argv([word])
        }
        [line] if !arguments.is_program => Request::shell(line),
        [line, word, ..] if is_line => {
            let (line, word) = (line.to_string_lossy(), word.to_string_lossy());
            let message = format!("run: more words follow the line {line:?}: {word:?}");
            let hint = "put all of it into the quotes; if it is a program with a space in its name, write -- before it";
            return Err(Failure::usage(message, hint));
        }
        [variable, ..] if !arguments.is_program && is_assignment(variable) => {
            let variable = variable.to_string_lossy();
            let message = format!("run: {variable} is a variable, and no program");
            let hint = format!("outlive run --env {variable} …, or put the whole line into quotes");
            return Err(Failure::usage(message, hint));
        }
        _ => Request::argv(arguments.command),
    };
    request =
        request.session(context.own_session()?).reader(context.reader.clone()).options(arguments.options.0);
    if let Some(cwd) = arguments.cwd {
        request = request.cwd(cwd);
    }
    for (name, value) in arguments.env {
        request = request.env(name, value);
    }
    for name in arguments.unset {
        request = request.unset(name);
    }
    if let Some(shell) = arguments.shell {
        request = request.with_shell(shell);
    }
    for (name, value) in arguments.label {
        request = request.label(name, value);
    }
    for text in &arguments.after {
        request = request.after(after(context, text)?);
    }
    if let Some(text) = &arguments.stdin_from {
        request = request.stdin_from(stdin_from(context, text, arguments.stdin_new)?);
    }
    if !arguments.restart_on_change.is_empty() {
        request = request.restart_on_change(arguments.restart_on_change);
    }
    Ok(request)
}

/// Tells whether a command of one word can only fail, by what is known of where and when it is started.
fn is_unknown_here(context: &Context, arguments: &Run, word: &OsStr) -> bool {
    let choices = &arguments.options.0;
    let is_later = !arguments.after.is_empty() || choices.queue.is_some() || choices.schedule.is_some();
    let has_shell = arguments.shell.is_some() || context.store.config().job.shell.is_some();
    // The session or the engine may have a directory and variables of its own.
    let is_plain = arguments.engine.is_none()
        && arguments.env.iter().all(|(name, _)| name != "PATH" && name != "BASH_ENV")
        && context.own_session().is_ok_and(|session| session == outlive::SessionName::default());
    is_plain && !is_later && !has_shell && word::is_unknown(word, arguments.cwd.as_deref())
}

/// Says of an option that ends the command, and that `run` has as well, whose it is: most likely it was meant for outlive.
/// Programs that start others have such options themselves, in front of those: only what stands at the end is looked at.
fn warn_of_late_option(context: &Context, command: &[OsString]) {
    let is_told = io::stderr().is_terminal();
    let is_ours = |word: &&str| LATE_OPTIONS.contains(word) || (is_told && USUAL_OPTIONS.contains(word));
    let words = command.iter().skip(1).rev().take(2).filter_map(|word| word.to_str());
    let late = words.map(|word| word.split_once('=').map_or(word, |(option, _)| option)).find(is_ours);
    if let (Some(late), [program, ..], false) = (late, command, context.is_json) {
        let program = program.to_string_lossy();
        note(&format!(
            "outlive: note: {late} goes to {program}; options of outlive stand before the command"
        ));
    }
}

/// Says of a pattern of files that was given to `--watch` that this looks at lines of the output.
fn check_watch(context: &Context, pattern: &str) -> Result<(), Failure> {
    if !looks_like_files(pattern) {
        return Ok(());
    }
    let files = format!("--restart-on-change {}", outlive::quote(pattern));
    if let Err(error) = outlive::pattern(pattern, false) {
        let hint = format!(
            "it is compared with lines of the output; to restart the job when such files change: {files}"
        );
        return Err(Failure::from(error).during("run: --watch").hint(hint));
    }
    if !context.is_json {
        note(&format!(
            "outlive: note: --watch {pattern} looks for it in lines of the output; for files there is {files}"
        ));
    }
    Ok(())
}

/// Tells whether a pattern was most likely meant for names of files: `*.py`, `src/**`. A regular expression has `.*` in place of `*`.
fn looks_like_files(pattern: &str) -> bool {
    let is_expression =
        pattern.contains(".*") || pattern.contains(|c: char| c.is_whitespace() || r"\^$()|+".contains(c));
    pattern.starts_with("*.") || (pattern.contains('/') && pattern.contains('*') && !is_expression)
}

/// Finds the job that another is to be started after, and what must hold of it.
fn after(context: &Context, text: &str) -> Result<After, Failure> {
    let (reference, milestone) = match text.rsplit_once('@') {
        None => (text, Milestone::Completed),
        Some((reference, word)) => (
            reference,
            Milestone::parse(word).ok_or_else(|| {
                let message = format!("run: --after {text}: a job comes to no {word:?}");
                let words: Vec<String> = Milestone::WORDS.iter().map(|word| format!("@{word}")).collect();
                Failure::usage(
                    message,
                    format!("write {}, or the job alone: after its end", words.join(", ")),
                )
            })?,
        ),
    };
    let job = context.find(reference)?;
    Ok(After { job: job.id().clone(), milestone })
}

/// Finds the job whose output another is to read, and from where on.
fn stdin_from(context: &Context, text: &str, is_new: bool) -> Result<StdinFrom, Failure> {
    let named = text.rsplit_once(':').and_then(|(job, stream)| Some((job, Stream::parse(stream)?)));
    let (reference, stream) = named.unwrap_or((text, Stream::Stdout));
    let find = |reference: &str| context.find(reference);
    let job = find(reference).map_err(|error| match text.rsplit_once(':') {
        Some((job, stream)) if named.is_none() && !matches!(find(job), Err(FindError::Unknown(..))) => {
            let message = format!("run: --stdin-from {text}: a job has no stream {stream:?}");
            Failure::usage(message, format!("write {job}:stdout or {job}:stderr"))
        }
        _ => error.into(),
    })?;
    let end = || Output::open(&job).map(|output| output.end());
    let from = if is_new { end().map_err(|error| Failure::other("run", &error))? } else { 0 };
    Ok(StdinFrom { job: job.id().clone(), stream, from })
}

/// Tells whether a shell would take the word for a variable: `NODE_ENV=test`.
fn is_assignment(word: &OsStr) -> bool {
    let name = word.as_encoded_bytes().split(|&byte| byte == b'=').next().unwrap_or_default();
    let is_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    name.len() < word.len() && is_name && name.first().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Prints the id; `pid` is that of a job that was started just now.
pub(crate) fn announce(context: &Context, job: &Job, pid: Option<i32>) -> Result<ExitCode, Failure> {
    if context.is_json {
        let mut object = JobObject::new(job, &job.state(&context.store));
        // What was true when it was started, even if it has ended since.
        object.pid = pid.or(object.pid);
        return print_json(&object);
    }
    // The id alone, so that `job=$(outlive run …)` is all a script needs.
    let host = served::host_name().map(|host| format!("{host}/")).unwrap_or_default();
    print(&format!("{host}{}\n", job.id()));
    if io::stdout().is_terminal() {
        // What comes next: to look at a terminal is to be in it.
        let is_terminal = job.spec().options.pty;
        let look = if is_terminal { "attach" } else { "logs -f" };
        let leave = if is_terminal { format!(" ({} d leaves it)", attach::PREFIX) } else { String::new() };
        let state = job.state(&context.store);
        note(&match pid {
            Some(pid) => format!("running as pid {pid}; outlive {look} {}{leave}", job.id()),
            None if state.status == Status::Queued => {
                format!("{}; outlive show {}", state.summary(), job.id())
            }
            None => format!("runs already; outlive {look} {}{leave}", job.id()),
        });
    }
    Ok(ExitCode::SUCCESS)
}
