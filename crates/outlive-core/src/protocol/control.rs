//! The conversation between a front end and a keeper.
//!
//! The keeper speaks first, with a [`Hello`]; then each request is answered once, in order. A front end of a later
//! version talks to an old keeper in the highest version that both have.

use serde::{Deserialize, Serialize};

use crate::id::Nonce;
use crate::terminal::size::{Sizing, TerminalSize};
use crate::wire::{Reader, WireError, Writer};

/// The longest piece of input in one request; longer input is sent in pieces.
pub const MAX_INPUT: usize = 64 << 10;

/// The longest secret for a terminal: the longest line that a terminal takes. It has room for one at once.
pub const MAX_SECRET: usize = 4095;

/// The code with which a secret is refused that might be shown.
pub const NOT_HIDDEN: &str = "not_hidden";

/// What this build speaks.
pub const SPOKEN: Versions = Versions { min: 1, max: 1 };

/// A range of protocol versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest.
    pub min: u32,
    /// The newest.
    pub max: u32,
}

impl Versions {
    /// Returns the highest version that both have.
    pub fn common(self, other: Self) -> Option<u32> {
        let highest = self.max.min(other.max);
        (highest >= self.min && highest >= other.min).then_some(highest)
    }
}

/// The keeper's first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// What it speaks.
    pub versions: Versions,
    /// The nonce of the job that it keeps.
    pub nonce: Nonce,
}

const HELLO: u8 = 1;
const SIGNAL: u8 = 16;
const KILL: u8 = 17;
const INPUT: u8 = 18;
const EOF: u8 = 19;
const CLEAR: u8 = 20;
const PAUSE: u8 = 21;
const RESUME: u8 = 22;
const LIFT_TIMEOUT: u8 = 23;
const SNAPSHOT: u8 = 24;
const RESIZE: u8 = 25;
const VIEW: u8 = 26;
const KEYS: u8 = 27;
const AWAITS: u8 = 28;
const LEADS: u8 = 29;
const UPGRADE: u8 = 30;
const SECRET: u8 = 31;
const SIGNALLED: u8 = 64;
const ACCEPTED: u8 = 65;
const REFUSED: u8 = 66;
const DESCRIBED: u8 = 67;

impl Hello {
    /// Returns the frame.
    pub fn to_frame(&self) -> Vec<u8> {
        Writer::new(HELLO).u32(self.versions.min).u32(self.versions.max).bytes(&self.nonce.0).finish()
    }

    /// Reads a frame's contents.
    ///
    /// # Errors
    ///
    /// If it is not well formed.
    pub fn parse(contents: &[u8]) -> Result<Self, WireError> {
        let (kind, mut reader) = Reader::new(contents)?;
        if kind != HELLO {
            return Err(WireError::Type(kind));
        }
        let versions = Versions { min: reader.u32()?, max: reader.u32()? };
        let nonce = Nonce(reader.bytes()?.try_into().map_err(|_| WireError::Value)?);
        Ok(Self { versions, nonce })
    }
}

/// Where a piece of input belongs: a request that is sent again, because the keeper died meanwhile, repeats nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// A random number that the writer has for all its pieces; 0: it has none, and sends nothing twice.
    pub client: u64,
    /// How many bytes it has sent before this piece.
    pub offset: u64,
}

impl Place {
    /// Adds it to a request.
    fn write(self, writer: Writer) -> Writer {
        writer.u64(self.client).u64(self.offset)
    }
}

/// A program that a keeper is to execute in its own place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// Its path.
    pub program: Vec<u8>,
    /// The latest version of what a keeper keeps in memory that the program understands, by its own word.
    pub page: u32,
    /// A random number: an attempt that is asked for again, because the connection was closed by it, is not made again.
    pub attempt: u64,
}

