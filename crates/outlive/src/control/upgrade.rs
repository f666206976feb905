//! Upgrading the keepers of running jobs to the program that is installed. `docs/design/upgrade.md` has the whole.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outlive_core::control::{Reply, Request, Upgrade};
use outlive_sys::keeper::{PAGE, PROGRAM};
use outlive_sys::poll::readable;
use outlive_sys::random;

use super::{Connection, ControlError, unexpected};
use crate::job::Job;
use crate::store::Store;

/// How long a program may take to say what it understands.
const CHECK_LIMIT: Duration = Duration::from_secs(10);

/// How long one answer may take: the keeper and its guard have ten seconds each to give a sign of life.
const UPGRADE_LIMIT: Duration = Duration::from_secs(30);

/// The longest that a program says of itself.
const SAYING: usize = 256;

/// The keeper's program that new jobs are started with, and that running ones can be upgraded to.
#[derive(Debug)]
pub struct InstalledKeeper {
    path: PathBuf,
    version: String,
    /// The latest version of a keeper's memory that it understands.
    page: u32,
    /// Programs of running keepers that it was compared with, by device and inode: many jobs have the same.
    compared: Mutex<Vec<((u64, u64), bool)>>,
}

/// Why running jobs cannot be upgraded to the installed program.
#[derive(Debug, thiserror::Error)]
pub enum InstalledKeeperError {
    /// There is none.
    #[error("there is no outlive-keeper that running jobs could be upgraded to")]
    Missing,
    /// It cannot be executed.
    #[error("{} cannot be executed", .0.display())]
    Execute(PathBuf, #[source] io::Error),
    /// It runs, and says nothing.
    #[error("{} says nothing of itself within {} s", .0.display(), CHECK_LIMIT.as_secs())]
    Silent(PathBuf),
    /// It says that it is something else, or exits.
    #[error("{} cannot go on in place of a running keeper", .0.display())]
    Unfit(PathBuf),
}

/// What a running job's keeper and guard are, compared with the installed program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeeperVersion {
    /// Both run the installed program.
    Installed,
    /// One of them runs another, and can be upgraded.
    Other,
    /// The keeper is of a version that cannot be upgraded.
    TooOld,
}

/// A job that was upgraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upgraded {
    /// Its guard runs the installed program, too.
    pub with_guard: bool,
}

impl InstalledKeeper {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the version that it says it has.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Tells whether a process executes this very program, or a copy of it. What cannot be seen is another.
    fn is_run_by(&self, pid: i32) -> bool {
        let (Ok(running), Ok(installed)) = (File::open(format!("/proc/{pid}/exe")), fs::metadata(&self.path))
        else {
            return false;
        };
        let Ok(found) = running.metadata() else { return false };
        let place = (found.dev(), found.ino());
        if place == (installed.dev(), installed.ino()) {
            return true;
        }
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, is_same)) = compared.iter().find(|(known, _)| *known == place) {
            return *is_same;
        }
        let is_same = found.len() == installed.len()
            && File::open(&self.path).is_ok_and(|installed| are_equal(running, installed).unwrap_or(false));
        compared.push((place, is_same));
        is_same
    }
}

fn are_equal(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut ours, mut theirs) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let count = one.read(&mut ours)?;
        if count == 0 {
            return Ok(true);
        }
        other.read_exact(&mut theirs[..count])?;
        if ours[..count] != theirs[..count] {
            return Ok(false);
        }
    }
}

impl Store {
    /// Finds the program that a new job would be started with, and asks it whether running jobs can be upgraded to it.
    ///
    /// # Errors
    ///
    /// If there is none, or it cannot be executed, does not answer, or is none that can go on in place of a running keeper.
    pub fn installed_keeper(&self) -> Result<InstalledKeeper, InstalledKeeperError> {
        let path = self.keeper_program().ok_or(InstalledKeeperError::Missing)?;
        // The keeper has no use for a path that means this program.
        let path = if path == Path::new("/proc/self/exe") {
            std::env::current_exe().map_err(|_| InstalledKeeperError::Missing)?
        } else {
            path
        };
        let path = fs::canonicalize(&path).map_err(|error| InstalledKeeperError::Execute(path, error))?;
        let said = ask(&path)?;
        let mut words = said.split_whitespace();
        let known = match (words.next(), words.next(), words.next(), words.next()) {
            (Some(PROGRAM), Some(version), Some(PAGE), Some(page)) => {
                page.parse().ok().map(|page| (version, page))
            }
            _ => None,
        };
        let Some((version, page)) = known else { return Err(InstalledKeeperError::Unfit(path)) };
        Ok(InstalledKeeper { version: version.to_owned(), page, path, compared: Mutex::default() })
    }

