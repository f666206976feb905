//! `outlive next-run`: makes the run that follows a job which is started again by itself. The keeper of that job starts this at its
//! end, and starts it again if it fails. While the job runs, it checks whether it is ready and healthy. It is not for people.

use std::process::ExitCode;

use outlive::NextRunError;

use crate::args::OnExit;
use crate::commands::on_exit::take_up;
use crate::failure::Failure;

pub(crate) fn run(arguments: &OnExit) -> Result<ExitCode, Failure> {
    let (store, id, nonce) = take_up("next-run", arguments)?;
    match store.make_next_run(&id, nonce) {
        // The keeper would only ask again.
        Ok(_) | Err(NextRunError::NotFound(_)) => Ok(ExitCode::SUCCESS),
        // While the job runs, the keeper starts this to check it, because the process that did so is gone.
        Err(NextRunError::Unwanted(_)) => {
            store.probe(&id, nonce)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(Failure::other("next-run", &error)),
    }
}