/// What a front end asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Send this signal to every process of the job, and no more.
    Signal {
        /// Its number.
        signal: i32,
        /// On whose behalf, in words for the outcome.
        by: String,
    },
    /// End the job: a signal, a grace, then SIGKILL until nothing is left. The answer comes then.
    Kill {
        /// The first signal; SIGKILL ends it at once.
        signal: i32,
        /// Time between the signal and SIGKILL; none: the job's own grace.
        grace_ms: Option<u64>,
        /// On whose behalf, in words for the outcome.
        by: String,
    },
    /// Write this to the command's standard input. The answer comes when the keeper has it in its bounded buffer.
    Input(Vec<u8>, Place),
    /// Type this into the command's terminal now, if nothing shows it there, and keep it nowhere; else it is refused as
    /// [`NOT_HIDDEN`]. A message of its own: a keeper that does not look refuses it as well.
    Secret {
        /// At most [`MAX_SECRET`] bytes.
        bytes: Vec<u8>,
        /// Where they belong.
        place: Place,
        /// Also to a program that reads key by key: the sender knows that this one shows none.
        is_masked: bool,
    },
    /// Close the command's standard input once it has read what was written before. In a terminal the key for that is typed, at this
    /// place.
    Eof(Place),
    /// Drop the output so far. Offsets and line numbers continue.
    Clear,
    /// Suspend every process of the job. The answer comes when all are stopped.
    Pause,
    /// Let them continue.
    Resume,
    /// Drop the deadline that the job was started with. Refused if the job is being ended.
    LiftTimeout,
    /// Say what `meta.json` says, for a front end that cannot read it.
    Snapshot,
    /// Give the command's terminal this size.
    Resize(TerminalSize),
    /// This connection is a viewer from now on, and its own terminal has this size.
    View {
        /// The size.
        size: TerminalSize,
        /// What it means for the command's terminal.
        sizing: Sizing,
    },
    /// As [`Request::Input`], typed by a person: this viewer is the one that was used last.
    Keys(Vec<u8>, Place),
    /// Look now what the job waits for, and say what `meta.json` says, with that.
    Awaits,
    /// Accepted if a person typed last at this viewer, or there is no other.
    Leads,
    /// Execute another version of the keeper's program in place of this one. The keeper closes all connections when it does; the front
    /// end asks again, and is answered when it is done.
    Upgrade(Upgrade),
}

impl Request {
    /// Returns the frame.
    pub fn to_frame(&self) -> Vec<u8> {
        match self {
            Self::Signal { signal, by } => Writer::new(SIGNAL).i32(*signal).bytes(by.as_bytes()).finish(),
            Self::Kill { signal, grace_ms, by } => {
                Writer::new(KILL).i32(*signal).option_u64(*grace_ms).bytes(by.as_bytes()).finish()
            }
            Self::Input(bytes, place) => place.write(Writer::new(INPUT).bytes(bytes)).finish(),
            Self::Secret { bytes, place, is_masked } => {
                place.write(Writer::new(SECRET).bytes(bytes)).u8(u8::from(*is_masked)).finish()
            }
            Self::Eof(place) => place.write(Writer::new(EOF)).finish(),
            Self::Clear => Writer::new(CLEAR).finish(),
            Self::Pause => Writer::new(PAUSE).finish(),
            Self::Resume => Writer::new(RESUME).finish(),
            Self::LiftTimeout => Writer::new(LIFT_TIMEOUT).finish(),
            Self::Snapshot => Writer::new(SNAPSHOT).finish(),
            Self::Awaits => Writer::new(AWAITS).finish(),
            Self::Leads => Writer::new(LEADS).finish(),
            Self::Upgrade(upgrade) => {
                Writer::new(UPGRADE).bytes(&upgrade.program).u32(upgrade.page).u64(upgrade.attempt).finish()
            }
            Self::Resize(size) => {
                Writer::new(RESIZE).u32(size.columns().into()).u32(size.rows().into()).finish()
            }
            Self::View { size, sizing } => Writer::new(VIEW)
                .u32(size.columns().into())
                .u32(size.rows().into())
                .bytes(sizing.word().as_bytes())
                .finish(),
            Self::Keys(bytes, place) => place.write(Writer::new(KEYS).bytes(bytes)).finish(),
        }
    }

