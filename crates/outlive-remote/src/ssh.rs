//! Machines that the system's own `ssh` reaches: its configuration, agent, jump hosts and known hosts are the user's.
//!
//! All connections to a machine share one, which `ssh` itself keeps open for a minute (`ControlMaster`). There, `outlive rpc` speaks the
//! API on its standard input and output; nothing listens. The program is this very one: it is copied into the user's own directory,
//! under a name that has its hash, unless that is forbidden.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outlive_sys::socket;
use sha2::{Digest, Sha256};

use crate::connection::{Carrier, Connection};
use crate::error::RemoteError;

/// What the other machine says where outlive is not there.
const MISSING: &str = "outlive-missing";

/// The path of a socket has at most 107 bytes; `ssh` puts 40 for the connection and 18 for its own use behind ours.
const LONGEST_DIRECTORY: usize = 107 - 40 - 18;

/// How machines are reached by SSH.
#[derive(Debug, Clone, Copy)]
pub struct Ssh {
    /// The program is copied to a machine that does not have it.
    pub copies: bool,
    /// Tells the user of it.
    pub tell: fn(&str),
    /// `ssh` may ask at the terminal, such as for a passphrase. A program that draws in the terminal forbids it.
    pub asks: bool,
}

impl Default for Ssh {
    fn default() -> Self {
        Self { copies: true, tell: |_| {}, asks: true }
    }
}

impl Ssh {
    /// Starts `outlive rpc` on a machine.
    pub(crate) fn connect(&self, destination: &str, port: Option<u16>) -> Result<Connection, RemoteError> {
        let machine = Machine { destination, port, asks: self.asks };
        let Missing(system) = match machine.start(self.copies)? {
            Ok(connection) => return Ok(connection),
            Err(missing) => missing,
        };
        let not_installed = |what: String| RemoteError::NotInstalled(machine.name(), what);
        if !self.copies {
            return Err(not_installed("outlive is not in the PATH there".to_owned()));
        }
        let own = own_system();
        if system != own {
            return Err(not_installed(format!("it is {system}, and this program is for {own}")));
        }
        machine.copy(self.tell)?;
        match machine.start(true)? {
            Ok(connection) => Ok(connection),
            Err(_) => Err(not_installed("outlive was copied there, and is not there".to_owned())),
        }
    }
}

/// outlive is not there; what `uname -sm` says there.
struct Missing(String);

