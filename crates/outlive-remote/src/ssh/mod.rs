//! Machines that the system's own `ssh` reaches: its configuration, agent, jump hosts and known hosts are the user's.
//!
//! All connections to a machine share one, which `ssh` itself keeps open for a minute (`ControlMaster`); where it is open, the process that
//! has it is asked in place of a further `ssh`. There, `outlive rpc` speaks the
//! API on its standard input and output; nothing listens. The program is this very one: it is copied into the user's own directory,
//! under a name that has its hash, unless that is forbidden.

mod route;
pub(crate) mod shared;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outlive_sys::fault::{self, Point};
use outlive_sys::socket;
use sha2::{Digest, Sha256};

use self::route::Route;
use self::shared::Wanted;
use crate::connection::{Carrier, Connection, LastWords};
use crate::error::RemoteError;

/// The line that `outlive rpc --greet` begins with: what comes before it, a banner of the user's shell, is not of the API.
pub const GREETING: &str = "outlive-found";

/// The directory of copied programs. The user's shell there may be any, and all of them read this as a directory in the home.
const DIRECTORY: &str = "~/.local/share/outlive/bin";

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
    /// Starts `outlive rpc` on a machine. Whether the machine answers, and has the program, is in the greeting of the connection.
    pub(crate) fn connect(&self, destination: &str, port: Option<u16>) -> Result<Connection, RemoteError> {
        let greeting = Greeting { destination: destination.to_owned(), port, ssh: *self, is_copied: false };
        greeting.connect()
    }
}

/// What a machine says before the API begins, if it has the program. It is read with the first answer.
#[derive(Debug)]
pub(crate) struct Greeting {
    destination: String,
    port: Option<u16>,
    ssh: Ssh,
    /// The program was copied there for this connection.
    is_copied: bool,
}