    /// Reads a frame's contents.
    ///
    /// # Errors
    ///
    /// If it is not well formed or not known.
    pub fn parse(contents: &[u8]) -> Result<Self, WireError> {
        let (kind, mut reader) = Reader::new(contents)?;
        Ok(match kind {
            SIGNAL => Self::Signal { signal: reader.i32()?, by: reader.text()? },
            KILL => Self::Kill { signal: reader.i32()?, grace_ms: reader.option_u64()?, by: reader.text()? },
            INPUT => Self::Input(reader.bytes()?.to_vec(), place(&mut reader)),
            SECRET => Self::Secret {
                bytes: reader.bytes()?.to_vec(),
                place: place(&mut reader),
                is_masked: reader.u8()? == 1,
            },
            EOF => Self::Eof(place(&mut reader)),
            CLEAR => Self::Clear,
            PAUSE => Self::Pause,
            RESUME => Self::Resume,
            LIFT_TIMEOUT => Self::LiftTimeout,
            SNAPSHOT => Self::Snapshot,
            AWAITS => Self::Awaits,
            LEADS => Self::Leads,
            UPGRADE => Self::Upgrade(Upgrade {
                program: reader.bytes()?.to_vec(),
                page: reader.u32()?,
                attempt: reader.u64()?,
            }),
            RESIZE => Self::Resize(size(&mut reader)?),
            VIEW => Self::View {
                size: size(&mut reader)?,
                sizing: Sizing::parse(&reader.text()?).ok_or(WireError::Value)?,
            },
            KEYS => Self::Keys(reader.bytes()?.to_vec(), place(&mut reader)),
            other => return Err(WireError::Type(other)),
        })
    }
}

/// Reads where a piece of input belongs; earlier front ends do not say it.
fn place(reader: &mut Reader<'_>) -> Place {
    reader.u64().and_then(|client| Ok(Place { client, offset: reader.u64()? })).unwrap_or_default()
}

fn size(reader: &mut Reader<'_>) -> Result<TerminalSize, WireError> {
    let mut number = || Ok(u16::try_from(reader.u32()?).unwrap_or(u16::MAX));
    Ok(TerminalSize::new(number()?, number()?))
}

/// A process that is still there after a kill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Survivor {
    /// Its pid.
    pub pid: i32,
    /// What it runs, as far as that can be seen.
    pub command: String,
    /// Why it is still there, in words.
    pub why: String,
}

impl Survivor {
    /// Names a process by the arguments that it was started with.
    pub fn new(pid: i32, arguments: &[Vec<u8>], why: &str) -> Self {
        let command = String::from_utf8_lossy(&arguments.join(&b' ')).into_owned();
        Self { pid, command, why: why.to_owned() }
    }
}

/// What the keeper answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Processes were signalled.
    Signalled {
        /// How many of them.
        count: u32,
        /// Those that should be gone and are not.
        survivors: Vec<Survivor>,
    },
    /// Done.
    Accepted,
    /// The contents of `meta.json`.
    Described(Vec<u8>),
    /// Not done.
    Refused {
        /// A stable word: `stdin_closed`, `unknown_request`, `bad_signal`, `ending`, `no_terminal`, `not_leading`, `not_hidden`,
        /// `upgrade_failed` and others of an upgrade.
        code: String,
        /// The reason for people.
        message: String,
    },
}

/// Why a pause is refused if a process has not stopped in time. It may stop later, and asking again changes nothing else.
pub const STILL_STOPPING: (&str, &str) =
    ("still_stopping", "not all processes have stopped yet; they will when the kernel lets them");

impl Reply {
    /// Refuses a request.
    pub fn refused(code: &str, message: impl Into<String>) -> Self {
        Self::Refused { code: code.to_owned(), message: message.into() }
    }

    /// Returns the frame.
    pub fn to_frame(&self) -> Vec<u8> {
        match self {
            Self::Signalled { count, survivors } => survivors
                .iter()
                .fold(Writer::new(SIGNALLED).u32(*count).u32(survivors.len() as u32), |writer, survivor| {
                    writer.i32(survivor.pid).bytes(survivor.command.as_bytes()).bytes(survivor.why.as_bytes())
                })
                .finish(),
            Self::Accepted => Writer::new(ACCEPTED).finish(),
            Self::Described(snapshot) => Writer::new(DESCRIBED).bytes(snapshot).finish(),
            Self::Refused { code, message } => {
                Writer::new(REFUSED).bytes(code.as_bytes()).bytes(message.as_bytes()).finish()
            }
        }
    }

