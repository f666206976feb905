//! Starts a child and exits: `leaves-behind HOW SECONDS`.
//!
//! HOW is `plain` (a child that holds the pipes), `quiet` (one that has closed them), `setsid` (one in a session of its
//! own) or `daemon` (an orphan in a session of its own, without the pipes). The child's pid is printed first.

use std::process::{Command, ExitCode, Stdio};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, how, seconds] = arguments.as_slice() else { return ExitCode::from(2) };
    let (script, holds_pipes) = match how.as_str() {
        "plain" => ("sleep $1 & echo $!", true),
        "quiet" => ("sleep $1 >/dev/null 2>&1 & echo $!", false),
        "setsid" => ("setsid sleep $1 & echo $!", true),
        "daemon" => ("(setsid sh -c 'echo $$; exec sleep $0 >/dev/null 2>&1' $1 &)", false),
        _ => return ExitCode::from(2),
    };
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", seconds]);
    if holds_pipes {
        command.stdin(Stdio::null());
    }
    if command.status().is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
