//! Becomes a program on a terminal of its own: `on-terminal DEVICE PROGRAM ARGS`.
//!
//! It leads a new session whose controlling terminal is the device, as a shell in a terminal window does.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [device, program, rest @ ..] = arguments.as_slice() else { return ExitCode::from(2) };
    if rustix::process::setsid().is_err() {
        return ExitCode::from(3);
    }
    // The first terminal that a session leader opens becomes its session's own.
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open(device) else {
        return ExitCode::from(4);
    };
    let (Ok(input), Ok(output)) = (terminal.try_clone(), terminal.try_clone()) else {
        return ExitCode::from(5);
    };
    // Returns only if it fails.
    drop(Command::new(program).args(rest).stdin(input).stdout(output).stderr(terminal).exec());
    ExitCode::from(127)
}
