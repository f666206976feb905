//! The machine as far as jobs depend on it: kernel features, and use of limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outlive_core::VERSION;
use outlive_core::control::SPOKEN;
use outlive_sys::{durable, features};
use serde::Serialize;

use crate::store::Store;

/// Kernel features of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// The features that outlive uses, present or not.
    pub features: Vec<Feature>,
}

/// A kernel feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// A stable word for it.
    pub name: &'static str,
    /// The kernel has it, and this user may use it.
    pub available: bool,
    /// The consequence of its absence; none if it is available.
    pub without: Option<&'static str>,
}

/// Current use and limits; `None` where there is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Allowances {
    /// Live jobs, by their marks.
    pub live_jobs: usize,
    /// Most live jobs in the store.
    pub live_jobs_limit: usize,
    /// Most live jobs in one session.
    pub session_jobs_limit: usize,
    /// Bytes of output that are used or reserved, as last counted.
    pub reserved_bytes: Option<u64>,
    /// Most bytes of output in the store.
    pub bytes_limit: Option<u64>,
    /// Soft limit on this program's open files.
    pub open_files: Option<u64>,
    /// Hard limit on this program's open files.
    pub open_files_most: Option<u64>,
    /// Most inotify instances of this user.
    pub watchers: Option<u64>,
    /// Most inotify watches of this user.
    pub watches: Option<u64>,
}

/// Versions of the programs that share this store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// Version of this program.
    pub outlive: &'static str,
    /// Version of the keeper program that the next job gets; none if it does not say.
    pub keeper: Option<String>,
    /// Oldest and newest control protocol that this program speaks.
    pub protocol: [u32; 2],
    /// Live jobs that another version started, as `ID (VERSION)`.
    pub live_jobs_of_others: Vec<String>,
}

impl Machine {
    /// Examines this machine; `directory` is used to try a watch.
    pub fn here(directory: &Path) -> Self {
        let features = features::probe(directory).into_iter().map(|feature| Feature {
            name: feature.name,
            available: feature.is_there,
            without: (!feature.is_there).then_some(feature.without),
        });
        Self { kernel: features::kernel(), features: features.collect() }
    }
}

impl Store {
    /// Returns current use and limits.
    pub fn allowances(&self) -> Allowances {
        let limits = self.config().limits;
        let (open_files, open_files_most) = features::open_files();
        let (watchers, watches) = features::watch_allowance();
        Allowances {
            live_jobs: fs::read_dir(self.live()).map_or(0, Iterator::count),
            live_jobs_limit: limits.total,
            session_jobs_limit: limits.session,
            reserved_bytes: self.reserved(),
            bytes_limit: limits.bytes,
            open_files,
            open_files_most,
            watchers,
            watches,
        }
    }

    fn reserved(&self) -> Option<u64> {
        durable::read_line(durable::CWD, self.root().join("reserved"))?.trim().parse().ok()
    }

    /// Returns what is wrong with the keeper program of the next job, if anything.
    pub(crate) fn keeper_problem(&self) -> Option<(PathBuf, String)> {
        let program = self.keeper_program()?;
        let problem = match keeper_version(&program) {
            Some(version) if version == VERSION => return None,
            Some(version) => format!("it is of version {version}, and this program of {VERSION}"),
            None => {
                "it does not say its version: it is no outlive-keeper, or one of another version".to_owned()
            }
        };
        Some((program, format!("{problem}; install both of the same version side by side")))
    }

    /// Returns the versions of the programs that share this store.
    pub fn versions(&self) -> Versions {
        let others = self.list(None).map(|listing| listing.jobs).unwrap_or_default().into_iter();
        let others = others.filter(|job| job.spec().outlive != VERSION && job.state(self).is_live());
        Versions {
            outlive: VERSION,
            keeper: self.keeper_program().and_then(|program| keeper_version(&program)),
            protocol: [SPOKEN.min, SPOKEN.max],
            live_jobs_of_others: others.map(|job| format!("{} ({})", job.id(), job.spec().outlive)).collect(),
        }
    }
}

/// Runs a keeper program for its version; `None` if it does not say.
fn keeper_version(program: &PathBuf) -> Option<String> {
    // This program as keeper has the same version.
    if program == Path::new("/proc/self/exe") {
        return Some(VERSION.to_owned());
    }
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).env_clear();
    let said = command.output().ok().filter(|said| said.status.success())?;
    let text = String::from_utf8(said.stdout).ok()?;
    text.trim().strip_prefix("outlive-keeper ").map(str::to_owned)
}
