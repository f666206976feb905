//! One job in the store.

pub(crate) mod cache;
pub(crate) mod details;
pub(crate) mod find;
pub(crate) mod known;
pub(crate) mod object;
pub(crate) mod recovery;
pub(crate) mod state;
mod totals;

use std::fs::{self, File};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use outlive_core::id::{JobId, SessionName};
use outlive_core::meta::Meta;
use outlive_core::outcome::{Closed, Outcome};
use outlive_core::spec::{Spec, SpecError};
use outlive_core::{FORMAT, file, segment};
use outlive_sys::durable;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::lock;
use outlive_sys::owner::Distrust;
use outlive_sys::stamp::Stamp;

use crate::control;
use crate::job::known::{Dir, Kept, Known};
use crate::launch::resolve::is_showable;
use crate::output::{Output, cursor};
use crate::store::Store;

/// A job that was found or started.
#[derive(Debug)]
pub struct Job {
    path: PathBuf,
    known: Arc<Known>,
    dir: OnceLock<Kept<OwnedFd>>,
}

/// Why a job's directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DamageError {
    /// A file of the job cannot be read.
    #[error("cannot read {0}")]
    Io(PathBuf, #[source] io::Error),
    /// The spec is damaged or of another version.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The directory's name is no job id.
    #[error("{0:?} is not the name of a job")]
    Name(std::ffi::OsString),
}

impl DamageError {
    /// Tells whether another user owns something of the job, or can write to it: nothing in it is believed.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Io(_, error) if Distrust::of(error).is_some_and(Distrust::is_foreign))
    }

    /// Tells whether a newer outlive wrote the job, so that it is not damaged.
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Spec(SpecError::Format(format)) if *format > FORMAT)
    }

    /// Tells whether the job itself is at fault, and not a temporary lack of descriptors, memory or rights.
    pub fn is_certain(&self) -> bool {
        use io::ErrorKind::{InvalidData, IsADirectory, NotADirectory, NotFound};
        match self {
            Self::Io(_, error) => {
                matches!(error.kind(), NotFound | NotADirectory | IsADirectory | InvalidData)
            }
            Self::Spec(_) | Self::Name(_) => true,
        }
    }
}

/// Why a job was not renamed.
#[derive(Debug, thiserror::Error)]
pub enum RenameError {
    /// The name cannot be shown in one line.
    #[error("the name must be 1 to 100 characters without control characters")]
    Name,
    /// The store cannot be written, or the job was removed.
    #[error("cannot rename job {0}")]
    Store(JobId, #[source] io::Error),
}

impl Job {
    /// Opens the directory of a job; `None` if it does not exist.
    pub(crate) fn open(path: PathBuf, id: &JobId) -> Result<Option<Self>, DamageError> {
        let (dir, stamp) = match Stamp::open_dir(&path) {
            Ok(opened) => opened,
            // A dangling link exists all the same, and is damage.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
                return Ok(None);
            }
            Err(error) => return Err(DamageError::Io(path, error)),
        };
        let is_settled = stamp.is_settled();
        let bytes = match durable::read(&dir, file::SPEC) {
            Ok(bytes) => bytes,
            // Removed after it was opened: gone, not damaged.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => return Ok(None),
            Err(error) => return Err(DamageError::Io(path.join(file::SPEC), error)),
        };
        let spec = Spec::parse(id, &bytes)?;
        let given_to =
            durable::read_rare_line(&dir, file::SESSION).and_then(|name| SessionName::parse(&name).ok());
        let renamed = durable::read_rare_line(&dir, file::NAME).filter(|name| !name.is_empty());
        let mut known = Known::new(stamp, spec.into());
        (known.is_settled, known.given_to, known.renamed) = (is_settled, given_to, renamed);
        Ok(Some(Self::of(path, known.into(), Some(dir))))
    }

    /// Makes the job that was just put into the store.
    pub(crate) fn made(path: PathBuf, stamp: Stamp, dir: OwnedFd, spec: Spec) -> Self {
        Self::of(path, Known::new(stamp, spec.into()).into(), Some(dir))
    }

    fn of(path: PathBuf, known: Arc<Known>, dir: Option<OwnedFd>) -> Self {
        let dir = dir.and_then(|dir| Kept::new(dir).ok()).map(OnceLock::from).unwrap_or_default();
        Self { path, known, dir }
    }

    /// Returns its id, which is unique in the store.
    pub fn id(&self) -> &JobId {
        &self.known.spec.job
    }

