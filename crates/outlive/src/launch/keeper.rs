//! Finds and executes the keeper's program.

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

/// Sources of keepers, by preference.
#[derive(Debug, Default)]
pub(crate) struct KeeperProgram {
    /// A path from `Store::with_keeper`.
    pub(crate) given: Option<PathBuf>,
    /// This program can be a keeper itself.
    pub(crate) can_be_self: bool,
    /// A keeper that is running already, without a job.
    pub(crate) spare: Mutex<Option<SpareKeeper>>,
}

impl KeeperProgram {
    /// Returns the spare keeper, else starts the best program; `None` if that fails.
    pub(crate) fn take_spare(&self) -> Option<SpareKeeper> {
        let waiting = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        waiting.or_else(|| SpareKeeper::of(&self.candidates().next()?).ok())
    }

    /// Lists the programs to try, the best first: a keeper of another build may refuse. `PATH` is searched last, lazily.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = PathBuf> {
        let named = || std::env::var_os("OUTLIVE_KEEPER").filter(|path| !path.is_empty()).map(PathBuf::from);
        let chosen = self.given.clone().or_else(named);
        let is_open = chosen.is_none();
        let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(PROGRAM)));
        // Still valid if the file was replaced or deleted since this program started.
        let own = self.can_be_self.then(|| PathBuf::from("/proc/self/exe"));
        let elsewhere =
            std::iter::once_with(|| in_path(OsStr::new(PROGRAM), std::env::var_os("PATH").as_deref()));
        let found = beside.into_iter().filter(|path| path.exists()).chain(own).chain(elsewhere.flatten());
        chosen.into_iter().chain(found.filter(move |_| is_open))
    }
}

/// A keeper that was started early and waits for its launch request.
///
/// Executing it takes as long as preparing a job; both happen at the same time. It exits when this is dropped.
#[derive(Debug)]
pub struct SpareKeeper {
    pub(crate) program: PathBuf,
    pub(crate) socket: UnixStream,
}

impl SpareKeeper {
    /// Starts the best keeper program, this program itself if `can_be_self`; `None` if that fails: the start of a job then
    /// reports why.
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

/// Finds the files of this name in a search path, lazily.
pub(crate) fn in_path(name: &OsStr, path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> + use<> {
    search(name, path).into_iter().filter(|candidate| candidate.is_file())
}

/// Lists the paths that a program of this name may have; they need not exist.
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
