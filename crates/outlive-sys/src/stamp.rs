//! Whether what is at a path is what was there before, and whether it has changed since.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Statx, StatxFlags, StatxTimestamp, Timespec, Timestamps, UTIME_NOW, makedev, statx,
    utimensat,
};
use rustix::path::Arg;

use crate::{clock, durable, owner};

/// Times of files advance in steps: of 10 ms at most in the kernel, of a second in some file systems.
const STEP_US: i64 = 1_000_000;

/// A directory or file at one moment. Whatever is made, renamed or removed in a directory changes its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    /// When it was made: a file system gives the number of a removed file to the next. 0 if that is not known.
    born_ns: i128,
    changed_ns: i128,
}

impl Stamp {
    /// Looks at what is at a path; a symbolic link is not followed.
    ///
    /// # Errors
    ///
    /// If nothing is there, or it may not be looked at.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::from(&look(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Looks at what has a name in an open directory; a symbolic link is not followed.
    ///
    /// # Errors
    ///
    /// As [`Stamp::at`].
    pub fn in_dir(dir: impl AsFd, name: &str) -> io::Result<Self> {
        Ok(Self::from(&look(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Returns it as bytes, to be compared with what another program of this build finds.
    pub fn to_bytes(self) -> [u8; 48] {
        let mut bytes = [0; 48];
        bytes[..8].copy_from_slice(&self.device.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.inode.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.born_ns.to_le_bytes());
        bytes[32..].copy_from_slice(&self.changed_ns.to_le_bytes());
        bytes
    }

    /// Opens a directory to reach what is in it, as [`durable::open_dir`] does, with its stamp.
    ///
    /// # Errors
    ///
    /// As `open_dir`.
    pub fn open_dir(path: &Path) -> io::Result<(OwnedFd, Self)> {
        let dir = durable::open_any_dir(CWD, path)?;
        // One look tells both.
        let found = look(&dir, "", AtFlags::EMPTY_PATH)?;
        owner::check_owned(found.stx_uid, found.stx_mode.into(), found.stx_gid)?;
        Ok((dir, Self::from(&found)))
    }

    /// Tells whether both are of the same file or directory, changed or not.
    pub fn is_same_file(self, other: Self) -> bool {
        (self.device, self.inode, self.born_ns) == (other.device, other.inode, other.born_ns)
    }

    /// Tells whether the last change is so long ago that another one gives another stamp. To be asked before what it stands for is
    /// read.
    pub fn is_settled(self) -> bool {
        i128::from(clock::wall_us()) * 1000 - self.changed_ns > i128::from(STEP_US) * 1000
    }
}

/// Sets the time of a file's last modification: to now, or to the beginning of 1970. A program that waits for changes in the directory does
/// not wake for it.
///
/// # Errors
///
/// If the file is not there, or the file system is read-only.
pub fn set_modified(dir: impl AsFd, name: &str, is_now: bool) -> io::Result<()> {
    let time = Timespec { tv_sec: 0, tv_nsec: if is_now { UTIME_NOW } else { 0 } };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Returns when a file was last modified, in nanoseconds since 1970.
///
/// # Errors
///
/// If the file is not there.
pub fn modified_ns(dir: impl AsFd, name: &str) -> io::Result<i128> {
    let found = statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MTIME)?;
    Ok(nanos(found.stx_mtime))
}

fn nanos(time: StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

fn look(directory: impl AsFd, path: impl Arg, flags: AtFlags) -> io::Result<Statx> {
    // Owner and permissions are known with the rest.
    let wanted = StatxFlags::INO
        | StatxFlags::CTIME
        | StatxFlags::BTIME
        | StatxFlags::UID
        | StatxFlags::GID
        | StatxFlags::MODE;
    Ok(statx(directory, path, flags, wanted)?)
}

impl From<&Statx> for Stamp {
    fn from(found: &Statx) -> Self {
        let is_born_known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Self {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born_ns: if is_born_known { nanos(found.stx_btime) } else { 0 },
            changed_ns: nanos(found.stx_ctime),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_in_a_directory_changes_its_stamp_and_not_its_identity() {
        let home = tempfile::tempdir().unwrap();
        let before = Stamp::at(home.path()).unwrap();
        assert_eq!(Stamp::open_dir(home.path()).unwrap().1, before);
        assert!(!before.is_settled(), "another change may come within the same step");
        let mut number = 0;
        let mut after = before;
        while after == before {
            number += 1;
            fs::write(home.path().join(number.to_string()), "").unwrap();
            after = Stamp::at(home.path()).unwrap();
        }
        assert!(after.is_same_file(before));
        assert!(!Stamp::at(&home.path().join("1")).unwrap().is_same_file(before));
    }

    #[test]
    fn the_time_of_a_socket_is_set_to_now_or_to_the_beginning() {
        let home = tempfile::tempdir().unwrap();
        let socket = std::os::unix::net::UnixDatagram::bind(home.path().join("socket")).unwrap();
        let dir = durable::open_dir(home.path()).unwrap();
        set_modified(&dir, "socket", false).unwrap();
        assert_eq!(modified_ns(&dir, "socket").unwrap(), 0);
        set_modified(&dir, "socket", true).unwrap();
        assert!(modified_ns(&dir, "socket").unwrap() > 0);
        assert!(set_modified(&dir, "other", true).is_err());
        drop(socket);
    }
}
