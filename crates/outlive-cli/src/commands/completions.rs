//! `outlive completions`.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Arguments, Completions};
use crate::render;

pub(crate) fn run(arguments: &Completions) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "outlive", &mut script);
    render::print_bytes(&script);
    ExitCode::SUCCESS
}
