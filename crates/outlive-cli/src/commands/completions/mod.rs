//! `outlive completions`: the script that makes a shell ask `outlive complete`.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Arguments;
use crate::render;

pub(crate) fn run(shell: Shell) -> ExitCode {
    match script(shell) {
        Some(script) => render::print(script),
        None => {
            // Other shells know the verbs and options of this version, and no jobs.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "outlive", &mut script);
            render::print_bytes(&script);
        }
    }
    ExitCode::SUCCESS
}

/// Returns the script for a shell that can ask.
pub(super) fn script(shell: Shell) -> Option<&'static str> {
    match shell {
        Shell::Bash => Some(include_str!("outlive.bash")),
        Shell::Zsh => Some(include_str!("outlive.zsh")),
        Shell::Fish => Some(include_str!("outlive.fish")),
        _ => None,
    }
}
