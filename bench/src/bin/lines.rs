//! The writer of `throughput`: lines of 80 bytes on standard output, 64 KiB at a time, as a program with a buffer writes.
//!
//! `lines BYTES` writes exactly so many bytes; the last line may be cut.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

/// A line, its newline included.
const LINE: usize = 80;

/// One write.
const WRITE: usize = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = std::env::args().nth(1).ok_or("lines BYTES")?.parse::<usize>()?;
    let mut line = [b'x'; LINE];
    line[LINE - 1] = b'\n';
    // As many writes as it takes until a line ends with a write, so that every write is a plain slice.
    let pattern = line.repeat(WRITE);
    // Not `stdout()` itself, which looks for newlines in all that it writes.
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let mut written = 0;
    while written < bytes {
        let from = written % pattern.len();
        let count = WRITE.min(bytes - written).min(pattern.len() - from);
        output.write_all(&pattern[from..from + count])?;
        written += count;
    }
    Ok(())
}
