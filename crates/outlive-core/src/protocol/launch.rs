//! The request with which a starter hands a job to a new keeper, and the answer.
//!
//! It goes through a socket pair and is never on disk: the environment is in it.

use crate::containment::{JobLimits, Level, Survivors};
use crate::id::{JobId, Nonce};
use crate::outcome::NeverStarted;
use crate::rawtext::RawText;
use crate::spec::{Lifetime, Process, Stdin};
use crate::timestamp::Timestamp;
use crate::wire::{Reader, WireError, Writer};

/// The version of this request; starter and keeper must agree exactly.
pub const VERSION: u32 = 3;

const REQUEST: u8 = 1;
const STARTED: u8 = 2;
const NOT_STARTED: u8 = 3;
const OTHER_VERSION: u8 = 4;

/// What a keeper needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch<'a> {
    /// The job.
    pub job: JobId,
    /// As in the spec.
    pub nonce: Nonce,
    /// The name of its mark in `live/`.
    pub live_mark: String,
    /// The program's possible places.
    pub candidates: Vec<&'a [u8]>,
    /// The arguments.
    pub argv: Vec<&'a [u8]>,
    /// The whole environment.
    pub environment: Vec<&'a [u8]>,
    /// The directory.
    pub cwd: &'a [u8],
    /// What it reads.
    pub stdin: Stdin,
    /// How long it may run.
    pub timeout_ms: Option<u64>,
    /// How long it has to end.
    pub grace_ms: u64,
    /// How much output is kept.
    pub output_cap_bytes: Option<u64>,
    /// What is to hold it together; none: the best there is.
    pub containment: Option<Level>,
    /// What it may use.
    pub limits: JobLimits,
    /// What happens to processes that outlive the main one.
    pub survivors: Survivors,
    /// How long it may live.
    pub lifetime: Lifetime,
    /// The arguments of the program that the keeper becomes at the end of the job; empty: none. The program itself is the
    /// last descriptor that comes with this request.
    pub completion: Vec<&'a [u8]>,
}

/// Why a keeper cannot take a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// It is of another version.
    #[error("the launch request has version {0}, and this keeper takes {VERSION}")]
    Version(u32),
    /// It is not well formed.
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl<'a> Launch<'a> {
    /// Returns the frame.
    pub fn to_frame(&self) -> Vec<u8> {
        Writer::new(REQUEST)
            .u32(VERSION)
            .bytes(self.job.as_str().as_bytes())
            .bytes(&self.nonce.0)
            .bytes(self.live_mark.as_bytes())
            .list(&self.candidates)
            .list(&self.argv)
            .list(&self.environment)
            .bytes(self.cwd)
            .u8(u8::from(self.stdin == Stdin::Open))
            .option_u64(self.timeout_ms)
            .u64(self.grace_ms)
            .option_u64(self.output_cap_bytes)
            .bytes(self.containment.map_or("", Level::word).as_bytes())
            .option_u64(self.limits.memory_bytes)
            .option_u64(self.limits.pids)
            .option_u64(self.limits.cpu_milli)
            .option_u64(self.limits.open_files)
            .option_u64(match self.survivors {
                Survivors::Keep => None,
                Survivors::KillAfter { ms } => Some(ms),
            })
            .option_u64(match self.lifetime {
                Lifetime::Until { at } => Some(at.0),
                _ => None,
            })
            .option_u64(match self.lifetime {
                Lifetime::Session { lease_ms } => Some(lease_ms),
                _ => None,
            })
            .list(&self.completion)
            .finish()
    }

    /// Reads a frame's contents.
    ///
    /// # Errors
    ///
    /// If it is of another version or not well formed.
    pub fn parse(contents: &'a [u8]) -> Result<Self, LaunchError> {
        let (kind, mut reader) = Reader::new(contents)?;
        if kind != REQUEST {
            return Err(WireError::Type(kind).into());
        }
        let version = reader.u32()?;
        if version != VERSION {
            return Err(LaunchError::Version(version));
        }
        Ok(Self {
            job: JobId::parse(&reader.text()?).map_err(|_| WireError::Value)?,
            nonce: Nonce(reader.bytes()?.try_into().map_err(|_| WireError::Value)?),
            live_mark: reader.text()?,
            candidates: reader.list()?,
            argv: reader.list()?,
            environment: reader.list()?,
            cwd: reader.bytes()?,
            stdin: if reader.u8()? == 0 { Stdin::Null } else { Stdin::Open },
            timeout_ms: reader.option_u64()?,
            grace_ms: reader.u64()?,
            output_cap_bytes: reader.option_u64()?,
            containment: Level::parse(&reader.text()?),
            limits: JobLimits {
                memory_bytes: reader.option_u64()?,
                pids: reader.option_u64()?,
                cpu_milli: reader.option_u64()?,
                open_files: reader.option_u64()?,
            },
            survivors: match reader.option_u64()? {
                None => Survivors::Keep,
                Some(ms) => Survivors::KillAfter { ms },
            },
            lifetime: match (reader.option_u64()?, reader.option_u64()?) {
                (Some(at), _) => Lifetime::Until { at: Timestamp(at) },
                (None, Some(lease_ms)) => Lifetime::Session { lease_ms },
                (None, None) => Lifetime::Forever,
            },
            completion: reader.list()?,
        })
    }
}

