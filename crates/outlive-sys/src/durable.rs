//! Files that must be whole, or survive.
//!
//! All names are relative to an open directory, so that a store that is moved or removed under a keeper's feet cannot
//! make it write elsewhere.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

pub use rustix::fs::CWD;
use rustix::fs::{
    Access, AtFlags, FallocateFlags, Mode, OFlags, accessat, fallocate, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::fault::{self, Appending, Replacing};
use crate::owner::Distrust;
use crate::{lock, owner};

/// Longest file that is read as a whole; the longest that outlive writes has a command line and an environment of a few MiB.
const LONGEST: u64 = 64 << 20;

/// Opens a directory to reach what is in it.
///
/// # Errors
///
/// If it is not there, is no directory (a link to one is none), may not be read, or other users can write to it.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    open_dir_in(CWD, path)
}

/// Opens a directory that is named from an open one.
///
/// # Errors
///
/// As [`open_dir`].
pub fn open_dir_in(dir: impl AsFd, name: impl Arg) -> io::Result<OwnedFd> {
    let dir = open_any_dir(dir, name)?;
    owner::check_dir(&dir)?;
    Ok(dir)
}

/// As [`open_dir_in`], unchecked: other users may be able to write to it.
pub(crate) fn open_any_dir(dir: impl AsFd, name: impl Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

/// Opens or makes a file of a store. A link is not followed, and a pipe in its place does not block.
fn open(dir: impl AsFd, name: impl Arg, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(dir, name, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::LOOP) => Err(Distrust::Link.into()),
        opened => Ok(File::from(opened?)),
    }
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
    open(dir, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
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
pub fn open_or_create(dir: impl AsFd, name: impl Arg) -> io::Result<File> {
    open(dir, name, OFlags::RDWR | OFlags::CREATE)
}

/// Opens an existing file for reading and writing.
///
/// # Errors
///
/// If it is not there or may not be written.
pub fn open_rw(dir: impl AsFd, name: &str) -> io::Result<File> {
    open(dir, name, OFlags::RDWR)
}

/// Opens an existing file for reading.
///
/// # Errors
///
/// If it is not there or may not be read.
pub fn open_ro(dir: impl AsFd, name: impl Arg) -> io::Result<File> {
    open(dir, name, OFlags::RDONLY)
}

/// Opens an existing file for reading, and checks that no other user can have written it.
///
/// # Errors
///
/// As [`open_ro`], and [`Distrust`].
pub fn open_trusted(dir: impl AsFd, name: impl Arg) -> io::Result<File> {
    let file = open_ro(dir, name)?;
    owner::check_file(&file, u64::MAX)?;
    Ok(file)
}

/// Reads a whole file that no other user can have written.
///
/// # Errors
///
/// As [`open_ro`], and [`Distrust`].
pub fn read(dir: impl AsFd, name: impl Arg) -> io::Result<Vec<u8>> {
    read_open(&open_ro(dir, name)?)
}

/// Reads a whole file of at most `limit` bytes, through symbolic links, that no user but the effective one and root can have
/// written.
///
/// # Errors
///
/// As [`open_foreign`], and [`Distrust`].
pub fn read_linked(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_within(&open_foreign(path)?, limit)
}

/// As [`read`], for a file that is open.
///
/// # Errors
///
/// As [`read`].
pub fn read_open(file: &File) -> io::Result<Vec<u8>> {
    read_within(file, LONGEST)
}

/// As [`read_open`], for a file of at most `limit` bytes.
///
/// # Errors
///
/// As [`read`].
pub fn read_open_within(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    read_within(file, limit)
}

/// One read for a file that does not change meanwhile: its size is known from the check.
fn read_within(mut file: &File, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let size = owner::check_file(file, limit)?;
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
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
    if file.metadata()?.is_file() { Ok(file) } else { Err(Distrust::Kind.into()) }
}

/// Reads a file of one short line; `None` if it is not there, empty or longer than 4 KiB.
pub fn read_line(dir: impl AsFd, name: impl Arg) -> Option<String> {
    let bytes = read_within(&open_ro(dir, name).ok()?, 4096).ok()?;
    String::from_utf8(bytes).ok().map(|text| text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// As [`read_line`], for a file that most directories do not have: to ask for it takes half as long as to fail to open it.
pub fn read_rare_line(dir: impl AsFd, name: &str) -> Option<String> {
    let is_missing = accessat(&dir, name, Access::EXISTS, AtFlags::empty()) == Err(Errno::NOENT);
    if is_missing { None } else { read_line(dir, name) }
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
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let file = fault::step(at.open, || open(dir, name, flags))?;
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
    let temporary = temporary_name(name);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let written = fault::write(at.write, contents, |part| {
        let mut file = open(&dir, &temporary, flags)?;
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

/// Returns a name beside `name` that no other writer has: not a thread of this program, and not one of another pid namespace
/// that shares the directory.
pub fn temporary_name(name: &str) -> String {
    let random = u128::from_le_bytes(crate::random::bytes16());
    format!("{name}.{random:032x}.tmp")
}

/// Lists the names in a directory.
///
/// # Errors
///
/// If it cannot be read.
pub fn names(dir: impl AsFd) -> io::Result<Vec<String>> {
    let entries = rustix::fs::Dir::read_from(dir)?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Shows each name in a directory to a caller that keeps none of them: one that waits for long is to have little memory.
///
/// # Errors
///
/// If it cannot be read.
pub fn visit_names(dir: impl AsFd, mut visit: impl FnMut(&str)) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(dir)? {
        visit(entry?.file_name().to_str().unwrap_or_default());
    }
    Ok(())
}

/// Renames a file in its directory.
///
/// # Errors
///
/// If it is not there, or the file system is read-only.
pub fn rename(dir: impl AsFd, from: &str, to: &str) -> io::Result<()> {
    Ok(renameat(&dir, from, &dir, to)?)
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

/// What a file system has left for the effective user.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Files; `None` where their number is not limited.
    pub files: Option<u64>,
}

/// Returns what is left on the file system that a path is on.
///
/// # Errors
///
/// If the path is not there.
pub fn room(path: &Path) -> io::Result<Room> {
    let stat = rustix::fs::statvfs(path)?;
    let (blocks, files) = match rustix::process::geteuid().is_root() {
        true => (stat.f_bfree, stat.f_ffree),
        false => (stat.f_bavail, stat.f_favail),
    };
    Ok(Room { bytes: blocks.saturating_mul(stat.f_frsize), files: (stat.f_files > 0).then_some(files) })
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
    fn threads_that_replace_a_file_leave_it_whole() {
        let home = tempfile::tempdir().unwrap();
        let dir = open_dir(home.path()).unwrap();
        let contents = |thread: u8| vec![b'a' + thread; 1 << 16];
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (dir, place, contents) = (&dir, home.path().join("f"), &contents);
                scope.spawn(move || {
                    for _ in 0..200 {
                        replace(Replacing::CURSOR, dir, "f", &contents(thread)).unwrap();
                        let read = std::fs::read(&place).unwrap();
                        assert!((0..4).any(|thread| read == contents(thread)), "{} bytes", read.len());
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
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
