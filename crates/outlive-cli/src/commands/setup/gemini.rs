//! Gemini CLI: `~/.gemini/settings.json`, and `gemini mcp`.

use super::client::{Client, directory};
use super::form::Form;
use crate::failure::Failure;

pub(super) fn client() -> Result<Client, Failure> {
    Ok(Client {
        title: "Gemini CLI",
        program: "gemini",
        file: directory("Gemini CLI", "GEMINI_CLI_HOME", "")?.join(".gemini/settings.json"),
        form: Form::Json { is_typed: false },
        // Here the server's program comes before anything that could be taken for an option of Gemini's own.
        add: &["mcp", "add", "--scope", "user", "outlive"],
        remove: &["mcp", "remove", "--scope", "user", "outlive"],
        check: "gemini mcp list",
    })
}
