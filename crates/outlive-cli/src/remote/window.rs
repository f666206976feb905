//! What the user has here: a terminal or pipes, its size, and the signals from its keyboard.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Mutex, PoisonError};

use outlive_remote::{End, Sender};
use outlive_sys::poll;
use outlive_sys::signal::{Caught, Signal};
use outlive_sys::terminal::{self, Changed};

use crate::args::Input;
use crate::failure::INTERRUPTED;

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

/// The connection that keys and signals go to; none while there is none.
pub(super) type Line = Arc<Mutex<Option<Sender>>>;

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
    line.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Ends this program; the verb notices that its caller is gone.
fn leave(changed: &Mutex<Option<Changed>>) -> ! {
    changed.lock().unwrap_or_else(PoisonError::into_inner).take();
    std::process::exit(i32::from(INTERRUPTED))
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
        let sent = sender(line).is_some_and(|sender| sender.input(&buffer[..count]).is_ok());
        // Keys that are typed while there is no connection are lost, but the one that ends the waiting for it.
        if !sent && stdin == End::Terminal && buffer[..count].contains(&CONTROL_C) {
            leave(changed);
        }
    }
    if let Some(sender) = sender(line) {
        // Where the connection has broken off, its reader says so.
        sender.end_of_input().ok();
    }
}
