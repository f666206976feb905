//! Waiting for changes in a directory.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify;

/// Wakes up when a file in a directory is written, made, renamed or closed by its writer.
///
/// A writer that is killed closes its files too, so its death wakes the watcher.
#[derive(Debug)]
pub struct Watch {
    /// None where the user's allowance of watches is used up: then there is only the timer.
    inotify: Option<OwnedFd>,
}

/// How often to look where the kernel does not tell.
const FALLBACK: Duration = Duration::from_millis(100);

impl Watch {
    /// Starts to watch. Changes from now on are reported; the caller looks at what is there already afterwards.
    pub fn new(directory: &Path) -> Self {
        Self { inotify: init().ok().filter(|fd| add(fd, directory).is_ok()) }
    }

    /// As [`Watch::new`], without waking up when something is written to a file that stays open, such as a log.
    pub fn for_replaced(directory: &Path) -> Self {
        let add = |fd: &OwnedFd| inotify::add_watch(fd, directory, REPLACED);
        Self { inotify: init().ok().filter(|fd| add(fd).is_ok()) }
    }

    /// Tells whether the kernel pushes, or a timer is needed.
    pub fn is_pushed(&self) -> bool {
        self.inotify.is_some()
    }

    /// Returns what to poll for, where the kernel pushes.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Discards what was reported; the caller then looks at the directory itself.
    pub fn clear(&self) {
        if let Some(fd) = &self.inotify {
            let mut buffer = [0u8; 4096];
            while let crate::pipe::Attempt::Moved(_) = crate::pipe::try_read(fd, &mut buffer) {}
        }
    }
}

fn init() -> io::Result<OwnedFd> {
    Ok(inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?)
}

/// What tells that a file was replaced, made or closed by its writer, or that the directory is gone.
const REPLACED: inotify::WatchFlags = inotify::WatchFlags::CLOSE_WRITE
    .union(inotify::WatchFlags::CREATE)
    .union(inotify::WatchFlags::MOVED_TO)
    .union(inotify::WatchFlags::DELETE_SELF)
    .union(inotify::WatchFlags::MOVE_SELF);

fn add(fd: &OwnedFd, directory: &Path) -> io::Result<i32> {
    Ok(inotify::add_watch(fd, directory, REPLACED | inotify::WatchFlags::MODIFY)?)
}

/// Watches several directories at once, with one descriptor, and tells them apart.
#[derive(Debug, Default)]
pub struct Watches {
    inotify: Option<OwnedFd>,
    /// The kernel's number of each directory; none where its allowance is used up.
    numbers: Vec<Option<i32>>,
}

impl Watches {
    /// Watches nothing yet, and takes nothing of the user's allowance.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts to watch one more; returns its place. What happened before must be looked at afterwards.
    pub fn add(&mut self, directory: &Path) -> usize {
        self.inotify = self.inotify.take().or_else(|| init().ok());
        self.numbers.push(self.inotify.as_ref().and_then(|fd| add(fd, directory).ok()));
        self.numbers.len() - 1
    }

    /// Tells how long a change may go unnoticed: none where the kernel pushes all of them.
    pub fn nap(&self) -> Option<Duration> {
        self.numbers.contains(&None).then_some(FALLBACK)
    }

    /// Returns what to poll for.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Forgets what has changed since the last call, or a part of it; tells whether that was nothing but writing to files of such names.
    pub fn only_written(&self, is_such: impl Fn(&str) -> bool) -> bool {
        let Some(fd) = self.inotify.as_ref().filter(|_| self.nap().is_none()) else { return false };
        let mut is_only = true;
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(fd, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = event.file_name().and_then(|name| name.to_str().ok());
            is_only &= event.events() == inotify::ReadFlags::MODIFY && name.is_some_and(&is_such);
            // What did not fit into the buffer is there the next time.
            if reader.is_buffer_empty() {
                break;
            }
        }
        is_only
    }

    /// Tells for each directory whether it may have changed since the last call, and forgets it.
    pub fn changed(&self) -> Vec<bool> {
        let mut changed: Vec<bool> = self.numbers.iter().map(Option::is_none).collect();
        let Some(fd) = &self.inotify else { return changed };
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(fd, &mut buffer);
        while let Ok(event) = reader.next() {
            let number = event.wd();
            let is_overflow = event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
            for (known, changed) in self.numbers.iter().zip(&mut changed) {
                *changed |= is_overflow || *known == Some(number);
            }
        }
        changed
    }
}

