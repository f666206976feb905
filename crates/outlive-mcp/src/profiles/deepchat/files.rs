//! The file of what a session printed, where that design has it: a link into the store.

use std::path::{Path, PathBuf};

use outlive::Job;

use crate::profiles::{links, read};
use crate::reply::chain;
use crate::tools::Call;

/// What is longer than so many characters has a file.
pub(super) const OFFLOADED: u64 = 10_000;

/// Returns the file of what a session printed, if that is long enough to have one.
pub(super) fn offloaded(call: &Call<'_>, job: &Job) -> Option<PathBuf> {
    let is_long = read(job, |output| output.has_more_characters_than(OFFLOADED));
    is_long.then(|| file(call, job))
}

/// Returns the file of what a session printed where that design has it; where that cannot be, the store's own.
pub(super) fn file(call: &Call<'_>, job: &Job) -> PathBuf {
    let target = job.log_file().unwrap_or_else(|_| job.path().to_owned());
    let Some(link) = link(job) else { return target };
    match links::point(call.store, &link, &target) {
        Ok(()) => link,
        Err(error) => {
            crate::log(&format!("{} cannot be made: {}", link.display(), chain(&error)));
            target
        }
    }
}

/// Removes the file's link; where that fails, the session goes all the same.
pub(super) fn forget_file(call: &Call<'_>, job: &Job) {
    if let Some(link) = link(job)
        && let Err(error) = links::unpoint(call.store, &link)
    {
        crate::log(&format!("{} stays: {}", link.display(), chain(&error)));
    }
}

/// Returns where a session's file is: the names of conversations and jobs have nothing in them that leads elsewhere.
fn link(job: &Job) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())?;
    Some(link_below(&home, job.session().as_str(), job.id().as_str()))
}

fn link_below(home: &Path, conversation: &str, id: &str) -> PathBuf {
    home.join(".deepchat/sessions").join(conversation).join(format!("bgexec_{id}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlive::reader_name;

    #[test]
    fn no_conversation_leads_out_of_its_directory() {
        let home = Path::new("/home/u");
        for hostile in ["../../etc", "..", "/etc/passwd", "a/../../b", ".", "a\0b", ""] {
            let name = reader_name(hostile);
            let path = link_below(home, name.as_str(), "bg_abc");
            assert_eq!(path.components().count(), 7, "{path:?}");
            assert!(path.starts_with("/home/u/.deepchat/sessions"), "{path:?}");
            assert!(!path.components().any(|part| part == std::path::Component::ParentDir), "{path:?}");
        }
    }
}
