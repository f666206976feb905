//! `outlive run`: start a job, and wait for it where that was asked.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use outlive::{
    After, AutoBackground, Code, Ensured, Followed, Follower, Job, JobChoices, JobObject, Kill, Milestone,
    Output, Piece, Request, Sizing, State, Status, Stdin, Store, Stream, TerminalSize, WaitStatus,
};
use outlive_sys::poll::{self, PollFd, PollFlags};
use outlive_sys::signal::{interrupt_fd, interrupted};
use outlive_sys::terminal;
use serde::Serialize;

use crate::args::{Run, Timeout};
use crate::commands::Context;
use crate::commands::attach::{self, Left, Manner, Prefix};
use crate::failure::{FAILED, Failure, INTERRUPTED};
use crate::render::{ending, note, print, print_json};
use crate::served;

/// A pipe that can be written to takes so many bytes at once (POSIX: `PIPE_BUF`; macOS has 512, Linux 4096).
const PIPE_ROOM: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// How much of our own input is passed on at a time.
const INPUT_PIECE: usize = 64 << 10;

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
    let passes_input = wait.is_some() && !is_interactive && !is_ensured && passes_input(choices);
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
    let request = request(context, arguments)?;
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
            Ok(ExitCode::SUCCESS)
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
    let is_line = arguments.begins_with_line();
    let mut request = match arguments.command.as_slice() {
        [] => return Err(Failure::usage("run: there is no command to run", hint)),
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
    Ok(request)
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
    let job = context.store.find(reference, context.session.as_ref())?;
    Ok(After { job: job.id().clone(), milestone })
}

