//! Restarts a job when files change that it was started to watch.
//!
//! A pattern is relative to the job's directory, and one that begins with `!` leaves out what it matches. What `.gitignore` names is left
//! out, too, and `.git` itself. The kernel tells of changes in a directory, not below it: each directory costs a watch, of which a user has
//! only so many.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::Match;
use ignore::gitignore::Gitignore;
use outlive_core::event::{Event, Kind};
use outlive_core::restart::Rerun;
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::Appending;
use outlive_sys::watch::{FileChanges, Watch};
use outlive_sys::{clock, poll};

use crate::job::Job;
use crate::launch::next_run::Replacement;
use crate::launch::request::RequestError;
use crate::store::Store;

/// Begins who ended a run that was replaced because of a file; its name follows.
pub const CHANGE_OF: &str = "a change of ";

/// How long nothing may change before the job is restarted: an editor or a checkout writes several files in a row.
const QUIET: Duration = Duration::from_millis(300);

/// The longest that changes in a row put off a restart.
const LONGEST: Duration = Duration::from_secs(5);

/// The times of files are of a clock that the kernel sets forward with each tick, at 100 Hz or more often.
const CLOCK_TICK_US: u64 = 10_000;

/// How often to look whether the job has ended, where the kernel does not tell.
const LOOK: Duration = Duration::from_secs(1);

/// Which files are meant.
struct Patterns {
    base: PathBuf,
    meant: GlobSet,
    left_out: GlobSet,
    /// Directories to begin at.
    roots: Vec<PathBuf>,
    /// The highest directory whose `.gitignore` counts: that of the repository, else the job's own.
    top: PathBuf,
    ignores: Ignores,
}

/// What the files `.gitignore` say, each read once for as long as it is unchanged.
#[derive(Default)]
struct Ignores(RefCell<HashMap<PathBuf, (FileState, Gitignore)>>);

/// When a file was last changed, its length and its number: another state has others.
type FileState = (SystemTime, u64, u64);

impl Ignores {
    /// Tells what the `.gitignore` of a directory says about a path; nothing if there is none.
    fn matched(&self, directory: &Path, path: &Path, is_directory: bool) -> Match<()> {
        let file = directory.join(".gitignore");
        let state = std::fs::metadata(&file).ok().filter(std::fs::Metadata::is_file);
        let state = state.and_then(|found| Some((found.modified().ok()?, found.len(), found.ino())));
        let mut read = self.0.borrow_mut();
        let Some(state) = state else {
            read.remove(&file);
            return Match::None;
        };
        let of_file = match read.entry(file) {
            Entry::Occupied(found) if found.get().0 == state => found.into_mut(),
            found => {
                let lines = Gitignore::new(found.key()).0;
                found.insert_entry((state, lines)).into_mut()
            }
        };
        of_file.1.matched_path_or_any_parents(path, is_directory).map(|_| ())
    }
}

impl Patterns {
    fn new(base: &Path, patterns: &[String]) -> Result<Self, RequestError> {
        let (mut meant, mut left_out) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let mut roots: Vec<PathBuf> = Vec::new();
        for pattern in patterns {
            let wrong = |why: &str| RequestError::Watched(pattern.clone(), why.to_owned());
            let (text, set, is_meant) = match pattern.strip_prefix('!') {
                Some(text) => (text, &mut left_out, false),
                None => (pattern.as_str(), &mut meant, true),
            };
            let text = text.trim_start_matches("./").trim_end_matches('/');
            let is_below = Path::new(text).components().all(|part| matches!(part, Component::Normal(_)));
            if text.is_empty() || !is_below {
                return Err(wrong("write a path below the job's directory, such as src/**"));
            }
            // A directory stands for all that is in it.
            for text in [text.to_owned(), format!("{text}/**")] {
                let glob = GlobBuilder::new(&text).literal_separator(true).build();
                set.add(glob.map_err(|error| wrong(&error.kind().to_string()))?);
            }
            if is_meant {
                let root = root(base, text);
                if !root.is_dir() {
                    return Err(wrong(&format!("there is no directory {}", root.display())));
                }
                roots.push(root);
            }
        }
        let (meant, left_out) = (meant.build(), left_out.build());
        let failed = |error: globset::Error| RequestError::Watched(patterns.join(" "), error.to_string());
        let (meant, left_out) = (meant.map_err(failed)?, left_out.map_err(failed)?);
        if roots.is_empty() {
            return Err(RequestError::Watched(patterns.join(" "), "nothing is left to watch".to_owned()));
        }
        roots.sort();
        roots.dedup();
        let top = base.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(base).to_owned();
        Ok(Self { base: base.to_owned(), meant, left_out, roots, top, ignores: Ignores::default() })
    }

