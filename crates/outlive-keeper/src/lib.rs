//! The keeper: the tiny process that owns one job.
//!
//! It holds the command's pipes, writes what comes out of them to the log, keeps the deadline, carries out requests from
//! its socket, and writes the outcome. It records and controls, and everything else (lines, views, notices, statistics)
//! is derived by readers from what it recorded.
//!
//! # Theory of operation
//!
//! One thread, one `poll`. Everything that can fail is done before the command is executed ([`start`](crate)). After that
//! nothing may stop the loop: a full disk costs output and is counted, a slow client waits, a sync happens apart while
//! anything is left to drain. An idle keeper sleeps in `poll` without a timeout.
//!
//! Of its session the keeper knows the directory, where it appends events and looks at the lease. It sets the job's own
//! limits and checks those that the kernel does not enforce.
//!
//! What is deliberately not here: parsing of JSON, limits of a session or store, an async runtime, emulation of a
//! terminal, and any decision that a reader can make later.

mod clients;
mod containment;
mod ending;
mod endpoint;
mod event_writer;
mod guard;
mod input;
mod killing;
mod lifetime;
mod limits;
mod next_run;
mod notices;
mod on_exit;
mod prober;
mod recorder;
mod requests;
mod start;
mod supervise;
mod terminal;
mod turn;

use outlive_sys::keeper::{PAGE, RESUME, RESUME_GUARD};

/// The name that a keeper goes by in a process list, and the first argument by which the `outlive` binary knows that it
/// is to be one.
pub use outlive_sys::keeper::PROGRAM;

/// Is the keeper of one job until the job is closed.
///
/// The program must have been started by the library, which hands it a socket. With the launch request come the job's
/// descriptors: `lock` and `done`, its directory, outcome, index and log. To be called before anything else.
///
/// It is also executed to say what it understands, and by a keeper or guard of another version, in its own place (`docs/design/upgrade.md`).
pub fn run() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next().unwrap_or_default();
    let mut page = || arguments.next()?.to_str()?.parse().ok();
    let begun = if role == PAGE {
        return std::process::ExitCode::from(u8::from(guard::print_page_version().is_err()));
    } else if role == RESUME {
        page().and_then(guard::resume_as_keeper).ok_or(6)
    } else if role == RESUME_GUARD {
        page().and_then(guard::resume_as_guard).ok_or(6)
    } else {
        start::start()
    };
    match begun {
        Ok((keeper, buffer)) => {
            outlive_sys::memory::give_back();
            std::process::ExitCode::from(keeper.supervise(buffer))
        }
        Err(code) => std::process::ExitCode::from(code),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_file_that_marks_a_keeper_is_the_lock_of_a_job() {
        assert_eq!(outlive_sys::keeper::LOCK_NAME, outlive_core::file::LOCK);
    }
}
