//! Becomes another user: `becomes-owner FILE`, a set-user-id program. Says its pid in FILE when it is its owner for good,
//! and waits.
//!
//! It does nothing else, because for a while it is there with the rights of whoever runs the tests. It ends by itself after
//! two minutes.

use std::process::ExitCode;
use std::time::Duration;

use rustix::process::geteuid;
use rustix::thread::set_thread_res_uid;

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1) else { return ExitCode::from(2) };
    // Opened with the rights of whoever started it, before it has others for good.
    let (owner, starter) = (geteuid(), rustix::process::getuid());
    if set_thread_res_uid(starter, starter, owner).is_err() {
        return ExitCode::from(3);
    }
    let Ok(mut file) = std::fs::File::create_new(file) else { return ExitCode::from(4) };
    if set_thread_res_uid(starter, owner, owner).is_err() || set_thread_res_uid(owner, owner, owner).is_err()
    {
        return ExitCode::from(5);
    }
    if std::io::Write::write_all(&mut file, format!("{}\n", std::process::id()).as_bytes()).is_err() {
        return ExitCode::from(6);
    }
    std::thread::sleep(Duration::from_secs(120));
    ExitCode::SUCCESS
}
