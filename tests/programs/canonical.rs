//! The command of the fault suite: prints on both streams, reads a line, waits for a signal, prints more, exits with 7.
//!
//! Before each line that it prints it notes it in its ledger, so that whoever compares knows what was written at least
//! up to the line before.

use std::fs::File;
use std::io::{BufRead, Write};

use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_sys::signal::{catch_interrupt, interrupt_fd, interrupted};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let mut ledger = File::create(&arguments[1]).expect("the ledger can be written");
    let burst: usize = arguments[2].parse().expect("a number of lines");
    catch_interrupt();
    let mut numbers = [0usize; 2];
    let mut print = |stream: usize, text: &str| {
        let line = format!("{}{:06} {text}\n", ["o", "e"][stream], numbers[stream]);
        numbers[stream] += 1;
        ledger.write_all(line.as_bytes()).expect("the ledger can be written");
        // A keeper that died has closed the pipe; the command goes on, as most do not.
        match stream {
            0 => std::io::stdout().write_all(line.as_bytes()).and_then(|()| std::io::stdout().flush()).ok(),
            _ => std::io::stderr().write_all(line.as_bytes()).ok(),
        };
    };
    for _ in 0..3 {
        print(0, "begin");
        print(1, "begin");
    }
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).ok();
    print(0, &format!("read {}", line.trim()));
    while !line.is_empty() && !interrupted() {
        let fd = interrupt_fd().expect("it is caught");
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None).ok();
    }
    print(1, "signalled");
    for _ in 0..burst {
        print(0, "the quick brown fox jumps over the lazy dog, again and again and again");
    }
    std::process::exit(7);
}
