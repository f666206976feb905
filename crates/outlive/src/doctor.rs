//! Looking for what is wrong with a store, and putting it out of the way.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use outlive_sys::durable;

use crate::find::Damaged;
use crate::store::Store;

/// One thing that was found.
#[derive(Debug)]
pub struct Finding {
    /// What it is about.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: String,
    /// What was done about it, if anything.
    pub action: Option<String>,
    /// Nothing more needs to be done.
    pub is_handled: bool,
}

impl Finding {
    fn open(path: &Path, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: problem.into(), action: None, is_handled: false }
    }
}

/// What an examination found.
#[derive(Debug)]
pub struct Examination {
    /// The jobs that are well.
    pub jobs: usize,
    /// Of them, those that are live.
    pub live: usize,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// Names that belong into the store's directory.
const KNOWN: &[&str] = &[
    "version",
    "lock",
    "collected",
    "reserved",
    "config.toml",
    "new",
    "jobs",
    "live",
    "quarantine",
    "sessions",
    "spool",
    "templates",
    "agents",
];

impl Store {
    /// Examines the store. What is damaged and not held by a keeper is moved to `quarantine/`, where nothing is lost and
    /// nothing is in the way.
    ///
    /// # Errors
    ///
    /// If the store cannot be read at all.
    pub fn examine(&self) -> io::Result<Examination> {
        let mut findings = Vec::new();
        if let Some(kind @ ("nfs" | "smb" | "9p" | "fuse")) = durable::file_system(self.root()) {
            let problem = format!("the store is on {kind}, where locks may not hold between hosts");
            findings.push(Finding::open(self.root(), problem));
        }
        for name in crate::store::DIRECTORIES {
            let path = self.root().join(name);
            if !path.is_dir() {
                let made = fs::DirBuilder::new().mode(0o700).create(&path);
                findings.push(Finding {
                    path,
                    problem: "it was missing".to_owned(),
                    action: made.is_ok().then(|| "made anew".to_owned()),
                    is_handled: made.is_ok(),
                });
            }
        }
        for entry in fs::read_dir(self.root())?.flatten() {
            let name = entry.file_name();
            if !KNOWN.iter().any(|known| name == OsStr::new(known)) {
                findings.push(Finding::open(&entry.path(), "it does not belong to the store"));
            }
        }
        let listing = self.list(None)?;
        for damaged in &listing.damaged {
            findings.push(self.quarantine_job(damaged));
        }
        let mut live = 0;
        for job in &listing.jobs {
            let state = job.state(self);
            live += usize::from(state.is_live());
            if state.is_orphaned {
                let problem = "its keeper died; the command goes on, and its output is not recorded";
                findings.push(Finding::open(job.path(), problem));
            }
            if state.is_elsewhere {
                findings.push(Finding::open(job.path(), "it belongs to another host or pid namespace"));
            }
        }
        // Under the lock: a job that is being prepared has its mark before it has its place.
        match self.lock() {
            Ok(lock) if lock.is_held => self.sweep_marks(),
            // Somebody else has it: the marks are swept by the next who counts.
            Ok(_) => {}
            Err(error) => findings.push(Finding::open(self.root(), format!("it cannot be written: {error}"))),
        }
        Ok(Examination { jobs: listing.jobs.len(), live, findings })
    }

    fn quarantine_job(&self, damaged: &Damaged) -> Finding {
        let path = self.jobs().join(&damaged.name);
        let mut problem = damaged.error.to_string();
        let mut source = std::error::Error::source(&damaged.error);
        while let Some(cause) = source {
            problem = format!("{problem}: {cause}");
            source = cause.source();
        }
        let is_newer =
            matches!(&damaged.error, crate::job::DamageError::Spec(outlive_core::spec::SpecError::Format(_)));
        let (action, is_handled) = if !damaged.error.is_certain() {
            ("left alone: it could not be read just now".to_owned(), false)
        } else if is_newer {
            ("left alone: another version wrote it".to_owned(), true)
        } else if durable::is_held(&path, outlive_core::file::LOCK) {
            ("left alone: a keeper still holds it".to_owned(), false)
        } else {
            match self.move_to_quarantine(&path, &damaged.name) {
                Ok(to) => (format!("moved to {}", to.display()), true),
                Err(error) => (format!("could not be moved to quarantine: {error}"), false),
            }
        };
        Finding { path, problem, action: Some(action), is_handled }
    }

    fn move_to_quarantine(&self, path: &Path, name: &OsStr) -> io::Result<PathBuf> {
        for number in 1..10_000 {
            let mut place = name.to_owned();
            place.push(format!(".{number}"));
            let to = self.quarantine().join(place);
            if durable::rename_new(path, &to)? {
                return Ok(to);
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }
}
