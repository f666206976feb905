//! The command whose first instruction `start` waits for: takes the time before anything else, and reports it.
//!
//! `stamp SOCKET TAG` sends `TAG TIME` in one datagram. It prints nothing: its output may have no reader.

use std::os::unix::net::UnixDatagram;
use std::process::ExitCode;

fn main() -> ExitCode {
    let now = outlive_sys::clock::boot_us();
    let mut arguments = std::env::args_os().skip(1);
    let (Some(socket), Some(tag)) = (arguments.next(), arguments.next()) else { return ExitCode::from(2) };
    let message = format!("{} {now}", tag.to_string_lossy());
    let sent = UnixDatagram::unbound().and_then(|ours| ours.send_to(message.as_bytes(), socket));
    if sent.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