    /// Tells whether a change of this file counts.
    fn is_meant(&self, path: &Path, is_directory: bool) -> bool {
        let Ok(inside) = path.strip_prefix(&self.base) else { return false };
        self.meant.is_match(inside) && !self.left_out.is_match(inside) && !self.is_ignored(path, is_directory)
    }

    /// Tells whether something that is meant may be in this directory.
    fn may_hold(&self, directory: &Path) -> bool {
        let inside = directory.strip_prefix(&self.base).unwrap_or(directory);
        directory.file_name().is_none_or(|name| name != ".git")
            && (inside.as_os_str().is_empty() || !self.left_out.is_match(inside))
            && !self.is_ignored(directory, true)
    }

    /// Tells whether a `.gitignore` beside it or above it, within its repository, names it or a directory that it is in.
    fn is_ignored(&self, path: &Path, is_directory: bool) -> bool {
        for dir in path.ancestors().skip(1) {
            match self.ignores.matched(dir, path, is_directory) {
                Match::Ignore(()) => return true,
                Match::Whitelist(()) => return false,
                Match::None => {}
            }
            // Another repository may be below.
            if dir == self.top || dir.join(".git").exists() {
                return false;
            }
        }
        false
    }
}

/// Returns the directory at which a pattern begins: as far as it has no special characters.
fn root(base: &Path, pattern: &str) -> PathBuf {
    let is_plain = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
    let plain: PathBuf = pattern.split('/').take_while(is_plain).collect();
    let whole = base.join(&plain);
    match whole.is_dir() || plain.as_os_str().is_empty() {
        true => whole,
        // The last part is a file, which need not be there yet.
        false if plain == Path::new(pattern) => whole.parent().map_or(whole.clone(), Path::to_owned),
        false => whole,
    }
}

/// Watches the directories in which something may be meant.
struct FileWatch {
    patterns: Patterns,
    changes: FileChanges,
    /// What changed before it was watched, and was not yet told.
    earlier: Vec<PathBuf>,
}

impl FileWatch {
    /// Begins to watch; what has changed since this time counts as well.
    fn new(patterns: Patterns, begun: SystemTime) -> io::Result<Self> {
        let mut watch = Self { patterns, changes: FileChanges::new()?, earlier: Vec::new() };
        let mut found = Vec::new();
        for root in watch.patterns.roots.clone() {
            watch.add(&root, &mut found)?;
        }
        watch.earlier.extend(watch.changed_since(begun, &found));
        Ok(watch)
    }

    /// Returns a file that has changed since this time, before it was watched. One that is of the future tells nothing.
    fn changed_since(&self, begun: SystemTime, found: &[PathBuf]) -> Option<PathBuf> {
        let now = SystemTime::now();
        let is_changed = |path: &&PathBuf| {
            self.patterns.is_meant(path, false)
                && std::fs::metadata(path)
                    .and_then(|data| data.modified())
                    .is_ok_and(|changed| changed > begun && changed <= now)
        };
        found.iter().find(is_changed).cloned()
    }

