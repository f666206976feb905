//! The process of a verb: its three ends, its terminal, and its exit status.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use outlive::{Failure, SessionName, Signal, Store, TerminalSize};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::pipe::{self, Attempt};
use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_sys::pty;
use serde::Serialize;
use tokio::sync::mpsc;

use super::{Call, End, Manner};
use crate::access::Caller;
use crate::access::scope::Scope;

/// Pieces that are read ahead of a client; then the process waits.
const AHEAD: usize = 4;

/// How much is read at once.
const PIECE: usize = 32 << 10;

/// Threads only copy.
const STACK: usize = 128 << 10;

/// Variables of the caller that the command line looks at; no other is taken. Where the caller does not set one, it is not set, but for
/// `TZ`: then times are those of the server.
const VARIABLES: [&str; 5] = ["TERM", "COLORTERM", "NO_COLOR", "TZ", "OUTLIVE_SESSION"];

/// Variables that name the server's own conversation, which is not the caller's.
const NOT_PASSED: [&str; 5] =
    ["OUTLIVE_READER", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID", "OUTLIVE_HOST"];

/// What the process is told of its caller: the argument after `served`.
#[derive(Debug, Serialize)]
struct Terms<'a> {
    scope: Scope,
    /// The only session that the caller sees.
    session: Option<&'a SessionName>,
    /// Who asks, where it is not the user that runs the server.
    caller: &'a str,
    #[serde(flatten)]
    manner: &'a Manner,
}

/// What came from the process.
#[derive(Debug)]
pub(super) enum Said {
    /// A byte for the stream, and what was printed there.
    Bytes(Vec<u8>),
    /// It has ended, and all that it printed came before.
    Exit(i32),
}

/// A verb that runs. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) said: mpsc::Receiver<Said>,
    /// None: it has no input, or the input has ended.
    pub(super) input: Option<mpsc::Sender<Vec<u8>>>,
    terminal: Option<Arc<OwnedFd>>,
    handle: Option<Arc<Handle>>,
}

impl Process {
    pub(super) fn resize(&self, size: TerminalSize) {
        if let Some(terminal) = &self.terminal {
            // One that is gone has no size.
            pty::resize(terminal, size.columns(), size.rows()).ok();
        }
    }

    /// Returns what ends it, for another thread.
    pub(super) fn end(&self) -> Ended {
        Ended(self.handle.clone())
    }

    /// Tells whether its input is what a person types.
    pub(super) fn is_typed_into(&self) -> bool {
        self.terminal.is_some() && self.input.is_some()
    }

