//! What the user has here: a terminal or pipes, its size, and the signals from its keyboard.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_remote::{End, Sender};
use outlive_sys::poll;
use outlive_sys::signal::{Caught, Signal};
use outlive_sys::terminal::{self, Changed};

use crate::args::Input;

/// Ctrl-C, as a terminal that is read byte by byte sends it.
const CONTROL_C: u8 = 3;

/// How much of our own input is sent at a time.
const PIECE: usize = 32 << 10;

/// What there is for a verb to read from.
pub(super) fn stdin_end(input: Input) -> End {
    let stdin = io::stdin();
    match (input, stdin.is_terminal()) {
        (Input::Nothing, _) | (Input::Piped, true) => End::None,
        (Input::All, true) => End::Terminal,
        (Input::Piped, false) if !is_piped(stdin.as_fd()) => End::None,
        (_, false) => End::Pipe,
    }
}

/// Tells whether it is a pipe or a file, and not a device such as /dev/null.
fn is_piped(stdin: BorrowedFd<'_>) -> bool {
    let kind = stdin.try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
    kind.is_ok_and(|kind| kind.file_type().is_fifo() || kind.file_type().is_file())
}

/// What there is for a verb to print to.
pub(super) fn end_of(stream: &impl IsTerminal) -> End {
    if stream.is_terminal() { End::Terminal } else { End::Pipe }
}

/// Returns the size of the user's terminal.
pub(super) fn size() -> Option<String> {
    let size = terminal::size(io::stdout())
        .or_else(|| terminal::size(io::stderr()))
        .or_else(|| terminal::size(io::stdin()));
    size.map(|(columns, rows)| format!("{columns}x{rows}"))
}

/// The most that is kept of what is typed while there is no connection.
const MOST_TYPED: usize = 4 << 10;

/// What keys and signals go to.
pub(super) type Line = Arc<Mutex<Keys>>;

/// The connection that keys go to, and those that have to wait for one. A key is sent once or not at all: where it is not known whether
/// one has arrived, no later one is sent, because the end of a line without its beginning is another line.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// None while there is no connection.
    sender: Option<Sender>,
    /// What was typed meanwhile.
    typed: Vec<u8>,
    /// Of some keys it is not known whether they have arrived, or they were too many to be kept.
    is_lost: bool,
}

impl Keys {
    /// There is a connection again, or for the first time.
    pub(super) fn begin(&mut self, sender: Sender) {
        let typed = std::mem::take(&mut self.typed);
        if !std::mem::take(&mut self.is_lost) && !typed.is_empty() {
            // Where this one has broken off too, its reader says so, and these are not confirmed.
            sender.input(&typed).ok();
        }
        self.sender = Some(sender);
    }

    /// The connection broke off.
    pub(super) fn end(&mut self) {
        self.is_lost |= self.sender.take().is_some_and(|sender| !sender.is_confirmed());
    }

    /// Tells whether what was typed is not sent.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Sends what was typed, or keeps it for the next connection; false: it is kept.
    fn type_on(&mut self, bytes: &[u8]) -> bool {
        if let Some(sender) = &self.sender {
            // Of a connection that has just broken off it is not known how much of this went out.
            return sender.input(bytes).is_ok();
        }
        self.is_lost |= self.typed.len() + bytes.len() > MOST_TYPED;
        if !self.is_lost {
            self.typed.extend_from_slice(bytes);
        }
        false
    }
}

/// The user's terminal while a verb runs elsewhere. What was changed there is changed back when this is dropped.
pub(super) struct Window {
    changed: Arc<Mutex<Option<Changed>>>,
    stdin: End,
    line: Line,
    has_begun: bool,
}

impl Window {
    /// Reads what is typed or piped, from the first connection on: before that no program takes it.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) || self.stdin == End::None {
            return Ok(());
        }
        if self.stdin == End::Terminal {
            let raw = Changed::raw(io::stdin())?;
            *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(raw);
        }
        let (stdin, line, changed) = (self.stdin, Arc::clone(&self.line), Arc::clone(&self.changed));
        std::thread::spawn(move || pass_input(stdin, &line, &changed));
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Takes hold of the keyboard's signals, and passes them on from a thread of its own.
pub(super) fn take(stdin: End, line: &Line) -> io::Result<Window> {
    // Before any thread: none of them is to be ended by these.
    let signals = Caught::new(&[Signal::WINCH, Signal::INT, Signal::TERM, Signal::HUP])?;
    let changed = Arc::default();
    let (of_signals, line_of_signals) = (Arc::clone(&changed), Arc::clone(line));
    std::thread::spawn(move || pass_signals(&signals, &line_of_signals, &of_signals));
    Ok(Window { changed, stdin, line: Arc::clone(line), has_begun: false })
}

fn sender(line: &Line) -> Option<Sender> {
    keys(line).sender.clone()
}

pub(super) fn keys(line: &Line) -> MutexGuard<'_, Keys> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this program; the verb notices that its caller is gone.
fn leave(changed: &Mutex<Option<Changed>>) -> ! {
    changed.lock().unwrap_or_else(PoisonError::into_inner).take();
    outlive_sys::signal::end_by_interrupt()
}

fn pass_signals(signals: &Caught, line: &Line, changed: &Mutex<Option<Changed>>) {
    let mut is_interrupted = false;
    loop {
        poll::readable(signals.as_fd(), None).ok();
        while let Some(signal) = signals.next() {
            match (signal, sender(line)) {
                (Signal::WINCH, Some(sender)) => drop(size().map(|size| sender.size(&size))),
                (Signal::WINCH, None) => {}
                // The first Ctrl-C is for the verb, which may have last words; the second is for this program.
                (Signal::INT, Some(sender)) if !is_interrupted => {
                    is_interrupted = true;
                    if sender.signal("INT").is_err() {
                        leave(changed);
                    }
                }
                _ => leave(changed),
            }
        }
    }
}

fn pass_input(stdin: End, line: &Line, changed: &Mutex<Option<Changed>>) {
    let mut buffer = vec![0; PIECE];
    loop {
        let count = match io::stdin().read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        // Keys that are typed while there is no connection wait for one, but for the one that ends the waiting.
        let sent = match stdin {
            End::Terminal => keys(line).type_on(&buffer[..count]),
            _ => sender(line).is_some_and(|sender| sender.input(&buffer[..count]).is_ok()),
        };
        if !sent && stdin == End::Terminal && buffer[..count].contains(&CONTROL_C) {
            leave(changed);
        }
    }
    if let Some(sender) = sender(line) {
        // Where the connection has broken off, its reader says so.
        sender.end_of_input().ok();
    }
}
