//! Tells the user what went wrong. Codes, exit statuses and hints are the library's: `crates/outlive/src/failure`.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

pub(crate) use outlive::exit::{FAILED, INTERRUPTED, TIMED_OUT, UNSUCCESSFUL};
pub(crate) use outlive::{Failure, chain};

use outlive::Code;

use crate::render::{for_stderr, one_line};
use crate::served::addressed;

/// Ends this program because of Ctrl-C, by the signal itself: a script that runs it ends, too. Called for another machine, it exits with a
/// status, for that is what its caller is told.
pub(crate) fn end_interrupted() -> ExitCode {
    if crate::served::is_called() {
        return ExitCode::from(INTERRUPTED);
    }
    outlive_sys::signal::end_by_interrupt()
}

/// Tells the user, and returns the exit status.
pub(crate) fn report(failure: &Failure, is_json: bool) -> ExitCode {
    let mut stderr = std::io::stderr().lock();
    let written = if is_json {
        let json = serde_json::to_string(&BTreeMap::from([("error", failure.object())])).unwrap_or_default();
        writeln!(stderr, "{json}")
    } else {
        let hint = failure
            .hint
            .as_ref()
            .map(|hint| for_stderr(&format!("hint: {}", addressed(hint)), "      ") + "\n");
        // A fault in config.toml is drawn over several lines.
        let text = match failure.code {
            Code::Config => format!("outlive: {}", failure.text()),
            _ => for_stderr(&format!("outlive: {}", one_line(&failure.text())), "  "),
        };
        write!(stderr, "{text}\n{}", hint.unwrap_or_default())
    };
    // With standard error closed the exit status is all that is left.
    drop(written);
    ExitCode::from(failure.exit_status)
}
