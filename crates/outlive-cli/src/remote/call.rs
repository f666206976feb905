//! Runs a verb on another machine, as if it were run here: what it prints, what it reads, its exit status. A verb that waits or follows
//! goes on over connections that break off.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive::RawText;
use outlive_remote::{Address, Call, Channel, End, RemoteError, Said};
use outlive_sys::random;

use super::Machine;
use super::marks::Marks;
use super::window::{self, Line};
use crate::args::{Arguments, Resumes, There, Verb};
use crate::failure::Failure;
use crate::render::{end_with_reader, note, print_bytes};
use crate::served;

/// Pauses between attempts to reach a machine again; the last one repeats.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// What a person is told who has typed while the connection was away.
const NOT_SENT: &str = " What you typed during the cut was not all sent: look, and type it again ";

/// Variables that the command line looks at.
const VARIABLES: [&str; 4] = ["TERM", "COLORTERM", "NO_COLOR", "OUTLIVE_SESSION"];

pub(super) fn run(
    machine: &Machine,
    there: There,
    arguments: &Arguments,
    words: &[OsString],
) -> Result<ExitCode, Failure> {
    let words = &copied(machine, arguments, words)?;
    let mut call = call(machine, there, arguments, words);
    call.notice = served::notice();
    let mut marks = match served::passed_on() {
        // For a caller of ours, the marks are its own.
        Some((secret, places)) => {
            call.places.clone_from(&places);
            Marks::kept(secret, places)
        }
        None => {
            let secret: String = random::bytes16().iter().map(|byte| format!("{byte:02x}")).collect();
            Marks::new(&secret)
        }
    };
    if there.resumes != Resumes::Never {
        call.mark = Some(marks.secret.clone());
    }
    let line: Line = Arc::default();
    let mut window = window::take(call.stdin, &line).map_err(|error| Failure::other("--host", &error))?;
    let follows = match &arguments.verb {
        Some(Verb::Logs(logs)) => logs.follow,
        Some(Verb::Events(events)) => events.follow,
        _ => false,
    };
    if follows {
        end_with_reader();
    }
    let (began, mut has_begun, mut failures) = (Instant::now(), false, 0);
    let ended = loop {
        let elapsed = served::elapsed() + began.elapsed();
        call.elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if has_begun {
            call.places = [0, 1].map(|stream| marks.streams[stream].place.clone());
            call.size = window::size();
            call.notice = window::keys(&line).is_lost().then(|| NOT_SENT.to_owned());
            marks.resume(there.resumes != Resumes::Anew);
        }
        let called = machine.connect().and_then(|connection| Channel::open(connection, &call));
        let error = match called {
            Ok(mut channel) => {
                if failures > 0 {
                    note(&format!("outlive: {} is back", machine.name));
                }
                (has_begun, failures) = (true, 0);
                if there.resumes != Resumes::Anew
                    && let Some(notice) = &call.notice
                {
                    note(&format!("outlive: {}", notice.trim()));
                }
                window::keys(&line).begin(channel.sender());
                window.begin().map_err(|error| Failure::other("--host", &error))?;
                let ended = pass_on(&mut channel, &mut marks);
                window::keys(&line).end();
                match ended {
                    Ok(ended) => {
                        channel.leave();
                        break ended;
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        // Piped input was perhaps taken, and cannot be given twice.
        let is_started = there.resumes != Resumes::OnceStarted || marks.streams[0].place.is_some();
        let goes_on = there.resumes != Resumes::Never && is_started && has_begun && call.stdin != End::Pipe;
        if !goes_on || !error.is_passing() {
            break Err(unreached(machine, there, has_begun, error));
        }
        if failures == 1 {
            let why = outlive::chain(&error);
            note(&format!("outlive: {why}; trying again until it is back. Jobs there go on"));
        }
        std::thread::sleep(PAUSES[failures.min(PAUSES.len() - 1)]);
        failures += 1;
    };
    // Before anything is reported: a terminal in its usual state.
    drop(window);
    ended
}

/// Copies the directory that `run --sync` names, and lets the job start in the copy.
fn copied(machine: &Machine, arguments: &Arguments, words: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let mut words = words.to_vec();
    let Some(Verb::Run(run)) = &arguments.verb else { return Ok(words) };
    let Some(from) = &run.sync else { return Ok(words) };
    let to = machine.client.copy_directory(from)?;
    let is_option = |word: &OsString| word == "--sync" || word.as_bytes().starts_with(b"--sync=");
    if let Some(place) = words.iter().position(is_option) {
        let count = if words[place] == "--sync" { 2 } else { 1 };
        words.splice(place..place + count, [OsString::from(format!("--cwd={to}"))]);
    }
    Ok(words)
}

/// Describes the call, and what there is here.
fn call(machine: &Machine, there: There, arguments: &Arguments, words: &[OsString]) -> Call {
    let is_here = matches!(machine.address, Address::Unix(_));
    let directory = std::env::current_dir().ok().filter(|_| is_here);
    let reader = arguments.common.reader.clone().unwrap_or_else(outlive::reader_of_environment);
    let mut words = words.to_vec();
    if let Some(node) = &machine.node {
        node.name_exactly(&mut words);
    }
    // Which machine is meant is decided: without it the verb stands first, where the other machine sees at a glance that a job is started.
    if let Some(place) = words.iter().take(3).position(|word| word == "--host") {
        words.drain(place..words.len().min(place + 2));
    }
    // The other machine does not know by this machine's name for it that an engine is meant.
    if let Some(Verb::Run(run)) = &arguments.verb
        && let (Some(engine), Some(_)) = (run.engine, &run.on)
        && let Some(place) = words.iter().position(|word| word == "run")
    {
        words.insert(place + 1, format!("--engine={}", engine.word()).into());
        words.splice(
            place + 1..place + 1,
            run.node_store.iter().map(|dir| format!("--node-store={dir}").into()),
        );
    }
    if let (Some(session), None) = (&machine.session, &arguments.common.session) {
        words.insert(1, format!("--session={session}").into());
    }
    Call {
        arguments: words.iter().skip(1).map(|word| RawText::from(word.as_bytes())).collect(),
        directory: directory.map(|path| RawText::from(path.as_os_str().as_bytes())),
        variables: variables(is_here),
        stdin: window::stdin_end(there.input),
        stdout: window::end_of(&io::stdout()),
        stderr: window::end_of(&io::stderr()),
        size: window::size(),
        host: (!machine.is_understood).then(|| machine.name.clone()),
        reader: Some(reader.to_string()),
        ..Call::default()
    }
}

fn variables(is_here: bool) -> BTreeMap<String, String> {
    let own = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    let mut variables: BTreeMap<String, String> = VARIABLES.iter().filter_map(|name| own(name)).collect();
    // Times are those of the wall that the user sees.
    let zone = || {
        let link = std::fs::read_link("/etc/localtime").ok().filter(|_| !is_here)?;
        Some(("TZ".to_owned(), format!(":{}", link.to_str()?.split_once("zoneinfo/")?.1)))
    };
    variables.extend(own("TZ").or_else(zone));
    variables
}

/// Prints what the verb prints, until it ends. The outer error: the connection broke off.
fn pass_on(channel: &mut Channel, marks: &mut Marks) -> Result<Result<ExitCode, Failure>, RemoteError> {
    loop {
        match channel.receive()? {
            Said::Stdout(bytes) => print_bytes(&marks.take(0, &bytes)),
            Said::Stderr(bytes) => print_error(&marks.take(1, &bytes)),
            Said::Exit(code) => {
                print_bytes(&marks.rest(0));
                print_error(&marks.rest(1));
                return Ok(Ok(ExitCode::from(code)));
            }
            Said::Failed(failure) => return Ok(Err(failure)),
        }
    }
}

fn print_error(bytes: &[u8]) {
    // With standard error closed it is lost.
    io::stderr().write_all(bytes).ok();
}

/// Says what is not known where a connection broke off.
fn unreached(machine: &Machine, there: There, has_begun: bool, error: RemoteError) -> Failure {
    let is_lost = matches!(error, RemoteError::Lost(..));
    let failure = Failure::from(error);
    match there.resumes {
        Resumes::OnceStarted if has_begun || is_lost => failure
            .hint(format!("whether it was started is not known: outlive --host {} list tells", machine.name)),
        _ => failure,
    }
}