    /// Watches a directory and those in it, and adds what else is there to `found`.
    fn add(&mut self, directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
        // Before the look: what is made after it is told.
        // A directory that was named is followed, should it be a link.
        let is_root = self.patterns.roots.iter().any(|root| root == directory);
        match self.changes.add(directory, is_root) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                return Ok(());
            }
            added => added?,
        }
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            // A link to a directory is not followed: it may lead anywhere.
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true if self.patterns.may_hold(&path) => self.add(&path, found)?,
                true => {}
                false => found.push(path),
            }
        }
        Ok(())
    }

    /// Returns what has changed that is meant.
    fn take(&mut self) -> io::Result<Vec<PathBuf>> {
        let (mut changed, is_cut) = self.changes.read();
        let mut meant = std::mem::take(&mut self.earlier);
        // More than the kernel kept: anything may have changed.
        meant.extend(is_cut.then(|| self.patterns.roots.first().cloned()).flatten());
        for change in changed.drain(..) {
            if change.is_directory && change.is_new && self.patterns.may_hold(&change.path) {
                let mut found = Vec::new();
                self.add(&change.path, &mut found)?;
                meant.extend(found.into_iter().filter(|path| self.patterns.is_meant(path, false)));
            } else if self.patterns.is_meant(&change.path, change.is_directory) {
                meant.push(change.path);
            }
        }
        Ok(meant)
    }

    /// Returns the first file that has changed, once nothing has for a moment; none: `stop` became readable before anything did.
    fn next(&mut self, stop: &Watch) -> io::Result<Option<PathBuf>> {
        let mut changed: Vec<PathBuf> = Vec::new();
        let mut began = None;
        loop {
            changed.extend(self.take()?);
            let first = match changed.is_empty() {
                true => None,
                false => Some(*began.get_or_insert_with(Instant::now)),
            };
            let pause = match first {
                None if stop.is_pushed() => None,
                None => Some(LOOK),
                Some(first) if first.elapsed() >= LONGEST => Some(Duration::ZERO),
                Some(_) => Some(QUIET),
            };
            let stops = stop.fd().into_iter().filter(|_| first.is_none());
            let is_more = poll::any_readable(stops.chain([self.changes.as_fd()]), pause)?;
            if first.is_none() && (!is_more || stop.fd().is_some_and(|fd| is_readable(fd))) {
                return Ok(None);
            }
            if first.is_some() && (!is_more || pause == Some(Duration::ZERO)) {
                // What an editor made for a moment is no help.
                let there = changed.iter().position(|path| path.exists());
                return Ok(Some(changed.swap_remove(there.unwrap_or(0))));
            }
        }
    }
}

/// Returns since when a change of a file counts: a run that had to wait began with the files as they were then.
fn begun_us(job: &Job) -> u64 {
    let started = job.meta().and_then(|meta| meta.started).filter(|_| job.spec().waits());
    started.map_or(job.spec().created.0, |started| started.0.saturating_sub(CLOCK_TICK_US))
}

fn is_readable(fd: std::os::fd::BorrowedFd<'_>) -> bool {
    poll::any_readable([fd], Some(Duration::ZERO)).unwrap_or(false)
}

/// Validates patterns, and tries whether so many directories can be watched at all.
pub(crate) fn check(base: &Path, patterns: &[String]) -> Result<(), RequestError> {
    if patterns.is_empty() {
        return Ok(());
    }
    let patterns = Patterns::new(base, patterns)?;
    FileWatch::new(patterns, SystemTime::now())
        .map(drop)
        .map_err(|error| RequestError::Unwatched(explained(&error)))
}

/// Says what the kernel means where it has no more watches: its own words are those of a full disk.
fn explained(error: &io::Error) -> String {
    let limit = |name: &str| {
        let read = |path: String| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let of_user = read(format!("/proc/sys/user/max_inotify_{name}"));
        let of_all = read(format!("/proc/sys/fs/inotify/max_user_{name}"));
        of_user.into_iter().chain(of_all).min().map(|limit| format!(" {limit}")).unwrap_or_default()
    };
    match error.raw_os_error() {
        Some(libc_errno::ENOSPC) => format!(
            "the kernel lets a user watch only{} directories; raise it with `sudo sysctl fs.inotify.max_user_watches=524288`, or watch fewer",
            limit("watches")
        ),
        Some(libc_errno::EMFILE) => format!(
            "the kernel lets a user have only{} watchers; raise it with `sudo sysctl fs.inotify.max_user_instances=1024`, or end some",
            limit("instances")
        ),
        _ => error.to_string(),
    }
}

/// The two errors of inotify that mean a limit, as Linux numbers them on every machine.
mod libc_errno {
    pub(super) const ENOSPC: i32 = 28;
    pub(super) const EMFILE: i32 = 24;
}

