//! The writer of `throughput`, `writers` and `read`: lines of 80 bytes on standard output, 64 KiB at a time, as a program
//! with a buffer writes.
//!
//! `lines BYTES` writes exactly so many bytes; the last line may be cut. All lines are the same. `lines BYTES numbered`
//! writes lines that begin with their numbers and have something to search for; see [`numbered`].

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

/// A line, its newline included.
const LINE: usize = 80;

/// One write.
const WRITE: usize = 64 << 10;

/// What numbered lines are made of.
const WORDS: [&str; 16] = [
    "request",
    "from",
    "cache",
    "served",
    "in",
    "12ms",
    "worker",
    "queue",
    "depth",
    "user",
    "session",
    "opened",
    "GET",
    "/api/v1/items",
    "status=200",
    "retry",
];

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = std::env::args().nth(1).ok_or("lines BYTES [numbered]")?.parse::<usize>()?;
    // Not `stdout()` itself, which looks for newlines in all that it writes.
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    match std::env::args().nth(2).as_deref() {
        None => same(&mut output, bytes),
        Some("numbered") => numbered(&mut output, bytes),
        Some(other) => Err(format!("there is no {other}").into()),
    }
}

fn same(output: &mut File, bytes: usize) -> Result<(), Box<dyn Error>> {
    let mut line = [b'x'; LINE];
    line[LINE - 1] = b'\n';
    // As many writes as it takes until a line ends with a write, so that every write is a plain slice.
    let pattern = line.repeat(WRITE);
    let mut written = 0;
    while written < bytes {
        let from = written % pattern.len();
        let count = WRITE.min(bytes - written).min(pattern.len() - from);
        output.write_all(&pattern[from..from + count])?;
        written += count;
    }
    Ok(())
}

/// Writes `0000000001 info: request from …`. The word after the number is `warning` in about one line of a hundred, and
/// `panicked` in one of a million; the rest are words in no order, as in a log.
fn numbered(output: &mut File, bytes: usize) -> Result<(), Box<dyn Error>> {
    let mut buffer = Vec::with_capacity(WRITE + LINE);
    let (mut number, mut left, mut random) = (0_u64, bytes, 1_u64);
    while left > 0 {
        while buffer.len() < WRITE {
            number += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut line = [b' '; LINE];
            line[LINE - 1] = b'\n';
            let word = match number {
                _ if number.is_multiple_of(1_000_000) => "panicked",
                _ if (random >> 33).is_multiple_of(100) => "warning",
                _ => "info",
            };
            let mut rest = &mut line[..LINE - 1];
            write!(rest, "{number:010} {word}:")?;
            // One draw has words enough for a line.
            for at in 0..16 {
                let word = WORDS[(random.rotate_left(4 * at) & 15) as usize];
                if rest.len() <= word.len() {
                    break;
                }
                write!(rest, " {word}")?;
            }
            buffer.extend_from_slice(&line);
        }
        let count = WRITE.min(left);
        output.write_all(&buffer[..count])?;
        buffer.drain(..count);
        left -= count;
    }
    Ok(())
}
