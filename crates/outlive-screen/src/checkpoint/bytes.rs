//! Numbers, texts and options as bytes. A number has seven bits a byte, the lowest first, and all bytes but its last have the
//! highest bit.

/// The bytes are not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged;

/// The longest text: more than any title, directory or address.
const MAX_TEXT: usize = 64 << 10;

pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn option(&mut self, number: Option<u64>) {
        self.number(number.map_or(0, |number| number + 1));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    pub(super) fn optional_text(&mut self, text: Option<&str>) {
        self.number(u64::from(text.is_some()));
        if let Some(text) = text {
            self.text(text);
        }
    }
}

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn number(&mut self) -> Result<u64, Damaged> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Damaged)
    }

    /// Reads a number that is less than `end`.
    pub(super) fn below(&mut self, end: usize) -> Result<usize, Damaged> {
        usize::try_from(self.number()?).ok().filter(|&number| number < end).ok_or(Damaged)
    }

    pub(super) fn option(&mut self) -> Result<Option<u64>, Damaged> {
        Ok(self.number()?.checked_sub(1))
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<String, Damaged> {
        let length = self.below(MAX_TEXT)?;
        let text = std::str::from_utf8(self.bytes(length)?).map_err(|_| Damaged)?;
        if text.chars().any(char::is_control) { Err(Damaged) } else { Ok(text.to_owned()) }
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<String>, Damaged> {
        if self.below(2)? == 1 { self.text().map(Some) } else { Ok(None) }
    }
}

/// Reads a character that can be on a cell.
pub(super) fn character(number: u64) -> Result<char, Damaged> {
    let character = u32::try_from(number).ok().and_then(char::from_u32);
    character.filter(|character| !character.is_control()).ok_or(Damaged)
}
