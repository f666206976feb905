//! Codex: `~/.codex/config.toml`, and `codex mcp`.

use super::client::{Client, directory};
use super::form::Form;
use crate::failure::Failure;

pub(super) fn client() -> Result<Client, Failure> {
    Ok(Client {
        title: "Codex",
        program: "codex",
        file: directory("Codex", "CODEX_HOME", ".codex")?.join("config.toml"),
        form: Form::Toml,
        add: &["mcp", "add", "outlive", "--"],
        remove: &["mcp", "remove", "outlive"],
        check: "codex mcp list",
    })
}
