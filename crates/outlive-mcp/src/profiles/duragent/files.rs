//! The files of a process, where that design has them: links into the store.

use std::path::PathBuf;

use outlive::Job;

use crate::profiles::links;
use crate::reply::chain;
use crate::tools::Call;

/// Returns the project's directory.
pub(super) fn project(call: &Call<'_>) -> PathBuf {
    let here = || match call.scope.is_remote {
        true => Some(call.scope.here.clone()),
        false => std::env::current_dir().ok(),
    };
    call.scope.directory.clone().or_else(here).unwrap_or_default()
}

/// Returns the directory where that design keeps the files of processes.
pub(super) fn directory(call: &Call<'_>) -> PathBuf {
    project(call).join(".duragent/processes")
}

fn file_names(job: &Job) -> [String; 3] {
    ["meta.json", "spec.json", "log"].map(|kind| format!("{}.{kind}", job.id()))
}

/// Makes the files of a process: its snapshot, its spec and its log.
pub(super) fn show(call: &Call<'_>, job: &Job) -> std::io::Result<()> {
    let targets = [job.meta_file(), job.spec_file(), job.log_file()?];
    for (name, target) in file_names(job).iter().zip(targets) {
        links::point(call.store, &directory(call).join(name), &target)?;
    }
    Ok(())
}

/// Removes the files of a process; a file that cannot be removed stays.
pub(super) fn remove_links(call: &Call<'_>, job: &Job) {
    for name in file_names(job) {
        if let Err(error) = links::unpoint(call.store, &directory(call).join(&name)) {
            crate::log(&format!("{name} stays: {}", chain(&error)));
        }
    }
}

/// Returns the log of a process: the design's file if it is there, else the store's.
pub(super) fn log_path(call: &Call<'_>, job: &Job) -> PathBuf {
    let [.., name] = file_names(job);
    let link = directory(call).join(name);
    let Ok(target) = job.log_file() else { return link };
    // The first segment of a log beyond its cap is removed; the link then leads to the next.
    let is_there = link.symlink_metadata().is_ok() && links::point(call.store, &link, &target).is_ok();
    if is_there { link } else { target }
}
