//! What a person types at a viewer: keys for the job, and after the prefix for the viewer itself.

use outlive::keys::{self, KeyModes};

/// The longest sequence that is waited for, if it comes in parts. Those of keys and mice are shorter.
const LONGEST: usize = 32;

/// The keys that only change others, such as Shift, where a terminal tells of them.
const MODIFIERS: std::ops::RangeInclusive<u32> = 57441..=57454;

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    /// For the job.
    Keys(Vec<u8>),
    /// For the job, and nothing was pressed: the mouse was moved, the window has the focus, a key or button was let go.
    Report(Vec<u8>),
    Detach,
    Redraw,
    /// The job gets the size of this window.
    Fit,
    Help,
    /// A key after the prefix that does nothing; the job gets neither, and is told what the keys do.
    Unknown,
    /// Another one, where that was told: the next key is for the job again.
    Dismiss,
}

/// The key after which the next one is for the viewer.
#[derive(Debug, Default)]
pub(crate) struct Prefix {
    /// As a terminal without extended keys sends it; none: there is no prefix.
    key: Option<Vec<u8>>,
    /// As people write it.
    name: String,
    /// Whom the next key is for.
    next: Next,
    /// The beginning of a sequence whose end has not been read yet.
    partial: Vec<u8>,
}

/// Whom the next key is for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Job,
    /// The prefix was typed.
    Viewer,
    /// As before, and the window shows what the keys for the viewer do.
    Explained,
    /// A key after the prefix was answered with a menu of the keys for the viewer. The prefix begins anew: by habit it is typed in front
    /// of each of them, and passed on it may end the job.
    Menu,
}

/// A key or sequence of the terminal.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// A key, and the byte that it is in a terminal without extended keys.
    Key(Option<u8>),
    Report,
}

impl Prefix {
    /// Reads it as people write it: `C-\`, `C-a`, or `none`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::default());
        }
        let key = keys::parse(text, &KeyModes::default()).map_err(|error| error.to_string())?;
        Ok(Self { key: Some(key), name: text.to_owned(), ..Self::default() })
    }

    /// Says how to leave; `None` where no key does.
    pub(crate) fn leaving(&self) -> Option<String> {
        self.key.as_ref().map(|_| format!(" {} d leaves it ", self.name))
    }

    /// Tells whether the key after the prefix is awaited. It may take as long as it likes: the prefix alone may be a key that ends the
    /// job.
    pub(crate) fn is_pending(&self) -> bool {
        self.next != Next::Job
    }

    /// The window shows what the keys for the viewer do: the next one that does nothing is no mistake.
    pub(crate) fn explain(&mut self) {
        if self.next == Next::Viewer {
            self.next = Next::Explained;
        }
    }

    /// Tells whether the end of a sequence is awaited, which comes at once or never.
    pub(crate) fn is_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Takes what was read from the terminal.
    pub(crate) fn push(&mut self, input: &[u8]) -> Vec<Typed> {
        let input = [&std::mem::take(&mut self.partial), input].concat();
        let (mut input, mut typed) = (&input[..], Vec::new());
        while !input.is_empty() {
            let own = self.key.as_ref().filter(|key| input.starts_with(key)).map(Vec::len);
            let Some((length, piece)) =
                own.map_or_else(|| first(input), |length| Some((length, Piece::Key(None))))
            else {
                self.partial = input.to_vec();
                break;
            };
            let (bytes, rest) = input.split_at(length);
            input = rest;
            let Piece::Key(byte) = piece else {
                add(&mut typed, Typed::Report, bytes);
                continue;
            };
            let is_prefix = own.is_some() || byte.is_some() && byte == self.control();
            match (std::mem::take(&mut self.next), is_prefix, byte) {
                (Next::Job | Next::Menu, true, _) => self.next = Next::Viewer,
                // Twice types it.
                (Next::Job, false, _) | (Next::Viewer | Next::Explained, true, _) => {
                    add(&mut typed, Typed::Keys, bytes);
                }
                (_, false, Some(b'd')) => typed.push(Typed::Detach),
                (_, false, Some(b'r')) => typed.push(Typed::Redraw),
                (_, false, Some(b'f')) => typed.push(Typed::Fit),
                (_, false, Some(b'?')) => {
                    self.next = Next::Menu;
                    typed.push(Typed::Help);
                }
                // Typed by mistake.
                (Next::Viewer, false, _) => {
                    self.next = Next::Menu;
                    typed.push(Typed::Unknown);
                }
                // To get rid of the menu.
                (Next::Explained | Next::Menu, false, _) => typed.push(Typed::Dismiss),
            }
        }
        typed
    }

    /// Returns the byte of a prefix that is one.
    fn control(&self) -> Option<u8> {
        match self.key.as_deref() {
            Some(&[control @ ..0x20]) => Some(control),
            _ => None,
        }
    }

    /// The end of a sequence did not come: what there is of it was meant for the job.
    pub(crate) fn give_up(&mut self) -> Option<Typed> {
        let bytes = std::mem::take(&mut self.partial);
        (!bytes.is_empty()).then_some(Typed::Keys(bytes))
    }
}

