//! What is particular about each client: its command, its file, and how the file is written.

use std::path::{Path, PathBuf};

use super::entry::NAME;
use super::failure;
use super::form::Form;
use super::json::Layout;
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
    /// The arguments of its command that add a server: these, then the words of the server's own command. Empty: the file is edited.
    pub(super) add: &'static [&'static str],
    /// The arguments of its command that remove the server.
    pub(super) remove: &'static [&'static str],
    /// How to see that it is there.
    pub(super) check: &'static str,
    /// Whether outlive was run with it; else its documentation alone says how its file is written.
    pub(super) is_tried: bool,
}

impl Client {
    pub(super) fn of(choice: ClientChoice) -> Result<Self, Failure> {
        let config = |client: &str, file: &str| {
            directory(client, "XDG_CONFIG_HOME", ".config").map(|directory| directory.join(file))
        };
        Ok(match choice {
            ClientChoice::ClaudeCode => Self {
                title: "Claude Code",
                program: "claude",
                file: directory("Claude Code", "CLAUDE_CONFIG_DIR", "")?.join(".claude.json"),
                // Its own command writes the type, too.
                form: Form::Json(Layout { kind: Some("stdio"), ..Layout::USUAL }),
                add: &["mcp", "add", "--scope", "user", "outlive", "--"],
                remove: &["mcp", "remove", "--scope", "user", "outlive"],
                check: "claude mcp list",
                is_tried: true,
            },
            ClientChoice::Codex => Self {
                title: "Codex",
                program: "codex",
                file: directory("Codex", "CODEX_HOME", ".codex")?.join("config.toml"),
                form: Form::Toml,
                add: &["mcp", "add", "outlive", "--"],
                remove: &["mcp", "remove", "outlive"],
                check: "codex mcp list",
                is_tried: true,
            },
            ClientChoice::Gemini => Self {
                title: "Gemini CLI",
                program: "gemini",
                file: directory("Gemini CLI", "GEMINI_CLI_HOME", "")?.join(".gemini/settings.json"),
                form: Form::Json(Layout::USUAL),
                // Here the server's program comes before anything that could be taken for an option of Gemini's own.
                add: &["mcp", "add", "--scope", "user", "outlive"],
                remove: &["mcp", "remove", "--scope", "user", "outlive"],
                check: "gemini mcp list",
                is_tried: true,
            },
            ClientChoice::Opencode => {
                let form = Form::Json(Layout {
                    servers: "mcp",
                    kind: Some("local"),
                    is_joined: true,
                    further: &[("enabled", "true")],
                });
                let file = config("opencode", "opencode/opencode.json")?;
                let other = file.with_extension("jsonc");
                let file = if other.exists() { other } else { file };
                Self::edited("opencode", "opencode", file, form, "opencode mcp list")
            }
            ClientChoice::Goose => Self::edited(
                "goose",
                "goose",
                config("goose", "goose/config.yaml")?,
                Form::Yaml,
                "goose info -v",
            ),
            ClientChoice::Qwen => {
                let file = directory("Qwen Code", "", "")?.join(".qwen/settings.json");
                Self::edited("Qwen Code", "qwen", file, Form::Json(Layout::USUAL), "qwen mcp list")
            }
            ClientChoice::Copilot => {
                let form = Form::Json(Layout {
                    kind: Some("local"),
                    further: &[("tools", "[\"*\"]")],
                    ..Layout::USUAL
                });
                let file = directory("Copilot CLI", "COPILOT_HOME", ".copilot")?.join("mcp-config.json");
                Self::edited("Copilot CLI", "copilot", file, form, "/mcp show in copilot")
            }
            ClientChoice::Cursor => {
                let file = directory("Cursor", "", "")?.join(".cursor/mcp.json");
                Self::edited("Cursor", "cursor", file, Form::Json(Layout::USUAL), "MCP in Cursor's settings")
                    .untried()
            }
            ClientChoice::Vscode => {
                let form = Form::Json(Layout { servers: "servers", kind: Some("stdio"), ..Layout::USUAL });
                let file = config("VS Code", "Code/User/mcp.json")?;
                Self::edited("VS Code", "code", file, form, "MCP: List Servers in the command palette")
                    .untried()
            }
            ClientChoice::Zed => {
                let form = Form::Json(Layout { servers: "context_servers", ..Layout::USUAL });
                let file = config("Zed", "zed/settings.json")?;
                Self::edited("Zed", "zed", file, form, "MCP servers in Zed's settings").untried()
            }
            ClientChoice::Boot => return Err(failure("a machine has no servers", "outlive setup boot")),
            ClientChoice::Shell => return Err(failure("a shell has no servers", "outlive setup shell")),
        })
    }

    /// A client whose file is edited.
    fn edited(
        title: &'static str,
        program: &'static str,
        file: PathBuf,
        form: Form,
        check: &'static str,
    ) -> Self {
        Self { title, program, file, form, add: &[], remove: &[], check, is_tried: true }
    }

    fn untried(self) -> Self {
        Self { is_tried: false, ..self }
    }
}

/// Returns the directory that a variable names; else one in the user's home.
pub(super) fn directory(client: &str, variable: &str, in_home: &str) -> Result<PathBuf, Failure> {
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
