//! The keeper as a program of its own: small, so that hundreds of them cost little.

use std::io::Write;

fn main() -> std::process::ExitCode {
    outlive_sys::prefault::first_functions();
    // No starter ever gives a keeper an argument.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == "--version") {
        let version = concat!("outlive-keeper ", env!("CARGO_PKG_VERSION"), "\n");
        std::io::stdout().write_all(version.as_bytes()).ok();
        return std::process::ExitCode::SUCCESS;
    }
    outlive_keeper::run()
}