/// Adds bytes for the job, to what comes right before them if that is of the same kind.
fn add(typed: &mut Vec<Typed>, kind: fn(Vec<u8>) -> Typed, bytes: &[u8]) {
    match (typed.last_mut(), kind(bytes.to_vec())) {
        (Some(Typed::Keys(before)), Typed::Keys(more)) => before.extend(more),
        (Some(Typed::Report(before)), Typed::Report(more)) => before.extend(more),
        (_, other) => typed.push(other),
    }
}

/// Finds the length of the first key or sequence, and what it is; `None` if its end may still come.
fn first(input: &[u8]) -> Option<(usize, Piece)> {
    let byte = Some((1, Piece::Key(input.first().copied())));
    // Alt and the bracket is a key as well, and nothing follows it.
    let Some(rest) = input.strip_prefix(b"\x1b[").filter(|rest| !rest.is_empty()) else { return byte };
    let Some(end) = rest.iter().position(|byte| !(0x20..0x40).contains(byte)) else {
        return if input.len() < LONGEST { None } else { byte };
    };
    let (parameters, last) = (&rest[..end], rest[end]);
    let length = b"\x1b[".len() + end + 1;
    let text = String::from_utf8_lossy(parameters);
    let button = |text: &str| text.split(';').next()?.parse::<u32>().ok();
    match (parameters, last) {
        (_, ..0x40 | 0x7f..) => byte,
        // The oldest form: the button and the place are three bytes that follow.
        (b"", b'M') => {
            let &[button, _, _] = input.get(length..)?.first_chunk()?;
            Some((length + 3, clicked(u32::from(button).checked_sub(32), false)))
        }
        ([b'<', ..], b'M' | b'm') => Some((length, clicked(button(&text[1..]), last == b'm'))),
        (_, b'M') => Some((length, clicked(button(&text).and_then(|button| button.checked_sub(32)), false))),
        (b"", b'I' | b'O') => Some((length, Piece::Report)),
        _ => Some((length, pressed(&text, last))),
    }
}

/// Reads the number that stands for what was done with the mouse.
fn clicked(button: Option<u32>, is_let_go: bool) -> Piece {
    const MOVED: u32 = 32;
    const WHEEL: u32 = 64;
    // Where the form has no other way to say that a button was let go, it is the fourth one.
    let is_pressed = |button: u32| button & MOVED == 0 && (button & WHEEL != 0 || button & 3 != 3);
    if !is_let_go && button.is_some_and(is_pressed) { Piece::Key(None) } else { Piece::Report }
}

