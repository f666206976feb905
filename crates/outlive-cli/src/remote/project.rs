//! Names of a project's jobs that run on another machine: in its directory they are understood as those of jobs here.

use outlive::{SessionName, Store};
use outlive_project::Project;

use crate::args::Arguments;

/// Returns the machine that all named jobs run on, as the project of this directory says, and their session there.
pub(super) fn of(arguments: &mut Arguments) -> Option<(String, SessionName)> {
    let references = arguments.references();
    if references.is_empty() || references.iter().any(|reference| reference.contains('/')) {
        return None;
    }
    // A mistake in the file is told by the verbs of projects.
    let file = Project::find(&std::env::current_dir().ok()?).ok()?;
    let store = Store::open().ok()?;
    if store.config().hosts.is_empty() {
        return None;
    }
    let project = Project::load(&file, &store.config().hosts).ok()?;
    let host = |reference: &String| Some(project.job(reference).ok()?.there.as_ref()?.host.clone());
    let first = host(references.first()?)?;
    let is_one = references.iter().all(|reference| host(reference).as_ref() == Some(&first));
    is_one.then(|| (first, outlive_project::session_there(&store, &project)))
}
