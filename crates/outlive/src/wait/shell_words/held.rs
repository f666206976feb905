//! Commands that the arguments of another command hold: `find -exec`, `trap`, `su -c` and their like.

use outlive_core::spec::quote;

/// Programs that take a command line with this option.
const WITH_OPTION: [(&str, &str); 6] = [
    ("env", "-S"),
    ("env", "--split-string"),
    ("flock", "-c"),
    ("runuser", "-c"),
    ("script", "-c"),
    ("su", "-c"),
];

/// Options of `find` before a command.
const EXEC: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// Returns the command lines that the words of a simple command hold. No word is in two of them, so that reading them all takes no
/// longer than reading the command.
pub(super) fn lines(words: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    let base = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    // Only the first of each kind: a second one is in what the first holds.
    let after = |is_it: &dyn Fn(&str) -> bool| {
        words.iter().position(|word| is_it(&base(word))).map(|at| &words[at + 1..])
    };
    if let Some(rest) = after(&|base| base == "find") {
        lines.extend(executed(rest));
    }
    if let Some(rest) = after(&|base| base == "trap") {
        lines.extend(trapped(rest));
    }
    if let Some(rest) = after(&|base| matches!(base, "docker" | "podman" | "kubectl")) {
        lines.extend(contained(rest));
    }
    for (program, option) in WITH_OPTION {
        if let Some(rest) = after(&|base| base == program) {
            lines.extend(values(rest, option));
        }
    }
    lines
}

/// Returns each command of a `find`, up to its `;` or `+`, or the next one. The lexer may have taken the `;` for a separator.
fn executed(words: &[&str]) -> Vec<String> {
    let mut commands = words.split(|word| EXEC.contains(word));
    commands.next();
    let is_end = |word: &&&str| matches!(**word, ";" | "+");
    commands.map(|words| line(words.iter().take_while(|word| !is_end(word)))).collect()
}

/// Returns the action of a `trap`.
fn trapped(words: &[&str]) -> Option<String> {
    let action = words.iter().find(|word| !word.starts_with('-'))?;
    // The last word is a signal: alone it resets that.
    (words.len() > 1).then(|| (*action).to_owned())
}

/// Returns what may be the command that is run in a container: what follows its name, which may be the value of an option.
fn contained(words: &[&str]) -> Vec<String> {
    let Some(at) = words.iter().position(|word| matches!(*word, "exec" | "run")) else { return Vec::new() };
    let operands: Vec<&&str> = words[at + 1..].iter().filter(|word| !word.starts_with('-')).collect();
    let Some((first, rest)) = operands.split_first() else { return Vec::new() };
    let mut lines = vec![quote(first), line(rest.iter().copied())];
    lines.extend(rest.get(1).map(|word| quote(word)));
    lines
}

/// Returns the values of an option, in the same word or the next.
fn values(words: &[&str], option: &str) -> Vec<String> {
    let next = |at: usize| words.get(at + 1).map(|word| (*word).to_owned());
    let value = |(at, word): (usize, &&str)| match word.strip_prefix(option)? {
        "" => next(at),
        value => Some(value.trim_start_matches('=').to_owned()),
    };
    words.iter().enumerate().filter_map(value).collect()
}

fn line<'a>(words: impl Iterator<Item = &'a &'a str>) -> String {
    // An expansion must stay one.
    let quoted = |word: &&str| if word.contains(['$', '*', '?']) { (*word).to_owned() } else { quote(word) };
    words.map(quoted).collect::<Vec<_>>().join(" ")
}
