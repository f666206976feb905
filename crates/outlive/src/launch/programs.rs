//! Finds and executes the two programs that go on without a front end: the keeper, and for work that outlasts a front end the
//! helper, which is `outlive` itself.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive_sys::detach::Execution;
use outlive_sys::fault::{self, Point};
use outlive_sys::keeper::{PROGRAM, SPARE};
use outlive_sys::{detach, inherited, socket};

use crate::control::receive_frame;
use crate::store::Store;

const HELPER: &str = "outlive";

/// How long a spare keeper may take to wake up. One that is not stopped needs less time than the job takes to be prepared; where
/// the machine is so busy that it takes longer, a new keeper is executed, which costs time and nothing else.
const WAKE_LIMIT: Duration = Duration::from_millis(250);

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
        let waiting = self.spare.place().take().filter(|spare| spare.wake().is_ok());
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
    /// It is being executed.
    execution: Option<Execution>,
}

/// What a keeper has from the program that started it.
#[derive(Debug)]
struct Origin {
    /// Its program's file: device, inode, time of the last change.
    build: (u64, u64, i64, i64),
    /// See [`inherited::describe`].
    inherited: String,
}

fn build_of(program: &Path) -> io::Result<(u64, u64, i64, i64)> {
    let file = std::fs::metadata(program)?;
    Ok((file.dev(), file.ino(), file.ctime(), file.ctime_nsec()))
}

impl SpareKeeper {
    /// Starts the best keeper program, this program itself if `can_be_self`; `None` if that fails: the start of a job then
    /// reports why.
    pub fn start(can_be_self: bool) -> Option<Self> {
        KeeperProgram { can_be_self, ..KeeperProgram::default() }.take_spare()
    }

    /// Executes a keeper that may wait for long, and touches nothing until it has a job.
    fn idle(program: &Path) -> Option<Self> {
        let build = build_of(program).ok()?;
        let inherited = inherited::describe()?;
        let Self { program, socket, execution, .. } = Self::begin(program, &[PROGRAM, SPARE]).ok()?;
        execution?.finish().ok()?;
        Some(Self { program, socket, origin: Some(Origin { build, inherited }), execution: None })
    }

    /// Lets one that may wait for long prepare itself while this thread prepares the job. An error if it is dead or of another build than
    /// the one that is installed now.
    fn wake(&self) -> io::Result<()> {
        let Some(origin) = &self.origin else { return Ok(()) };
        if build_of(&self.program)? != origin.build {
            return Err(io::ErrorKind::Other.into());
        }
        (&self.socket).write_all(&[0])?;
        // Kernels let a process that is woken so run where this one does, as soon as this one waits, although another processor may have
        // nothing to do. It soon has a process there to do the rest.
        std::thread::yield_now();
        Ok(())
    }

    /// Tells whether it has what a new one would inherit. One that may wait for long has answered when it was woken; if it has not, it is
    /// dead or stopped, and no job is given to it.
    pub(crate) fn is_fit(&self) -> bool {
        let Some(origin) = &self.origin else { return true };
        if inherited::describe().as_ref() != Some(&origin.inherited) {
            return false;
        }
        let answer = self.socket.set_read_timeout(Some(WAKE_LIMIT));
        answer.and_then(|()| receive_frame(&self.socket)).is_ok()
    }

    /// Executes a keeper, detached from this program.
    pub(crate) fn of(program: &Path) -> io::Result<Self> {
        Self::begin(program, &[PROGRAM])
    }

    /// As [`SpareKeeper::of`]; it is executed while this program goes on.
    fn begin(program: &Path, arguments: &[&str]) -> io::Result<Self> {
        let path = CString::new(program.as_os_str().as_bytes())?;
        let (ours, theirs) = fault::step(Point::KeeperPair, socket::pair)?;
        let arguments = arguments.iter().map(|word| CString::new(*word)).collect::<Result<Vec<_>, _>>()?;
        let execution =
            fault::step(Point::KeeperExec, || detach::begin(path, arguments, Vec::new(), &[theirs.as_fd()]))?;
        Ok(Self { program: program.to_owned(), socket: ours, origin: None, execution: Some(execution) })
    }

