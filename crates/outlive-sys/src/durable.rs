//! Files that must be whole, or survive.
//!
//! All names are relative to an open directory, so that a store that is moved or removed under a keeper's feet cannot
//! make it write elsewhere.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, fallocate, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::fault::{self, Appending, Replacing};
use crate::lock;

/// Opens a directory to reach what is in it.
///
/// # Errors
///
/// If it is not there, is no directory, or may not be read.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Tells whether an open directory is the one at `path`.
pub fn is_at(dir: impl AsFd, path: &Path) -> bool {
    let (open, there) = (rustix::fs::fstat(dir), rustix::fs::stat(path));
    matches!((open, there), (Ok(open), Ok(there)) if (open.st_dev, open.st_ino) == (there.st_dev, there.st_ino))
}

/// Tells whether a process holds the lock `name` in the directory at `path`, or may hold it (see [`lock::is_held`]).
pub fn is_held(path: &Path, name: &str) -> bool {
    let tried = open_dir(path)
        .and_then(|dir| open_ro(&dir, name))
        .and_then(|file| lock::try_lock(&file, lock::Kind::Shared));
    lock::is_held(tried)
}

/// Makes a new file, for its owner only; an old one of that name is an error.
///
/// # Errors
///
/// If the name is taken, or the file system is full or read-only.
pub fn create_new(dir: impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(File::from(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Makes a directory, for its owner only, but not those above it; that it is there is no error.
///
/// # Errors
///
/// If the directory above was removed, or the file system is full or read-only.
pub fn make_dir(dir: impl AsFd, name: &str) -> io::Result<()> {
    match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file for reading and writing, making it, for its owner only, if it is not there.
///
/// # Errors
///
/// If the directory was removed, or the file system is full or read-only.
pub fn open_or_create(dir: impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    Ok(File::from(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Opens an existing file for reading and writing.
///
/// # Errors
///
/// If it is not there or may not be written.
pub fn open_rw(dir: impl AsFd, name: &str) -> io::Result<File> {
    Ok(File::from(openat(dir, name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?))
}

/// Opens an existing file for reading.
///
/// # Errors
///
/// If it is not there or may not be read.
pub fn open_ro(dir: impl AsFd, name: &str) -> io::Result<File> {
    Ok(File::from(openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
}

/// Opens a file that outlive did not make, to read it. Anything but a regular file is refused: a pipe would block, and a
/// device may have no end.
///
/// # Errors
///
/// If it is not there, is no file, or may not be read.
pub fn open_foreign(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Reads a file of one short line; `None` if it is not there, empty or longer than 4 KiB.
pub fn read_line(dir: impl AsFd, name: &str) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    open_ro(dir, name).ok()?.take(4097).read_to_string(&mut text).ok().filter(|&count| count <= 4096)?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// Reserves room for the first `bytes` of a file, which read as zeros, so that writing them later cannot fail for want of it.
///
/// # Errors
///
/// If there is no room.
pub fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            use std::os::unix::fs::FileExt;
            let zeros = vec![0u8; usize::try_from(bytes).unwrap_or(0)];
            file.write_all_at(&zeros, 0)
        }
        Err(error) => Err(error.into()),
    }
}

/// Reserves room for the next bytes of a file without making it longer; where that is not possible, nothing is reserved.
pub fn reserve(file: &File, offset: u64, bytes: u64) {
    #[cfg(target_os = "linux")]
    fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes).ok();
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, bytes);
}

/// Gives the room of a file's first bytes back; they read as zeros, and nothing else moves.
///
/// # Errors
///
/// Where the system or the file system cannot do that.
pub fn forget_front(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, bytes)?);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns the offset of the first byte at or after `from` that was not given back; `None` if there is none, or the file system
/// cannot tell.
pub fn first_data(file: &File, from: u64) -> Option<u64> {
    use rustix::fs::{SeekFrom, seek};
    seek(file, SeekFrom::Data(from)).ok()
}

/// Appends to a file with one write, making the file if it is not there. Others may append at the same time.
///
/// # Durability
///
/// Written, not synced.
///
/// # Errors
///
/// If the directory is gone, or not all of it could be written.
pub fn append(at: Appending, dir: impl AsFd, name: &str, contents: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let file = fault::step(at.open, || Ok(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?))?;
    // One call: between two, another process could append.
    fault::write(at.write, contents, |part| {
        match rustix::io::retry_on_intr(|| rustix::io::write(&file, part))? {
            written if written == part.len() => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::WriteZero)),
        }
    })
}

/// Replaces a file: readers see the old contents or the new, never a part.
///
/// # Durability
///
/// Written, not synced.
///
/// # Errors
///
/// If the file system is full or read-only; the old file is then still there.
pub fn replace(at: Replacing, dir: impl AsFd, name: &str, contents: &[u8]) -> io::Result<()> {
    replace_with(at, dir, name, contents, |_| Ok(()))
}

/// As [`replace`], and when it returns the new contents survive the loss of power.
///
/// # Durability
///
/// Synced, and the name too.
///
/// # Errors
///
/// As [`replace`].
pub fn replace_synced(at: Replacing, dir: impl AsFd, name: &str, contents: &[u8]) -> io::Result<()> {
    replace_with(at, &dir, name, contents, File::sync_data)?;
    Ok(rustix::fs::fsync(dir)?)
}

fn replace_with(
    at: Replacing,
    dir: impl AsFd,
    name: &str,
    contents: &[u8],
    then: impl Fn(&File) -> io::Result<()>,
) -> io::Result<()> {
    use std::io::Write;
    let temporary = format!("{name}.{}.tmp", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let written = fault::write(at.write, contents, |part| {
        let mut file = File::from(openat(&dir, &temporary, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(part)?;
        then(&file)
    });
    let replaced =
        written.and_then(|()| fault::step(at.rename, || Ok(renameat(&dir, &temporary, &dir, name)?)));
    if replaced.is_err() {
        remove(&dir, &temporary).ok();
    }
    replaced
}

/// Removes a file; that it is not there is no error.
///
/// # Errors
///
/// If the file system is read-only.
pub fn remove(dir: impl AsFd, name: &str) -> io::Result<()> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Renames a directory or file unless the new name is taken; `false` if it is.
///
/// # Errors
///
/// If the old name is not there, or the file system is read-only.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let renamed = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot promise it. A directory in the way is then refused only where it has files in it,
        // which every job has.
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::rename(from, to),
        renamed => renamed,
    };
    match renamed {
        Ok(()) => Ok(true),
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Names the file system type that a path is on, where the kernel tells.
pub fn file_system(path: &Path) -> Option<&'static str> {
    let magic = rustix::fs::statfs(path).ok()?.f_type;
    Some(match u64::try_from(magic).ok()? & 0xffff_ffff {
        0xef53 => "ext4",
        0x0102_1994 => "tmpfs",
        0x9123_683e => "btrfs",
        0x5846_5342 => "xfs",
        0x2fc1_2fc1 => "zfs",
        0x794c_7630 => "overlay",
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x6573_5546 => "fuse",
        0x0102_1997 => "9p",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_is_not_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (a, b) = (home.path().join("a"), home.path().join("b"));
        std::fs::create_dir(&a).unwrap();
        std::fs::create_dir(&b).unwrap();
        assert!(!rename_new(&a, &b).unwrap());
        std::fs::remove_dir(&b).unwrap();
        assert!(rename_new(&a, &b).unwrap());
        assert!(rename_new(&a, &b).is_err());
    }

    #[test]
    fn replacing_leaves_no_temporary_file() {
        let home = tempfile::tempdir().unwrap();
        let dir = open_dir(home.path()).unwrap();
        replace(Replacing::CURSOR, &dir, "f", b"one").unwrap();
        replace(Replacing::CURSOR, &dir, "f", b"two").unwrap();
        assert_eq!(std::fs::read(home.path().join("f")).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
