//! The process of a verb: its three ends, its terminal, and its exit status.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;

use outlive::{Failure, SessionName, Signal, Store, TerminalSize};
use outlive_sys::fork::{self, Child, Forked, Setting};
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
    /// None: it was waited for.
    child: Option<Child>,
    end: Ended,
    copying: Vec<JoinHandle<()>>,
    said: mpsc::Sender<Said>,
}

impl Waiting {
    pub(super) fn run(mut self) {
        // Its last bytes come before its end.
        for thread in self.copying.drain(..) {
            thread.join().ok();
        }
        let ended = self.child.take().map(Child::wait);
        self.said.blocking_send(Said::Exit(ended.and_then(Result::ok).unwrap_or(1))).ok();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Where no thread was left to wait in.
        if let Some(child) = self.child.take() {
            drop(Ended(self.end.0.take()));
            child.wait().ok();
        }
    }
}

/// A verb that this process is to do itself, in the place of the program that was to call it.
#[derive(Debug)]
pub struct Verb {
    /// What it is told of its caller.
    pub terms: OsString,
    /// The words after `outlive`.
    pub words: Vec<OsString>,
}

/// What came of a start that makes a process without executing a program.
pub(super) enum Started {
    /// The verb runs in another process.
    Runs(Process, Waiting),
    /// This is that process.
    Is(Verb),
}

/// Starts a verb, in a program that has other threads.
pub(super) fn execute(store: &Store, caller: &Caller, call: &Call) -> Result<(Process, Waiting), Failure> {
    let (mut command, ends) = prepare(store, caller, call)?;
    let [stdin, stdout, stderr] = ends.theirs;
    let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().map_err(failed)?;
    // The other side of the terminal is the process's alone: when that ends, there is no more to read.
    drop(command);
    pass_on(Child::of(child.id().cast_signed()), call, ends.ours, ends.terminal).map_err(failed)
}

/// Starts a verb in a program with this thread alone, of which the process is then a copy: to execute the program anew takes longer than
/// many a verb.
pub(super) fn fork(store: &Store, caller: &Caller, call: &Call) -> Result<Started, Failure> {
    let (command, ends) = prepare(store, caller, call)?;
    let owned = |(name, value): (&OsStr, Option<&OsStr>)| (name.to_owned(), value.map(OsStr::to_owned));
    let setting = Setting {
        stdio: ends.theirs,
        directory: command.get_current_dir().unwrap_or(Path::new("/")),
        variables: command.get_envs().map(owned).collect(),
    };
    match fork::fork(setting).map_err(failed)? {
        Forked::Parent(child) => {
            let (process, waiting) = pass_on(child, call, ends.ours, ends.terminal).map_err(failed)?;
            Ok(Started::Runs(process, waiting))
        }
        Forked::Child => {
            let mut words = command.get_args().skip(1).map(OsStr::to_owned);
            let terms = words.next().unwrap_or_default();
            Ok(Started::Is(Verb { terms, words: words.collect() }))
        }
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::other("command", &error)
}

/// The ends of a verb's process.
struct Ends {
    theirs: [OwnedFd; 3],
    /// Of its pipes.
    ours: [Option<OwnedFd>; 3],
    /// Our side of its terminal.
    terminal: Option<OwnedFd>,
}

impl Ends {
    fn make(call: &Call) -> io::Result<Self> {
        let terminal = open_terminal(call)?;
        let end = |end: End, is_input: bool| -> io::Result<(OwnedFd, Option<OwnedFd>)> {
            Ok(match (end, &terminal) {
                (End::Terminal, Some((_, side))) => (side.try_clone()?, None),
                (End::None, _) => (OpenOptions::new().read(true).write(true).open("/dev/null")?.into(), None),
                _ => {
                    let (reader, writer) = io::pipe()?;
                    match is_input {
                        true => (reader.into(), Some(writer.into())),
                        false => (writer.into(), Some(reader.into())),
                    }
                }
            })
        };
        let (stdin, input) = end(call.stdin, true)?;
        let (stdout, output) = end(call.stdout, false)?;
        let (stderr, errors) = end(call.stderr, false)?;
        Ok(Self {
            theirs: [stdin, stdout, stderr],
            ours: [input, output, errors],
            terminal: terminal.map(|(master, _)| master),
        })
    }
}

/// Returns the command of a verb, and its ends.
fn prepare(store: &Store, caller: &Caller, call: &Call) -> Result<(Command, Ends), Failure> {
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
    Ok((command, Ends::make(call).map_err(failed)?))
}

/// Starts the threads that copy what the process reads and prints.
fn pass_on(
    child: Child,
    call: &Call,
    [input, stdout, stderr]: [Option<OwnedFd>; 3],
    terminal: Option<OwnedFd>,
) -> io::Result<(Process, Waiting)> {
    let handle = ProcessId::of(child.pid()).and_then(Handle::open).map(Arc::new);
    let master = terminal.map(Arc::new);
    let (send, said) = mpsc::channel(AHEAD);
    // From here on an error ends the process.
    let mut waiting =
        Waiting { child: Some(child), end: Ended(handle.clone()), copying: Vec::new(), said: send.clone() };
    for (number, pipe) in [(1, stdout), (2, stderr)] {
        if let Some(pipe) = pipe {
            let send = send.clone();
            waiting.copying.push(thread(move || copy(number, File::from(pipe), &send))?);
        }
    }
    if let Some(master) = &master {
        // What is printed on the terminal goes to the client's, whichever of its ends that is.
        let number = if call.stdout == End::Terminal { 1 } else { 2 };
        let (master, send) = (Arc::clone(master), send.clone());
        waiting.copying.push(thread(move || copy_terminal(number, &master, &send))?);
    }
    let input = match (input, call.stdin, &master) {
        (Some(pipe), ..) => {
            let mut pipe = File::from(pipe);
            Some(feed(move |bytes| pipe.write_all(bytes).is_ok())?)
        }
        (None, End::Terminal, Some(master)) => {
            let master = Arc::clone(master);
            Some(feed(move |bytes| type_into(&master, bytes))?)
        }
        _ => None,
    };
    Ok((Process { said, input, terminal: master, handle }, waiting))
}

/// Makes a terminal of the client's size, where the client has one.
fn open_terminal(call: &Call) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
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

pub(super) fn thread(run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
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
fn feed(mut write: impl FnMut(&[u8]) -> bool + Send + 'static) -> io::Result<mpsc::Sender<Vec<u8>>> {
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
