//! Showing a log or a guide in the user's pager.

use std::process::{Child, ChildStdin, Command, Stdio};

use outlive_sys::signal::{Caught, Signal};

use crate::failure::Failure;

/// A pager that runs.
pub(crate) struct Pager {
    child: Child,
    /// Ctrl-C is for the pager, which stops searching and goes on; this program waits for it.
    _interrupts: Option<Caught>,
}

impl Pager {
    /// Starts the one that the user wants, and returns what it reads from.
    pub(crate) fn start() -> Result<(Self, ChildStdin), Failure> {
        let named = ["OUTLIVE_PAGER", "PAGER"].into_iter().filter_map(|name| std::env::var(name).ok());
        let line =
            named.into_iter().find(|line| !line.trim().is_empty()).unwrap_or_else(|| "less".to_owned());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &line]).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            // Leaves at once where all fits on the screen, passes colours on, and does not clear the screen.
            command.env("LESS", "FRX");
        }
        let failed = |why: &str| {
            Failure::usage(format!("the pager {line:?}: {why}"), "set PAGER to one that there is")
        };
        let mut child = command.spawn().map_err(|error| failed(&error.to_string()))?;
        let input = child.stdin.take().ok_or_else(|| failed("it has no input"))?;
        let interrupts = Signal::parse("INT").and_then(|interrupt| Caught::new(&[interrupt]).ok());
        Ok((Self { child, _interrupts: interrupts }, input))
    }

    /// Waits until the user leaves it.
    pub(crate) fn wait(mut self) {
        // What a pager exits with says nothing about the log.
        self.child.wait().ok();
    }
}
