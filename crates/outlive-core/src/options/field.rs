//! How the values of options are stored in `spec.json` and sent to a keeper.

use crate::containment::{Level, Survivors};
use crate::rawtext::RawText;
use crate::spec::{Lifetime, Stdin};
use crate::timestamp::Timestamp;
use crate::wire::{Reader, WireError, Writer};

/// A value of an option as it is stored and sent.
pub trait Field: Sized {
    /// Adds it to the launch request.
    fn write(&self, writer: Writer) -> Writer;

    /// Reads it from the launch request.
    ///
    /// # Errors
    ///
    /// If the request ends before it, or it makes no sense.
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError>;

    /// Tells whether `spec.json` leaves it out.
    fn is_left_out(&self) -> bool {
        false
    }
}

impl Field for u64 {
    fn write(&self, writer: Writer) -> Writer {
        writer.u64(*self)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.u64()
    }
}

impl Field for u16 {
    fn write(&self, writer: Writer) -> Writer {
        writer.u32((*self).into())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.u32()?.try_into().map_err(|_| WireError::Value)
    }
}

impl Field for i32 {
    fn write(&self, writer: Writer) -> Writer {
        writer.i32(*self)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.i32()
    }
}

impl Field for bool {
    fn write(&self, writer: Writer) -> Writer {
        writer.u8((*self).into())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(reader.u8()? != 0)
    }

    fn is_left_out(&self) -> bool {
        !self
    }
}

impl Field for String {
    fn write(&self, writer: Writer) -> Writer {
        writer.bytes(self.as_bytes())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.text()
    }
}

impl Field for RawText {
    fn write(&self, writer: Writer) -> Writer {
        writer.bytes(&self.0)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.bytes().map(Self::from)
    }
}

impl<T: Field> Field for Option<T> {
    fn write(&self, writer: Writer) -> Writer {
        let writer = self.is_some().write(writer);
        match self {
            Some(value) => value.write(writer),
            None => writer,
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        if bool::read(reader)? { T::read(reader).map(Some) } else { Ok(None) }
    }

    fn is_left_out(&self) -> bool {
        self.is_none()
    }
}

impl Field for Stdin {
    fn write(&self, writer: Writer) -> Writer {
        (*self == Self::Open).write(writer)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(if bool::read(reader)? { Self::Open } else { Self::Null })
    }
}

impl Field for Level {
    fn write(&self, writer: Writer) -> Writer {
        writer.bytes(self.word().as_bytes())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Self::parse(&reader.text()?).ok_or(WireError::Value)
    }
}

impl Field for Survivors {
    fn write(&self, writer: Writer) -> Writer {
        let after = match self {
            Self::Keep => None,
            Self::KillAfter { ms } => Some(*ms),
        };
        after.write(writer)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Option::read(reader)?.map_or(Self::Keep, |ms| Self::KillAfter { ms }))
    }
}

impl Field for Lifetime {
    fn write(&self, writer: Writer) -> Writer {
        match self {
            Self::Forever => writer.u8(0),
            Self::Until { at } => writer.u8(1).u64(at.0),
            Self::Session { lease_ms } => writer.u8(2).u64(*lease_ms),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.u8()? {
            0 => Ok(Self::Forever),
            1 => Ok(Self::Until { at: Timestamp(reader.u64()?) }),
            2 => Ok(Self::Session { lease_ms: reader.u64()? }),
            _ => Err(WireError::Value),
        }
    }
}