/// Watches directories for changes of the files in them, and names the files.
#[derive(Debug)]
pub struct FileChanges {
    inotify: OwnedFd,
    /// The directories, by the kernel's numbers.
    directories: HashMap<i32, PathBuf>,
}

/// A file that was written, made, renamed or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path of the directory, as it was given, and the name.
    pub path: PathBuf,
    /// It is a directory.
    pub is_directory: bool,
    /// It has come to the directory.
    pub is_new: bool,
}

impl FileChanges {
    /// Watches nothing yet.
    ///
    /// # Errors
    ///
    /// If the user has too many watchers already.
    pub fn new() -> io::Result<Self> {
        Ok(Self { inotify: init()?, directories: HashMap::new() })
    }

    /// Watches a directory, without those in it; one that is a link only where links are followed.
    ///
    /// # Errors
    ///
    /// If it is not there, or the user's allowance of watches is used up.
    pub fn add(&mut self, directory: &Path, follows: bool) -> io::Result<()> {
        use inotify::WatchFlags as Flags;
        let files = Flags::CLOSE_WRITE | Flags::CREATE | Flags::DELETE | Flags::MOVED_FROM | Flags::MOVED_TO;
        let mut flags = files | Flags::ONLYDIR;
        flags.set(Flags::DONT_FOLLOW, !follows);
        let number = inotify::add_watch(&self.inotify, directory, flags)?;
        self.directories.insert(number, directory.to_owned());
        Ok(())
    }

    /// Returns what has changed since the last call, and whether there was more than the kernel kept.
    pub fn read(&mut self) -> (Vec<FileChange>, bool) {
        use inotify::ReadFlags as Flags;
        let (mut changes, mut is_cut) = (Vec::new(), false);
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            is_cut |= flags.contains(Flags::QUEUE_OVERFLOW);
            if flags.contains(Flags::IGNORED) {
                self.directories.remove(&event.wd());
            }
            let Some((directory, name)) = self.directories.get(&event.wd()).zip(event.file_name()) else {
                continue;
            };
            let is_directory = flags.contains(Flags::ISDIR);
            let is_new = flags.intersects(Flags::CREATE | Flags::MOVED_TO);
            // A file that is made is closed by its writer, too.
            if flags.contains(Flags::CREATE) && !is_directory {
                continue;
            }
            let path = directory.join(OsStr::from_bytes(name.to_bytes()));
            changes.push(FileChange { path, is_directory, is_new });
        }
        (changes, is_cut)
    }
}

impl AsFd for FileChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_named() {
        let home = tempfile::tempdir().unwrap();
        let mut changes = FileChanges::new().unwrap();
        changes.add(home.path(), false).unwrap();
        std::fs::write(home.path().join("a"), "x").unwrap();
        std::fs::create_dir(home.path().join("d")).unwrap();
        std::fs::rename(home.path().join("a"), home.path().join("b")).unwrap();
        let (told, is_cut) = changes.read();
        let named: Vec<(&str, bool, bool)> = told
            .iter()
            .map(|change| {
                (change.path.file_name().unwrap().to_str().unwrap(), change.is_directory, change.is_new)
            })
            .collect();
        assert_eq!(named, [("a", false, false), ("d", true, true), ("a", false, false), ("b", false, true)]);
        assert!(!is_cut && changes.read().0.is_empty());
        assert!(changes.add(&home.path().join("b"), false).is_err(), "only directories");
    }

    #[test]
    fn directories_are_told_apart() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut watches = Watches::new();
        for directory in [&a, &b, &a] {
            watches.add(directory.path());
        }
        // Where the allowance is used up, all may have changed at any time.
        if watches.nap().is_some() {
            assert!(watches.changed().contains(&true));
            return;
        }
        assert_eq!(watches.changed(), [false; 3]);
        std::fs::write(b.path().join("file"), "x").unwrap();
        assert_eq!(watches.changed(), [false, true, false]);
        assert_eq!(watches.changed(), [false; 3], "told once");
        std::fs::write(a.path().join("file"), "x").unwrap();
        assert_eq!(watches.changed(), [true, false, true], "one directory, twice");
        let gone = watches.add(Path::new("/nowhere/at/all"));
        assert!(watches.nap().is_some() && watches.changed()[gone], "it has to be looked at");
    }
}
