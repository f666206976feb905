//! `outlive send`: write to a job's standard input.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

use outlive::{ControlError, Job, JobScreen, keys};
use outlive_sys::terminal;
use serde::Serialize;

use crate::args::Send;
use crate::commands::Context;
use crate::commands::screen::no_terminal;
use crate::failure::Failure;
use crate::render::{counted, note, print, print_json};

/// How long a command may leave its input unread before the writer is told.
const LIMIT: Duration = Duration::from_secs(10);

/// How much of our own input is read at a time.
const PIECE: usize = 64 << 10;

/// A longer paste is cut.
const MAX_PASTE: u64 = 16 << 20;

#[derive(Serialize)]
struct Sent {
    job: outlive::JobId,
    /// None for a secret: how long it is could help to guess it.
    bytes: Option<u64>,
    eof: bool,
}

pub(crate) fn run(context: &Context, arguments: Send) -> Result<ExitCode, Failure> {
    let job = context.find_to_change(&arguments.job)?;
    let failed = |error: ControlError| Failure::from(error).during("send");
    let is_secret = arguments.secret || arguments.secret_fd.is_some();
    let mut bytes = 0;
    let write = |typed: &[u8]| {
        context.store.write_stdin(&job, typed, LIMIT).map_err(failed)?;
        Ok::<u64, Failure>(typed.len() as u64)
    };
    match arguments.text.as_deref() {
        _ if let Some(keys) = &arguments.keys => {
            let typed = keys::parse(keys, &key_modes(&job)?)
                .map_err(|error| Failure::usage(error.to_string(), "`outlive send --help` has examples"))?;
            bytes = write(&typed)?;
        }
        _ if is_secret => {
            let source = match &arguments.secret_fd {
                Some(descriptor) => descriptor.file(),
                None => std::io::stdin().as_fd().try_clone_to_owned().map(File::from),
            };
            let mut line = source
                .and_then(secret)
                .map_err(|error| Failure::other("send", &error))?
                .ok_or_else(|| {
                    let hint = format!("type it, or pass it on: outlive send {} --secret <FILE", job.id());
                    Failure::usage("send: the input has ended, and nothing is sent", hint)
                })?;
            line.push(job.spec().options.line_end());
            context.store.write_secret(&job, &line, arguments.masked, LIMIT).map_err(failed)?;
            bytes = line.len() as u64;
        }
        text if arguments.paste => {
            let text = match text.filter(|text| *text != "-") {
                Some(text) => text.to_string_lossy().into_owned(),
                None => std::io::read_to_string(std::io::stdin().take(MAX_PASTE))
                    .map_err(|error| Failure::other("send", &error))?,
            };
            bytes = write(&keys::paste(&text, &key_modes(&job)?))?;
        }
        Some(text) if text != "-" => {
            let mut text = text.as_bytes().to_vec();
            if !arguments.no_newline {
                text.push(job.spec().options.line_end());
            }
            bytes = write(&text)?;
        }
        // With --eof alone there is nothing to write but the end.
        None if arguments.eof => {}
        _ => {
            if std::io::stdin().is_terminal() {
                let then = if arguments.eof { ", and closes its input" } else { "" };
                note(&format!("what you type goes to {}, line by line; Ctrl-D ends it{then}", job.id()));
            }
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
        let bytes = (!is_secret).then_some(bytes);
        return print_json(&Sent { job: job.id().clone(), bytes, eof: arguments.eof });
    }
    let sent = (bytes > 0 || !arguments.eof).then(|| match is_secret {
        true => "sent".to_owned(),
        false => counted(bytes, "byte sent", "bytes sent"),
    });
    let closed = arguments.eof.then(|| "its input closed".to_owned());
    let said: Vec<String> = sent.into_iter().chain(closed).collect();
    print(&format!("{}: {}\n", job.id(), said.join(", ")));
    Ok(ExitCode::SUCCESS)
}

/// Returns what the program in a job's terminal has asked for, on which the bytes of keys depend.
fn key_modes(job: &Job) -> Result<keys::KeyModes, Failure> {
    let screen = JobScreen::of(job).map_err(|error| Failure::other("send", &error))?;
    screen.map(|screen| screen.screen().key_modes()).ok_or_else(|| no_terminal(job))
}

/// Reads a line; from a terminal without showing it. `None` if there is nothing to read: an empty line can be meant, no line cannot.
/// What follows the line is left to the next program that reads there.
fn secret(mut source: File) -> std::io::Result<Option<Vec<u8>>> {
    let hidden = source.is_terminal().then(|| {
        note("type the line; it is not shown");
        terminal::Changed::without_echo(&source)
    });
    let (mut line, mut byte) = (Vec::new(), [0]);
    let ended = loop {
        match source.read(&mut byte) {
            Ok(0) => break Ok(line.is_empty()),
            Ok(_) if byte == *b"\n" => break Ok(false),
            Ok(_) => line.extend(byte),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    drop(hidden);
    Ok((!ended?).then_some(line))
}
