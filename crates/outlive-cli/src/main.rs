//! The `outlive` command: one file per verb in `commands`, and the wiring here.

mod args;
mod commands;
mod failure;
mod local_time;
mod other_words;
mod progress;
mod quick;
mod reference;
mod remote;
mod render;
mod served;
mod usage_errors;

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Command, CommandFactory, FromArgMatches};
use outlive::SpareKeeper;

use crate::args::{Arguments, Common, Verb, grouped, help_columns};
use crate::failure::report;
use crate::usage_errors::misused;

/// The small keeper, which is another program, has the C library's.
#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: outlive_sys::heap::Heap = outlive_sys::heap::Heap::new();

fn main() -> ExitCode {
    // Before anything else: where there is no keeper beside it, this program is its own.
    if std::env::args_os().next().is_some_and(|name| name == outlive_keeper::PROGRAM) {
        outlive_sys::prefault::first_functions();
        return outlive_keeper::run();
    }
    outlive_sys::signal::survive_file_limit();
    let mut words: Vec<OsString> = std::env::args_os().collect();
    // A start waits for its keeper: that begins while this program maps what it needs itself.
    let mut spare = early_keeper(&words);
    outlive_sys::prefault::first_functions();
    outlive_sys::prefault::stack();
    if words.get(1).is_some_and(|word| word == served::WORD) {
        let terms = words.get(2).cloned().unwrap_or_default();
        words.drain(1..words.len().min(3));
        if let Err(failure) = served::accept(&terms) {
            return report(&failure, wants_json(&words));
        }
        spare = early_keeper(&words);
    }
    act(&words, spare)
}

/// Has a keeper executed, if the command line starts a job.
fn early_keeper(words: &[OsString]) -> Option<SpareKeeper> {
    starts_a_job(words).then(|| SpareKeeper::start(true)).flatten()
}

/// Does what a command line asks for.
fn act(words: &[OsString], spare: Option<SpareKeeper>) -> ExitCode {
    let mut arguments = match parse(words) {
        Ok(arguments) => arguments,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            // A closed pipe (`outlive --help | head -1`) is no failure.
            error.print().ok();
            return ExitCode::SUCCESS;
        }
        Err(error) => return report(&misused(&error, words), wants_json(words)),
    };
    let is_json = arguments.common.json;
    let host = served::admit(&mut arguments).and_then(|()| remote::host(&mut arguments));
    let done = match host {
        Ok(Some(host)) => remote::run(&host, &arguments, words),
        Ok(None) => commands::run(arguments, spare),
        Err(failure) => Err(failure),
    };
    match done {
        Ok(code) => code,
        Err(failure) => report(&failure, is_json),
    }
}

/// Tells, without the declarations, whether errors are wanted as JSON.
fn wants_json(words: &[OsString]) -> bool {
    words.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

/// Reads the command line.
fn parse(words: &[OsString]) -> Result<Arguments, clap::Error> {
    if let Some(arguments) = quick::read(words.iter().cloned()) {
        return Ok(arguments);
    }
    match parse_declared(words.to_vec()) {
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            parse_as_list(words).ok_or(error)
        }
        // `outlive queue help` is `outlive queue --help`.
        Err(error)
            if error.kind() == ErrorKind::InvalidSubcommand && words.len() == 3 && words[2] == "help" =>
        {
            parse_declared(vec![words[0].clone(), words[1].clone(), "--help".into()])
        }
        parsed => parsed,
    }
}

/// Reads a verb that has verbs of its own, and stands alone, as the one that lists: `outlive queue` is `outlive queue list`.
fn parse_as_list(words: &[OsString]) -> Option<Arguments> {
    let (command, verb) = (Arguments::command(), usage_errors::verb_given(words)?);
    command.find_subcommand(verb)?.find_subcommand("list")?;
    parse_declared([words, &["list".into()]].concat()).ok()
}

/// Reads the words of a command line by the declarations. The options that follow a line for the shell are read as if they stood
/// before it: clap leaves to a command all that comes after its first word.
fn parse_declared(mut words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let mut arguments = parse_words(&words)?;
    let Some(Verb::Run(run)) = &mut arguments.verb else { return Ok(arguments) };
    let place = words.len() - run.command.len();
    run.is_program = words[..place].last().is_some_and(|before| before == "--");
    if run.command.len() < 2 || !run.begins_with_line() {
        return Ok(arguments);
    }
    let line = words.remove(place);
    let mut arguments = parse_words(&words)?;
    if let Some(Verb::Run(run)) = &mut arguments.verb {
        run.command.insert(0, line);
    }
    Ok(arguments)
}

/// Reads words with the declarations of one verb, or of all. These are never freed: that takes longer than to parse, and a start
/// waits for it.
fn parse_words(words: &[OsString]) -> Result<Arguments, clap::Error> {
    // Errors come from the full set of declarations.
    if let Some(Ok(arguments)) = parse_alone(words) {
        return Ok(arguments);
    }
    let mut command = ManuallyDrop::new(grouped(help_columns()));
    let mut matches = command.try_get_matches_from_mut(words)?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Reads a verb that is used often, with its own declarations: declaring all other verbs takes longer than parsing the line.
fn parse_alone(words: &[OsString]) -> Option<Result<Arguments, clap::Error>> {
    let verb = &words[place_of_verb(words)?];
    Some(match verb.to_str()? {
        "run" => declare("run", words, |run| Verb::Run(Box::new(run))),
        "list" => declare("list", words, Verb::List),
        "show" => declare("show", words, Verb::Show),
        "logs" => declare("logs", words, Verb::Logs),
        "wait" => declare("wait", words, Verb::Wait),
        "kill" => declare("kill", words, Verb::Kill),
        _ => return None,
    })
}

/// Returns which word is the verb: what the options for all verbs that stand before it are is known without the declarations.
fn place_of_verb(words: &[OsString]) -> Option<usize> {
    let mut place = 1;
    loop {
        place += match words.get(place)?.to_str()? {
            "--json" => 1,
            "--host" => 2,
            word if word.starts_with("--host=") => 1,
            _ => return Some(place),
        };
    }
}

/// Reads the command line as one of this verb.
fn declare<A: Args>(
    name: &'static str,
    words: &[OsString],
    verb: impl FnOnce(A) -> Verb,
) -> Result<Arguments, clap::Error> {
    let own = A::augment_args(Command::new(name));
    let command = Common::augment_args(Command::new("outlive")).subcommand(own);
    let mut matches = ManuallyDrop::new(command).try_get_matches_from_mut(words)?;
    let (_, mut of_verb) =
        matches.remove_subcommand().ok_or(clap::Error::new(ErrorKind::MissingSubcommand))?;
    let verb = Some(verb(A::from_arg_matches_mut(&mut of_verb)?));
    Ok(Arguments { common: Common::from_arg_matches_mut(&mut matches)?, verb })
}

/// Tells, before the command line is parsed, whether it starts a job: a keeper can then be executed meanwhile. A wrong guess
/// costs a process that ends at once.
fn starts_a_job(words: &[OsString]) -> bool {
    let mut arguments = words.iter().skip(1).skip_while(|argument| *argument == "--json");
    let is_elsewhere = |argument: &OsString| argument == "--on" && !served::is_called();
    arguments.next().is_some_and(|verb| verb == "run")
        && arguments.next().is_some_and(|argument| argument != "--help" && !is_elsewhere(argument))
        && std::env::var_os(remote::HOST).is_none()
}