    /// Passes on a signal that the client's user sent from the keyboard, and no other.
    pub(super) fn interrupt(&self, name: &str) {
        let signal = Signal::parse(name).filter(|_| matches!(name, "INT" | "TERM" | "HUP"));
        if let (Some(handle), Some(signal)) = (&self.handle, signal) {
            handle.signal(signal).ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Ends a process when it is dropped, if that has not ended.
#[derive(Debug)]
pub(super) struct Ended(Option<Arc<Handle>>);

impl Drop for Ended {
    fn drop(&mut self) {
        // A handle is of one process and never of another that has its number later.
        if let Some(handle) = &self.0 {
            handle.signal(Signal::KILL).ok();
        }
    }
}

/// Waits for the end of the process, in a thread.
#[derive(Debug)]
pub(super) struct Waiting {
    child: Child,
    copying: Vec<JoinHandle<()>>,
    said: mpsc::Sender<Said>,
}

impl Waiting {
    pub(super) fn run(mut self) {
        // Its last bytes come before its end.
        for thread in self.copying.drain(..) {
            thread.join().ok();
        }
        let code = self.child.wait().map_or(1, |status| {
            status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
        });
        self.said.blocking_send(Said::Exit(code)).ok();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Where no thread was left to wait in; of a process that was reaped nothing happens.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts a verb.
pub(super) fn start(store: &Store, caller: &Caller, call: &Call) -> Result<(Process, Waiting), Failure> {
    let failed = |error: std::io::Error| Failure::other("command", &error);
    let terms = Terms {
        scope: caller.scope,
        session: caller.session.as_ref(),
        caller: &caller.name,
        manner: &call.manner,
    };
    let mut command = store.helper_command().map_err(failed)?;
    command.arg("served").arg(serde_json::to_string(&terms).map_err(|error| failed(error.into()))?);
    command.args(call.arguments.iter().map(|word| OsStr::from_bytes(&word.0)));
    command.current_dir(directory(call)?);
    for name in VARIABLES {
        match call.variables.get(name) {
            Some(value) => command.env(name, value),
            None if name == "TZ" => &mut command,
            None => command.env_remove(name),
        };
    }
    for name in NOT_PASSED {
        command.env_remove(name);
    }
    let terminal = open_terminal(call).map_err(failed)?;
    let end = |end: End| -> std::io::Result<Stdio> {
        Ok(match (end, &terminal) {
            (End::Terminal, Some((_, side))) => Stdio::from(side.try_clone()?),
            (End::None, _) => Stdio::null(),
            _ => Stdio::piped(),
        })
    };
    command.stdin(end(call.stdin).map_err(failed)?);
    command.stdout(end(call.stdout).map_err(failed)?);
    command.stderr(end(call.stderr).map_err(failed)?);
    let mut child = command.spawn().map_err(failed)?;
    // The other side of the terminal is the process's alone: when that ends, there is no more to read.
    drop(command);
    let master = terminal.map(|(master, _)| Arc::new(master));
    let (send, said) = mpsc::channel(AHEAD);
    let mut copying = Vec::new();
    for (number, pipe) in
        [(1, child.stdout.take().map(OwnedFd::from)), (2, child.stderr.take().map(OwnedFd::from))]
    {
        if let Some(pipe) = pipe {
            let send = send.clone();
            copying.push(thread(move || copy(number, File::from(pipe), &send)).map_err(failed)?);
        }
    }
    if let Some(master) = &master {
        // What is printed on the terminal goes to the client's, whichever of its ends that is.
        let number = if call.stdout == End::Terminal { 1 } else { 2 };
        let (master, send) = (Arc::clone(master), send.clone());
        copying.push(thread(move || copy_terminal(number, &master, &send)).map_err(failed)?);
    }
    let input = match (child.stdin.take(), call.stdin, &master) {
        (Some(pipe), ..) => Some(feed(move |bytes| (&pipe).write_all(bytes).is_ok()).map_err(failed)?),
        (None, End::Terminal, Some(master)) => {
            let master = Arc::clone(master);
            Some(feed(move |bytes| type_into(&master, bytes)).map_err(failed)?)
        }
        _ => None,
    };
    let handle = ProcessId::of(child.id().cast_signed()).and_then(Handle::open).map(Arc::new);
    Ok((Process { said, input, terminal: master, handle }, Waiting { child, copying, said: send }))
}

/// Makes a terminal of the client's size, where the client has one.
fn open_terminal(call: &Call) -> std::io::Result<Option<(OwnedFd, OwnedFd)>> {
    if ![call.stdin, call.stdout, call.stderr].contains(&End::Terminal) {
        return Ok(None);
    }
    let size = call.size.as_deref().and_then(|size| TerminalSize::parse(size).ok()).unwrap_or_default();
    pty::open(size.columns(), size.rows()).map(Some)
}

fn directory(call: &Call) -> Result<PathBuf, Failure> {
    let Some(directory) = &call.directory else {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        return Ok(home.unwrap_or_else(|| OsString::from("/")).into());
    };
    let path = PathBuf::from(OsStr::from_bytes(&directory.0));
    match path.is_absolute() && path.is_dir() {
        true => Ok(path),
        false => Err(Failure::usage(
            format!("there is no directory {} on the server's machine", path.display()),
            "go to a directory that both have, or say where with --cwd",
        )),
    }
}

pub(super) fn thread(run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("command".to_owned()).stack_size(STACK).spawn(run)
}

/// Hands on what is printed, until the end or until the client goes.
fn copy(number: u8, mut pipe: File, said: &mpsc::Sender<Said>) {
    let mut buffer = vec![0; PIECE];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) if !hand_on(number, &buffer[..count], said) => return,
            Ok(_) => {}
        }
    }
}

/// As [`copy`], from a terminal.
fn copy_terminal(number: u8, master: &OwnedFd, said: &mpsc::Sender<Said>) {
    let mut buffer = vec![0; PIECE];
    loop {
        match pipe::try_read(master, &mut buffer) {
            Attempt::Moved(count) if !hand_on(number, &buffer[..count], said) => return,
            Attempt::Moved(_) => {}
            Attempt::WouldBlock if wait(master, PollFlags::IN) => {}
            _ => return,
        }
    }
}

fn hand_on(number: u8, bytes: &[u8], said: &mpsc::Sender<Said>) -> bool {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(number);
    message.extend_from_slice(bytes);
    said.blocking_send(Said::Bytes(message)).is_ok()
}

/// Starts a thread that writes the client's input, in the order in which it comes.
fn feed(mut write: impl FnMut(&[u8]) -> bool + Send + 'static) -> std::io::Result<mpsc::Sender<Vec<u8>>> {
    let (send, mut receive) = mpsc::channel::<Vec<u8>>(AHEAD);
    thread(move || {
        while let Some(bytes) = receive.blocking_recv() {
            if !write(&bytes) {
                return;
            }
        }
    })?;
    Ok(send)
}

fn type_into(master: &OwnedFd, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match pipe::try_write(master, bytes) {
            Attempt::Moved(count) => bytes = &bytes[count..],
            Attempt::WouldBlock if wait(master, PollFlags::OUT) => {}
            _ => return false,
        }
    }
    true
}

fn wait(fd: &OwnedFd, what: PollFlags) -> bool {
    poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), what)], None).is_ok()
}