/// A machine that `ssh` reaches.
pub(crate) struct Machine<'a> {
    destination: &'a str,
    port: Option<u16>,
    asks: bool,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(destination: &'a str, port: Option<u16>) -> Self {
        Self { destination, port, asks: true }
    }

    pub(crate) fn destination(&self) -> &str {
        self.destination
    }

    pub(crate) fn name(&self) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("ssh://{}{port}", self.destination)
    }

    /// Returns `ssh` with our options; what follows is run by a shell there.
    pub(crate) fn ssh(&self, script: &str) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        // The user's shell there may be any; a word in single quotes is the same to all of them.
        command.args(&words[1..]).args(["--", self.destination, &format!("exec /bin/sh -c '{script}'")]);
        command
    }

    /// Returns `ssh` with our options.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec!["ssh".to_owned()];
        if let Some(path) = runtime_dir().filter(|path| path.as_os_str().len() <= LONGEST_DIRECTORY) {
            let path = path.join("%C");
            words.extend(["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o"].map(str::to_owned));
            words.push(format!("ControlPath={}", path.display()));
        }
        // A connection that is cut is noticed after 15 s, and its end is told to all that use it.
        for option in ["ServerAliveInterval=5", "ServerAliveCountMax=3", "ConnectTimeout=10"] {
            words.extend(["-o".to_owned(), option.to_owned()]);
        }
        if !self.asks {
            words.extend(["-o", "BatchMode=yes"].map(str::to_owned));
        }
        words.extend(["-T", "-e", "none"].map(str::to_owned));
        if let Some(port) = self.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
        words
    }

    /// Starts the program there; the inner error: it is not there.
    fn start(&self, is_copied: bool) -> Result<Result<Connection, Missing>, RemoteError> {
        let unreachable = |error: io::Error| RemoteError::Unreachable(self.name(), error);
        let program = match is_copied {
            true => format!("{}/outlive-{}", directory(), own_hash().map_err(unreachable)?),
            false => "outlive".to_owned(),
        };
        // It says that it runs before the API begins, so that what went wrong before is told apart.
        let script = format!(
            "p=$(command -v \"{program}\") && [ -x \"$p\" ] && echo outlive-found && exec \"$p\" rpc; \
             echo {MISSING} \"$(uname -sm)\""
        );
        let mut command = self.ssh(&script);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(unreachable)?;
        let (Some(writer), Some(mut reader)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(unreachable(io::ErrorKind::BrokenPipe.into()));
        };
        let mut carrier = Carrier(Some(child));
        let line = first_line(&mut reader).map_err(unreachable)?;
        if line == "outlive-found" {
            return Ok(Ok(Connection::over(reader, writer, &self.name()).carried_by(carrier)));
        }
        if let Some(system) = line.strip_prefix(MISSING) {
            return Ok(Err(Missing(system.trim().to_owned())));
        }
        drop(writer);
        match carrier.last_words() {
            Some((_, said)) if !said.is_empty() => Err(RemoteError::Ssh(self.destination.to_owned(), said)),
            Some((status, _)) => {
                let status =
                    status.map_or_else(|| "a signal".to_owned(), |status| format!("status {status}"));
                Err(RemoteError::Ssh(self.destination.to_owned(), format!("ended with {status}")))
            }
            None => Err(unreachable(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Copies this program there, under a name with its hash: one that is there is whole.
    fn copy(&self, tell: fn(&str)) -> Result<(), RemoteError> {
        let unreachable = |error: io::Error| RemoteError::Unreachable(self.name(), error);
        let program = File::open(own_program()).map_err(unreachable)?;
        let mebibytes = program.metadata().map_err(unreachable)?.len().div_ceil(1 << 20);
        tell(&format!(
            "outlive: copying outlive to {}, once for this version ({mebibytes} MiB)",
            self.destination
        ));
        let (directory, hash) = (directory(), own_hash().map_err(unreachable)?);
        let script = format!(
            "umask 077; d=\"{directory}\"; mkdir -p \"$d\" && cat >\"$d/.new-$$\" && chmod 700 \"$d/.new-$$\" && \
             mv \"$d/.new-$$\" \"$d/outlive-{hash}\""
        );
        let copied = self.ssh(&script).stdin(program).stdout(Stdio::null()).output().map_err(unreachable)?;
        match copied.status.success() {
            true => Ok(()),
            false => {
                let said = outlive::one_line(String::from_utf8_lossy(&copied.stderr).trim());
                Err(RemoteError::NotInstalled(
                    self.name(),
                    format!("outlive could not be copied there: {said}"),
                ))
            }
        }
    }
}

/// Reads a line, byte by byte: what follows belongs to another reader. A banner of the user's shell is passed over.
fn first_line(from: &mut impl Read) -> io::Result<String> {
    const LONGEST: usize = 64 << 10;
    let (mut line, mut read) = (Vec::new(), 0);
    let mut byte = [0];
    while read < LONGEST && from.read(&mut byte)? == 1 {
        read += 1;
        if byte[0] != b'\n' {
            line.push(byte[0]);
            continue;
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if text.starts_with("outlive-") {
            return Ok(text);
        }
        line.clear();
    }
    Ok(String::new())
}

/// The directory of copied programs, as a shell there reads it.
fn directory() -> &'static str {
    "${XDG_DATA_HOME:-$HOME/.local/share}/outlive/bin"
}

/// What `uname -sm` says here.
fn own_system() -> String {
    let system = if std::env::consts::OS == "macos" { "Darwin" } else { "Linux" };
    let machine = match (system, std::env::consts::ARCH) {
        ("Darwin", "aarch64") => "arm64",
        (_, other) => other,
    };
    format!("{system} {machine}")
}

fn own_program() -> &'static Path {
    // Still valid if the file was replaced since this program started.
    Path::new("/proc/self/exe")
}

/// Returns the hash of this program, which is remembered by what the file system says of it: to read it all takes longer than to ask
/// another machine.
fn own_hash() -> io::Result<String> {
    let mut file = File::open(own_program())?;
    let known = file.metadata()?;
    let name = format!("{:x}-{:x}-{:x}-{:x}", known.dev(), known.ino(), known.size(), known.mtime_nsec());
    let path = runtime_dir().map(|directory| directory.join(format!("hash-{name}-{:x}", known.mtime())));
    let remembered = path.as_ref().and_then(|path| fs::read_to_string(path).ok());
    let is_hash = |text: &String| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(hash) = remembered.filter(is_hash) {
        return Ok(hash);
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    if let Some(path) = path {
        // One that cannot be remembered is found again.
        fs::write(path, &hash).ok();
    }
    Ok(hash)
}

/// Returns the directory for what lives no longer than this login, which only this user can use; makes it if needed.
pub fn runtime_dir() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let path = match given {
        Some(path) => path.join("outlive"),
        None => PathBuf::from(format!("/tmp/outlive-{}", socket::own_uid())),
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
        _ => {}
    }
    // In a directory that others can write to, another user may have made it first.
    let made = fs::symlink_metadata(&path).ok()?;
    let is_own = made.is_dir() && made.uid() == socket::own_uid() && made.mode() & 0o077 == 0;
    is_own.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banner_is_passed_over_and_what_follows_is_left() {
        let mut stream: &[u8] = b"Welcome!\r\nlast login: today\noutlive-found\nHTTP/1.1";
        assert_eq!(first_line(&mut stream).unwrap(), "outlive-found");
        assert_eq!(stream, b"HTTP/1.1");
        let mut silent: &[u8] = b"Permission denied";
        assert_eq!(first_line(&mut silent).unwrap(), "");
    }
}
