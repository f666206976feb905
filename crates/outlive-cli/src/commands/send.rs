//! `outlive send`: write to a job's standard input.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use outlive::ControlError;
use serde::Serialize;

use crate::args::Send;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::print_json;

/// How long a command may leave its input unread before the writer is told.
const LIMIT: Duration = Duration::from_secs(10);

/// How much of our own input is read at a time.
const PIECE: usize = 64 << 10;

#[derive(Serialize)]
struct Sent {
    job: outlive::JobId,
    bytes: u64,
    eof: bool,
}

pub(crate) fn run(context: &Context, arguments: Send) -> Result<ExitCode, Failure> {
    let job = context.store.find_to_change(&arguments.job, context.session.as_ref())?;
    let failed = |error: ControlError| Failure::from(error).during("send");
    let mut bytes = 0;
    match arguments.text.as_deref() {
        Some(text) if text != "-" => {
            let mut text = text.as_bytes().to_vec();
            if !arguments.no_newline {
                text.push(b'\n');
            }
            context.store.write_stdin(&job, &text, LIMIT).map_err(failed)?;
            bytes = text.len() as u64;
        }
        // With --eof alone there is nothing to write but the end.
        None if arguments.eof => {}
        _ => {
            let mut buffer = vec![0; PIECE];
            loop {
                let count = match std::io::stdin().read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(Failure::other("send", &error)),
                };
                context.store.write_stdin(&job, &buffer[..count], LIMIT).map_err(|error| {
                    failed(match error {
                        ControlError::NotReading { job, accepted } => {
                            ControlError::NotReading { job, accepted: bytes + accepted }
                        }
                        other => other,
                    })
                })?;
                bytes += count as u64;
            }
        }
    }
    if arguments.eof {
        context.store.close_stdin(&job).map_err(failed)?;
    }
    if context.is_json {
        return print_json(&Sent { job: job.id().clone(), bytes, eof: arguments.eof });
    }
    Ok(ExitCode::SUCCESS)
}
