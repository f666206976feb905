//! A program that is not ours: a nightly build that may be killed at any step and picks up where it was.
//!
//! Each step is a job with a name. A step that runs or has run is found again, not started twice; what a killed run had
//! started goes on and is waited for by the next one.
//!
//! ```sh
//! cargo run --example nightly -- 'echo fetch' 'echo build; sleep 5' 'echo test'
//! ```
//!
//! It needs `outlive-keeper` beside it or in `PATH`; this one is its own keeper, in the first lines of `main`.

#![expect(clippy::print_stdout, reason = "a command-line program talks to people")]

use std::error::Error;
use std::process::ExitCode;

use outlive::{FindError, Output, Request, SessionName, Status, Store, Until};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if std::env::args_os().next().is_some_and(|name| name == outlive_keeper::PROGRAM) {
        return Ok(outlive_keeper::run());
    }
    let store = Store::open()?.with_self_as_keeper();
    let session = SessionName::parse("nightly")?;
    for (number, step) in std::env::args().skip(1).enumerate() {
        let name = format!("step-{}", number + 1);
        let job = match store.find(&name, Some(&session)) {
            Ok(job) => job,
            Err(FindError::Unknown(..)) => {
                store.start(&Request::shell(&step).name(&name).session(session.clone()))?.job
            }
            Err(error) => return Err(error.into()),
        };
        let waited = store.wait(std::slice::from_ref(&job), Until::All, None);
        let status = waited.states[0].status;
        println!("{name} ({}): {status}", job.id());
        if status != Status::Completed {
            for line in Output::open(&job)?.tail(10, None)? {
                println!("    {}", String::from_utf8_lossy(&line.text));
            }
            return Ok(ExitCode::FAILURE);
        }
    }
    // Done: the next night starts anew.
    for job in store.list(Some(&session))?.jobs {
        store.remove(&job)?;
    }
    Ok(ExitCode::SUCCESS)
}
