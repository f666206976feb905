//! `outlive wake`: wait until an agent has something to hear, and tell it; for hooks of its client.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use crate::args::Wake;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::print_json;

/// What clients take as "go on, for this reason": the reason is on standard error.
const GO_ON: u8 = 2;

/// The longest that a client may stand still for it.
const STANDSTILL: Duration = Duration::from_secs(600);

pub(crate) fn run(context: &Context, arguments: &Wake) -> Result<ExitCode, Failure> {
    // What a hook is told is not needed, but a client may wait until it is read.
    if !io::stdin().is_terminal() {
        std::thread::spawn(|| io::copy(&mut io::stdin(), &mut io::sink()).ok());
    }
    // Claude Code runs its hook in the background, but where it answers once and ends (`claude -p`) it stands still for it.
    let entry = std::env::var("CLAUDE_CODE_ENTRYPOINT").unwrap_or_default();
    let stands_still = entry.starts_with("sdk");
    let timeout = if stands_still { arguments.timeout.min(STANDSTILL) } else { arguments.timeout };
    match outlive_mcp::wake(&context.store, timeout, arguments.skip_servers || stands_still) {
        Some(text) if context.is_json => {
            print_json(&json!({ "decision": "block", "reason": text.trim_end() }))
        }
        Some(text) => {
            // As it is: lines that are broken for a terminal would be other lines to a model.
            writeln!(io::stderr(), "{}", text.trim_end()).ok();
            Ok(ExitCode::from(GO_ON))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}
