//! The screen: bytes and sizes in, state out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alacritty_terminal::grid::Dimensions as _;
use alacritty_terminal::term::TermDamage;
use alacritty_terminal::vte::ansi::{Processor, Timeout};
use outlive_core::terminal::sequence::{Part, Sequences};
use outlive_core::terminal::size::TerminalSize;

use crate::emulator::Emulator;

/// The longest command (title, link, directory, clipboard) that is looked at; a longer one has no effect and costs no memory. It is
/// what terminals take for the clipboard, the longest of them.
const MAX_COMMAND: usize = 100 << 10;

/// A size that the emulator can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
}

impl From<TerminalSize> for Size {
    /// A wide character needs two columns.
    fn from(size: TerminalSize) -> Self {
        Self { columns: size.columns().max(2), rows: size.rows() }
    }
}

/// Synchronized updates are drawn as they come: a recording has no timer that would end one.
#[derive(Default)]
struct NoSync;

impl Timeout for NoSync {
    fn set_timeout(&mut self, _: Duration) {}

    fn clear_timeout(&mut self) {}

    fn pending_timeout(&self) -> bool {
        false
    }
}

/// The screen of a program, as far as its output was fed.
pub struct Screen {
    pub(crate) emulator: Emulator,
    sequences: Sequences,
    processor: Processor<NoSync>,
    /// The last bytes of text, to see whether they are the beginning of a character.
    tail: Tail,
    /// When each row was changed last, at the latest: one number for all that was fed at once, and never one that another screen had
    /// before.
    pub(crate) changed: Vec<u64>,
}

/// Counts changes of screens.
static CHANGES: AtomicU64 = AtomicU64::new(0);

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Screen {
    /// Makes a blank screen.
    pub fn new(size: TerminalSize) -> Self {
        Self::with_history(size, 0)
    }

    /// Makes a blank screen that keeps rows that scroll away.
    pub(crate) fn with_history(size: TerminalSize, history: usize) -> Self {
        Self::of(Emulator::new(size.into(), history))
    }

    pub(crate) fn of(emulator: Emulator) -> Self {
        let sequences = Sequences::new(MAX_COMMAND);
        let (processor, tail) = (Processor::new(), Tail::default());
        let mut screen = Self { emulator, sequences, processor, tail, changed: Vec::new() };
        screen.note_changes();
        screen
    }

    /// Takes from the emulator which rows have changed.
    fn note_changes(&mut self) {
        let now = CHANGES.fetch_add(1, Ordering::Relaxed) + 1;
        let Emulator { term, is_all_changed, .. } = &mut self.emulator;
        self.changed.resize(term.screen_lines(), now);
        match term.damage() {
            TermDamage::Partial(rows) if !*is_all_changed => {
                rows.for_each(|row| self.changed[row.line] = now)
            }
            _ => self.changed.fill(now),
        }
        *is_all_changed = false;
        term.reset_damage();
    }

    /// Takes the next bytes that the program printed.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Self { emulator, sequences, processor, tail, .. } = self;
        sequences.push(bytes, |part| {
            let action = match part {
                Part::Text(text) => {
                    tail.push(text);
                    processor.advance(emulator, text);
                    return;
                }
                Part::Sequence(sequence) => Action::of(sequence),
                Part::Long(_) => Action::Ignore,
            };
            tail.clear();
            if let Action::Pass(sequence) = action {
                processor.advance(emulator, sequence);
                return;
            }
            // Whatever was cut short before must not go on after a sequence that the parser does not see.
            processor.advance(emulator, b"\x18");
            match action {
                Action::Command(command) => emulator.command(command),
                Action::Repeat(count) => emulator.repeat(count),
                Action::Index => emulator.index(),
                Action::SoftReset => emulator.soft_reset(),
                Action::Pass(_) | Action::Ignore => {}
            }
        });
        self.note_changes();
    }

    /// Changes the size, as the program's terminal did at this place of its output.
    pub fn resize(&mut self, size: TerminalSize) {
        self.emulator.resize(size.into());
        self.note_changes();
    }

    /// The size, which has two columns at least.
    pub fn size(&self) -> TerminalSize {
        let term = &self.emulator.term;
        TerminalSize::new(term.columns() as u16, term.screen_lines() as u16)
    }

    /// Whether what was fed ends between characters and sequences. Only there can a checkpoint be made.
    pub fn is_at_ground(&self) -> bool {
        self.sequences.is_at_ground() && !self.tail.is_within_character()
    }

    /// Whether the alternate screen is active.
    pub fn is_alternate(&self) -> bool {
        self.emulator.is_alternate()
    }

    /// The title of the window.
    pub fn title(&self) -> Option<&str> {
        self.emulator.metadata.title.as_deref()
    }

    /// The working directory that the program told (OSC 7).
    pub fn directory(&self) -> Option<&str> {
        self.emulator.metadata.directory.as_deref()
    }

    /// Where the shell is, as far as it tells (OSC 133).
    pub fn mark(&self) -> Option<crate::Mark> {
        self.emulator.metadata.mark
    }

    /// What the program wrote to the clipboard since this was asked last: the selection, `;`, and text in base64, of which it has
    /// only the characters. It cannot read the clipboard.
    pub fn take_clipboard(&mut self) -> Option<String> {
        self.emulator.clipboard.take()
    }

    /// The answer to a query for the cursor (CPR) at this place of the output.
    pub fn cursor_report(&self, extended: bool) -> String {
        let point = self.emulator.term.grid().cursor.point;
        let (private, row) = (if extended { "?" } else { "" }, point.line.0 + 1);
        format!("\x1b[{private}{row};{}R", point.column.0 + 1)
    }
}

