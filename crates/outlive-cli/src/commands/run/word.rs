//! A command that is one plain word: a program, or something that only the shell knows.

use std::ffi::OsStr;
use std::path::Path;

use crate::other_words;

/// Words that bash or sh carries out itself.
const OF_SHELL: [&str; 76] = [
    ".",
    ":",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
];

/// Tells whether a line for bash or sh is one word that neither the shell nor this machine knows, so that it can only fail. What may be
/// there by the time it is started, or is known to a shell by its own files, is left to the shell.
pub(super) fn is_unknown(line: &OsStr, cwd: Option<&Path>) -> bool {
    let Some(word) = line.to_str() else { return false };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./+".contains(&byte);
    if word.is_empty() || !word.bytes().all(is_plain) || OF_SHELL.contains(&word) {
        return false;
    }
    if word.contains('/') {
        let place = cwd.unwrap_or(Path::new("")).join(word);
        return !place.exists() && !place.is_symlink();
    }
    let is_function = std::env::vars_os().any(|(name, _)| {
        name.to_str()
            .and_then(|name| name.strip_prefix("BASH_FUNC_"))
            .is_some_and(|name| name.starts_with(word))
    });
    !is_function && std::env::var_os("BASH_ENV").is_none() && !other_words::is_command(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_knows_is_unknown() {
        for (word, expected) in [
            ("sh", false),
            ("cd", false),
            ("nope-there-is-none", true),
            ("./nope-there-is-none", true),
            ("nope;true", false),
            ("~/nope", false),
            ("A=1", false),
        ] {
            assert_eq!(is_unknown(OsStr::new(word), None), expected, "{word}");
        }
    }
}
