//! The `outlive` command: one file per verb in `commands`, and the wiring here.

mod args;
mod commands;
mod failure;
mod reference;
mod render;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::Arguments;
use crate::failure::Failure;

fn main() -> ExitCode {
    // Before anything else: where there is no keeper beside it, this program is its own.
    if std::env::args_os().next().is_some_and(|name| name == outlive_keeper::PROGRAM) {
        return outlive_keeper::run();
    }
    let wants_json =
        std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return print_help(&error);
        }
        Err(error) if wants_json => {
            let message = error.to_string();
            let message = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            return Failure::usage(message, "outlive --help tells what there is").report(true);
        }
        Err(error) => {
            error.print().ok();
            return ExitCode::from(failure::USAGE);
        }
    };
    let is_json = arguments.json;
    match commands::run(arguments) {
        Ok(code) => code,
        Err(failure) => failure.report(is_json),
    }
}

fn print_help(error: &clap::Error) -> ExitCode {
    // A closed pipe (`outlive --help | head -1`) is nobody's failure.
    error.print().ok();
    ExitCode::SUCCESS
}
