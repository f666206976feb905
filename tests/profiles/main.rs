//! The profiles: the tools of five designs, on one engine.
//!
//! Each has a dialogue in `tests/dialogues/`, held through the official Python client and compared field by field with what is
//! written there, which follows the design's own text; and a module for what a dialogue cannot show.

mod claude_code;
mod deepchat;
mod duragent;
mod examples;
mod labels;
mod letter;
mod lines;
mod macos_shell;
mod neovate;
mod private;
mod side_by_side;

use outlive_tests::{Home, LIMIT, dialogue_names, finish_within, python_client, shown, workspace};

/// Holds the dialogue of a profile.
fn dialogue(profile: &str) {
    hold(&Home::new(), profile, &format!("{profile}.json"));
}

/// Holds a written dialogue with a server of a profile in a home. One that cannot be held is a failure: what it names would be proved by
/// nothing.
fn hold(home: &Home, profile: &str, file: &str) {
    let python =
        python_client().expect("a dialogue is held by the Python client of MCP: let ./test install it");
    let file = workspace().join("tests/dialogues").join(file);
    let mut command = home.command(&python);
    command
        .arg(workspace().join("tests/clients/python/dialogue.py"))
        .arg(home.program("outlive"))
        .arg(profile);
    command.arg(&file);
    // Programs of the home count first.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", home.path().join("bin").display()));
    // A server of tmux of its own.
    command.env("TMUX_TMPDIR", home.path());
    // It has a hundred answers and more, and a limit of its own for each.
    let done = finish_within(command, b"", 5 * LIMIT).ok();
    assert!(done.text().ends_with("answers are as they are written\n"), "{}\n{}", done.text(), done.error());
    let written = std::fs::read(&file).expect("it was held");
    let dialogue = serde_json::from_slice(&written).expect("it was held");
    for (_, names) in ["proves", "instead"].iter().flat_map(|key| dialogue_names(&dialogue, key)) {
        shown(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