    /// Compares the programs of a live job's keeper and guard with the installed one.
    ///
    /// # Errors
    ///
    /// If the job has ended, has no keeper, or belongs to another host or pid namespace.
    pub fn keeper_version(
        &self,
        job: &Job,
        installed: &InstalledKeeper,
    ) -> Result<KeeperVersion, ControlError> {
        let state = self.live_state(job)?;
        if state.is_elsewhere() || job.unplaced().is_some() {
            return Err(ControlError::Elsewhere(job.id().clone()));
        }
        if state.is_orphaned() {
            return Err(ControlError::Orphaned(job.id().clone()));
        }
        let Some(meta) = state.meta.as_ref() else { return Ok(KeeperVersion::Other) };
        let is_installed = |process: Option<outlive_core::spec::Process>| {
            process.is_some_and(|process| installed.is_run_by(process.pid))
        };
        Ok(match (&meta.outlive, is_installed(meta.keeper) && is_installed(meta.guard)) {
            (None, _) => KeeperVersion::TooOld,
            (Some(_), true) => KeeperVersion::Installed,
            (Some(_), false) => KeeperVersion::Other,
        })
    }

    /// Lets a live job's keeper and its guard execute the installed program in their own places, while the job goes on. Nothing of the
    /// job is lost, whether or not that succeeds. Returns when it is done.
    ///
    /// # Errors
    ///
    /// If the job has ended, its keeper is too old or cannot be reached, or the program does not work: the job then goes on with the
    /// version before.
    pub fn upgrade(&self, job: &Job, installed: &InstalledKeeper) -> Result<Upgraded, ControlError> {
        let state = self.live_state(job)?;
        let attempt = u64::from_le_bytes(random::bytes16()[..8].try_into().unwrap_or_default()).max(1);
        let program = installed.path.as_os_str().as_bytes().to_vec();
        let request = Request::Upgrade(Upgrade { program, page: installed.page, attempt });
        // The keeper closes the connection when it executes the program; it is asked again, for the result.
        let reply = self.ask_kept(job, &state, |state| {
            Connection::open_within(self, job, state, UPGRADE_LIMIT)?.ask(&request, UPGRADE_LIMIT)
        });
        match reply? {
            Reply::Accepted => {}
            other => return Err(unexpected(job, &other)),
        }
        let guard = job.state(self).meta.and_then(|meta| meta.guard);
        Ok(Upgraded { with_guard: guard.is_none_or(|guard| installed.is_run_by(guard.pid)) })
    }
}

/// Lets a program say what it is.
fn ask(path: &Path) -> Result<String, InstalledKeeperError> {
    let mut command = Command::new(path);
    command.arg0(PROGRAM).arg(PAGE).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |error| InstalledKeeperError::Execute(path.to_owned(), error);
    let mut child = command.spawn().map_err(failed)?;
    let mut said = vec![0; SAYING];
    let count = child.stdout.take().map(|mut stdout| match readable(stdout.as_fd(), Some(CHECK_LIMIT)) {
        Ok(true) => stdout.read(&mut said).map(Some),
        Ok(false) => Ok(None),
        Err(error) => Err(error),
    });
    // It has said all that is of interest, or nothing.
    child.kill().ok();
    child.wait().ok();
    match count.transpose().map_err(failed)?.flatten() {
        Some(count) => Ok(String::from_utf8_lossy(&said[..count]).into_owned()),
        None => Err(InstalledKeeperError::Silent(path.to_owned())),
    }
}
