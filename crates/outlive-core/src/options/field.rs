//! How the values of options are stored in `spec.json` and sent to a keeper.

use crate::containment::{Level, Survivors};
use crate::health::HealthThen;
use crate::id::QueueName;
use crate::rawtext::RawText;
use crate::restart::RestartWhen;
use crate::schedule::{Missed, Overlap};
use crate::spec::{Lifetime, Stdin};
use crate::terminal::size::TerminalSize;
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

/// Words of which `spec.json` leaves out the default.
macro_rules! word_fields {
    ($($Word:ty),*) => { $(
        impl Field for $Word {
            fn write(&self, writer: Writer) -> Writer {
                writer.bytes(self.word().as_bytes())
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                Self::parse(reader.word()?).ok_or(WireError::Value)
            }

            fn is_left_out(&self) -> bool {
                *self == Self::default()
            }
        }
    )* };
}

word_fields!(HealthThen, RestartWhen, Missed, Overlap);

/// Declares how values are written and read that are never left out.
macro_rules! fields {
    ($($Value:ty, $write:expr, $read:expr;)*) => { $(
        impl Field for $Value {
            fn write(&self, writer: Writer) -> Writer {
                let write: fn(&Self, Writer) -> Writer = $write;
                write(self, writer)
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                let read: fn(&mut Reader<'_>) -> Result<Self, WireError> = $read;
                read(reader)
            }
        }
    )* };
}

pub(crate) use fields;

fields! {
    u64, |number, writer| writer.u64(*number), |reader| reader.u64();
    i32, |number, writer| writer.i32(*number), |reader| reader.i32();
    u16, |number, writer| writer.u32((*number).into()), |reader| reader.u32()?.try_into().map_err(|_| WireError::Value);
    String, |text, writer| writer.bytes(text.as_bytes()), |reader| reader.text();
    QueueName, |name, writer| writer.bytes(name.as_str().as_bytes()),
        |reader| QueueName::parse(reader.word()?).map_err(|_| WireError::Value);
    RawText, |text, writer| writer.bytes(&text.0), |reader| reader.bytes().map(RawText::from);
    Stdin, |stdin, writer| (*stdin == Stdin::Open).write(writer),
        |reader| Ok(if bool::read(reader)? { Stdin::Open } else { Stdin::Null });
    TerminalSize, |size, writer| size.to_bytes().into_iter().fold(writer, Writer::u8),
        |reader| Ok(TerminalSize::from_bytes([reader.u8()?, reader.u8()?, reader.u8()?]));
    Level, |level, writer| writer.bytes(level.word().as_bytes()),
        |reader| Level::parse(reader.word()?).ok_or(WireError::Value);
    Survivors, |survivors, writer| match survivors {
            Survivors::Keep => None::<u64>.write(writer),
            Survivors::KillAfter { ms } => Some(*ms).write(writer),
        },
        |reader| Ok(Option::read(reader)?.map_or(Survivors::Keep, |ms| Survivors::KillAfter { ms }));
    Lifetime, |lifetime, writer| match lifetime {
            Lifetime::Forever => writer.u8(0),
            Lifetime::Until { at } => writer.u8(1).u64(at.0),
            Lifetime::Session { lease_ms } => writer.u8(2).u64(*lease_ms),
        },
        |reader| match reader.u8()? {
            0 => Ok(Lifetime::Forever),
            1 => Ok(Lifetime::Until { at: Timestamp(reader.u64()?) }),
            2 => Ok(Lifetime::Session { lease_ms: reader.u64()? }),
            _ => Err(WireError::Value),
        };
}
