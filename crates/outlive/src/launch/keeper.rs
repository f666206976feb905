//! Finding and executing the keeper's program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use outlive_sys::fault::{self, Point};
use outlive_sys::keeper::PROGRAM;
use outlive_sys::{detach, socket};

/// Where keepers come from.
#[derive(Debug, Default)]
pub(crate) struct KeeperProgram {
    /// Named by the caller.
    pub(crate) given: Option<PathBuf>,
    /// This program can be one itself.
    pub(crate) can_be_self: bool,
    /// One that waits already.
    pub(crate) spare: Mutex<Option<SpareKeeper>>,
}

impl KeeperProgram {
    /// Returns the keeper that waits already, else a new one of the best program; `None` if that fails.
    pub(crate) fn take_spare(&self) -> Option<SpareKeeper> {
        let waiting = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        waiting.or_else(|| SpareKeeper::of(&self.candidates().next()?).ok())
    }

    /// Lists the programs to try, the best first: one of another build may refuse, and then the next is tried. `PATH` is
    /// searched only when it comes to that.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = PathBuf> {
        let named = || std::env::var_os("OUTLIVE_KEEPER").filter(|path| !path.is_empty()).map(PathBuf::from);
        let chosen = self.given.clone().or_else(named);
        let is_open = chosen.is_none();
        let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(PROGRAM)));
        // This program's own file may have been replaced or deleted since it was started; this name still means it.
        let own = self.can_be_self.then(|| PathBuf::from("/proc/self/exe"));
        let elsewhere =
            std::iter::once_with(|| in_path(OsStr::new(PROGRAM), std::env::var_os("PATH").as_deref()));
        let found = beside.into_iter().filter(|path| path.exists()).chain(own).chain(elsewhere.flatten());
        chosen.into_iter().chain(found.filter(move |_| is_open))
    }
}

/// A keeper that was started ahead of need and waits to be told what to keep.
///
/// Executing it takes as long as preparing a job, and the two are done at the same time. One that is dropped ends by
/// itself: its socket is closed.
#[derive(Debug)]
pub struct SpareKeeper {
    pub(crate) program: PathBuf,
    pub(crate) socket: UnixStream,
}

impl SpareKeeper {
    /// Starts one from the best program that is found, this one itself if `can_be_self`; `None` if that fails, which
    /// whoever needs a keeper will find out with a reason.
    pub fn start(can_be_self: bool) -> Option<Self> {
        let programs = KeeperProgram { can_be_self, ..KeeperProgram::default() };
        let program = programs.candidates().next()?;
        Self::of(&program).ok()
    }

    /// Executes a keeper, detached from this program.
    pub(crate) fn of(program: &Path) -> io::Result<Self> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let path = CString::new(program.as_os_str().as_bytes()).map_err(invalid)?;
        let (ours, theirs) = fault::step(Point::KeeperPair, socket::pair)?;
        let arguments = [CString::new(PROGRAM).map_err(invalid)?];
        fault::step(Point::KeeperExec, || detach::start(&path, &arguments, &[], &[theirs.as_fd()]))?;
        Ok(Self { program: program.to_owned(), socket: ours })
    }
}

/// Finds the files of this name in the directories of a search path, and looks no farther than is asked.
pub(crate) fn in_path(name: &OsStr, path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> + use<> {
    search(name, path).into_iter().filter(|candidate| candidate.is_file())
}

/// Lists where a program of this name may be, whether it is there or not.
pub(crate) fn search(name: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    path.as_bytes()
        .split(|&byte| byte == b':')
        .map(
            |directory| {
                if directory.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(directory)) }
            },
        )
        .map(|directory| directory.join(name))
        .collect()
}
