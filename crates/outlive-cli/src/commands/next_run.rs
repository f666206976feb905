//! `outlive next-run`: makes the run that follows a job which is started again by itself. The keeper of that job starts this at its
//! end, and starts it again if it fails; it is not for people.

use std::process::ExitCode;

use outlive::NextRunError;

use crate::args::OnExit;
use crate::commands::on_exit::take_up;
use crate::failure::Failure;

pub(crate) fn run(arguments: &OnExit) -> Result<ExitCode, Failure> {
    let (store, id, nonce) = take_up("next-run", arguments)?;
    match store.make_next_run(&id, nonce) {
        // The keeper would only ask again.
        Ok(_) | Err(NextRunError::NotFound(_) | NextRunError::Unwanted(_)) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::other("next-run", &error)),
    }
}
