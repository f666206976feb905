//! Why a command could not be started, as facts.

use std::fs::File;
use std::io::Read;

use outlive_core::launch::Launch;
use outlive_core::outcome::NeverStarted;
use outlive_core::rawtext::RawText;
use outlive_sys::spawn::{Failure, Step};

/// Puts a failed start into facts that a reader can make a sentence of.
pub(super) fn explain(failure: &Failure, launch: &Launch<'_>) -> NeverStarted {
    const ENOENT: i32 = 2;
    const ENOEXEC: i32 = 8;
    const EACCES: i32 = 13;
    let never = |step: &str, path: &[u8]| NeverStarted {
        step: step.into(),
        errno: Some(failure.errno),
        path: Some(RawText::from(path)),
        detail: None,
    };
    let without_path = |step| NeverStarted { path: None, ..never(step, b"") };
    match failure.step {
        Step::Fork => without_path("fork"),
        Step::Group => without_path("group"),
        Step::Session => without_path("session"),
        Step::Stdio => without_path("stdio"),
        Step::Priority => {
            let detail = "a nice value below the starter's needs CAP_SYS_NICE or `ulimit -e`; leave --nice out or raise it";
            NeverStarted { detail: Some(detail.to_owned()), ..without_path("priority") }
        }
        Step::Directory => never("directory", launch.cwd),
        Step::Exec => {
            let candidates = launch.candidates.iter().copied();
            // A program that is there and still "not found" names an interpreter that is not.
            let missing = |path: &&[u8]| failure.errno == ENOENT && interpreter(path).is_some();
            if let Some(path) = candidates.clone().find(missing) {
                let detail = interpreter(path).map(|name| format!("its interpreter {name} does not exist"));
                return NeverStarted { detail, ..never("exec", path) };
            }
            if failure.errno == ENOENT {
                // What was asked for says more than the last place where it was looked for.
                return never("exec", launch.argv.first().copied().unwrap_or_default());
            }
            let path = candidates.clone().nth(failure.candidate).unwrap_or_default();
            // A directory of PATH that may not be searched hides nothing that is known to be there.
            if failure.errno == EACCES && launch.candidates.len() > 1 && !is_there(path) {
                let program = launch.argv.first().copied().unwrap_or_default();
                return NeverStarted { errno: Some(ENOENT), ..never("exec", program) };
            }
            let detail = (failure.errno == ENOEXEC)
                .then(|| "it is no program and has no #! line; let a shell run it".to_owned());
            NeverStarted { detail, ..never("exec", path) }
        }
    }
}

fn is_there(path: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(path)).exists()
}

/// Returns the interpreter that an existing file needs: the one in its `#!` line, else its dynamic loader.
fn interpreter(path: &[u8]) -> Option<String> {
    use std::os::unix::ffi::OsStrExt;
    let mut head = [0; 256];
    let count =
        File::open(std::ffi::OsStr::from_bytes(path)).and_then(|mut file| file.read(&mut head)).ok()?;
    let line = head[..count].split(|&byte| byte == b'\n').next()?;
    match line.strip_prefix(b"#!") {
        Some(rest) => {
            let word = rest.trim_ascii_start().split(|byte| byte.is_ascii_whitespace()).next()?;
            Some(String::from_utf8_lossy(word).into_owned())
        }
        None => Some("(its dynamic loader)".to_owned()),
    }
}