    /// Returns the request as it was started.
    pub fn spec(&self) -> &Spec {
        &self.known.spec
    }

    /// Returns the session that owns the job now.
    pub fn session(&self) -> &SessionName {
        self.known.given_to.as_ref().unwrap_or(&self.known.spec.session)
    }

    /// Tells whether it was moved to another session than it was started in.
    pub(crate) fn is_given_away(&self) -> bool {
        self.known.given_to.is_some()
    }

    /// Returns the current display name.
    pub fn name(&self) -> Option<&str> {
        self.known.renamed.as_deref().or(self.known.spec.options.name.as_deref())
    }

    /// Returns the word that its id begins with, made from its name or program; `None` since it was renamed: it is called
    /// something else now.
    pub(crate) fn word(&self) -> Option<&str> {
        self.id().parts().map(|(word, _)| word).filter(|_| self.known.renamed.is_none())
    }

    /// Returns the name of the job's mark in `live/`.
    pub(crate) fn live_mark(&self) -> String {
        format!("{}@{}", self.id(), self.session())
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its directory, open: that of this job, whatever is at its path now.
    pub(crate) fn dir(&self) -> io::Result<Dir<'_>> {
        if let Some(dir) = self.dir.get() {
            return Ok(Dir::Kept(dir));
        }
        let (dir, stamp) = Stamp::open_dir(&self.path)?;
        if !stamp.is_same_file(self.known.stamp) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(match Kept::new(dir) {
            Ok(dir) => Dir::Kept(self.dir.get_or_init(|| dir)),
            Err(dir) => Dir::Once(dir),
        })
    }

