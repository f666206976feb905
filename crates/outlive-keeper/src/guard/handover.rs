//! What a program is handed that a keeper or a guard executes in its own place: all that is neither in the store, nor in the page, nor
//! in the descriptors themselves.
//!
//! A frame, as on the sockets: fields are only ever added at its end, so that a later version reads what an earlier one wrote. It is in
//! memory and never on disk, because the environment may be in it.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use outlive_core::id::Nonce;
use outlive_core::launch::SyncOrder;
use outlive_core::meta::Meta;
use outlive_core::wire::{Reader, WireError, Writer, first_frame};
use outlive_sys::identity::ProcessId;
use outlive_sys::keeper::LOCK_FD;

use super::{Custody, Guard};
use crate::on_exit::Kept;
use crate::start::Keeper;

const HANDOVER: u8 = 1;

/// The number of no descriptor.
const NONE: RawFd = -1;

/// What is handed over.
pub(super) struct Handover {
    /// The program that is executed.
    pub(super) program: CString,
    /// The snapshot, as it was then.
    pub(super) meta: Meta,
    pub(super) live_mark: String,
    pub(super) sync: SyncOrder,
    /// The keeper is the parent of all that is left of the job.
    pub(super) is_parent: bool,
    pub(super) guard: Guard,
    pub(super) fds: Descriptors,
    /// The control groups: of the tree, and for memory, processes and processor time.
    pub(super) groups: [Option<PathBuf>; 4],
    /// Where the keeper stands in the group for keepers, because it was started from inside a job.
    pub(super) nested: Vec<PathBuf>,
    pub(super) on_exit: Option<Kept>,
}

/// The numbers of descriptors that a keeper has from its beginning to its end; those that may be closed are in the page.
#[derive(Clone, Copy)]
pub(super) struct Descriptors {
    pub(super) dir: RawFd,
    pub(super) outcome: RawFd,
    pub(super) index: RawFd,
    pub(super) transit: [RawFd; 2],
    /// The master of the terminal and the command's side; none on pipes.
    pub(super) terminal: [RawFd; 2],
    /// `outlive`, which finds out answers; which reports the end.
    pub(super) answers: RawFd,
    pub(super) on_exit: RawFd,
    /// The hold on the main process.
    pub(super) main: RawFd,
}

impl Descriptors {
    /// Lists those that there are, and the lock.
    pub(super) fn all(self) -> Vec<RawFd> {
        let Self { dir, outcome, index, transit, terminal, answers, on_exit, main } = self;
        let all = [LOCK_FD, dir, outcome, index, transit[0], transit[1], terminal[0], terminal[1]];
        all.into_iter().chain([answers, on_exit, main]).filter(|fd| *fd != NONE).collect()
    }
}

impl Keeper {
    /// Returns what a program needs to go on in place of this one, or of its guard.
    pub(super) fn handover(&self, program: &CString, guard: Guard) -> Vec<u8> {
        let number = |fd: Option<RawFd>| fd.unwrap_or(NONE);
        let mut terminal = self.terminal.iter().flat_map(|terminal| terminal.own_fds());
        let mut fds = vec![self.dir.as_raw_fd(), self.outcome.as_raw_fd(), self.recorder.index_fd()];
        fds.extend(self.transit.fds());
        fds.extend([number(terminal.next()), number(terminal.next())]);
        fds.push(number(self.terminal.as_ref().and_then(|terminal| terminal.answers.program_fd())));
        fds.push(number(self.on_exit.as_ref().map(|on_exit| on_exit.fd())));
        fds.push(number(self.main.as_ref().map(|main| main.as_fd().as_raw_fd())));
        let (kind, id) = match guard {
            Guard::Above(id) => (1, id),
            Guard::Below(id) => (2, id),
        };
        let (groups, nested) = self.containment.places();
        let paths = |paths: &[PathBuf]| -> Vec<Vec<u8>> {
            paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect()
        };
        let groups = groups.map(Option::unwrap_or_default);
        let frame = Writer::new(HANDOVER)
            .bytes(program.as_bytes())
            .bytes(&self.meta.nonce.0)
            .bytes(&self.meta.to_bytes())
            .bytes(self.live_mark.as_bytes())
            .u8(u8::from(self.sync == SyncOrder::Before))
            .u8(u8::from(self.is_parent))
            .u8(kind)
            .i32(id.pid)
            .u64(id.start_time);
        let frame = fds.into_iter().fold(frame, Writer::i32);
        let frame = frame.list(&paths(&groups)).list(&paths(&nested));
        let frame = frame.u8(u8::from(self.on_exit.is_some()));
        let frame = match &self.on_exit {
            Some(on_exit) => {
                let kept = on_exit.kept();
                let bytes = |strings: &[CString]| -> Vec<Vec<u8>> {
                    strings.iter().map(|string| string.as_bytes().to_vec()).collect()
                };
                let frame =
                    frame.list(&bytes(&kept.arguments)).list(&bytes(&kept.environment)).u32(kept.umask);
                kept.limits.values().into_iter().fold(frame, Writer::u64)
            }
            None => frame,
        };
        frame.finish()
    }
}

impl Handover {
    /// Reads the one that holds; `None` if it is not understood.
    pub(super) fn read(custody: Custody) -> Option<Self> {
        let bytes = custody.read_handover()?;
        Self::parse(first_frame(&bytes).ok()??.0).ok()
    }

    fn parse(contents: &[u8]) -> Result<Self, WireError> {
        let (kind, mut reader) = Reader::new(contents)?;
        if kind != HANDOVER {
            return Err(WireError::Type(kind));
        }
        let string = |bytes: &[u8]| CString::new(bytes).map_err(|_| WireError::Value);
        let path = |bytes: &&[u8]| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
        let program = string(reader.bytes()?)?;
        let nonce = Nonce(reader.bytes()?.try_into().map_err(|_| WireError::Value)?);
        let meta = Meta::parse(nonce, reader.bytes()?).ok_or(WireError::Value)?;
        let live_mark = reader.text()?;
        let sync = if reader.u8()? == 0 { SyncOrder::After } else { SyncOrder::Before };
        let is_parent = reader.u8()? != 0;
        let kind = reader.u8()?;
        let id = ProcessId { pid: reader.i32()?, start_time: reader.u64()? };
        let guard = if kind == 1 { Guard::Above(id) } else { Guard::Below(id) };
        let fds = Descriptors {
            dir: reader.i32()?,
            outcome: reader.i32()?,
            index: reader.i32()?,
            transit: [reader.i32()?, reader.i32()?],
            terminal: [reader.i32()?, reader.i32()?],
            answers: reader.i32()?,
            on_exit: reader.i32()?,
            main: reader.i32()?,
        };
        let mut groups = [const { None }; 4];
        for (group, found) in groups.iter_mut().zip(reader.list()?) {
            *group = Some(path(&found)).filter(|path| !path.as_os_str().is_empty());
        }
        let nested = reader.list()?.iter().map(path).collect();
        let on_exit = match reader.u8()? {
            0 => None,
            _ => {
                let mut strings = || reader.list()?.into_iter().map(string).collect::<Result<Vec<_>, _>>();
                let (arguments, environment) = (strings()?, strings()?);
                let umask = reader.u32()?;
                let mut values = [0; 6];
                for value in &mut values {
                    *value = reader.u64()?;
                }
                Some(Kept { arguments, environment, umask, limits: outlive_sys::spawn::Limits::of(values) })
            }
        };
        Ok(Self { program, meta, live_mark, sync, is_parent, guard, fds, groups, nested, on_exit })
    }
}
