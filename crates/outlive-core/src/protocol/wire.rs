//! Frames and fields on the keeper's sockets.
//!
//! A frame is a length (four bytes, little endian), a type (one byte) and fields. Fields are only ever added at the end:
//! a reader of a known message ignores what follows the fields that it knows.

/// The longest frame's contents: enough for the largest environment the kernel takes, and no way to fill a keeper's memory.
pub const MAX_FRAME: usize = 16 << 20;

/// The length of what comes before a frame's contents.
pub const HEADER: usize = 4;

/// Why a message was not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It ends too early.
    #[error("the message is cut short")]
    Short,
    /// Its type is not known here.
    #[error("the message type {0} is not known")]
    Type(u8),
    /// A field has a value that makes no sense.
    #[error("a field of the message has no sense")]
    Value,
    /// It is longer than [`MAX_FRAME`].
    #[error("the message is too long")]
    Long,
}

/// Writes a frame.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Begins a frame of this type.
    pub fn new(kind: u8) -> Self {
        Self(vec![0, 0, 0, 0, kind])
    }

    /// Adds a byte.
    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    /// Adds a number.
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a number.
    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a signed number.
    pub fn i32(mut self, value: i32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds a number that may be absent.
    pub fn option_u64(self, value: Option<u64>) -> Self {
        self.u8(u8::from(value.is_some())).u64(value.unwrap_or(0))
    }

    /// Adds bytes and their length.
    pub fn bytes(mut self, value: &[u8]) -> Self {
        self.0.extend((value.len() as u32).to_le_bytes());
        self.0.extend(value);
        self
    }

    /// Adds a list of bytes.
    pub fn list<T: AsRef<[u8]>>(self, values: &[T]) -> Self {
        let count = self.u32(values.len() as u32);
        values.iter().fold(count, |writer, value| writer.bytes(value.as_ref()))
    }

    /// Returns the whole frame.
    pub fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - HEADER) as u32;
        self.0[..HEADER].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// Reads the contents of a frame. Every method fails if the message ends before what it reads.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Begins to read contents (type and fields); returns the type too.
    pub fn new(contents: &'a [u8]) -> Result<(u8, Self), WireError> {
        let (&kind, rest) = contents.split_first().ok_or(WireError::Short)?;
        Ok((kind, Self(rest)))
    }

    /// Begins to read fields that were found in a frame.
    pub fn of_fields(fields: &'a [u8]) -> Self {
        Self(fields)
    }

    /// Returns how many bytes are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(*array)
    }

    /// Reads a byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a number.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a number.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a signed number.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, WireError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// Reads a number that may be absent.
    pub fn option_u64(&mut self) -> Result<Option<u64>, WireError> {
        let there = self.u8()?;
        let value = self.u64()?;
        Ok((there != 0).then_some(value))
    }

    /// Reads bytes.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.u32()? as usize;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads text, which must be UTF-8, without a copy of it.
    pub fn word(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Value)
    }

    /// Reads text, which must be UTF-8.
    pub fn text(&mut self) -> Result<String, WireError> {
        self.word().map(str::to_owned)
    }

    /// Reads a list of bytes.
    pub fn list(&mut self) -> Result<Vec<&'a [u8]>, WireError> {
        let count = self.u32()?;
        // The claimed length allocates nothing: the list grows with the elements that are read.
        (0..count).map(|_| self.bytes()).collect()
    }
}

/// Looks at the first frame in `buffer`: its contents and the length of the whole frame; `None` if it is not complete.
///
/// # Errors
///
/// If it claims to be longer than allowed.
pub fn first_frame(buffer: &[u8]) -> Result<Option<(&[u8], usize)>, WireError> {
    let Some((header, rest)) = buffer.split_at_checked(HEADER) else { return Ok(None) };
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if length > MAX_FRAME {
        return Err(WireError::Long);
    }
    Ok(rest.get(..length).map(|contents| (contents, HEADER + length)))
}
