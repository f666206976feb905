//! The writer of `read` whose output is followed: a line at a time at even intervals, each with the time of its writing.
//!
//! `ticks COUNT MICROS BYTES` writes so many lines of so many bytes, each in one write, `MICROS` apart; the first comes
//! after one such interval.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use outlive_sys::clock;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers = std::env::args().skip(1).map(|number| number.parse()).collect::<Result<Vec<u32>, _>>()?;
    let [count, micros, bytes] = numbers[..] else { return Err("ticks COUNT MICROS BYTES".into()) };
    let (interval, width) = (Duration::from_micros(micros.into()), bytes as usize);
    // Not `stdout()` itself, which has a buffer.
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let mut due = Instant::now();
    for _ in 0..count {
        due += interval;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // The time is in microseconds since boot, and all before the first space.
        let mut line = vec![b'.'; width];
        line[width - 1] = b'\n';
        let mut rest = line.as_mut_slice();
        write!(rest, "{} ", clock::boot_us())?;
        output.write_all(&line)?;
    }
    Ok(())
}