impl Store {
    /// Watches the files of a job until one changes, and restarts it then; or until it has ended.
    pub(crate) fn restart_on_change(&self, job: &Job) {
        let base = PathBuf::from(std::ffi::OsStr::from_bytes(&job.spec().cwd.0));
        let watched = Patterns::new(&base, &job.spec().restart_on_change).map_err(|error| error.to_string());
        let begun = SystemTime::UNIX_EPOCH + Duration::from_micros(begun_us(job));
        let watched =
            watched.and_then(|patterns| FileWatch::new(patterns, begun).map_err(|error| explained(&error)));
        let stop = Watch::for_replaced(job.path());
        let failed = match watched {
            Err(why) => why,
            Ok(mut files) => loop {
                stop.clear();
                if job.state(self).status.has_ended() {
                    return;
                }
                match files.next(&stop) {
                    Ok(None) => {}
                    Ok(Some(path)) => {
                        let name = path.strip_prefix(&base).unwrap_or(&path).to_string_lossy().into_owned();
                        // It may go on for its grace, and one that waits begins only now.
                        self.restart_changed(job, &name);
                    }
                    Err(error) => break explained(&error),
                }
            },
        };
        self.tell_change(job, Kind::Unwatched, failed);
    }

    /// Restarts a job because of a file. If it cannot be, the next change is another try.
    fn restart_changed(&self, job: &Job, name: &str) {
        let state = job.state(self);
        // One that waits for anything but the time after a failure begins with the file as it is by then.
        let is_backing_off =
            || job.spec().rerun.as_ref().is_some_and(|rerun| rerun.due_boot_us > clock::boot_us());
        if state.status.has_ended() || (state.status == Status::Queued && !is_backing_off()) {
            return;
        }
        self.tell_change(job, Kind::Changed, name.to_owned());
        // It waits for nothing, and what failed before does not count.
        let rerun = Rerun { due_boot_us: clock::boot_us(), ..Rerun::default() };
        let replacement = Replacement { because: Some(format!("{name} changed")), rerun };
        self.replace_by_itself(job, replacement, &format!("{CHANGE_OF}{name}"));
    }

    fn tell_change(&self, job: &Job, kind: Kind, text: String) {
        let event = Event::new(kind, job.id(), job.spec().nonce, Timestamp(clock::wall_us()));
        self.append_event(Appending::CHANGE_EVENT, job.session(), &Event { text: Some(text), ..event });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_files_below_the_directory() {
        let home = tempfile::tempdir().unwrap();
        let base = home.path();
        for dir in ["src/deep", "dist", ".git"] {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        std::fs::write(base.join(".gitignore"), "dist/\n*.log\n!keep.log\n").unwrap();
        let patterns = Patterns::new(base, &["src".into(), "*.toml".into(), "!src/deep/**".into()]).unwrap();
        let is_meant = |name: &str| patterns.is_meant(&base.join(name), false);
        assert!(is_meant("src/a.rs") && is_meant("a.toml") && is_meant("src/keep.log"));
        assert!(!is_meant("src/deep/a.rs") && !is_meant("src/a.log") && !is_meant("b/a.toml"));
        assert!(!patterns.may_hold(&base.join("dist")) && !patterns.may_hold(&base.join(".git")));
        assert_eq!(patterns.roots, [base.to_owned(), base.join("src")]);
        for wrong in ["/etc", "../x", "", "a/[", "none/**"] {
            assert!(Patterns::new(base, &[wrong.into()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_git_ignores_is_read_once_and_again_when_it_changes() {
        let home = tempfile::tempdir().unwrap();
        let base = home.path();
        let file = base.join(".gitignore");
        std::fs::write(&file, "*.log\n").unwrap();
        let patterns = Patterns::new(base, &["**".into()]).unwrap();
        let is_meant = |name: &str| patterns.is_meant(&base.join(name), false);
        let read = || patterns.ignores.0.borrow().values().map(|(state, _)| *state).collect::<Vec<_>>();
        assert!(!is_meant("a.log") && is_meant("a.txt"));
        let first = read();
        assert_eq!(first.len(), 1);
        assert!(!is_meant("b/c.log"));
        assert_eq!(read(), first, "it is not read again");
        std::fs::write(&file, "*.txt\n# more\n").unwrap();
        assert!(is_meant("a.log") && !is_meant("a.txt"));
        assert_ne!(read(), first);
        std::fs::remove_file(&file).unwrap();
        assert!(is_meant("a.log") && is_meant("a.txt"));
    }
}