    /// Opens one of its files for reading.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        durable::open_ro(self.dir()?, name)
    }

    /// Reads both records of `outcome`; an empty, torn or missing record is `None`.
    pub(crate) fn records(&self) -> (Option<Outcome>, Option<Closed>) {
        self.records_when(None)
    }

    /// As [`Job::records`]; of a job that was just listed, by its name in the directory of jobs, which is quicker than by its path.
    fn records_when(&self, listed: Option<BorrowedFd<'_>>) -> (Option<Outcome>, Option<Closed>) {
        let look = || match listed {
            Some(jobs) => Stamp::in_dir(jobs, &self.name_of(file::OUTCOME)),
            None => Stamp::at(&self.path.join(file::OUTCOME)),
        };
        self.known.records(look, || self.open_file(file::OUTCOME))
    }

    /// Returns the name of one of its files in the directory of jobs.
    fn name_of(&self, file: &str) -> String {
        [self.id().as_str(), "/", file].concat()
    }

    /// Reads `meta.json`; `None` if it is missing or damaged, and no keeper says what it would be.
    pub(crate) fn meta(&self) -> Option<Arc<Meta>> {
        self.snapshot(false)
    }

    /// As [`Job::meta`]; of a job that was just listed, without another look at what is known.
    fn snapshot(&self, is_listed: bool) -> Option<Arc<Meta>> {
        let parse = |bytes: Vec<u8>| Meta::parse(self.spec().nonce, &bytes);
        self.known.snapshot(&self.path, is_listed, || {
            let written = durable::read(self.dir().ok()?, file::META).ok().and_then(parse);
            written.or_else(|| self.is_kept().then(|| control::ask_for_meta(self))?.and_then(parse))
        })
    }

    /// Tells whether `meta.json` is there and says nothing of this job.
    pub(crate) fn has_damaged_meta(&self) -> bool {
        let bytes = self.dir().and_then(|dir| durable::read(dir, file::META));
        bytes.is_ok_and(|bytes| Meta::parse(self.spec().nonce, &bytes).is_none())
    }

    /// Replaces `meta.json`, unless a later format wrote it: rewriting would lose what is not understood here.
    pub(crate) fn replace_meta(&self, at: Replacing, meta: &Meta) -> io::Result<()> {
        match meta.format {
            FORMAT => durable::replace(at, self.dir()?, file::META, &meta.to_bytes()),
            _ => Ok(()),
        }
    }

    /// Tells whether its pids are valid here. What a spec says of that is compared once.
    pub(crate) fn is_here(&self, store: &Store) -> bool {
        let is_same = || *store.host() == *self.host();
        match self.spec().placement {
            Some(_) => is_same(),
            None => *self.known.is_here.get_or_init(is_same),
        }
    }

    /// Tells whether the keeper is alive: whether a process holds the job's lock.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept_when(None)
    }

    /// As [`Job::is_kept`]; of a job that was just listed, without opening its directory, which was looked at.
    fn is_kept_when(&self, listed: Option<BorrowedFd<'_>>) -> bool {
        let open = || match listed.filter(|_| self.dir.get().is_none()) {
            Some(jobs) => durable::open_ro(jobs, self.name_of(file::LOCK)),
            None => self.open_file(file::LOCK),
        };
        lock::is_held(fault::step(Point::LockProbe, || self.known.try_lock(open)))
    }

    /// Tells whether the job was removed from the store while its directory is open here.
    pub fn is_removed(&self) -> bool {
        !Stamp::at(&self.path).is_ok_and(|there| there.is_same_file(self.known.stamp))
    }

    /// Opens the file whose lock is released when the outcome is announced.
    pub(crate) fn done_file(&self) -> io::Result<File> {
        self.open_file(file::DONE)
    }

    /// Waits, without limit, until the keeper has announced the outcome or is dead.
    pub(crate) fn wait_announced(&self) -> io::Result<()> {
        fault::step(Point::DoneProbe, || lock::wait_shared(self.done_file()?))
    }

    /// Tells whether the writer of the outcome has finished: the outcome is synced and the event is written.
    pub(crate) fn is_announced(&self) -> bool {
        let probe = || lock::try_lock(self.done_file()?, lock::Kind::Shared);
        fault::step(Point::DoneProbe, probe).unwrap_or(true)
    }

    /// Tells whether the outcome was shown to a reader.
    pub fn is_seen(&self) -> bool {
        self.open_file(file::SEEN).is_ok()
    }

    /// Records a look at the ended job, if the outcome was shown before.
    pub fn note_access(&self) {
        // On a full or read-only disk the look is not recorded.
        self.dir()
            .and_then(|dir| durable::open_rw(dir, file::SEEN))
            .and_then(|file| file.set_modified(SystemTime::now()))
            .ok();
    }

    /// Records that the outcome was shown, or the job looked at again; retention counts from here.
    pub fn mark_seen(&self) {
        // On a full or read-only disk the job is only kept longer.
        let seen = fault::step(Point::SeenMake, || durable::open_or_create(self.dir()?, file::SEEN));
        seen.and_then(|file| file.set_modified(SystemTime::now())).ok();
    }

    /// Returns when a front end last read the job: after its end, by the `seen` mark; before, by the newest cursor.
    pub fn last_look(&self) -> Option<SystemTime> {
        let time = |path: PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
        time(self.path().join(file::SEEN)).or_else(|| {
            let cursors = fs::read_dir(self.path().join(cursor::DIRECTORY)).into_iter().flatten();
            cursors.flatten().filter_map(|cursor| time(cursor.path())).max()
        })
    }

    /// Returns `meta.json`: pids, times and status, replaced at every transition.
    pub fn meta_file(&self) -> PathBuf {
        self.path().join(file::META)
    }

    /// Returns `spec.json`: the command, the directory, the limits.
    pub fn spec_file(&self) -> PathBuf {
        self.path().join(file::SPEC)
    }

    /// Returns the first segment of the output that still exists: the whole output, up to the size of a segment.
    ///
    /// # Errors
    ///
    /// If the job's directory cannot be read.
    pub fn log_file(&self) -> io::Result<PathBuf> {
        Ok(self.path().join(segment::name(Output::open(self)?.start())))
    }
}

impl Store {
    /// Gives a job another display name. Its id stays, and `job` keeps the name that it was opened with. The spec never changes: the
    /// new name is a file of its own, which overrides it.
    ///
    /// # Durability
    ///
    /// Written, not synced: after a power loss it may have its old name.
    ///
    /// # Errors
    ///
    /// If the name cannot be shown in one line, the store cannot be written, or the job was removed.
    pub fn rename(&self, job: &Job, name: &str) -> Result<(), RenameError> {
        // A read trims the file's content.
        let name = name.trim();
        if !is_showable(name) {
            return Err(RenameError::Name);
        }
        let failed = |error| RenameError::Store(job.id().clone(), error);
        if job.is_removed() {
            return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
        }
        let text = format!("{name}\n");
        job.dir()
            .and_then(|dir| durable::replace(Replacing::NAME, dir, file::NAME, text.as_bytes()))
            .map_err(failed)
    }
}
