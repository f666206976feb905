//! What `doctor` finds in a store besides damaged jobs: a full disk, leftovers of what was cut short, files of other users.

use std::ffi::OsStr;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use outlive_core::duration::format_size;
use outlive_core::file;
use outlive_sys::{durable, owner, socket};

use crate::store::Store;
use crate::store::doctor::Finding;

/// With less room, a job may not start, and what it prints is soon lost.
const LITTLE: u64 = 1 << 20;

/// What is made in the store gets its place within milliseconds; older things were left behind.
const LEFT_AFTER: Duration = Duration::from_secs(60);

impl Store {
    /// Reports a disk that is full for this user.
    pub(super) fn full_disk(&self) -> Option<Finding> {
        let room = durable::room(self.root()).ok()?;
        let lacking = match room {
            durable::Room { files: Some(0), .. } => "no file can be made".to_owned(),
            durable::Room { bytes, .. } if bytes < LITTLE => format!("{} are left", format_size(bytes)),
            _ => return None,
        };
        let problem = format!("its disk is full: {lacking}, so that output is lost and no job can start");
        let next = "left alone: `outlive gc` and `outlive remove` make room";
        Some(Finding::open(self.root(), problem).done(next, false))
    }

    /// Reports directories above the store in which other users can put another store into its place.
    pub(super) fn open_ancestors(&self) -> Vec<Finding> {
        let real = self.root().canonicalize().unwrap_or_else(|_| self.root().to_owned());
        let is_open = |path: &&Path| owner::lets_others_replace(path).unwrap_or(false);
        let found = |path: &Path| {
            let next = format!("left alone: chmod go-w {} takes that right away", path.display());
            Finding::open(path, "other users can write to it, and so replace the store").done(next, false)
        };
        real.ancestors().skip(1).filter(is_open).map(found).collect()
    }

    /// Reports what a program that was killed left behind in the store; with `fixes`, removes it.
    pub(super) fn leftovers(&self, fixes: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut found = |path: &Path, problem: &str, remove: fn(&Path) -> io::Result<()>| {
            let finding = Finding::open(path, problem);
            findings.push(match fixes.then(|| remove(path)) {
                None => finding.with_fix("removes it"),
                Some(Ok(())) => finding.done("removed", true),
                Some(Err(error)) => finding.done(format!("could not be removed: {error}"), false),
            });
        };
        walk(self.root(), &mut |path, data| {
            let is_left = data.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= LEFT_AFTER));
            let is_own = data.uid() == socket::own_uid();
            if path.parent() == Some(&self.new_dir()) {
                // A starter that is stopped half-way still holds its lock.
                if is_left && is_own && !durable::is_held(path, file::LOCK) {
                    found(path, "the start or removal of a job was cut short", |path| {
                        fs::remove_dir_all(path)
                    });
                }
                return false;
            }
            if is_left && is_own && data.is_file() && path.extension() == Some(OsStr::new("tmp")) {
                found(path, "a write was cut short", |path| fs::remove_file(path));
            }
            is_own && path != self.quarantine()
        });
        findings
    }

    /// Reports what other users own or can write to. With `fixes`, takes the right to write away, unless others can enter the store
    /// and so may have used it.
    pub(super) fn strangers(&self, fixes: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        let is_closed = owner::check_dir_at(self.root()).is_ok_and(|is_open| !is_open);
        walk(self.root(), &mut |path, data| {
            if data.uid() != socket::own_uid() {
                let problem = format!("it belongs to user {}", owner::user_name(data.uid()));
                let next = "left alone: only its owner or root can give it to you (chown) or remove it";
                findings.push(Finding::open(path, problem).done(next, false));
                return false;
            }
            if (data.is_file() || data.is_dir()) && owner::is_shared(data.mode(), data.gid()) {
                let finding = Finding::open(
                    path,
                    format!("other users can write to it (mode {:04o})", data.mode() & 0o7777),
                );
                let take_away = || fs::set_permissions(path, Permissions::from_mode(data.mode() & 0o7755));
                findings.push(match (is_closed, fixes.then(take_away)) {
                    (false, _) => finding
                        .done(format!("left alone: look at it, then chmod go-w {}", path.display()), false),
                    (true, None) => finding.with_fix("takes that right away"),
                    (true, Some(Ok(()))) => finding.done("that right was taken away", true),
                    (true, Some(Err(error))) => finding.done(format!("could not be changed: {error}"), false),
                });
            }
            true
        });
        findings
    }
}

/// Visits what is below a directory; goes on below an entry if `visit` says so. Links are not followed.
fn walk(directory: &Path, visit: &mut impl FnMut(&Path, &Metadata) -> bool) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, Ok(data)) = (entry.path(), entry.metadata()) else { continue };
        if visit(&path, &data) && data.is_dir() {
            walk(&path, visit);
        }
    }
}
