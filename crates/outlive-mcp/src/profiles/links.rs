//! Files of a job at the paths of a design: links into the store, so they stay true when the server has ended.
//!
//! Only links into the store are ever replaced or removed: any other file is not outlive's.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;

use outlive::Store;

/// Makes a link lead to a file of the store, with the directories above it.
pub(crate) fn point(store: &Store, link: &Path, target: &Path) -> io::Result<()> {
    if let Some(directory) = link.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    match symlink(target, link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::read_link(link).is_ok_and(|there| there == target) {
                return Ok(());
            }
            if !is_ours(store, link) {
                return Err(error);
            }
            // Made beside it and renamed: a program that opens it meanwhile finds the old link or the new.
            let fresh = link.with_extension(format!("{}.tmp", super::random_digits(8, 36)));
            symlink(target, &fresh)?;
            fs::rename(&fresh, link).inspect_err(|_| drop(fs::remove_file(&fresh)))
        }
        made => made,
    }
}

/// Removes a link; a missing link is a success.
pub(crate) fn unpoint(store: &Store, link: &Path) -> io::Result<()> {
    match fs::symlink_metadata(link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) if is_ours(store, link) => fs::remove_file(link),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is no link into the store")),
    }
}

/// Removes the links of a directory whose jobs are gone.
pub(crate) fn sweep(store: &Store, directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let link = entry.path();
        // The job's directory decides, not the file: the first segment of a long log goes before its job does.
        let is_gone = |target: &Path| target.parent().is_some_and(|job| !job.exists());
        if is_ours(store, &link) && fs::read_link(&link).is_ok_and(|target| is_gone(&target)) {
            fs::remove_file(&link).ok();
        }
    }
}

fn is_ours(store: &Store, link: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.starts_with(store.root()))
}