/// What the keeper answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchReply {
    /// The command runs.
    Started(Process),
    /// It does not, and this is why; the outcome says the same.
    NotStarted(NeverStarted),
    /// The keeper takes another version of the request; nothing was done, and the locks are free.
    OtherVersion(u32),
}

impl LaunchReply {
    /// Returns the frame.
    pub fn to_frame(&self) -> Vec<u8> {
        match self {
            Self::Started(process) => Writer::new(STARTED).i32(process.pid).u64(process.start_time).finish(),
            Self::NotStarted(never) => Writer::new(NOT_STARTED)
                .bytes(never.step.as_bytes())
                .i32(never.errno.unwrap_or(0))
                .u8(u8::from(never.path.is_some()))
                .bytes(never.path.as_ref().map_or(&[], |path| &path.0))
                .u8(u8::from(never.detail.is_some()))
                .bytes(never.detail.as_deref().unwrap_or_default().as_bytes())
                .finish(),
            Self::OtherVersion(version) => Writer::new(OTHER_VERSION).u32(*version).finish(),
        }
    }

    /// Reads a frame's contents.
    ///
    /// # Errors
    ///
    /// If it is not well formed.
    pub fn parse(contents: &[u8]) -> Result<Self, WireError> {
        let (kind, mut reader) = Reader::new(contents)?;
        match kind {
            STARTED => Ok(Self::Started(Process { pid: reader.i32()?, start_time: reader.u64()? })),
            NOT_STARTED => {
                let step = reader.text()?;
                let errno = Some(reader.i32()?).filter(|&errno| errno != 0);
                let has_path = reader.u8()? != 0;
                let path = reader.bytes()?;
                let has_detail = reader.u8()? != 0;
                let detail = reader.text()?;
                Ok(Self::NotStarted(NeverStarted {
                    step,
                    errno,
                    path: has_path.then(|| RawText::from(path)),
                    detail: has_detail.then_some(detail),
                }))
            }
            OTHER_VERSION => Ok(Self::OtherVersion(reader.u32()?)),
            other => Err(WireError::Type(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::first_frame;
    use proptest::prelude::*;

    fn contents(frame: &[u8]) -> &[u8] {
        let (contents, length) = first_frame(frame).unwrap().expect("a whole frame");
        assert_eq!(length, frame.len());
        contents
    }

    proptest! {
        #[test]
        fn a_request_comes_back_and_a_part_of_it_does_not(
            argv in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..5),
            timeout_ms: Option<u64>,
            open: bool,
            cut in 0usize..40,
        ) {
            let launch = Launch {
                job: JobId::parse("a-1").unwrap(),
                nonce: Nonce([7; 16]),
                live_mark: "a-1@default".into(),
                candidates: vec![b"/bin/a"],
                argv: argv.iter().map(Vec::as_slice).collect(),
                environment: vec![b"A=1", b"B=\xff"],
                cwd: b"/",
                stdin: if open { Stdin::Open } else { Stdin::Null },
                timeout_ms,
                grace_ms: 5000,
                output_cap_bytes: None,
                containment: open.then_some(Level::Freezer),
                limits: JobLimits { pids: timeout_ms, ..JobLimits::default() },
                survivors: timeout_ms.map_or(Survivors::Keep, |ms| Survivors::KillAfter { ms }),
                lifetime: timeout_ms.map_or(Lifetime::Forever, |lease_ms| Lifetime::Session { lease_ms }),
                completion: if open { vec![b"outlive", b"on-exit"] } else { Vec::new() },
            };
            let frame = launch.to_frame();
            let whole = contents(&frame);
            prop_assert_eq!(Launch::parse(whole).unwrap(), launch);
            prop_assert!(cut == 0 || Launch::parse(&whole[..whole.len().saturating_sub(cut)]).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Launch::parse(&bytes).is_ok(), LaunchReply::parse(&bytes).is_ok());
        }
    }

    #[test]
    fn answers_come_back() {
        for reply in [
            LaunchReply::Started(Process { pid: 42, start_time: 7 }),
            LaunchReply::NotStarted(NeverStarted {
                step: "exec".into(),
                errno: Some(2),
                path: Some("/x".into()),
                detail: None,
            }),
            LaunchReply::NotStarted(NeverStarted { step: "keeper".into(), ..NeverStarted::default() }),
            LaunchReply::OtherVersion(9),
        ] {
            let frame = reply.to_frame();
            assert_eq!(LaunchReply::parse(contents(&frame)), Ok(reply));
        }
    }
}
