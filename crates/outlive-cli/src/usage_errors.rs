//! Usage errors in the form and the words that all errors have.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use outlive::{Store, nearest};

use crate::args::Arguments;
use crate::failure::Failure;
use crate::other_words;

/// More of a word that was given is not repeated in an error.
const LONGEST_WORD: usize = 120;

/// A shorter word may be meant for anything.
const LEAST_VERB: usize = 2;

/// Returns the verb of the command line, by its own name where an alias was given.
pub(crate) fn verb_given(words: &[OsString]) -> Option<String> {
    let command = Arguments::command();
    let given = words.iter().skip(1).filter_map(|word| word.to_str());
    given.filter_map(|word| command.find_subcommand(word)).map(|verb| verb.get_name().to_owned()).next()
}

/// Returns the verb that was most likely meant; what only outlive itself starts is none.
fn similar_verb(word: &str) -> Option<String> {
    let command = Arguments::command();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
    nearest(word, names).filter(|_| word.chars().count() >= LEAST_VERB).map(str::to_owned)
}

/// Returns the job that `start JOB` names, if it has ended.
fn job_to_start(verb: &str, words: &[OsString]) -> Option<String> {
    let given = words.iter().skip_while(|word| *word != "start").nth(1)?.to_str()?;
    let has_ended = || {
        let store = Store::open().ok()?;
        Some(!store.find_to_change(given, None).ok()?.state(&store).is_live())
    };
    (verb == "start" && has_ended() == Some(true)).then(|| given.to_owned())
}

/// Puts a usage error into the form that all errors have.
pub(crate) fn misused(error: &clap::Error, words: &[OsString]) -> Failure {
    if let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) {
        let message = || format!("there is no command {verb:?}");
        if let Some(job) = job_to_start(verb, words) {
            return Failure::usage(message(), format!("outlive restart {job} starts that job again"));
        }
        if let Some(instead) = other_words::instead_of(verb) {
            return Failure::usage(message(), instead);
        }
        if other_words::is_command(verb) {
            let word = if verb.contains(' ') { format!("'{verb}'") } else { format!("{verb} …") };
            return Failure::usage(message(), format!("to start it as a job: outlive run {word}"));
        }
        let hint = match (similar_verb(verb), verb_given(words)) {
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
        // What clap advises is put into the hint.
        .filter(|line| !line.is_empty() && !line.starts_with("tip:"))
        .collect();
    let what = if rest.is_empty() { first } else { format!("{first}: {}", rest.join("; ")) };
    let verb = verb_given(words);
    if let (Some(verb), Some(ContextValue::Strings(missing))) = (&verb, error.get(ContextKind::InvalidArg))
        && error.kind() == ErrorKind::MissingRequiredArgument
        && (verb == "why" || missing.iter().any(|argument| argument.starts_with("<JOB>")))
    {
        let rest =
            missing.iter().map(|argument| argument.trim_end_matches("...")).collect::<Vec<_>>().join(" ");
        let hint = format!("`outlive list` shows the jobs; then: outlive {verb} {rest}");
        return Failure::usage(format!("{verb}: no job is named"), hint);
    }
    if let (Some(verb), Some(ContextValue::String(word))) = (&verb, error.get(ContextKind::InvalidArg))
        && error.kind() == ErrorKind::UnknownArgument
    {
        let word = &whole_number(words, word);
        if let Some(hint) = hint_for_argument(words, verb, word) {
            return Failure::usage(format!("unexpected argument '{}' found", beginning(word)), hint);
        }
    }
    let verb = verb.map(|verb| format!(" {verb}")).unwrap_or_default();
    let help = format!("outlive{verb} --help tells what there is");
    let hint =
        similar(error).map_or_else(|| help.clone(), |similar| format!("did you mean {similar}? {help}"));
    Failure::usage(what, hint)
}

/// Returns all of a word like `-100`, of which clap names the first digit alone.
fn whole_number(words: &[OsString], word: &str) -> String {
    let is_number = |given: &&str| {
        let digits = given.strip_prefix('-').filter(|_| given.starts_with(word) && word != "-");
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    words.iter().filter_map(|given| given.to_str()).find(is_number).unwrap_or(word).to_owned()
}

/// Returns the option or value that was most likely meant: of what clap suggests, what is near.
fn similar(error: &clap::Error) -> Option<String> {
    let suggested = [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ];
    suggested.into_iter().find_map(|(given, suggested)| {
        let ContextValue::String(given) = error.get(given)? else { return None };
        let words = match error.get(suggested)? {
            ContextValue::String(word) => vec![word.clone()],
            ContextValue::Strings(words) => words.clone(),
            _ => return None,
        };
        let bare = |word: &str| word.trim_start_matches('-').to_owned();
        words.into_iter().find(|word| nearest(&bare(given), [bare(word).as_str()]).is_some())
    })
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
    ] {
        text = text.replace(words, plain);
    }
    if let Some((before, after)) = text.split_once("[possible values: ") {
        text = format!("{before}there are {}", after.replacen(']', "", 1));
    }
    in_plain_range(&text)
}

/// Puts a range as programs write it, `0 is not in 1..=65535`, into words.
fn in_plain_range(text: &str) -> String {
    let Some((before, after)) = text.split_once(" is not in ") else { return text.to_owned() };
    let Some((first, rest)) = after.split_once("..=") else { return text.to_owned() };
    format!("{before} is not from {first} to {rest}")
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
    if let Some(instead) = other_words::instead_of_option(verb, word) {
        return Some(instead);
    }
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
