//! `outlive rpc`: the API on standard input and output, for a program that has reached this machine in its own way.

use std::process::ExitCode;

use outlive::Store;

use crate::failure::Failure;

pub(crate) fn run(store: Store) -> Result<ExitCode, Failure> {
    outlive_http::serve_pipes(store)?;
    Ok(ExitCode::SUCCESS)
}
