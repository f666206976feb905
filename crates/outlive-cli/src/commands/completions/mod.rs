//! `outlive completions`.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Arguments;
use crate::render;

pub(crate) fn run(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "outlive", &mut script);
    render::print_bytes(&script);
    ExitCode::SUCCESS
}