/// Reads the sequence of a key: `CSI code:shifted ; modifiers:event u`, `CSI 27 ; modifiers ; code ~`, and others, which have no byte.
fn pressed(parameters: &str, last: u8) -> Piece {
    let field = |index: usize, part: usize| -> Option<u32> {
        parameters.split(';').nth(index)?.split(':').nth(part)?.parse().ok()
    };
    const LET_GO: u32 = 3;
    let modifiers = field(1, 0).unwrap_or(1).saturating_sub(1);
    let code = match last {
        b'u' => field(0, 0),
        b'~' if field(0, 0) == Some(27) => field(2, 0),
        _ => None,
    };
    if field(1, 1) == Some(LET_GO) || code.is_some_and(|code| MODIFIERS.contains(&code)) {
        return Piece::Report;
    }
    // The locks of capitals and numbers, the upper bits, change no key that counts here.
    let byte = match modifiers & 0b11_1111 {
        0 => code,
        0b1 => field(0, 1).filter(|_| last == b'u').or(code),
        0b100 => code.filter(|code| (0x40..0x80).contains(code) || *code == 0x20).map(|code| code & 0x1f),
        _ => None,
    };
    Piece::Key(byte.and_then(|byte| u8::try_from(byte).ok()).filter(u8::is_ascii))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Typed {
        Typed::Keys(bytes.to_vec())
    }

    fn report(bytes: &[u8]) -> Typed {
        Typed::Report(bytes.to_vec())
    }

    #[test]
    fn the_key_after_the_prefix_is_for_the_viewer() {
        let mut prefix = Prefix::parse("C-\\").unwrap();
        assert_eq!(prefix.push(b"ls\r"), [keys(b"ls\r")]);
        assert_eq!(prefix.push(b"a\x1cdb"), [keys(b"a"), Typed::Detach, keys(b"b")]);
        assert_eq!(prefix.push(b"\x1c"), []);
        assert!(prefix.is_pending());
        assert_eq!(prefix.push(b"?"), [Typed::Help]);
        assert!(prefix.is_pending(), "what stands there as a menu is one");
        assert_eq!(prefix.push(b"f"), [Typed::Fit]);
        assert_eq!(prefix.push(b"\x1cf"), [Typed::Fit]);
        assert_eq!(prefix.push(b"\x1c\x1c"), [keys(b"\x1c")]);
        assert_eq!(prefix.push(b"\x1cx"), [Typed::Unknown], "the prefix alone may end the job");
        assert_eq!(prefix.push(b"\x1bls"), [Typed::Dismiss, keys(b"ls")]);
        assert_eq!(prefix.push(b"\x1cxd"), [Typed::Unknown, Typed::Detach]);
        assert_eq!(prefix.push(b"\x1c?\x1cd"), [Typed::Help, Typed::Detach], "the prefix may be typed again");
        assert_eq!(prefix.push(b"\x1c?\x1c\x1cl"), [Typed::Help, keys(b"\x1cl")]);
        assert_eq!(prefix.push(b"\x1c"), []);
        prefix.explain();
        assert_eq!(prefix.push(b"\x1cl\x1c"), [keys(b"\x1cl")]);
        prefix.explain();
        assert_eq!(prefix.push(b"\x1bl"), [Typed::Dismiss, keys(b"l")]);
        assert_eq!(prefix.push(b"\x1b[92;5ud"), [Typed::Detach]);
        assert_eq!(prefix.push(b"\x1b[27;5;92~r"), [Typed::Redraw]);
        assert_eq!(prefix.push(b"\x1c"), []);
        assert_eq!((prefix.give_up(), prefix.is_pending()), (None, true), "it waits as long as it takes");
        assert_eq!(prefix.push(b"d"), [Typed::Detach]);
    }

    #[test]
    fn it_can_be_another_or_none() {
        let mut prefix = Prefix::parse("C-a").unwrap();
        assert_eq!(prefix.push(b"\x1c\x01d"), [keys(b"\x1c"), Typed::Detach]);
        assert_eq!(prefix.push(b"\x1b[97;5ud"), [Typed::Detach]);
        let mut none = Prefix::parse("none").unwrap();
        assert_eq!(none.push(b"\x1cd\x01d"), [keys(b"\x1cd\x01d")]);
        assert!(Prefix::parse("C-nonsense").is_err());
    }

    /// As Codex asks for it: events of keys. The prefix is let go before the key after it is pressed.
    #[test]
    fn a_key_that_is_let_go_is_no_key() {
        let mut prefix = Prefix::parse("C-\\").unwrap();
        let typed = prefix.push(b"\x1b[92;5u\x1b[92;5:3ud");
        assert_eq!(typed, [report(b"\x1b[92;5:3u"), Typed::Detach]);
        // All keys as sequences, with Ctrl and Shift, and with the lock of numbers on.
        let typed = prefix.push(b"\x1b[57442;133u\x1b[92;133:1u\x1b[57442;133:3u\x1b[100;129u");
        assert_eq!(typed, [report(b"\x1b[57442;133u\x1b[57442;133:3u"), Typed::Detach]);
        assert_eq!(prefix.push(b"\x1b[92;5u\x1b[47:63;2u\x1b[27u"), [Typed::Help, Typed::Dismiss]);
        assert_eq!(prefix.push(b"\x1b[27;5;92~\x1b[27;2;63~\x1b"), [Typed::Help, Typed::Dismiss]);
        // What is not for the viewer is passed on as it came.
        let typed = prefix.push(b"\x1b[92;5u\x1b[92;5ux\x1b[92;6u\x1b[1;1:3A\x1b[1;5A");
        let passed = [keys(b"\x1b[92;5ux\x1b[92;6u"), report(b"\x1b[1;1:3A"), keys(b"\x1b[1;5A")];
        assert_eq!(typed, passed);
    }

    #[test]
    fn the_mouse_is_a_key_only_when_it_is_clicked_or_turned() {
        let mut prefix = Prefix::parse("C-\\").unwrap();
        let reports = [
            "\x1b[I",
            "\x1b[O",
            "\x1b[<35;10;5M",
            "\x1b[<0;10;5m",
            "\x1b[M#!!",
            "\x1b[MC!!",
            "\x1b[67;10;5M",
            "\x1b[<M",
        ];
        for bytes in reports.map(str::as_bytes) {
            assert_eq!(prefix.push(bytes), [report(bytes)]);
            assert_eq!(prefix.push(&[bytes, b"x"].concat()), [report(bytes), keys(b"x")]);
        }
        for bytes in
            ["\x1b[<0;10;5M", "\x1b[<64;10;5M", "\x1b[M !!", "\x1b[Ma!!", "\x1b[32;10;5M"].map(str::as_bytes)
        {
            assert_eq!(prefix.push(bytes), [keys(bytes)]);
        }
        assert_eq!(prefix.push(b"\x1c\x1b[<35;10;5Md"), [report(b"\x1b[<35;10;5M"), Typed::Detach]);
    }

    #[test]
    fn a_sequence_may_come_in_parts() {
        let whole = b"\x1b[92;5ud";
        for cut in 3..whole.len() {
            let mut prefix = Prefix::parse("C-\\").unwrap();
            assert_eq!(prefix.push(&whole[..cut]), []);
            assert!(prefix.is_partial() || prefix.is_pending());
            assert_eq!(prefix.push(&whole[cut..]), [Typed::Detach], "{cut}");
        }
        let mut prefix = Prefix::parse("C-\\").unwrap();
        assert_eq!(prefix.push(b"\x1b[M !"), []);
        assert_eq!(prefix.push(b"!"), [keys(b"\x1b[M !!")]);
        // Keys that a sequence begins with are not held back.
        for bytes in [&b"\x1b"[..], b"\x1b["] {
            assert_eq!(prefix.push(bytes), [keys(bytes)]);
        }
        assert_eq!(prefix.push(b"\x1b[12"), []);
        assert_eq!((prefix.give_up(), prefix.give_up()), (Some(keys(b"\x1b[12")), None));
        let endless = b"\x1b[".iter().copied().chain(std::iter::repeat_n(b'1', LONGEST)).collect::<Vec<u8>>();
        assert_eq!(prefix.push(&endless), [keys(&endless)]);
    }
}
