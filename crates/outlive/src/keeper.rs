//! Finding and executing the keeper's program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use outlive_sys::detach;

/// The keeper's program, by name.
pub(crate) const PROGRAM: &str = "outlive-keeper";

/// Where keepers come from.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeeperProgram {
    /// Named by the caller.
    pub(crate) given: Option<PathBuf>,
    /// This program can be one itself.
    pub(crate) can_be_self: bool,
}

impl KeeperProgram {
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

/// Executes a keeper for `job`, detached from this program, with these descriptors.
pub(crate) fn execute(program: &Path, job: &str, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let program = CString::new(program.as_os_str().as_bytes()).map_err(invalid)?;
    let arguments = [CString::new(PROGRAM).map_err(invalid)?, CString::new(job).map_err(invalid)?];
    detach::start(&program, &arguments, fds)
}

/// Lists the files of this name in the directories of a search path.
pub(crate) fn in_path(name: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    search(name, path).into_iter().filter(|candidate| candidate.is_file()).collect()
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
