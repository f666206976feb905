//! The machine as far as jobs depend on it: what its kernel can do, and what is used of what is allowed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outlive_core::VERSION;
use outlive_core::control::SPOKEN;
use outlive_sys::features;
use serde::Serialize;

use crate::store::Store;

/// What this machine offers, and what it lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// What it can do of what outlive makes use of.
    pub features: Vec<Feature>,
}

/// One thing that a kernel has or has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// A stable word.
    pub name: &'static str,
    /// It is there, and this user may use it.
    pub available: bool,
    /// What is so without it; none if it is there.
    pub without: Option<&'static str>,
}

/// How much is used of what is allowed. What is not limited is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Allowances {
    /// Live jobs, by the marks that count.
    pub live_jobs: usize,
    /// As many may be live in all.
    pub live_jobs_limit: usize,
    /// As many may be live in one session.
    pub session_jobs_limit: usize,
    /// Bytes that jobs' output has or may yet take, as far as was counted.
    pub reserved_bytes: Option<u64>,
    /// So many bytes the store may take.
    pub bytes_limit: Option<u64>,
    /// Files that this program may open.
    pub open_files: Option<u64>,
    /// As many it could be allowed.
    pub open_files_most: Option<u64>,
    /// Programs of this user that may watch files.
    pub watchers: Option<u64>,
    /// Directories that they may watch in all.
    pub watches: Option<u64>,
}

/// Which versions meet in this store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// This program's.
    pub outlive: &'static str,
    /// That of the keeper which the next job would have; none if it does not say.
    pub keeper: Option<String>,
    /// The control protocol that this program speaks, from the oldest to the newest.
    pub protocol: [u32; 2],
    /// Live jobs that another version started, as `ID (VERSION)`.
    pub live_jobs_of_others: Vec<String>,
}

impl Machine {
    /// Looks at this machine; `directory` is one that may be watched.
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
    /// Tells how much is used of what is allowed.
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
        fs::read_to_string(self.root().join("reserved")).ok()?.trim().parse().ok()
    }

    /// Tells what is wrong with the program that would keep the next job, if anything.
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

    /// Tells which versions meet in this store.
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

/// Asks a keeper's program for its version; `None` if it does not say.
fn keeper_version(program: &PathBuf) -> Option<String> {
    // This program in the keeper's role is of the same build.
    if program == Path::new("/proc/self/exe") {
        return Some(VERSION.to_owned());
    }
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).env_clear();
    let said = command.output().ok().filter(|said| said.status.success())?;
    let text = String::from_utf8(said.stdout).ok()?;
    text.trim().strip_prefix("outlive-keeper ").map(str::to_owned)
}
