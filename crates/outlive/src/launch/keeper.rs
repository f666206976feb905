//! Finds and executes the keeper's program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive_sys::fault::{self, Point};
use outlive_sys::keeper::{PROGRAM, SPARE};
use outlive_sys::{detach, inherited, poll, socket};

/// Sources of keepers, by preference.
#[derive(Debug, Default)]
pub(crate) struct KeeperProgram {
    /// A path from `Store::with_keeper`.
    pub(crate) given: Option<PathBuf>,
    /// This program can be a keeper itself.
    pub(crate) can_be_self: bool,
    /// A keeper that is running already, without a job.
    pub(crate) spare: Spare,
    /// After each start, a spare keeper is made for the next.
    pub(crate) keeps_spare: bool,
}

/// Where a spare keeper is kept; shared with the thread that makes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Option<SpareKeeper>>>);

impl Spare {
    pub(crate) fn place(&self) -> MutexGuard<'_, Option<SpareKeeper>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeeperProgram {
    /// Returns the spare keeper, else starts the best program; `None` if that fails.
    pub(crate) fn take_spare(&self) -> Option<SpareKeeper> {
        let waiting = self.spare.place().take().filter(SpareKeeper::is_fit);
        waiting.or_else(|| SpareKeeper::of(&self.candidates().next()?).ok())
    }

    /// Makes a spare keeper for the next job, in the background: executing it takes as long as a start should.
    pub(crate) fn make_spare(&self) {
        let Some(program) = self.candidates().next().filter(|_| self.keeps_spare) else { return };
        let spare = self.spare.clone();
        let make = move || *spare.place() = SpareKeeper::idle(&program);
        // Without a thread the next keeper is started when it is needed.
        std::thread::Builder::new().name("outlive-spare".to_owned()).spawn(make).ok();
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
    /// Where it may wait for long: what it was made from. The job must have what this program has when it starts the job.
    origin: Option<Origin>,
}

/// What a keeper has from the program that started it.
#[derive(Debug, PartialEq, Eq)]
struct Origin {
    /// Its program's file: device, inode, time of the last change.
    build: (u64, u64, i64, i64),
    /// See [`inherited::describe`].
    inherited: String,
}

impl Origin {
    fn of(program: &Path) -> Option<Self> {
        let file = std::fs::metadata(program).ok()?;
        let build = (file.dev(), file.ino(), file.ctime(), file.ctime_nsec());
        Some(Self { build, inherited: inherited::describe()? })
    }
}

impl SpareKeeper {
    /// Starts the best keeper program, this program itself if `can_be_self`; `None` if that fails: the start of a job then
    /// reports why.
    pub fn start(can_be_self: bool) -> Option<Self> {
        let programs = KeeperProgram { can_be_self, ..KeeperProgram::default() };
        let program = programs.candidates().next()?;
        Self::of(&program).ok()
    }

    /// Executes a keeper that may wait for long, and touches nothing until it has a job.
    fn idle(program: &Path) -> Option<Self> {
        let origin = Origin::of(program)?;
        let keeper = Self::execute(program, &[PROGRAM, SPARE]).ok()?;
        Some(Self { origin: Some(origin), ..keeper })
    }

    /// Tells whether it is alive, of the build that is installed now, and has what a new one would inherit.
    fn is_fit(&self) -> bool {
        self.origin.as_ref().is_none_or(|origin| {
            let is_over = poll::readable(self.socket.as_fd(), Some(Duration::ZERO));
            is_over.is_ok_and(|is_over| !is_over) && Origin::of(&self.program).as_ref() == Some(origin)
        })
    }

    /// Executes a keeper, detached from this program.
    pub(crate) fn of(program: &Path) -> io::Result<Self> {
        Self::execute(program, &[PROGRAM])
    }

    fn execute(program: &Path, arguments: &[&str]) -> io::Result<Self> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let path = CString::new(program.as_os_str().as_bytes()).map_err(invalid)?;
        let (ours, theirs) = fault::step(Point::KeeperPair, socket::pair)?;
        let arguments = arguments.iter().map(|word| CString::new(*word)).collect::<Result<Vec<_>, _>>();
        let arguments = arguments.map_err(invalid)?;
        fault::step(Point::KeeperExec, || detach::start(&path, &arguments, &[], &[theirs.as_fd()]))?;
        Ok(Self { program: program.to_owned(), socket: ours, origin: None })
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
