//! The page of the reference that is made from the declarations.

use crate::profiles::{CHOICES, Profile};
use crate::tools::{INSTRUCTIONS, TOOLS, Tool};

/// Returns `docs/reference/mcp-tools.md`.
pub fn reference() -> String {
    let mut text = "# The MCP tools\n\nMade from the declarations in `crates/outlive-mcp/src/tools/`; `./test bless` makes it anew.\n\n\
        ## Instructions\n\nWhat a model is told before it sees any tool:\n\n```text\n"
        .to_owned();
    text += INSTRUCTIONS;
    text += "\n```\n";
    for tool in TOOLS {
        section(&mut text, tool);
    }
    text
}

/// Returns `docs/reference/profiles.md`.
pub fn profiles() -> String {
    let mut text = "# The profiles\n\nMade from the declarations in `crates/outlive-mcp/src/profiles/`; `./test bless` makes it anew.\n\n\
        `outlive mcp --profile NAME` speaks the tools of a design that agents already know. Each decision where a design contradicts \
        itself or loses something is in `docs/guide/profiles/`.\n\n## Where the designs differ\n\n"
        .to_owned();
    text += CHOICES;
    // outlive's own tools have a page of their own.
    for profile in Profile::all().skip(1) {
        text += &format!("\n## `{}`\n\n{}.\n", profile.name, profile.about);
        for tool in profile.tools {
            section(&mut text, tool);
        }
    }
    text
}

fn section(text: &mut String, tool: &Tool) {
    let hints = tool.hints;
    let flags = [
        (hints.read_only, "read-only"),
        (hints.destructive, "destructive"),
        (hints.idempotent, "idempotent"),
        (hints.open_world, "open world"),
    ];
    let set: Vec<&str> = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word).collect();
    let set = if set.is_empty() { "none".to_owned() } else { set.join(", ") };
    *text += &format!("\n### {}\n\n{}\n\nHints: {set}.\n\n", tool.name, tool.description.trim());
    *text += "| parameter | takes | |\n| --- | --- | --- |\n";
    for parameter in tool.parameters {
        let must = if parameter.is_required { "; required" } else { "" };
        let (kind, about) = (parameter.kind_word(), parameter.about.replace('|', "\\|"));
        *text += &format!("| `{}` | {kind}{must} | {about} |\n", parameter.name);
    }
}
