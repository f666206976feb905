//! The reference pages that are made from the declarations: `docs/reference/`.

use std::fmt::Write;

use clap::{Command, CommandFactory};
use outlive::{JobOptions, OPTIONS};

use outlive::{Code, exit};

use crate::args::{Arguments, Page, grouped};

/// Returns a page.
pub(crate) fn page(page: Page) -> String {
    match page {
        Page::Cli => cli(),
        Page::ExitStatus => exit_status(),
        Page::McpTools => outlive_mcp::reference(),
        Page::Profiles => outlive_mcp::profiles_reference(),
        Page::Openapi => format!("{:#}\n", outlive_http::openapi()),
        Page::ProjectSchema => format!("{:#}\n", outlive_project::schema()),
    }
}

fn cli() -> String {
    let mut command = Arguments::command().max_term_width(100).term_width(100);
    command.build();
    let mut text = "# The command line\n\nMade from the declarations in `crates/outlive-cli/src/args/` and `crates/outlive-core/src/options/mod.rs`; `./test bless` makes it anew.\n".to_owned();
    section(&mut text, "outlive", &mut grouped(100).max_term_width(100).term_width(100));
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        section(&mut text, &format!("outlive {}", verb.get_name()), &mut verb.clone());
        for part in verb.get_subcommands().filter(|part| !part.is_hide_set() && part.get_name() != "help") {
            let title = format!("outlive {} {}", verb.get_name(), part.get_name());
            section(&mut text, &title, &mut part.clone());
        }
        if verb.get_name() == "run" {
            options(&mut text);
        }
    }
    text
}

fn section(text: &mut String, title: &str, command: &mut Command) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(text, "\n## {title}\n\n```text\n{}\n```\n", help.join("\n").trim_end())
        .expect("writing to a string cannot fail");
}

/// Tells where each option of a job is found.
fn options(text: &mut String) {
    let mut add = |line: String| writeln!(text, "{line}").expect("writing to a string cannot fail");
    add("\n### Options of a job\n\nEach is declared once; this is where it is found, and what it is where nothing is said.\n".to_owned());
    add("| option | default | key of `[job]` in `config.toml` | parameter of MCP's `run` | `spec.json` |"
        .to_owned());
    add("| --- | --- | --- | --- | --- |".to_owned());
    let code = |name: &str| format!("`{name}`");
    for option in OPTIONS {
        let default = option.text(&JobOptions::default());
        let key = if option.surfaces.in_config { code(option.name) } else { String::new() };
        let parameter = option.surfaces.mcp.map(|(name, _)| code(name)).unwrap_or_default();
        let field = code(&option.field.join("."));
        add(format!("| `--{}` | {default} | {key} | {parameter} | {field} |", option.flag()));
    }
}

fn exit_status() -> String {
    let mut text = "# Exit statuses and error codes\n\n\
        Made from the table in `crates/outlive/src/failure/table.rs`; `./test bless` makes it anew.\n\n\
        | status | meaning |\n| --- | --- |\n"
        .to_owned();
    for (status, meaning) in exit::TABLE {
        writeln!(text, "| {status} | {meaning} |").expect("writing to a string cannot fail");
    }
    text.push_str(
        "\n## Error codes\n\nThe `code` of an error in `--json`. The HTTP status is that of an answer over HTTP.\n\n\
        | code | exit status | HTTP status | meaning |\n| --- | --- | --- | --- |\n",
    );
    for code in Code::ALL {
        let (word, exit, http) = (code.word(), code.exit_status(), code.http_status());
        writeln!(text, "| `{word}` | {exit} | {http} | {} |", code.meaning())
            .expect("writing to a string cannot fail");
    }
    text
}
