//! The request with which a starter hands a job to a new keeper, and the answer.
//!
//! It goes through a socket pair and is never on disk: the environment is in it.

use crate::after::After;
use crate::id::{JobId, Nonce};
use crate::options::{Field, JobOptions, OPTIONS, fingerprint};
use crate::outcome::NeverStarted;
use crate::rawtext::RawText;
use crate::spec::Process;
use crate::wire::{Reader, WireError, Writer};

/// The version of this request; starter and keeper must agree exactly, also on the options.
pub const VERSION: u32 = fingerprint(OPTIONS) ^ 8;

const REQUEST: u8 = 1;
const STARTED: u8 = 2;
const NOT_STARTED: u8 = 3;
const OTHER_VERSION: u8 = 4;
const QUEUED: u8 = 5;

/// When a job's outcome is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncOrder {
    /// Right after the end is announced. If the power is lost in between, the job reads as `lost`.
    #[default]
    After,
    /// Before the end is announced. Waiters wait for the disk, too.
    Before,
}

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
    /// What was decided of every option.
    pub options: JobOptions,
    /// When to sync the outcome.
    pub sync: SyncOrder,
    /// The arguments of the program that the keeper becomes at the end of the job; empty: none. The program itself is the
    /// last descriptor that comes with this request.
    pub completion: Vec<&'a [u8]>,
    /// The arguments of the same program that makes the next run of the job; empty: none.
    pub next_run: Vec<&'a [u8]>,
    /// A process beside the job restarts it when files change; the keeper starts another where it is gone.
    pub is_watching: bool,
    /// When the command may be executed, by the boot clock; 0: at once. Until then the keeper waits.
    pub due_boot_us: u64,
    /// What must hold of other jobs first.
    pub after: Vec<After>,
}

impl Launch<'_> {
    /// Tells whether the keeper waits before it executes the command: for a time, another job, or its turn in a queue.
    pub fn waits(&self) -> bool {
        self.due_boot_us > 0
            || self.options.schedule.is_set()
            || !self.after.is_empty()
            || self.options.queue.is_some()
    }
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
        let after: Vec<String> = self.after.iter().map(After::to_string).collect();
        let request = Writer::new(REQUEST)
            .u32(VERSION)
            .bytes(self.job.as_str().as_bytes())
            .bytes(&self.nonce.0)
            .bytes(self.live_mark.as_bytes())
            .list(&self.candidates)
            .list(&self.argv)
            .list(&self.environment)
            .bytes(self.cwd)
            .list(&self.completion)
            .list(&self.next_run)
            .u8(u8::from(self.is_watching))
            .u64(self.due_boot_us)
            .list(&after)
            .u8(u8::from(self.sync == SyncOrder::Before));
        self.options.write(request).finish()
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
            completion: reader.list()?,
            next_run: reader.list()?,
            is_watching: reader.u8()? != 0,
            due_boot_us: reader.u64()?,
            after: read_after(&reader.list()?)?,
            sync: if reader.u8()? == 0 { SyncOrder::After } else { SyncOrder::Before },
            options: JobOptions::read(&mut reader)?,
        })
    }
}

fn read_after(texts: &[&[u8]]) -> Result<Vec<After>, WireError> {
    let read = |text: &&[u8]| std::str::from_utf8(text).ok().and_then(After::parse).ok_or(WireError::Value);
    texts.iter().map(read).collect()
}

/// What the keeper answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchReply {
    /// The command runs.
    Started(Process),
    /// The keeper has the job, and executes the command when its time has come.
    Queued,
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
            Self::Queued => Writer::new(QUEUED).finish(),
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
            QUEUED => Ok(Self::Queued),
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
                options: JobOptions { timeout_ms, ..JobOptions::default() },
                sync: if open { SyncOrder::Before } else { SyncOrder::After },
                completion: if open { vec![b"outlive", b"completion"] } else { Vec::new() },
                next_run: if open { Vec::new() } else { vec![b"outlive", b"next-run"] },
                is_watching: open,
                due_boot_us: timeout_ms.unwrap_or(0),
                after: if open { vec![After::parse("db-1@ready").unwrap()] } else { Vec::new() },
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
            LaunchReply::Queued,
        ] {
            let frame = reply.to_frame();
            assert_eq!(LaunchReply::parse(contents(&frame)), Ok(reply));
        }
    }
}
