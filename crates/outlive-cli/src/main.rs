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

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command, CommandFactory, FromArgMatches};
use outlive::SpareKeeper;

use crate::args::{Arguments, Common, Verb, grouped, help_columns};
use crate::failure::{Failure, report};

/// More of a word that was given is not repeated in an error.
const LONGEST_WORD: usize = 120;

/// The small keeper, which is another program, has the C library's.
#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: outlive_sys::heap::Heap = outlive_sys::heap::Heap::new();

fn main() -> ExitCode {
    // Before anything else: where there is no keeper beside it, this program is its own.
    if std::env::args_os().next().is_some_and(|name| name == outlive_keeper::PROGRAM) {
        return outlive_keeper::run();
    }
    outlive_sys::signal::survive_file_limit();
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == served::WORD) {
        let terms = words.get(2).cloned().unwrap_or_default();
        words.drain(1..words.len().min(3));
        if let Err(failure) = served::accept(&terms) {
            return report(&failure, wants_json(&words));
        }
    }
    act(&words)
}

/// Does what a command line asks for.
fn act(words: &[OsString]) -> ExitCode {
    let spare = starts_a_job(words).then(|| SpareKeeper::start(true)).flatten();
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
    let done = match remote::host(&mut arguments) {
        Ok(Some(host)) => remote::run(&host, &arguments, words),
        Ok(None) => served::admit(&mut arguments).and_then(|()| commands::run(arguments, spare)),
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
    quick::read(words.iter().cloned()).map_or_else(|| parse_declared(words.to_vec()), Ok)
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

/// Returns the verb of the command line.
fn verb_given(words: &[OsString]) -> Option<String> {
    let command = Arguments::command();
    let is_verb = |argument: &&str| command.get_subcommands().any(|verb| verb.get_name() == *argument);
    words.iter().skip(1).filter_map(|word| word.to_str()).find(is_verb).map(str::to_owned)
}

/// Returns the verb that was most likely meant; what only outlive itself starts is none.
fn similar_verb(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::Strings(similar)) = error.get(ContextKind::SuggestedSubcommand) else {
        return None;
    };
    let command = Arguments::command();
    let is_shown = |name: &&String| {
        command.get_subcommands().any(|verb| verb.get_name() == name.as_str() && !verb.is_hide_set())
    };
    similar.iter().find(is_shown).cloned()
}

/// Puts a usage error into the form that all errors have.
fn misused(error: &clap::Error, words: &[OsString]) -> Failure {
    if let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) {
        let message = || format!("there is no command {verb:?}");
        if let Some(instead) = other_words::instead_of(verb) {
            return Failure::usage(message(), instead);
        }
        if other_words::is_command(verb) {
            let word = if verb.contains(' ') { format!("'{verb}'") } else { format!("{verb} …") };
            return Failure::usage(message(), format!("to start it as a job: outlive run {word}"));
        }
        let hint = match (similar_verb(error), verb_given(words)) {
            (Some(similar), _) => format!("did you mean: outlive {similar}"),
            (None, Some(verb)) => format!("outlive {verb} --help tells what there is"),
            (None, None) => "outlive --help tells what there is".to_owned(),
        };
        return Failure::usage(message(), hint);
    }
    let text = shortened(error);
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("For more information"));
    let first =
        lines.next().unwrap_or_default().trim_start_matches("error: ").trim_end_matches(':').to_owned();
    let rest: Vec<&str> = lines
        .by_ref()
        .take_while(|line| !line.starts_with("Usage:"))
        .filter(|line| !line.is_empty())
        .collect();
    let what = if rest.is_empty() { first } else { format!("{first}: {}", rest.join("; ")) };
    let verb = verb_given(words);
    if let (Some(verb), Some(ContextValue::Strings(missing))) = (&verb, error.get(ContextKind::InvalidArg))
        && error.kind() == ErrorKind::MissingRequiredArgument
        && missing.iter().any(|argument| argument.starts_with("<JOB>"))
    {
        let rest =
            missing.iter().map(|argument| argument.trim_end_matches("...")).collect::<Vec<_>>().join(" ");
        let hint = format!("`outlive list` shows the jobs; then: outlive {verb} {rest}");
        return Failure::usage(format!("{verb}: no job is named"), hint);
    }
    if let (Some(verb), Some(ContextValue::String(word))) = (&verb, error.get(ContextKind::InvalidArg))
        && error.kind() == ErrorKind::UnknownArgument
        && let Some(hint) = hint_for_argument(words, verb, word)
    {
        return Failure::usage(what, hint);
    }
    let verb = verb.map(|verb| format!(" {verb}")).unwrap_or_default();
    Failure::usage(what, format!("outlive{verb} --help tells what there is"))
}

/// Returns the text of a usage error; of a long word that was given, its beginning.
fn shortened(error: &clap::Error) -> String {
    let mut text = error.to_string();
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg] {
        if let Some(ContextValue::String(word)) = error.get(kind)
            && !word.is_empty()
        {
            text = text.replace(word.as_str(), &beginning(word));
        }
    }
    // Words of the libraries that say nothing to a reader.
    for (words, plain) in [
        ("invalid digit found in string", "write a whole number"),
        ("cannot parse integer from empty string", "write a whole number"),
        ("number too large to fit in target type", "the number is too large"),
        ("[possible values: ", "[there are "),
    ] {
        text = text.replace(words, plain);
    }
    text
}

/// Returns the beginning of a long word, and any other as it is.
fn beginning(word: &str) -> String {
    match word.char_indices().nth(LONGEST_WORD) {
        Some((at, _)) => format!("{}…", &word[..at]),
        None => word.to_owned(),
    }
}

/// Returns what to write in place of an argument that a verb does not take.
fn hint_for_argument(words: &[OsString], verb: &str, word: &str) -> Option<String> {
    let at = words.iter().position(|argument| argument.to_string_lossy() == word)?;
    let before = words.get(at.checked_sub(1)?)?.to_str().and_then(|word| word.strip_prefix("--"));
    let command = Arguments::command();
    let declared = command.find_subcommand(verb)?;
    let needs_equals = |option: &&str| {
        declared
            .get_arguments()
            .any(|known| known.get_long() == Some(*option) && known.is_require_equals_set())
    };
    match before.filter(needs_equals) {
        Some(option) => Some(format!("write it with =: outlive {verb} --{option}={}", beginning(word))),
        None => other_words::instead_of_argument(verb, &beginning(word)),
    }
}
