//! The store: the directory that is the registry.

pub(crate) mod config;
mod config_file;
pub(crate) mod doctor;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod reconcile;
pub(crate) mod remove;
mod suggestion;
mod upkeep;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use outlive_core::FORMAT;
use outlive_core::spec::Host;
use outlive_sys::durable::{self, CWD};
use outlive_sys::fault::{self, Point};
use outlive_sys::owner::{self, Distrust};
use outlive_sys::{identity, lock};

use crate::job::known::KnownJobs;
use crate::launch::engine::LastAsked;
use crate::launch::programs::{KeeperProgram, SpareKeeper};
use crate::store::config::{Config, ConfigError};

/// Longest wait for the store's lock; see `docs/on-disk-format.md`.
const LOCK_LIMIT: Duration = Duration::from_secs(1);

/// An open store.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    config: Config,
    host: OnceLock<Host>,
    pub(crate) known: Arc<KnownJobs>,
    pub(crate) last_asked: Arc<LastAsked>,
    pub(crate) keeper: KeeperProgram,
    /// This program is `outlive` itself, and so can be the helper.
    pub(crate) is_helper: bool,
    /// Path of the configuration file; none if the caller gave the configuration.
    pub(crate) config_path: Option<PathBuf>,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No environment variable gives the store's path.
    #[error("neither OUTLIVE_HOME, XDG_STATE_HOME nor HOME says where the store is")]
    NoHome,
    /// The path is not absolute: jobs would land in a directory that depends on the caller's.
    #[error("the store's path {0} is not absolute")]
    Relative(PathBuf),
    /// The directory cannot be made or read.
    #[error("cannot use the store at {0}")]
    Io(PathBuf, #[source] io::Error),
    /// Another user owns it or can write to it, or it is no regular file.
    #[error("{0} is not used")]
    Distrusted(PathBuf, #[source] Distrust),
    /// A directory with foreign content.
    #[error("{0} is not a store and not empty")]
    NotAStore(PathBuf),
    /// A later version wrote the store.
    #[error("the store at {path} has format {found:?}, and this version knows up to {FORMAT}")]
    Version {
        /// Path of the store.
        path: PathBuf,
        /// The content of its `version` file.
        found: String,
    },
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Store {
    /// Opens the user's store, making it if needed: `$OUTLIVE_HOME`, else `$XDG_STATE_HOME/outlive`, else
    /// `~/.local/state/outlive`.
    ///
    /// # Errors
    ///
    /// If it cannot be made or read, a later version wrote it, or the configuration is invalid.
    pub fn open() -> Result<Self, StoreError> {
        Self::open_configured(&default_root()?, None)
    }

    /// Tells whether the user's store has a job that waits, or that an engine places: most have none, and need not be opened to know it.
    pub fn has_waiting() -> bool {
        let Ok(root) = default_root() else { return false };
        fs::read_dir(root.join(outlive_core::WAITING)).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Gives up root's rights for those of the owner of the store that [`Store::open`] opens, with the owner's `HOME`, `USER`,
    /// `LOGNAME` and groups. Without root's rights, or in a store of root's own, nothing happens.
    ///
    /// To be called before the first thread is started.
    ///
    /// # Errors
    ///
    /// If there is no such store, or the kernel refuses. The caller must not go on.
    pub fn become_owner() -> Result<(), StoreError> {
        let root = default_root()?;
        if !root.is_absolute() {
            return Err(StoreError::Relative(root));
        }
        // `HOME` may have decided where it is.
        owner::become_owner_of(&root, ("OUTLIVE_HOME", root.as_os_str()))
            .map_err(|error| refused(&root, error))
    }

    /// Opens the store at `root`, making it if needed, with the configuration of a file, or the user's.
    ///
    /// # Errors
    ///
    /// As [`Store::open`].
    pub fn open_configured(root: &Path, config: Option<&Path>) -> Result<Self, StoreError> {
        // First: in a directory that others can write to, the configuration may be theirs.
        check_root(root)?;
        let path = config.map_or_else(|| config_path(root), |config| Ok(config.to_owned()))?;
        if std::env::var_os("OUTLIVE_CONFIG").is_some_and(|named| named == path && !path.exists()) {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(ConfigError::Read(path, source).into());
        }
        let config = Config::load(&path)?;
        Ok(Self { config_path: Some(path), ..Self::open_checked(root, config)? })
    }

    /// Opens the store at `root`, making it if needed.
    ///
    /// # Errors
    ///
    /// If it cannot be made or read, or a later version wrote it.
    pub fn open_at(root: &Path, config: Config) -> Result<Self, StoreError> {
        check_root(root)?;
        Self::open_checked(root, config)
    }

    fn open_checked(root: &Path, config: Config) -> Result<Self, StoreError> {
        let version = root.join("version");
        match durable::read(CWD, &version) {
            Ok(text) if text == version_text().as_bytes() => {}
            Ok(found) => {
                let found = String::from_utf8_lossy(&found).trim().to_owned();
                return Err(StoreError::Version { path: root.to_owned(), found });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !is_adoptable(root) {
                    // Another process may have made it meanwhile, and put jobs into it.
                    if version.exists() {
                        return Self::open_checked(root, config);
                    }
                    return Err(StoreError::NotAStore(root.to_owned()));
                }
                make(root, &version).map_err(|error| refused(root, error))?;
            }
            Err(error) => return Err(refused(&version, error)),
        }
        Ok(Self {
            root: root.to_owned(),
            config,
            host: OnceLock::new(),
            known: Arc::default(),
            last_asked: Arc::default(),
            keeper: KeeperProgram::default(),
            is_helper: false,
            config_path: None,
        })
    }

    /// Opens the store again, for a thread or an inbox, with what is known of its jobs.
    pub(crate) fn reopen(&self) -> Self {
        let (root, config) = (self.root.clone(), self.config.clone());
        let (host, is_helper) = (self.host.clone(), self.is_helper);
        let config_path = self.config_path.clone();
        let (known, keeper) = (Arc::clone(&self.known), KeeperProgram::default());
        let last_asked = Arc::clone(&self.last_asked);
        Self { root, config, host, known, last_asked, keeper, is_helper, config_path }
    }

    /// Lets this program itself be the keeper where no `outlive-keeper` is found; for programs whose `main` begins with
    /// a call of `outlive_keeper::run` when their name is `outlive-keeper`.
    pub fn with_self_as_keeper(mut self) -> Self {
        self.keeper.can_be_self = true;
        self
    }

    /// Adds a running keeper for the next job.
    pub fn with_spare_keeper(self, spare: Option<SpareKeeper>) -> Self {
        *self.keeper.spare.place() = spare;
        self
    }

    /// Keeps a keeper ready after each start, so that the next start need not wait for one; for programs that start many jobs.
    ///
    /// It is a process of some 80 KiB that touches nothing before it has a job and ends with this store. A job that it gets has
    /// what the starting thread has at that moment: limits, user, groups, namespaces, seccomp filters, control group. If any of it
    /// has changed since the keeper was made, another is started. A restriction by Landlock is not seen: a program that restricts
    /// itself so does that before it starts its first job.
    pub fn with_spare_keepers(mut self) -> Self {
        self.keeper.keeps_spare = true;
        self
    }

    /// Sets the path of the keeper program, instead of the one beside this program.
    pub fn with_keeper(mut self, program: impl Into<PathBuf>) -> Self {
        self.keeper.given = Some(program.into());
        self
    }

    /// Returns the keeper program of the next job; `None` if none is found.
    pub fn keeper_program(&self) -> Option<PathBuf> {
        self.keeper.candidates().next()
    }

    /// Returns the store's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of the HTTP server, making it if needed: its socket, and the tokens that it accepts.
    ///
    /// # Errors
    ///
    /// If it cannot be made, or another user can write to it.
    pub fn serve_dir(&self) -> io::Result<PathBuf> {
        let path = self.root.join(SERVE);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => owner::check_dir_at(&path)?,
        };
        Ok(path)
    }

    /// Returns the configuration it was opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    /// Returns the directory where jobs are made and deleted.
    pub(crate) fn new_dir(&self) -> PathBuf {
        self.root.join("new")
    }

    /// Returns the directory of the live jobs' marks.
    pub(crate) fn live(&self) -> PathBuf {
        self.root.join("live")
    }

    /// Returns the directory of the marks of jobs that wait to be started.
    pub(crate) fn waiting(&self) -> PathBuf {
        self.root.join(outlive_core::WAITING)
    }

    /// Returns the directory of damaged jobs.
    pub(crate) fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// Returns the host and pid namespace of this program.
    pub(crate) fn host(&self) -> &Host {
        self.host.get_or_init(|| {
            let identity::Host { machine, boot, pid_namespace } = identity::Host::current();
            Host { machine, boot, pid_namespace }
        })
    }

    /// Takes the store's lock. After a second it goes on without: a stopped front end that holds the lock must not stop all
    /// others, and only the exactness of the limits depends on it.
    pub(crate) fn lock(&self) -> io::Result<StoreLock> {
        let file = self.open_or_create("lock")?;
        let is_held = lock::lock_within(&file, LOCK_LIMIT)?;
        Ok(StoreLock { _file: file, is_held })
    }

    /// Opens a file in the store's directory, making it, for its owner only, if it is not there.
    fn open_or_create(&self, name: &str) -> io::Result<File> {
        durable::open_or_create(CWD, self.root.join(name))
    }
}

/// Returns how long ago a file changed; `None` if that is unknown or in the future.
pub(crate) fn age(path: &Path) -> Option<Duration> {
    fs::symlink_metadata(path).ok()?.modified().ok()?.elapsed().ok()
}

/// The store's lock, freed on drop.
#[derive(Debug)]
pub(crate) struct StoreLock {
    _file: File,
    /// False if it was not free in time.
    pub(crate) is_held: bool,
}

fn version_text() -> String {
    format!("outlive store {FORMAT}\n")
}

/// Directories that every store has.
pub(crate) const DIRECTORIES: [&str; 5] = ["new", "jobs", "live", "quarantine", "sessions"];

/// The directory of the HTTP server.
const SERVE: &str = "serve";

/// Directories that are made at the first use.
pub(crate) const LATER_DIRECTORIES: [&str; 7] = [
    crate::delivery::spool::SPOOL,
    SERVE,
    crate::session::seat::DIRECTORY,
    crate::session::connection::DIRECTORY,
    crate::notify::watch::DIRECTORY,
    outlive_core::QUEUES,
    outlive_core::WAITING,
];

/// Tells whether a store may be made here: the directory is empty but for a configuration and the traces of an unfinished
/// store.
fn is_adoptable(root: &Path) -> bool {
    fs::read_dir(root).into_iter().flatten().flatten().all(|entry| {
        let name = entry.file_name();
        let is_empty = || fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none());
        name == "config.toml"
            || name == "lock"
            || name.to_string_lossy().ends_with(".tmp")
            || (DIRECTORIES.iter().chain(&LATER_DIRECTORIES).any(|known| name == *known) && is_empty())
    })
}

/// Checks that no other user can have written what is in the store; that it does not exist is no error.
fn check_root(root: &Path) -> Result<(), StoreError> {
    if !root.is_absolute() {
        return Err(StoreError::Relative(root.to_owned()));
    }
    let check = |path: &Path| match owner::check_dir_at(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        checked => checked.map_err(|error| refused(path, error)),
    };
    // In a directory that others cannot enter, the rights to those below do not count.
    if check(root)? {
        for name in DIRECTORIES.iter().chain(&LATER_DIRECTORIES) {
            check(&root.join(name))?;
        }
    }
    Ok(())
}

fn refused(path: &Path, error: io::Error) -> StoreError {
    let path = path.to_owned();
    match Distrust::of(&error) {
        Some(distrust) => StoreError::Distrusted(path, distrust),
        None => StoreError::Io(path, error),
    }
}

/// Makes the directories and, last, the version file: a store without it is unfinished.
///
/// # Durability
///
/// Synced.
fn make(root: &Path, version: &Path) -> io::Result<()> {
    let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
    fault::step(Point::RootMake, || make(root))?;
    // Another user may have made it meanwhile.
    owner::check_dir_at(root)?;
    for name in DIRECTORIES {
        fault::step(Point::PartsMake, || make(&root.join(name)))?;
    }
    // Synced before it gets its name, and then the directory: an empty version file after a power loss would read as an unknown
    // version.
    let temporary = root.join(durable::temporary_name("version"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    fault::write_all(Point::VersionWrite, &mut file, version_text().as_bytes())?;
    fault::step(Point::VersionSync, || file.sync_all())?;
    fault::step(Point::VersionRename, || fs::rename(&temporary, version))?;
    fault::step(Point::RootSync, || File::open(root)?.sync_all())
}

fn default_root() -> Result<PathBuf, StoreError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(home) = set("OUTLIVE_HOME") {
        return Ok(home);
    }
    if let Some(state) = set("XDG_STATE_HOME").filter(|path| path.is_absolute()) {
        return Ok(state.join("outlive"));
    }
    set("HOME").map(|home| home.join(".local/state/outlive")).ok_or(StoreError::NoHome)
}

/// Returns `$OUTLIVE_CONFIG`, else `config.toml` in the store if it exists, else in the user's configuration directory. The one in
/// the store is a file of the store, and so no link.
fn config_path(root: &Path) -> Result<PathBuf, StoreError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set("OUTLIVE_CONFIG") {
        return Ok(path);
    }
    let own = root.join("config.toml");
    match own.symlink_metadata() {
        Ok(found) if found.is_symlink() => return Err(refused(&own, Distrust::Link.into())),
        Ok(_) => return Ok(own),
        Err(_) => {}
    }
    let elsewhere = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    Ok(elsewhere.map_or(own, |config| config.join("outlive/config.toml")))
}
