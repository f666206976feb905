//! `outlive placed`: begins a job that an engine has placed on this node. The engine's script becomes this, and this becomes the keeper's
//! process; with `--script`, it prepares the job for that one. It is not for people.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use outlive::{JobId, Nonce, PlaceError, Store};
use outlive_sys::detach;
use outlive_sys::signal::{Caught, Signal};

use crate::args::Placed;
use crate::commands::on_exit::take_up;
use crate::failure::Failure;

pub(crate) fn run(arguments: &Placed) -> Result<ExitCode, Failure> {
    let handed = arguments.script.map(|script| (script, detach::inherited::<2>()));
    let (store, id, nonce) = take_up("placed", &arguments.of)?;
    // Before the job: a signal that comes at once is for it, and stays pending for its keeper's process.
    let _signals = Caught::new(&[Signal::TERM, Signal::INT, Signal::HUP])
        .map_err(|error| Failure::other("placed", &error))?;
    let placed = match handed {
        None => Err(begin(&store, &id, nonce, arguments.given)?),
        Some((script, Some([keeper, said]))) => {
            let placed = store.place(&id, nonce, script, arguments.given, UnixStream::from(keeper));
            // What went wrong is in the job, where there is one; the engine keeps this.
            if let Err(error) = &placed {
                writeln!(File::from(said), "error: placed: {error}").ok();
            }
            placed
        }
        Some((_, None)) => {
            return Err(Failure::usage(
                "placed: there is no keeper".to_owned(),
                "the engine's script starts it",
            ));
        }
    };
    placed.map(|()| ExitCode::SUCCESS).map_err(|error| Failure::other("placed", &error))
}

/// Claims the job, and becomes its keeper's process. Returns why that was not possible.
fn begin(store: &Store, id: &JobId, nonce: Nonce, is_given: bool) -> Result<PlaceError, Failure> {
    let claimed = match is_given {
        true => store.claim_given(&given()?, id, nonce),
        false => store.claim(id, nonce),
    };
    Ok(claimed.map_or_else(|error| error, |job| store.become_keeper(&job, is_given)))
}

/// Reads what the engine's script has brought along.
fn given() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| Failure::other("placed", &error))?;
    Ok(bytes)
}
