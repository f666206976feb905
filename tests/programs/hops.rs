//! Runs away: `hops MILLISECONDS [LANES]`. Starts itself again and exits, over and over, until the time is up.
//!
//! Nobody can hold on to one of its pids for long; it ends by itself so that no test leaves it behind.

use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis();
    let Ok(now) = u64::try_from(now) else { return ExitCode::from(2) };
    let Ok(myself) = std::env::current_exe() else { return ExitCode::from(2) };
    let hop = |deadline: u64| Command::new(&myself).args(["until", &deadline.to_string()]).spawn().is_ok();
    let went = match (number(1), number(2)) {
        // The first one, on its way.
        (Some(time), lanes) => (0..lanes.unwrap_or(1)).all(|_| hop(now + time)),
        // One of those that follow.
        (None, Some(deadline)) => now >= deadline || hop(deadline),
        (None, None) => false,
    };
    if went { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
