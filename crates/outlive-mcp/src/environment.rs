//! The environment of jobs.
//!
//! Some clients hand all their variables to a server, keys included, others nearly none. The user chooses what jobs get.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use outlive::JobEnvironment;

/// Variables by name.
type Variables = Vec<(OsString, OsString)>;

/// How long the user's shell may take to start.
const LIMIT: Duration = Duration::from_secs(10);

/// The environment that jobs start from.
#[derive(Debug)]
pub(crate) struct Environment {
    mode: JobEnvironment,
    login: OnceLock<Option<Variables>>,
}

impl Environment {
    pub(crate) fn new(mode: JobEnvironment) -> Self {
        Self { mode, login: OnceLock::new() }
    }

    /// Returns the environment for a job; `None` for the server's own.
    pub(crate) fn base(&self) -> Option<Variables> {
        match self.mode {
            JobEnvironment::Inherit => None,
            JobEnvironment::Clean => Some(clean()),
            // If the login shell does not answer, jobs get the clean environment.
            JobEnvironment::Login => Some(self.login.get_or_init(login).clone().unwrap_or_else(clean)),
        }
    }
}

fn clean() -> Variables {
    let is_kept = |name: &OsString| match &*name.to_string_lossy() {
        "HOME" | "USER" | "LOGNAME" | "SHELL" | "PATH" | "LANG" | "TERM" | "TMPDIR" | "TZ"
        | "OUTLIVE_HOME" | "OUTLIVE_CONFIG" => true,
        name => name.starts_with("LC_") || name.starts_with("XDG_"),
    };
    std::env::vars_os().filter(|(name, _)| is_kept(name)).collect()
}

/// Asks the user's login shell for its environment.
fn login() -> Option<Variables> {
    let shell =
        std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let mut command = Command::new(shell);
    // The marker separates the environment from what the shell's startup files print.
    command.args(["-l", "-c", "printf '\\n%s\\0' OUTLIVE-ENVIRONMENT; env -0"]);
    command.env_clear().envs(clean()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::Builder::new().name("login".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        stdout.by_ref().take(4 << 20).read_to_end(&mut bytes).ok();
        sender.send(bytes).ok();
    });
    reader.ok()?;
    let deadline = Instant::now() + LIMIT;
    let bytes = receiver.recv_timeout(LIMIT).ok();
    let is_over = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                child.kill().ok();
                child.wait().ok();
                break false;
            }
        }
    };
    parse(&bytes.filter(|_| is_over)?)
}

fn parse(bytes: &[u8]) -> Option<Variables> {
    const BEGIN: &[u8] = b"\nOUTLIVE-ENVIRONMENT\0";
    let begin = bytes.windows(BEGIN.len()).rposition(|window| window == BEGIN)? + BEGIN.len();
    let entries = bytes[begin..].split(|&byte| byte == 0).filter(|entry| !entry.is_empty());
    let pair = |entry: &[u8]| {
        let equals = entry.iter().position(|&byte| byte == b'=').filter(|&at| at > 0)?;
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((text(&entry[..equals]), text(&entry[equals + 1..])))
    };
    let variables: Variables =
        entries.filter_map(pair).filter(|(name, _)| name != "_" && name != "SHLVL").collect();
    (!variables.is_empty()).then_some(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_prints_before_is_not_taken_for_variables() {
        let read = parse(b"welcome\nA=no\0\nOUTLIVE-ENVIRONMENT\0B=1\0C=x\ny=z\0_=env\0").unwrap();
        assert_eq!(read, [("B".into(), "1".into()), ("C".into(), "x\ny=z".into())]);
        assert_eq!(parse(b"A=1\0"), None);
        assert_eq!(parse(b"\nOUTLIVE-ENVIRONMENT\0"), None);
    }
}
