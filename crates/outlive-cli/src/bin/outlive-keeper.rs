//! The keeper as a program of its own: small, so that hundreds of them cost little.

fn main() -> std::process::ExitCode {
    outlive_keeper::run()
}