impl Greeting {
    fn machine(&self) -> Machine<'_> {
        Machine { destination: &self.destination, port: self.port, asks: self.ssh.asks }
    }

    fn connect(self) -> Result<Connection, RemoteError> {
        let connection = self.machine().start(self.ssh.copies)?;
        Ok(connection.greeted_by(self))
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(crate) fn read(&self, from: &mut impl Read) -> io::Result<()> {
        if is_greeted(from)? { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Connects again where there was none because the program is not there: it is copied, and has taken no request yet.
    pub(crate) fn missed(self, error: io::Error, last: Option<LastWords>) -> Result<Connection, RemoteError> {
        match last {
            // The shell's own word, or that of a program that is no outlive; `ssh` itself has none of these.
            Some((Some(status @ 1..=254), said)) => self.copied(status, &said),
            last => Err(self.unconnected(error, last)),
        }
    }

    /// Copies the program to the machine, and connects to the copy.
    fn copied(self, status: i32, said: &str) -> Result<Connection, RemoteError> {
        const NOT_FOUND: i32 = 127;
        let machine = self.machine();
        let not_installed = |what: String| Err(RemoteError::NotInstalled(machine.name(), what));
        let why = match said {
            "" => format!("ended with status {status}"),
            said => outlive::one_line(said),
        };
        match (self.ssh.copies, self.is_copied) {
            (false, _) if status == NOT_FOUND => {
                return not_installed("outlive is not in the PATH there".to_owned());
            }
            (false, _) => return not_installed(format!("outlive does not run there: {why}")),
            (true, true) => {
                return not_installed(format!("outlive was copied there, and does not run: {why}"));
            }
            (true, false) => {}
        }
        machine.check_system(&machine.system()?)?;
        machine.copy(self.ssh.tell)?;
        Self { is_copied: true, ..self }.connect()
    }

    /// Explains why there is no connection, by the exit status of `ssh` and what it said.
    fn unconnected(self, error: io::Error, last: Option<LastWords>) -> RemoteError {
        let name = self.machine().name();
        match last {
            // The request was on its way, and may have been carried out.
            Some((_, said)) if !said.is_empty() && !is_unconnected(&said) => {
                RemoteError::Lost(name, io::Error::other(outlive::one_line(&said)))
            }
            Some((_, said)) if !said.is_empty() => RemoteError::Ssh(self.destination, said),
            Some((Some(status), _)) => {
                RemoteError::Ssh(self.destination, format!("ended with status {status}"))
            }
            Some((None, _)) => RemoteError::Ssh(self.destination, "ended with a signal".to_owned()),
            None => RemoteError::Unreachable(name, error),
        }
    }
}

/// Tells whether `ssh` says that there was no connection at all: then the machine has taken nothing.
fn is_unconnected(said: &str) -> bool {
    const SAID: [&str; 9] = [
        "ssh: ",
        "Permission denied",
        "Host key verification failed",
        "banner exchange",
        "kex_exchange_identification",
        "Too many authentication failures",
        "Bad configuration option",
        "terminating,",
        "Bad owner or permissions",
    ];
    said.lines().any(|line| SAID.iter().any(|part| line.contains(part)))
}

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

    /// Returns `ssh` with our options, and a script for the shell of all systems.
    pub(crate) fn ssh(&self, script: &str) -> Command {
        // The user's shell there may be any; a word in single quotes is the same to all of them.
        self.command(&format!("exec /bin/sh -c '{script}'"))
    }

    /// Returns `ssh` with our options, and a line for the user's shell there.
    fn command(&self, line: &str) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["--", self.destination, line]);
        command
    }

    /// Returns `ssh` with our options.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec!["ssh".to_owned()];
        if let Some(path) = control_directory() {
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

    /// Starts the program there: the copy, or the one in the `PATH`. The user's shell is the only program that is executed before it,
    /// and says so where it is not there.
    fn start(&self, is_copy: bool) -> Result<Connection, RemoteError> {
        let unreachable = |error: io::Error| RemoteError::Unreachable(self.name(), error);
        let program = match is_copy {
            true => format!("{DIRECTORY}/outlive-{}", own_hash().map_err(unreachable)?),
            false => "outlive".to_owned(),
        };
        let line = format!("exec {program} rpc --greet");
        if let Some(connection) = self.start_shared(&line) {
            return Ok(connection);
        }
        let mut ssh = self.command(&line);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = fault::step(Point::Connect, || ssh.spawn()).map_err(unreachable)?;
        let (Some(writer), Some(reader)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(unreachable(io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Connection::over(reader, writer, &self.name()).carried_by(Carrier::Process(child)))
    }

    /// Starts it over the connection that `ssh` shares; none: `ssh` is to do it, and what it knows is found out for the next time.
    fn start_shared(&self, line: &str) -> Option<Connection> {
        let directory = control_directory()?;
        let mut words = self.words();
        words.extend(["--".to_owned(), self.destination.to_owned()]);
        let Some(route) = Route::known(&directory, &words) else {
            Route::learn(directory, words);
            return None;
        };
        let wanted = Wanted { line, variables: &route.variables(), with_agent: route.with_agent };
        let opened = shared::open(&directory, route.connection.as_deref()?, &wanted);
        let (reader, writer, session) = opened.ok()?;
        Some(Connection::over(reader, writer, &self.name()).carried_by(Carrier::Session(session)))
    }

    /// Asks what kind of a system it is, in the words of `uname -sm`.
    fn system(&self) -> Result<String, RemoteError> {
        let unreachable = |error: io::Error| RemoteError::Unreachable(self.name(), error);
        let asked = self.ssh("uname -sm").stdin(Stdio::null()).output().map_err(unreachable)?;
        let (said, error) = (String::from_utf8_lossy(&asked.stdout), String::from_utf8_lossy(&asked.stderr));
        // A banner of the user's shell comes before it.
        match said.lines().next_back().filter(|_| asked.status.success()) {
            Some(system) => Ok(system.trim().to_owned()),
            None => Err(RemoteError::Ssh(self.destination.to_owned(), outlive::one_line(error.trim()))),
        }
    }

    /// Checks that this program is for such a system.
    fn check_system(&self, system: &str) -> Result<(), RemoteError> {
        let own = own_system();
        let other = || format!("it is {system}, and this program is for {own}");
        if system == own { Ok(()) } else { Err(RemoteError::NotInstalled(self.name(), other())) }
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
        let hash = own_hash().map_err(unreachable)?;
        let script = format!(
            "umask 077; d={DIRECTORY}; mkdir -p \"$d\" && cat >\"$d/.new-$$\" && chmod 700 \"$d/.new-$$\" && \
             mv \"$d/.new-$$\" \"$d/outlive-{hash}\""
        );
        let mut ssh = self.ssh(&script);
        ssh.stdin(program).stdout(Stdio::null());
        let copied = fault::step(Point::Copy, || ssh.output()).map_err(unreachable)?;
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

/// Reads up to our line, byte by byte: what follows belongs to another reader. False if it does not come.
fn is_greeted(from: &mut impl Read) -> io::Result<bool> {
    const LONGEST: usize = 64 << 10;
    let (mut line, mut read) = (Vec::new(), 0);
    let mut byte = [0];
    while read < LONGEST && from.read(&mut byte)? == 1 {
        read += 1;
        if byte[0] != b'\n' {
            line.push(byte[0]);
            continue;
        }
        if String::from_utf8_lossy(&line).trim() == GREETING {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
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
        fault::write(Point::HashWrite, hash.as_bytes(), |part| fs::write(path, part)).ok();
    }
    Ok(hash)
}

/// Returns the directory of shared connections.
fn control_directory() -> Option<PathBuf> {
    runtime_dir().filter(|path| path.as_os_str().len() <= LONGEST_DIRECTORY)
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
    fn to_a_machine_of_another_kind_nothing_is_copied() {
        let error = Machine::new("gpu1", None).check_system("Linux sparc64").unwrap_err();
        let expected = format!("ssh://gpu1: it is Linux sparc64, and this program is for {}", own_system());
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_was_on_its_way_may_have_arrived() {
        let missed = |said: &str| {
            let greeting = Greeting {
                destination: "gpu1".to_owned(),
                port: None,
                ssh: Ssh::default(),
                is_copied: false,
            };
            let last = Some((Some(255), said.to_owned()));
            greeting.missed(io::ErrorKind::UnexpectedEof.into(), last).unwrap_err()
        };
        for said in [
            "ssh: connect to host gpu1 port 22: Connection refused",
            "ssh: Could not resolve hostname gpu1: Name or service not known",
            "root@gpu1: Permission denied (publickey).",
            "Connection timed out during banner exchange",
        ] {
            assert!(matches!(missed(said), RemoteError::Ssh(..)), "{said}");
        }
        for said in ["Connection to gpu1 closed by remote host.", "Timeout, server gpu1 not responding."] {
            assert!(matches!(missed(said), RemoteError::Lost(..)), "{said}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_no_lost_connection() {
        let missed = |ssh: Ssh, is_copied: bool, status: i32| {
            let greeting = Greeting { destination: "gpu1".to_owned(), port: None, ssh, is_copied };
            let last = Some((Some(status), "sh: no such file".to_owned()));
            greeting.missed(io::ErrorKind::UnexpectedEof.into(), last).unwrap_err().to_string()
        };
        let kept = Ssh { copies: false, ..Ssh::default() };
        assert_eq!(missed(kept, false, 127), "ssh://gpu1: outlive is not in the PATH there");
        assert_eq!(missed(kept, false, 2), "ssh://gpu1: outlive does not run there: sh: no such file");
        let copied = "ssh://gpu1: outlive was copied there, and does not run: sh: no such file";
        assert_eq!(missed(Ssh::default(), true, 126), copied);
    }

    #[test]
    fn a_banner_is_passed_over_and_what_follows_is_left() {
        let mut stream: &[u8] = b"Welcome!\r\nlast login: today\noutlive-found\nHTTP/1.1";
        assert!(is_greeted(&mut stream).unwrap());
        assert_eq!(stream, b"HTTP/1.1");
        let mut silent: &[u8] = b"Permission denied\n";
        assert!(!is_greeted(&mut silent).unwrap());
    }
}
