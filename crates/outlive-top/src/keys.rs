//! From the bytes that a terminal sends to keys.

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    /// With the control key, as a lower-case letter.
    Control(char),
    Enter,
    Escape,
    Tab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// A button of the mouse was pressed, at a column and row that count from 0.
    Click(u16, u16),
    WheelUp,
    WheelDown,
    /// Text that was pasted: none of it is a key.
    Paste(String),
}

/// Marks around a paste.
const PASTE: (&[u8], &[u8]) = (b"\x1b[200~", b"\x1b[201~");

/// No sequence that is understood here is longer, but a paste.
const LONGEST: usize = 64;

/// The most of a paste that is kept: a prompt takes one line.
const LONGEST_PASTE: usize = 64 << 10;

/// Takes input apart; holds the beginning of a sequence whose rest has not come.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    pending: Vec<u8>,
}

impl Keyboard {
    /// Takes what was read.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut place = 0;
        while let Some((key, length)) = next(&self.pending[place..]) {
            keys.extend(key);
            place += length;
        }
        self.pending.drain(..place);
        keys
    }

    /// Tells whether more bytes decide what was typed: Escape is a key, and begins the sequences of others.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Nothing followed within a moment.
    pub(crate) fn give_up(&mut self) -> Option<Key> {
        let pending = std::mem::take(&mut self.pending);
        (pending == b"\x1b").then_some(Key::Escape)
    }
}

/// Reads the next key and how long it is; the key is `None` for what is not understood. `None` if more has to come.
fn next(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    if bytes.starts_with(PASTE.0) {
        let rest = &bytes[PASTE.0.len()..];
        let end = rest.windows(PASTE.1.len()).position(|window| window == PASTE.1);
        let end = end.or((rest.len() > LONGEST_PASTE).then_some(LONGEST_PASTE))?;
        let text = String::from_utf8_lossy(&rest[..end]).into_owned();
        let length = PASTE.0.len() + (end + PASTE.1.len()).min(rest.len());
        return Some((Some(Key::Paste(text)), length));
    }
    match *bytes.first()? {
        0x1b => sequence(bytes),
        b'\r' | b'\n' => Some((Some(Key::Enter), 1)),
        b'\t' => Some((Some(Key::Tab), 1)),
        0x7f | 0x08 => Some((Some(Key::Backspace), 1)),
        control @ 1..0x1b => Some((Some(Key::Control(char::from(control | 0x60))), 1)),
        0 | 0x1c..0x20 => Some((None, 1)),
        _ => character(bytes),
    }
}

fn character(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let (valid, is_cut) = match std::str::from_utf8(&bytes[..bytes.len().min(4)]) {
        Ok(text) => (text, false),
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            (valid, error.error_len().is_none())
        }
    };
    match valid.chars().next() {
        Some(character) => Some((Some(Key::Char(character)), character.len_utf8())),
        None if is_cut && bytes.len() < 4 => None,
        None => Some((None, 1)),
    }
}

/// Reads what begins with Escape.
fn sequence(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    match *bytes.get(1)? {
        b'[' => {
            let end = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte));
            let Some(end) = end.map(|end| end + 2) else {
                return (bytes.len() > LONGEST).then_some((None, bytes.len()));
            };
            Some((control_sequence(&bytes[2..end], bytes[end]), end + 1))
        }
        // Enter of the keypad, and arrows in the mode that some programs leave behind.
        b'O' if bytes.get(2) == Some(&b'M') => Some((Some(Key::Enter), 3)),
        b'O' => bytes.get(2).map(|&last| (control_sequence(b"", last), 3)),
        // Two keys, the first of which is Escape. With the Alt key it would be the same bytes, which mean nothing else here.
        _ => Some((Some(Key::Escape), 1)),
    }
}

fn control_sequence(parameters: &[u8], last: u8) -> Option<Key> {
    let text = std::str::from_utf8(parameters).ok()?;
    if let Some(mouse) = text.strip_prefix('<') {
        let mut numbers = mouse.split(';').map(|number| number.parse::<u16>().ok());
        let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
        return match (button, last) {
            (0, b'M') => Some(Key::Click(column.saturating_sub(1), row.saturating_sub(1))),
            (64, _) => Some(Key::WheelUp),
            (65, _) => Some(Key::WheelDown),
            _ => None,
        };
    }
    let number = text.split(';').next().unwrap_or_default();
    match (last, number) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'C', _) => Some(Key::Right),
        (b'D', _) => Some(Key::Left),
        (b'H', _) | (b'~', "1" | "7") => Some(Key::Home),
        (b'F', _) | (b'~', "4" | "8") => Some(Key::End),
        (b'~', "5") => Some(Key::PageUp),
        (b'~', "6") => Some(Key::PageDown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart() {
        let mut keyboard = Keyboard::default();
        let keys =
            keyboard.push(b"jG\x04\r\x1b[A\x1bOB\x1b[5~\x1b[1;5H\x7f\xc3\xa4\t\x1b[<0;3;5M\x1b[<65;1;1M");
        assert_eq!(
            keys,
            [
                Key::Char('j'),
                Key::Char('G'),
                Key::Control('d'),
                Key::Enter,
                Key::Up,
                Key::Down,
                Key::PageUp,
                Key::Home,
                Key::Backspace,
                Key::Char('ä'),
                Key::Tab,
                Key::Click(2, 4),
                Key::WheelDown,
            ]
        );
        assert!(!keyboard.is_pending());
    }

    #[test]
    fn a_sequence_may_come_in_pieces() {
        let mut keyboard = Keyboard::default();
        for byte in b"\x1b[6" {
            assert_eq!(keyboard.push(&[*byte]), []);
        }
        assert!(keyboard.is_pending());
        assert_eq!(keyboard.push(b"~\xe4\xb8"), [Key::PageDown]);
        assert_eq!(keyboard.push(b"\x96"), [Key::Char('世')]);
        assert_eq!(keyboard.push(b"\x1b"), []);
        assert_eq!((keyboard.give_up(), keyboard.give_up()), (Some(Key::Escape), None));
        assert_eq!(keyboard.push(b"\x1b\x1b[B\x1bg"), [Key::Escape, Key::Down, Key::Escape, Key::Char('g')]);
    }

    #[test]
    fn no_key_in_a_paste_acts() {
        let mut keyboard = Keyboard::default();
        assert_eq!(keyboard.push(b"\x1b[200~x\ry"), []);
        assert_eq!(keyboard.push(b"q\x1b[201~j"), [Key::Paste("x\ryq".to_owned()), Key::Char('j')]);
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let mut seed = 7u64;
        let mut keyboard = Keyboard::default();
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let byte = (seed >> 56) as u8;
            // Bytes that mean something come more often.
            let byte = if byte < 100 { b"\x1b[<;0M~O"[usize::from(byte) % 8] } else { byte };
            keyboard.push(&[byte]);
            assert!(keyboard.pending.len() <= LONGEST + 8, "{:?}", keyboard.pending);
        }
    }
}
