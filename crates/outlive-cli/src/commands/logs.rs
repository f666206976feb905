//! `outlive logs`: what a job printed.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use outlive::{FindError, Followed, Follower, Line, Output, Piece, Stream};
use serde::Serialize;

use crate::args::Logs;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{note, print, print_bytes};

/// A line as scripts see it.
#[derive(Serialize)]
struct LineObject<'a> {
    line: u64,
    stream: Option<Stream>,
    time: Option<String>,
    text: &'a str,
    /// Bytes that the line has beyond what is shown.
    #[serde(skip_serializing_if = "is_zero")]
    cut_bytes: u64,
    /// False for the end of the log where no newline has come yet.
    ended: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(crate) fn run(context: &Context, arguments: &Logs) -> Result<ExitCode, Failure> {
    let job = context.store.find(&arguments.job, context.session.as_ref())?;
    // Somebody may remove the job while it is read.
    let failed = |error: io::Error| match job.is_removed() {
        true => Failure::from(FindError::Unknown(arguments.job.clone())),
        false => Failure::other("logs", &error),
    };
    let stream = arguments.stream.map(Stream::from);
    let mut output = Output::open(&job).map_err(failed)?;
    let end = output.end();
    let mut position = 0;
    let mut printer = Printer { is_json: context.is_json, stream, ends_in_newline: true };
    if let Some(count) = arguments.lines {
        // Lines are put together up to here; what follows is copied from here.
        for line in output.tail(count, stream).map_err(failed)? {
            printer.line(&line);
        }
        position = end;
    }
    let mut assembler = output.assembler_at(position).map_err(failed)?;
    let mut follower = Follower::new(&context.store, &job, position).map_err(failed)?;
    loop {
        if !arguments.follow && follower.position() >= end {
            break;
        }
        let limit = if arguments.follow { None } else { Some(std::time::Duration::ZERO) };
        match follower.next(limit).map_err(failed)? {
            Followed::Piece(Piece::Output { stream: of, time, bytes, lost_before, .. }) => {
                if lost_before > 0 {
                    note(&format!("outlive: {lost_before} bytes could not be kept here"));
                }
                if context.is_json {
                    assembler.push(of, time, &bytes, |line| printer.line(&line));
                } else {
                    printer.bytes(of, &bytes);
                }
            }
            Followed::Piece(Piece::Gone { from, to }) => {
                note(&format!("outlive: bytes {from} to {to} are no longer kept"));
                assembler = output.assembler_at(to).map_err(failed)?;
            }
            Followed::End | Followed::Nothing => break,
        }
    }
    if context.is_json && (arguments.lines.is_none() || follower.position() > position) {
        for line in assembler.unfinished() {
            printer.line(&line);
        }
    }
    printer.finish();
    if job.state(&context.store).status.has_ended() {
        job.mark_seen();
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints lines or bytes of the streams that are wanted.
struct Printer {
    is_json: bool,
    stream: Option<Stream>,
    ends_in_newline: bool,
}

impl Printer {
    fn is_wanted(&self, stream: Option<Stream>) -> bool {
        self.stream.is_none() || self.stream == stream
    }

    fn line(&mut self, line: &Line) {
        if !self.is_wanted(line.stream) {
            return;
        }
        if self.is_json {
            let object = LineObject {
                line: line.number,
                stream: line.stream,
                time: line.time.map(|time| time.to_string()),
                text: &String::from_utf8_lossy(&line.text),
                cut_bytes: line.cut_bytes,
                ended: line.is_ended,
            };
            print(&format!("{}\n", serde_json::to_string(&object).unwrap_or_default()));
            return;
        }
        print_bytes(&line.text);
        if line.cut_bytes > 0 {
            print(&format!(" [{} more bytes]", line.cut_bytes));
        }
        if line.is_ended {
            print("\n");
        }
        self.ends_in_newline = line.is_ended;
    }

    fn bytes(&mut self, stream: Option<Stream>, bytes: &[u8]) {
        if self.is_wanted(stream) {
            print_bytes(bytes);
            self.ends_in_newline = bytes.ends_with(b"\n");
        }
    }

    /// Keeps the prompt of a terminal in its own line.
    fn finish(&self) {
        if !self.ends_in_newline && io::stdout().is_terminal() {
            print("\n");
        }
    }
}
