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
mod macos_shell;
mod neovate;
mod private;
mod side_by_side;

use outlive_tests::{Home, finish, python_client, workspace};

/// Holds the dialogue of a profile.
fn dialogue(profile: &str) {
    hold(&Home::new(), profile, &format!("{profile}.json"));
}

/// Holds a written dialogue with a server of a profile in a home.
fn hold(home: &Home, profile: &str, file: &str) {
    let Some(python) = python_client() else { return };
    let mut command = home.command(&python);
    command
        .arg(workspace().join("tests/clients/python/dialogue.py"))
        .arg(home.program("outlive"))
        .arg(profile);
    command.arg(workspace().join("tests/dialogues").join(file));
    // Programs of the home count first.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", home.path().join("bin").display()));
    let done = finish(command, b"").ok();
    assert!(done.text().ends_with("answers are as they are written\n"), "{}\n{}", done.text(), done.error());
}