    /// Returns its socket, and what waits until it is executed: with an error if it cannot be.
    pub(crate) fn into_parts(self) -> (UnixStream, impl FnOnce() -> io::Result<()>) {
        let execution = self.execution;
        (self.socket, || execution.map_or(Ok(()), |execution| execution.finish().map(drop)))
    }
}

impl Store {
    /// Lets this program itself be the helper; only for `outlive`.
    pub fn with_self_as_helper(mut self) -> Self {
        self.is_helper = true;
        self
    }

    /// Finds the helper: this program, `$OUTLIVE_PROGRAM`, beside the keeper, beside this program, or in `PATH`.
    pub(crate) fn helper_program(&self) -> Option<PathBuf> {
        if self.is_helper {
            // Still valid if the file was replaced or deleted since this program started.
            return Some(PathBuf::from("/proc/self/exe"));
        }
        let named = std::env::var_os("OUTLIVE_PROGRAM").filter(|path| !path.is_empty()).map(PathBuf::from);
        let beside = |path: PathBuf| Some(path.parent()?.join(HELPER)).filter(|path| path.is_file());
        named
            .or_else(|| beside(self.keeper_program()?))
            .or_else(|| beside(std::env::current_exe().ok()?))
            .or_else(|| in_path(OsStr::new(HELPER), std::env::var_os("PATH").as_deref()).next())
    }

    /// Opens the helper for a keeper, because its file may be gone when the keeper executes it.
    pub(crate) fn open_helper(&self) -> io::Result<File> {
        let program = self.helper_program().ok_or(io::ErrorKind::NotFound)?;
        File::open(program)
    }

    /// Returns a command that runs `outlive` for this store, as a child of this program.
    ///
    /// # Errors
    ///
    /// If there is no such program.
    pub fn helper_command(&self) -> io::Result<std::process::Command> {
        let program = self.helper_program().ok_or(io::ErrorKind::NotFound)?;
        let mut command = std::process::Command::new(program);
        command.env("OUTLIVE_HOME", self.root()).env_remove("OUTLIVE_JOB");
        match self.config_path.iter().find(|path| path.is_file()) {
            Some(path) => command.env("OUTLIVE_CONFIG", path),
            None => command.env_remove("OUTLIVE_CONFIG"),
        };
        Ok(command)
    }

    /// Starts the helper in the background, for this store: `outlive VERB …`, with this program's environment. Returns its pid.
    ///
    /// # Errors
    ///
    /// If there is no such program, or no more processes may be made.
    pub fn start_helper(&self, arguments: &[&str]) -> io::Result<i32> {
        let program = self.helper_program().ok_or(io::ErrorKind::NotFound)?;
        let program = CString::new(program.as_os_str().as_bytes())?;
        let words = std::iter::once(&HELPER).chain(arguments);
        let words = words.map(|word| CString::new(*word)).collect::<Result<Vec<_>, _>>()?;
        // The helper is no part of the job that this program may run in.
        let own = ["OUTLIVE_HOME", "OUTLIVE_CONFIG", "OUTLIVE_JOB"];
        let inherited = std::env::vars_os().filter(|(name, _)| !own.iter().any(|own| name == own));
        let home = (OsStr::new("OUTLIVE_HOME").to_owned(), self.root().as_os_str().to_owned());
        let named = self.config_path.iter().filter(|path| path.is_file());
        let config = named.map(|path| (OsStr::new("OUTLIVE_CONFIG").to_owned(), path.as_os_str().to_owned()));
        let join = |(name, value): (OsString, OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        let environment = inherited.chain([home]).chain(config).map(join).collect::<Result<Vec<_>, _>>()?;
        detach::start(program, words, environment, &[])
    }
}

/// Finds the files of this name in a search path, lazily.
pub(crate) fn in_path(name: &OsStr, path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> + use<> {
    search(name, path).into_iter().filter(|candidate| candidate.is_file())
}

/// Lists the paths that a program of this name may have; they need not exist.
pub(crate) fn search(name: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let directories = path.as_bytes().split(|&byte| byte == b':');
    let directories = directories.map(|bytes| if bytes.is_empty() { b"." } else { bytes });
    directories.map(|bytes| Path::new(OsStr::from_bytes(bytes)).join(name)).collect()
}
