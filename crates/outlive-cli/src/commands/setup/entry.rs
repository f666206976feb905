//! What a client is told: the command that starts the server.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Parser;
use outlive::SessionName;
use serde::Serialize;

use super::failure;
use crate::args::Arguments;
use crate::failure::Failure;

/// What the server is called in every client.
pub(super) const NAME: &str = "outlive";

/// The command that starts the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    pub(super) command: String,
    pub(super) args: Vec<String>,
}

impl Entry {
    /// Returns the entry for the program that runs now.
    pub(super) fn of_this_program(
        session: Option<&SessionName>,
        profile: Option<&str>,
    ) -> Result<Self, Failure> {
        let mut args = vec!["mcp".to_owned()];
        for (option, value) in [("--session", session.map(SessionName::as_str)), ("--profile", profile)] {
            args.extend(value.into_iter().flat_map(|value| [option.to_owned(), value.to_owned()]));
        }
        let entry = Self { command: this_program()?, args };
        entry.understood()?;
        Ok(entry)
    }

    /// An entry that this very program would refuse must not be written anywhere: clients hide what a server says then.
    fn understood(&self) -> Result<(), Failure> {
        Arguments::try_parse_from(self.words()).map(drop).map_err(|_| {
            Failure::usage(
                format!("this outlive does not know `{NAME} {}`", quoted(&self.args)),
                format!("`{NAME} mcp --help` tells what it knows"),
            )
        })
    }

    /// Returns the command and its arguments.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.command.as_str()).chain(self.args.iter().map(String::as_str))
    }
}

/// Returns `outlive` where PATH finds this very program, so that an update keeps the entry right; else its whole path.
pub(super) fn this_program() -> Result<String, Failure> {
    let own = std::env::current_exe().and_then(|path| path.canonicalize()).map_err(|error| {
        failure(
            format!("cannot tell where this program is: {}", crate::failure::chain(&error)),
            "was it replaced while it ran? Run it again",
        )
    })?;
    let found = in_path(NAME).and_then(|path| path.canonicalize().ok());
    if found.is_some_and(|found| found == own) {
        return Ok(NAME.to_owned());
    }
    own.into_os_string().into_string().map_err(|path| {
        failure(
            format!("the path of this program is not UTF-8, and no client takes it: {}", path.display()),
            "install outlive somewhere else, or in a directory of PATH",
        )
    })
}

/// Finds a program as the user's shell would. Relative directories do not count: the client may run anywhere.
pub(super) fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Writes words so that a shell reads the same words.
pub(super) fn quoted<T: AsRef<OsStr>>(words: impl IntoIterator<Item = T>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let word = |word: T| {
        let word = word.as_ref().to_string_lossy();
        if !word.is_empty() && word.chars().all(plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}
