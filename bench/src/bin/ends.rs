//! The command whose end `notify` waits for. It ends when a writer closes its FIFO, and reports when that was.
//!
//! `ends FIFO SOCKET` waits until a process has opened and closed FIFO for writing, takes the time, sends it in one datagram
//! and exits with 7. Everything that this needs is prepared before.

use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(fifo), Some(socket)) = (arguments.next(), arguments.next()) else { return ExitCode::from(2) };
    let Ok(ours) = UnixDatagram::unbound() else { return ExitCode::from(3) };
    if ours.connect(socket).is_err() {
        return ExitCode::from(3);
    }
    if File::open(fifo).and_then(|mut fifo| fifo.read(&mut [0; 1])).is_err() {
        return ExitCode::from(4);
    }
    let now = outlive_sys::clock::boot_us();
    match ours.send(&now.to_le_bytes()) {
        Ok(_) => ExitCode::from(7),
        Err(_) => ExitCode::from(5),
    }
}
