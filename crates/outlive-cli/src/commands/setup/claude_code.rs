//! Claude Code: `~/.claude.json`, and `claude mcp`.

use super::client::{Client, directory};
use super::form::Form;
use crate::failure::Failure;

pub(super) fn client() -> Result<Client, Failure> {
    Ok(Client {
        title: "Claude Code",
        program: "claude",
        file: directory("Claude Code", "CLAUDE_CONFIG_DIR", "")?.join(".claude.json"),
        // Its own command writes the type, too.
        form: Form::Json { is_typed: true },
        add: &["mcp", "add", "--scope", "user", "outlive", "--"],
        remove: &["mcp", "remove", "--scope", "user", "outlive"],
        check: "claude mcp list",
    })
}