/// What a sequence is for us.
enum Action<'a> {
    /// The emulator's.
    Pass(&'a [u8]),
    Command(&'a [u8]),
    Repeat(usize),
    Index,
    SoftReset,
    Ignore,
}

impl<'a> Action<'a> {
    fn of(sequence: &'a [u8]) -> Self {
        match sequence {
            [_, b']', command @ .., 0x1b, b'\\'] | [_, b']', command @ .., 0x07] => Self::Command(command),
            // A command that another sequence cut short counts, one that was cancelled does not.
            [_, b']', .., 0x18 | 0x1a] | [_, b'P' | b'X' | b'^' | b'_', ..] => Self::Ignore,
            [_, b']', command @ ..] => Self::Command(command),
            b"\x1bD" => Self::Index,
            b"\x1b[!p" => Self::SoftReset,
            [_, b'[', counts @ .., b'b'] => {
                let count = counts.split(|&byte| byte == b';').next().unwrap_or_default();
                match std::str::from_utf8(count).unwrap_or_default() {
                    "" => Self::Repeat(1),
                    count => Self::Repeat(count.parse::<u16>().map_or(0, |count| usize::from(count.max(1)))),
                }
            }
            _ => Self::Pass(sequence),
        }
    }
}

/// The last bytes of text.
#[derive(Debug, Default)]
struct Tail {
    bytes: [u8; 3],
    length: usize,
}

impl Tail {
    fn push(&mut self, text: &[u8]) {
        for &byte in &text[text.len().saturating_sub(3)..] {
            if self.length == 3 {
                self.bytes.rotate_left(1);
                self.length = 2;
            }
            self.bytes[self.length] = byte;
            self.length += 1;
        }
    }

    fn clear(&mut self) {
        self.length = 0;
    }

    fn is_within_character(&self) -> bool {
        let bytes = &self.bytes[..self.length];
        let first = bytes.iter().rposition(|&byte| byte >= 0xc0);
        first.is_some_and(|first| {
            std::str::from_utf8(&bytes[first..]).is_err_and(|error| error.error_len().is_none())
        })
    }
}
