//! Starts a Slurm, runs a command that knows of it, and ends it: `with-slurm COMMAND ARGUMENT…`. Tests that the command runs have their
//! jobs placed by it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a program for tests that cannot go on must stop loudly"
)]

use std::process::{Command, ExitCode};

use outlive_tests::Slurm;

fn main() -> ExitCode {
    let dir = tempfile::Builder::new().prefix("outlive-slurm-").tempdir().unwrap();
    let Some(slurm) = Slurm::start(dir.path().to_owned()) else {
        eprintln!("with-slurm: Slurm cannot be started here, and nothing was run");
        return ExitCode::from(2);
    };
    let mut words = std::env::args_os().skip(1);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).env("SLURM_CONF", slurm.conf()).env("OUTLIVE_TEST_ENGINE", "1");
    let status = command.status().unwrap();
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
