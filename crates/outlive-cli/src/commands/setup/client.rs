//! What is particular about each client: its command, its file, and how the file is written.

use std::path::{Path, PathBuf};

use super::entry::NAME;
use super::failure;
use super::form::Form;
use crate::args::ClientChoice;
use crate::failure::Failure;

/// One client.
pub(super) struct Client {
    /// What people call it.
    pub(super) title: &'static str,
    /// Its command.
    pub(super) program: &'static str,
    /// Where it keeps the servers of its user.
    pub(super) file: PathBuf,
    /// How that file is written.
    pub(super) form: Form,
    /// The arguments of its command that add a server: these, then the words of the server's own command.
    pub(super) add: &'static [&'static str],
    /// The arguments of its command that remove the server.
    pub(super) remove: &'static [&'static str],
    /// How to see that it is there.
    pub(super) check: &'static str,
}

impl Client {
    pub(super) fn of(choice: ClientChoice) -> Result<Self, Failure> {
        Ok(match choice {
            ClientChoice::ClaudeCode => Self {
                title: "Claude Code",
                program: "claude",
                file: directory("Claude Code", "CLAUDE_CONFIG_DIR", "")?.join(".claude.json"),
                // Its own command writes the type, too.
                form: Form::Json { is_typed: true },
                add: &["mcp", "add", "--scope", "user", "outlive", "--"],
                remove: &["mcp", "remove", "--scope", "user", "outlive"],
                check: "claude mcp list",
            },
            ClientChoice::Codex => Self {
                title: "Codex",
                program: "codex",
                file: directory("Codex", "CODEX_HOME", ".codex")?.join("config.toml"),
                form: Form::Toml,
                add: &["mcp", "add", "outlive", "--"],
                remove: &["mcp", "remove", "outlive"],
                check: "codex mcp list",
            },
            ClientChoice::Gemini => Self {
                title: "Gemini CLI",
                program: "gemini",
                file: directory("Gemini CLI", "GEMINI_CLI_HOME", "")?.join(".gemini/settings.json"),
                form: Form::Json { is_typed: false },
                // Here the server's program comes before anything that could be taken for an option of Gemini's own.
                add: &["mcp", "add", "--scope", "user", "outlive"],
                remove: &["mcp", "remove", "--scope", "user", "outlive"],
                check: "gemini mcp list",
            },
        })
    }
}

/// Returns the directory that a variable names; else one in the user's home.
fn directory(client: &str, variable: &str, in_home: &str) -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let wrong = |message: String, hint: String| Err(failure(message, hint));
    if let Some(named) = set(variable) {
        if named.is_absolute() {
            return Ok(named);
        }
        return wrong(
            format!("{variable}={} is not an absolute path", named.display()),
            format!("set {variable} to an absolute path, or unset it"),
        );
    }
    match set("HOME") {
        Some(home) if home.is_absolute() => Ok(home.join(in_home)),
        Some(home) => wrong(
            format!(
                "HOME={} is not an absolute path, so {client}'s settings cannot be found",
                home.display()
            ),
            "set HOME to your home directory".to_owned(),
        ),
        None => wrong(
            format!("HOME is not set, so {client}'s settings cannot be found"),
            format!("set HOME, or print the entry and put it where it belongs: {NAME} setup --print"),
        ),
    }
}

/// Returns a path for people: the home directory as `~`.
pub(super) fn shown(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.components().count() > 1);
    match home.as_deref().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
