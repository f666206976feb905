//! Counts on both streams: `counts LINES PAUSE_US WIDTH CODE`, then exits with the code.
//!
//! Every line has its number and its stream, so that a log can be checked without keeping a copy; the last line of each
//! stream says how many there were. With LINES 0 it counts until it reads `stop` or its input ends. Between two lines it
//! pauses, and repeats on standard output what it reads; with PAUSE_US 0 it writes as fast as it can and reads nothing.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use outlive_tests::counts::{echo, end, line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// So many lines are written at a time where there is no pause.
const BATCH: u64 = 256;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [lines, pause, width, code] = numbers[..] else { return ExitCode::from(2) };
    let (Ok(width), Ok(code)) = (usize::try_from(width), u8::try_from(code)) else {
        return ExitCode::from(2);
    };
    match count(lines, Duration::from_micros(pause), width) {
        Ok(()) => ExitCode::from(code),
        // Whoever reads is gone.
        Err(_) => ExitCode::from(3),
    }
}

fn count(lines: u64, pause: Duration, width: usize) -> std::io::Result<()> {
    let mut input = Input::default();
    let mut written = 0;
    while (lines == 0 || written < lines) && !input.is_over(lines) {
        let batch = if pause.is_zero() { BATCH } else { 1 };
        let next = if lines == 0 { written + batch } else { lines.min(written + batch) };
        let of = |stream| (written..next).flat_map(|number| line(stream, number, width)).collect::<Vec<u8>>();
        std::io::stdout().write_all(&of('o'))?;
        std::io::stdout().flush()?;
        std::io::stderr().write_all(&of('e'))?;
        written = next;
        if !pause.is_zero() {
            input.repeat_within(pause)?;
        }
    }
    std::io::stdout().write_all(&end('o', written))?;
    std::io::stdout().flush()?;
    std::io::stderr().write_all(&end('e', written))
}

/// What is read.
#[derive(Default)]
struct Input {
    unfinished: Vec<u8>,
    is_stopped: bool,
    has_ended: bool,
}

impl Input {
    /// One who counts to a number does not mind the end of the input.
    fn is_over(&self, lines: u64) -> bool {
        self.is_stopped || (self.has_ended && lines == 0)
    }

    /// Repeats what comes within a time.
    fn repeat_within(&mut self, pause: Duration) -> std::io::Result<()> {
        if self.has_ended {
            std::thread::sleep(pause);
            return Ok(());
        }
        let stdin = std::io::stdin();
        let limit = Timespec::try_from(pause).map_err(std::io::Error::other)?;
        if poll(&mut [PollFd::new(&stdin.as_fd(), PollFlags::IN)], Some(&limit))? == 0 {
            return Ok(());
        }
        let mut bytes = [0; 4096];
        // Below the buffer of standard input, which poll does not know about.
        let count = std::fs::File::from(stdin.as_fd().try_clone_to_owned()?).read(&mut bytes)?;
        self.has_ended = count == 0;
        self.unfinished.extend_from_slice(&bytes[..count]);
        while let Some(at) = self.unfinished.iter().position(|&byte| byte == b'\n') {
            let text: Vec<u8> = self.unfinished.drain(..=at).collect();
            if text == b"stop\n" {
                self.is_stopped = true;
            } else {
                std::io::stdout().write_all(&echo(&text[..text.len() - 1]))?;
                std::io::stdout().flush()?;
            }
        }
        Ok(())
    }
}
