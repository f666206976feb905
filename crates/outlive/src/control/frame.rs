//! One frame from a keeper's socket.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use outlive_core::wire::{HEADER, MAX_FRAME};

/// Reads one frame from a keeper and returns its content; waits up to the socket's read timeout.
pub(crate) fn receive_frame(mut stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes(header) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut contents = vec![0; length];
    stream.read_exact(&mut contents)?;
    Ok(contents)
}
