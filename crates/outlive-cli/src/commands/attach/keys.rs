//! What a person types at a viewer: keys for the job, and after the prefix for the viewer itself.

use outlive::keys::{self, KeyModes};

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    /// For the job.
    Keys(Vec<u8>),
    Detach,
    Redraw,
    /// The job gets the size of this window.
    Fit,
    Help,
}

/// The key after which the next one is for the viewer.
#[derive(Debug, Default)]
pub(crate) struct Prefix {
    /// The forms in which terminals send it; none: there is no prefix.
    forms: Vec<Vec<u8>>,
    /// It was typed, and the key after it was not yet.
    is_pending: bool,
}

impl Prefix {
    /// Reads it as people write it: `C-\`, `C-a`, or `none`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::default());
        }
        let typed = keys::parse(text, &KeyModes::default()).map_err(|error| error.to_string())?;
        let mut forms = vec![typed.clone()];
        // Terminals with extended keys send the character and its modifiers instead.
        if let [control @ 1..0x20] = typed[..] {
            let character = (control | 0x40).to_ascii_lowercase();
            forms.push(format!("\x1b[{character};5u").into_bytes());
            forms.push(format!("\x1b[27;5;{character}~").into_bytes());
        }
        Ok(Self { forms, is_pending: false })
    }

    /// Tells whether the key after it is awaited.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Takes what was read from the terminal.
    pub(crate) fn push(&mut self, mut input: &[u8]) -> Vec<Typed> {
        let mut typed = Vec::new();
        let mut plain = Vec::new();
        while let Some(&first) = input.first() {
            let form = self.forms.iter().find(|form| input.starts_with(form));
            let length = form.map_or(1, Vec::len);
            let after_prefix = std::mem::replace(&mut self.is_pending, false);
            let command = match (after_prefix, form.is_some(), first) {
                (false, true, _) => {
                    self.is_pending = true;
                    None
                }
                (true, true, _) => {
                    // Twice types it.
                    plain.extend_from_slice(&self.forms[0]);
                    None
                }
                (true, false, b'd') => Some(Typed::Detach),
                (true, false, b'r') => Some(Typed::Redraw),
                (true, false, b'f') => Some(Typed::Fit),
                (true, false, b'?') => Some(Typed::Help),
                (_, false, byte) => {
                    if after_prefix {
                        plain.extend_from_slice(&self.forms[0]);
                    }
                    plain.push(byte);
                    None
                }
            };
            if let Some(command) = command {
                typed.extend((!plain.is_empty()).then(|| Typed::Keys(std::mem::take(&mut plain))));
                typed.push(command);
            }
            input = &input[length..];
        }
        typed.extend((!plain.is_empty()).then_some(Typed::Keys(plain)));
        typed
    }

    /// Nothing was typed after the prefix for a while: it was meant for the job.
    pub(crate) fn give_up(&mut self) -> Option<Typed> {
        std::mem::replace(&mut self.is_pending, false).then(|| Typed::Keys(self.forms[0].clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Typed {
        Typed::Keys(bytes.to_vec())
    }

    #[test]
    fn the_key_after_the_prefix_is_for_the_viewer() {
        let mut prefix = Prefix::parse("C-\\").unwrap();
        assert_eq!(prefix.push(b"ls\r"), [keys(b"ls\r")]);
        assert_eq!(prefix.push(b"a\x1cdb"), [keys(b"a"), Typed::Detach, keys(b"b")]);
        assert_eq!(prefix.push(b"\x1c"), []);
        assert!(prefix.is_pending());
        assert_eq!(prefix.push(b"?"), [Typed::Help]);
        assert_eq!(prefix.push(b"\x1cf"), [Typed::Fit]);
        assert_eq!(prefix.push(b"\x1c\x1c"), [keys(b"\x1c")]);
        assert_eq!(prefix.push(b"\x1cx"), [keys(b"\x1cx")]);
        assert_eq!(prefix.push(b"\x1b[92;5ud"), [Typed::Detach]);
        assert_eq!(prefix.push(b"\x1b[27;5;92~r"), [Typed::Redraw]);
        assert_eq!(prefix.push(b"\x1c"), []);
        assert_eq!((prefix.give_up(), prefix.give_up()), (Some(keys(b"\x1c")), None));
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
}