/// Tells whether a shell would take the word for a variable: `NODE_ENV=test`.
fn is_assignment(word: &OsStr) -> bool {
    let name = word.as_encoded_bytes().split(|&byte| byte == b'=').next().unwrap_or_default();
    let is_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    name.len() < word.len() && is_name && name.first().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Prints the id; `pid` is that of a job that was started just now.
fn announce(context: &Context, job: &Job, pid: Option<i32>) -> Result<ExitCode, Failure> {
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
        let look = if job.spec().options.pty { "attach" } else { "logs -f" };
        let state = job.state(&context.store);
        note(&match pid {
            Some(pid) => format!("running as pid {pid}; outlive {look} {}", job.id()),
            None if state.status == Status::Queued => {
                format!("{}; outlive show {}", state.summary(), job.id())
            }
            None => format!("runs already; outlive {look} {}", job.id()),
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// How streaming ended.
enum Streamed {
    /// The main process has ended, and all that it printed was passed on.
    Ended,
    /// The time was over; the rest of the output begins here.
    TimeOver(u64),
    /// Ctrl-C ended the waiting.
    LetGo,
}

/// How long a job is waited for.
struct Patience {
    began: Instant,
    /// At most so long.
    limit: Option<Duration>,
    /// Until this says that it is better left to itself.
    rule: Option<AutoBackground>,
}

impl Patience {
    fn within(limit: Option<Duration>) -> Self {
        Self { began: Instant::now(), limit, rule: None }
    }

    fn by_rule(job: &Job) -> Self {
        Self { rule: Some(AutoBackground::of(job)), ..Self::within(None) }
    }

    /// Returns how much is left; none: until something comes.
    fn left(&self, first_output: Option<Duration>) -> Option<Duration> {
        let limit =
            [self.limit, self.rule.and_then(|rule| rule.due(first_output))].into_iter().flatten().min();
        limit.map(|limit| limit.saturating_sub(self.began.elapsed()))
    }
}

/// Passes both streams on, to our own or to `keep`, until the main process has ended or the time is over.
fn stream(
    context: &Context,
    job: &Job,
    patience: &Patience,
    mut keep: impl FnMut(&Piece),
) -> Result<Streamed, Failure> {
    let failed = |error: io::Error| Failure::other("run", &error);
    let id = job.id().as_str();
    // Where a caller elsewhere goes on: what it has of one stream may end before what it has of the other.
    let shown = [Stream::Stdout, Stream::Stderr].map(|stream| served::place(stream, id).unwrap_or(0));
    let follower = Follower::new(&context.store, job, shown[0].min(shown[1])).map_err(failed)?;
    let mut follower = follower.until_exit().stopped_by(interrupt_fd());
    // Where the output ended when the time was over: a command that prints faster than it is passed on has no other end.
    let mut goal = None;
    let mut first_output = None;
    loop {
        if first_output.is_none() && follower.position() > 0 {
            first_output = Some(patience.began.elapsed());
        }
        let left = patience.left(first_output);
        if left.is_some_and(|left| left.is_zero()) {
            let has_ended = || job.state(&context.store).status.has_ended();
            match goal {
                None => goal = Some(Output::open(job).map_err(failed)?.end()),
                Some(goal) if follower.position() >= goal && !has_ended() => {
                    return Ok(Streamed::TimeOver(follower.position()));
                }
                Some(_) => {}
            }
        }
        match follower.next(left).map_err(failed)? {
            Followed::Piece(piece) if context.is_json => keep(&piece),
            Followed::Piece(piece) if write(job, &unshown(piece.clone(), shown)) => {
                if served::is_marked() {
                    served::mark(Stream::Stdout, [(id, follower.position())]);
                    served::mark(Stream::Stderr, [(id, follower.position())]);
                }
            }
            Followed::Piece(_) => return Ok(Streamed::LetGo),
            Followed::End => return Ok(Streamed::Ended),
            Followed::Nothing if interrupted() => return Ok(Streamed::LetGo),
            Followed::Nothing if left.is_some_and(|left| left.is_zero()) => {
                return Ok(Streamed::TimeOver(follower.position()));
            }
            Followed::Nothing => {}
        }
    }
}

/// Leaves out of a piece what a caller elsewhere has already.
fn unshown(piece: Piece, shown: [u64; 2]) -> Piece {
    let Piece::Output { stream, time, offset, lost_before, mut bytes } = piece else { return piece };
    let place = shown[stream.map_or(0, Stream::index)];
    let known = usize::try_from(place.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
    let lost_before = lost_before.filter(|_| known == 0);
    Piece::Output { stream, time, offset: offset + known as u64, lost_before, bytes: bytes.split_off(known) }
}

/// Streams the output and takes the command's exit status.
fn follow(context: &Context, job: &Job, limit: Timeout, kills: bool) -> Result<ExitCode, Failure> {
    // A script that wants the object reads the output with `logs`.
    match stream(context, job, &Patience::within(limit.0), |_| {})? {
        Streamed::Ended => ended(context, job, true),
        Streamed::LetGo if kills => {
            let request = Kill { by: "Ctrl-C of outlive run".to_owned(), ..Kill::default() };
            context.store.kill(job, &request).map_err(|error| Failure::from(error).during("run"))?;
            note(&format!("\noutlive: {} ended", job.id()));
            Ok(ExitCode::from(INTERRUPTED))
        }
        Streamed::LetGo => Ok(let_go(job)),
        Streamed::TimeOver(_) => {
            let message = format!("run: {} is still running", job.id());
            let hint = format!("it goes on; wait for it with: outlive wait {}", job.id());
            Err(Failure::timed_out(message, hint).about(job.id()))
        }
    }
}

/// The job with what it has printed so far.
#[derive(Serialize)]
struct Yielded {
    #[serde(flatten)]
    job: JobObject,
    /// It has not ended.
    goes_on: bool,
    /// What it printed, as text.
    text: String,
    /// Where the rest begins.
    next_byte: u64,
}

/// Passes on what is printed while it is waited for; then the job goes on without us. The reader goes on from there: nothing is lost
/// or repeated.
fn yield_when(context: &Context, job: &Job, patience: &Patience) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    let keep = |piece: &Piece| {
        if let Piece::Output { bytes, .. } = piece {
            text.extend_from_slice(bytes);
        }
    };
    let streamed = stream(context, job, patience, keep)?;
    let next_byte = match streamed {
        Streamed::LetGo => return Ok(let_go(job)),
        Streamed::TimeOver(position) => position,
        Streamed::Ended => job.state(&context.store).outcome.map_or(0, |outcome| outcome.totals.bytes),
    };
    // A cursor that cannot be written repeats what was shown, and loses nothing.
    job.set_cursor(&context.reader, None, next_byte).ok();
    let goes_on = matches!(streamed, Streamed::TimeOver(_));
    if context.is_json {
        let object = JobObject::new(job, &job.state(&context.store));
        print_json(&Yielded {
            job: object,
            goes_on,
            text: String::from_utf8_lossy(&text).into_owned(),
            next_byte,
        })?;
    }
    if goes_on {
        if !context.is_json {
            note(&format!(
                "outlive: {0} goes on; the rest: outlive logs {0} --cursor {1}",
                job.id(),
                context.reader
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    ended(context, job, false)
}

/// Ctrl-C ends the waiting, never the job.
fn let_go(job: &Job) -> ExitCode {
    note(&format!("\noutlive: no longer waiting; {0} goes on. Stop it with: outlive kill {0}", job.id()));
    ExitCode::from(INTERRUPTED)
}

/// Passes a piece on; `false` if Ctrl-C came while it waited for the reader.
fn write(job: &Job, piece: &Piece) -> bool {
    let written = match piece {
        Piece::Output { stream, bytes, lost_before, .. } => {
            lost_before.inspect(|loss| note(&format!("outlive: {loss}, here")));
            match stream {
                Some(Stream::Stderr) => write_all(io::stderr(), bytes),
                _ => write_all(io::stdout(), bytes),
            }
        }
        Piece::Gone { from, to } => {
            note(&format!("outlive: bytes {from} to {to} are no longer kept"));
            Ok(())
        }
    };
    match written {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        Err(_) => {
            let id = job.id();
            note(&format!(
                "outlive: nobody reads the output any more; {id} goes on. Stop it with: outlive kill {id}"
            ));
            std::process::exit(i32::from(FAILED));
        }
    }
}

/// Writes all, or returns an error of kind `Interrupted` once Ctrl-C came.
///
/// Ctrl-C that comes right before a write does not cut it short, so nothing is written that would have to wait: a pipe that can be
/// written to has room for this much.
fn write_all(to: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    for mut bytes in bytes.chunks(PIPE_ROOM) {
        while !bytes.is_empty() {
            let mut fds = vec![PollFd::new(&to, PollFlags::OUT)];
            fds.extend(interrupt_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            poll::poll(&mut fds, None)?;
            if interrupted() {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            if fds[0].revents().is_empty() {
                continue;
            }
            match terminal::write_once(&to, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Exits as the command did; with `prints_object`, `--json` prints the job.
fn ended(context: &Context, job: &Job, prints_object: bool) -> Result<ExitCode, Failure> {
    let state = job.state(&context.store);
    let object = JobObject::new(job, &state);
    if object.output.dropped_bytes > 0 {
        note(&format!("outlive: {} bytes in all could not be kept", object.output.dropped_bytes));
    }
    if context.is_json {
        if prints_object {
            print_json(&object)?;
        }
    } else if object.out_of_memory || !matches!(state.status, Status::Completed | Status::Failed) {
        note(&format!("outlive: {}", ending(&object)));
    }
    job.mark_seen();
    job.mark_delivered(&context.reader);
    Ok(own_code(&state))
}

/// Returns the exit status that says how an ended job exited.
pub(crate) fn own_code(state: &State) -> ExitCode {
    let is_lost = state.status == Status::Lost;
    ExitCode::from(match state.outcome.as_ref().map(|outcome| outcome.wait_status) {
        // The record of a lost job is incomplete: 0 would claim a success.
        Some(WaitStatus::Exited { code: 0 }) if is_lost => FAILED,
        Some(WaitStatus::Exited { code }) => u8::try_from(code).unwrap_or(FAILED),
        Some(WaitStatus::Signaled { signal, .. }) => u8::try_from(128 + signal).unwrap_or(FAILED),
        Some(WaitStatus::Unknown) | None => FAILED,
    })
}
