//! What a program tells its terminal beside the cells: title, directory, prompts, keyboard and mouse modes.

use alacritty_terminal::vte::ansi::{KeyboardModes, KeyboardModesApplyBehavior};
use serde::Serialize;

/// The longest title, in bytes; no window shows more.
const MAX_TITLE: usize = 1024;

/// The longest directory, in bytes, as the kernel has it.
const MAX_DIRECTORY: usize = 4096;

/// How deep titles and keyboard modes can be stacked. Programs nest two or three deep.
pub(crate) const MAX_STACK: usize = 16;

/// Mouse modes that the emulator does not know, by their number.
pub(crate) const MOUSE_MODES: [u16; 3] = [9, 1015, 1016];

/// Where a shell is, as it said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// It prints its prompt.
    Prompt,
    /// It reads a command.
    Input,
    /// The command prints.
    Output,
    /// The command has ended.
    Ended,
}

/// The state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Metadata {
    pub(crate) title: Option<String>,
    /// Titles that the program put aside.
    pub(crate) titles: Vec<Option<String>>,
    pub(crate) directory: Option<String>,
    pub(crate) mark: Option<Mark>,
    /// Of the last command that the shell ran.
    pub(crate) exit_code: Option<i32>,
    /// Keyboard modes that were pushed, on the primary and on the alternate screen.
    pub(crate) keyboards: [Vec<u8>; 2],
    /// A bit for each of [`MOUSE_MODES`].
    pub(crate) mouse_modes: u8,
}

/// Returns text without control characters, cut to a length.
pub(crate) fn clean(bytes: &[u8], limit: usize) -> String {
    let mut text: String =
        String::from_utf8_lossy(bytes).chars().filter(|character| !character.is_control()).collect();
    text.truncate(text.floor_char_boundary(limit));
    text
}

/// Pushes onto a bounded stack; the oldest gives way.
fn push<T>(stack: &mut Vec<T>, value: T) {
    if stack.len() == MAX_STACK {
        stack.remove(0);
    }
    stack.push(value);
}

impl Metadata {
    pub(crate) fn set_title(&mut self, title: &[u8]) {
        let title = clean(title, MAX_TITLE);
        self.title = (!title.is_empty()).then_some(title);
    }

    pub(crate) fn push_title(&mut self) {
        push(&mut self.titles, self.title.clone());
    }

    pub(crate) fn pop_title(&mut self) {
        if let Some(title) = self.titles.pop() {
            self.title = title;
        }
    }

    /// Takes `file://host/path`, with bytes as `%20`.
    pub(crate) fn set_directory(&mut self, address: &[u8]) {
        let path = match address.strip_prefix(b"file://") {
            Some(rest) => rest.iter().position(|&byte| byte == b'/').map(|start| &rest[start..]),
            None => address.starts_with(b"/").then_some(address),
        };
        let path = path.map(|path| clean(&percent_decoded(path), MAX_DIRECTORY));
        self.directory = path;
    }

    /// Takes what follows `133;`.
    pub(crate) fn set_mark(&mut self, mark: &[u8]) {
        let mut words = mark.split(|&byte| byte == b';');
        self.mark = match words.next() {
            Some(b"A") => Some(Mark::Prompt),
            Some(b"B") => Some(Mark::Input),
            Some(b"C") => Some(Mark::Output),
            Some(b"D") => {
                let code = words.next().and_then(|code| std::str::from_utf8(code).ok());
                self.exit_code = code.and_then(|code| code.parse().ok());
                Some(Mark::Ended)
            }
            _ => return,
        };
    }

    pub(crate) fn push_keyboard(&mut self, is_alternate: bool, modes: KeyboardModes) {
        push(&mut self.keyboards[usize::from(is_alternate)], modes.bits());
    }

    pub(crate) fn pop_keyboards(&mut self, is_alternate: bool, count: u16) {
        let stack = &mut self.keyboards[usize::from(is_alternate)];
        stack.truncate(stack.len().saturating_sub(usize::from(count)));
    }

    pub(crate) fn set_keyboard(
        &mut self,
        is_alternate: bool,
        modes: KeyboardModes,
        behavior: KeyboardModesApplyBehavior,
    ) {
        let stack = &mut self.keyboards[usize::from(is_alternate)];
        let before = stack.pop().unwrap_or(0);
        stack.push(match behavior {
            KeyboardModesApplyBehavior::Replace => modes.bits(),
            KeyboardModesApplyBehavior::Union => before | modes.bits(),
            KeyboardModesApplyBehavior::Difference => before & !modes.bits(),
        });
    }

    pub(crate) fn set_mouse_mode(&mut self, mode: u16, is_on: bool) {
        if let Some(place) = MOUSE_MODES.iter().position(|&known| known == mode) {
            self.mouse_modes = self.mouse_modes & !(1 << place) | u8::from(is_on) << place;
        }
    }
}

fn percent_decoded(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) if byte == b'%' => {
                out.push(decoded);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}