    /// Reads a frame's contents.
    ///
    /// # Errors
    ///
    /// If it is not well formed or not known.
    pub fn parse(contents: &[u8]) -> Result<Self, WireError> {
        let (kind, mut reader) = Reader::new(contents)?;
        Ok(match kind {
            SIGNALLED => {
                let (count, length) = (reader.u32()?, reader.u32()?);
                let survivors = (0..length)
                    .map(|_| {
                        Ok(Survivor { pid: reader.i32()?, command: reader.text()?, why: reader.text()? })
                    })
                    .collect::<Result<_, WireError>>()?;
                Self::Signalled { count, survivors }
            }
            ACCEPTED => Self::Accepted,
            DESCRIBED => Self::Described(reader.bytes()?.to_vec()),
            REFUSED => Self::Refused { code: reader.text()?, message: reader.text()? },
            other => return Err(WireError::Type(other)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::first_frame;
    use proptest::prelude::*;

    fn contents(frame: &[u8]) -> &[u8] {
        first_frame(frame).unwrap().expect("a whole frame").0
    }

    #[test]
    fn messages_come_back() {
        for request in [
            Request::Signal { signal: 10, by: "cli".into() },
            Request::Kill { signal: 15, grace_ms: Some(1), by: String::new() },
            Request::Kill { signal: 9, grace_ms: None, by: "x".into() },
            Request::Input(vec![0, 255, b'\n'], Place { client: 7, offset: 1 << 40 }),
            Request::Secret {
                bytes: b"word\r".to_vec(),
                place: Place { client: 7, offset: 0 },
                is_masked: true,
            },
            Request::Eof(Place { client: 9, offset: 4 }),
            Request::Clear,
            Request::Pause,
            Request::Resume,
            Request::LiftTimeout,
            Request::Snapshot,
            Request::Awaits,
            Request::Leads,
            Request::Upgrade(Upgrade { program: b"/bin/k".to_vec(), page: 3, attempt: u64::MAX }),
            Request::Resize(TerminalSize::new(80, 24)),
            Request::View { size: TerminalSize::new(80, 24), sizing: Sizing::Smallest },
            Request::Keys(b"\x1b[A".to_vec(), Place { client: 8, offset: 3 }),
        ] {
            assert_eq!(Request::parse(contents(&request.to_frame())), Ok(request));
        }
        for reply in [
            Reply::Signalled {
                count: 3,
                survivors: vec![Survivor { pid: 9, command: "dd".into(), why: "state D".into() }],
            },
            Reply::Accepted,
            Reply::Described(b"{}".to_vec()),
            Reply::Refused { code: "stdin_closed".into(), message: "m".into() },
        ] {
            assert_eq!(Reply::parse(contents(&reply.to_frame())), Ok(reply));
        }
        let hello = Hello { versions: SPOKEN, nonce: Nonce([1; 16]) };
        assert_eq!(Hello::parse(contents(&hello.to_frame())), Ok(hello));
    }

    #[test]
    fn fields_of_a_later_version_are_ignored() {
        let request = Request::Eof(Place { client: 1, offset: 2 });
        let mut frame = request.to_frame();
        frame.extend(b"later");
        let length = (frame.len() - 4) as u32;
        frame[..4].copy_from_slice(&length.to_le_bytes());
        assert_eq!(Request::parse(contents(&frame)), Ok(request));
    }

    #[test]
    fn the_highest_common_version_is_spoken() {
        let range = |min, max| Versions { min, max };
        assert_eq!(range(1, 3).common(range(2, 5)), Some(3));
        assert_eq!(range(1, 1).common(range(2, 5)), None);
        assert_eq!(range(4, 5).common(range(1, 3)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Request::parse(&bytes).is_ok(), Reply::parse(&bytes).is_ok(), Hello::parse(&bytes).is_ok());
            let _ = first_frame(&bytes).is_ok();
        }
    }
}
