//! What a terminal shows while a command takes long: how long it has taken, and what it is at.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use outlive::duration::format_duration;
use outlive_sys::terminal;

use crate::render::{cut, one_line};

/// How often the line is drawn, and how long a command may take before it is.
const EVERY: Duration = Duration::from_secs(1);

/// Does something, and meanwhile shows what `is_at` says in a line of the terminal that standard error is; the line is gone
/// afterwards. Without a terminal, and with `is_quiet`, nothing is shown.
pub(crate) fn meanwhile<T>(is_quiet: bool, is_at: impl Fn() -> String + Send, act: impl FnOnce() -> T) -> T {
    if is_quiet || !io::stderr().is_terminal() {
        return act();
    }
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let began = Instant::now();
            let mut is_drawn = false;
            while is_done.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let time = format_duration(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
                let columns = terminal::columns(io::stderr()).unwrap_or(80);
                // The last column stays free: some terminals go to the next line there.
                draw(&cut(&one_line(&format!("{time}  {}", is_at())), columns.saturating_sub(1)));
                is_drawn = true;
            }
            if is_drawn {
                draw("");
            }
        });
        let result = act();
        drop(done);
        result
    })
}

fn draw(line: &str) {
    // A terminal that is gone shows nothing.
    write!(io::stderr().lock(), "\r{line}\x1b[K").ok();
}
