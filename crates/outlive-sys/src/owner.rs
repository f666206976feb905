//! Which user a file belongs to, which other users can write to it, and becoming that user.
//!
//! A directory is trusted if it belongs to the effective user and no other user can write to it, a file also if it is root's.
//! Root can write everywhere, and so can never be a stranger.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, fstat, stat};
use rustix::process::{getegid, geteuid};

/// Why a file or directory is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// It belongs to this user.
    Owner(u32),
    /// Other users can write to it: its permissions.
    Shared(u32),
    /// It is a symbolic link.
    Link,
    /// It is a pipe, a device, a socket or a directory.
    Kind,
    /// It has more bytes than this.
    TooLong(u64),
}

impl fmt::Display for Distrust {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Without the name: its lookup would be part of every keeper.
            Self::Owner(uid) => write!(to, "it belongs to user {uid}"),
            Self::Shared(mode) => write!(to, "other users can write to it (mode {mode:04o})"),
            Self::Link => to.write_str("it is a symbolic link"),
            Self::Kind => to.write_str("it is not a regular file"),
            Self::TooLong(limit) => write!(to, "it has more than {limit} bytes"),
        }
    }
}

impl std::error::Error for Distrust {}

impl From<Distrust> for io::Error {
    fn from(distrust: Distrust) -> Self {
        let kind = match distrust {
            Distrust::Owner(_) | Distrust::Shared(_) => io::ErrorKind::PermissionDenied,
            Distrust::Link | Distrust::Kind | Distrust::TooLong(_) => io::ErrorKind::InvalidData,
        };
        Self::new(kind, distrust)
    }
}

impl Distrust {
    /// Returns the reason that an error carries.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    /// Tells whether another user is the reason, and not the file's kind or size.
    pub fn is_foreign(self) -> bool {
        matches!(self, Self::Owner(_) | Self::Shared(_))
    }
}

/// Checks an open directory.
///
/// # Errors
///
/// [`Distrust`], if it belongs to another user or others can write to it.
pub fn check_dir(dir: impl AsFd) -> io::Result<()> {
    let found = fstat(dir)?;
    check_owned(found.st_uid, found.st_mode, found.st_gid)
}

/// Checks the directory at a path, through symbolic links. Returns whether other users can reach what is in it.
///
/// # Errors
///
/// If it is not there, or as [`check_dir`].
pub fn check_dir_at(path: &Path) -> io::Result<bool> {
    let found = stat(path)?;
    check_owned(found.st_uid, found.st_mode, found.st_gid)?;
    Ok(Mode::from_raw_mode(found.st_mode).intersects(Mode::XGRP | Mode::XOTH))
}

/// As [`check_dir`], for a directory of this user and group with these permissions.
pub(crate) fn check_owned(uid: u32, mode: u32, gid: u32) -> io::Result<()> {
    if uid != geteuid().as_raw() {
        return Err(Distrust::Owner(uid).into());
    }
    not_shared(mode, gid)
}

/// Checks an open file, and that it has at most `limit` bytes. Returns its size.
///
/// # Errors
///
/// [`Distrust`], if it is no regular file, too long, belongs to another user, or others can write to it.
pub fn check_file(file: impl AsFd, limit: u64) -> io::Result<u64> {
    let stat = fstat(file)?;
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Distrust::Kind.into());
    }
    if stat.st_uid != 0 && stat.st_uid != geteuid().as_raw() {
        return Err(Distrust::Owner(stat.st_uid).into());
    }
    not_shared(stat.st_mode, stat.st_gid)?;
    if size > limit { Err(Distrust::TooLong(limit).into()) } else { Ok(size) }
}

/// Tells whether users other than its owner can rename or remove what is in a directory.
///
/// # Errors
///
/// If it is not there.
pub fn lets_others_replace(directory: &Path) -> io::Result<bool> {
    let found = stat(directory)?;
    Ok(is_shared(found.st_mode, found.st_gid) && !Mode::from_raw_mode(found.st_mode).contains(Mode::SVTX))
}

/// Refuses what other users can write to. An access list with other users in it counts: the kernel shows it in the group's bits.
fn not_shared(mode: u32, gid: u32) -> io::Result<()> {
    if is_shared(mode, gid) { Err(Distrust::Shared(mode & 0o7777).into()) } else { Ok(()) }
}

/// Tells whether a file or directory with these permissions and this group can be written to by other users.
///
/// A user's own group has the user's number and is the group that the user acts with; every other group counts as others.
pub fn is_shared(mode: u32, gid: u32) -> bool {
    let mode = Mode::from_raw_mode(mode);
    let is_own_group = || gid == geteuid().as_raw() && gid == getegid().as_raw();
    mode.contains(Mode::WOTH) || (mode.contains(Mode::WGRP) && !is_own_group())
}

/// Returns a user's name, or the number where there is none.
pub fn user_name(uid: u32) -> String {
    Account::of(uid).map_or_else(|| uid.to_string(), |account| account.name.to_string_lossy().into_owned())
}

/// An entry of the user database.
struct Account {
    name: CString,
    home: OsString,
    gid: u32,
}

impl Account {
    fn of(uid: u32) -> Option<Self> {
        // Entries with long comments fit; those that do not count as missing.
        let mut buffer = vec![0; 16 << 10];
        // SAFETY: all bytes zero are a valid `passwd`: null pointers and numbers.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: every pointer is to a live local, and the buffer has the length that is given.
        let code =
            unsafe { libc::getpwuid_r(uid, &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
        if code != 0 || found.is_null() || entry.pw_name.is_null() || entry.pw_dir.is_null() {
            return None;
        }
        // SAFETY: the call succeeded, so both are strings with an end, in the buffer that is still there.
        let (name, home) = unsafe { (CStr::from_ptr(entry.pw_name), CStr::from_ptr(entry.pw_dir)) };
        Some(Self {
            name: name.to_owned(),
            home: OsStr::from_bytes(home.to_bytes()).to_owned(),
            gid: entry.pw_gid,
        })
    }
}

/// Gives up root's rights for those of the user that a directory belongs to, for good, with the user's groups, `HOME`, `USER` and
/// `LOGNAME`. `environment` is set, too. Does nothing for a directory of the effective user, or without root's rights.
///
/// To be called before the first thread is started.
///
/// # Errors
///
/// If the directory is not there, or the kernel refuses; the process must then not go on.
pub fn become_owner_of(directory: &Path, environment: (&str, &OsStr)) -> io::Result<()> {
    let found = stat(directory)?;
    let uid = found.st_uid;
    if !geteuid().is_root() || uid == 0 {
        return Ok(());
    }
    let account = Account::of(uid);
    let gid = account.as_ref().map_or(found.st_gid, |account| account.gid);
    let checked = |code: i32| if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: plain system calls, and a name with its end that lives longer than the call. The user is last: the rights to change
    // the groups go with it.
    unsafe {
        match &account {
            Some(account) => checked(libc::initgroups(account.name.as_ptr(), gid as _))?,
            None => checked(libc::setgroups(0, std::ptr::null()))?,
        }
        checked(libc::setresgid(gid, gid, gid))?;
        checked(libc::setresuid(uid, uid, uid))?;
    }
    // The kernel hides a process that changed its user from that user, and so from outlive's own look at /proc. Nothing of root's
    // is in its memory but what every program that root starts as this user has.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
    let own = account.iter().flat_map(|Account { name, home, .. }| {
        let name = OsStr::from_bytes(name.to_bytes());
        [("HOME", home.as_os_str()), ("USER", name), ("LOGNAME", name)]
    });
    // SAFETY: no other thread runs yet, as the caller was told.
    unsafe {
        // They name directories of root's.
        ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"]
            .iter()
            .filter(|_| account.is_some())
            .for_each(|name| std::env::remove_var(name));
        own.chain([environment]).for_each(|(name, value)| std::env::set_var(name, value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_can_write_to_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "12345").unwrap();
        for (mode, is_trusted) in [(0o600, true), (0o644, true), (0o602, false), (0o666, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let checked = check_file(File::open(&path).unwrap(), 5);
            assert_eq!(checked.is_ok_and(|size| size == 5), is_trusted, "{mode:o}");
        }
        for (mode, is_trusted) in [(0o700, true), (0o755, true), (0o777, false), (0o1777, false)] {
            fs::set_permissions(home.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(check_dir_at(home.path()).is_ok(), is_trusted, "{mode:o}");
            assert_eq!(lets_others_replace(home.path()).unwrap(), mode == 0o777, "{mode:o}");
        }
    }

    #[test]
    fn only_regular_files_of_a_bounded_size_are_trusted() {
        let null = check_file(File::open("/dev/null").unwrap(), 5).unwrap_err();
        assert_eq!(Distrust::of(&null), Some(Distrust::Kind));
        let file = tempfile::tempfile().unwrap();
        file.set_len(6).unwrap();
        assert_eq!(Distrust::of(&check_file(&file, 5).unwrap_err()), Some(Distrust::TooLong(5)));
    }

    #[test]
    fn a_user_has_a_name_or_a_number() {
        assert_eq!((user_name(0), user_name(4_000_000_000)), ("root".to_owned(), "4000000000".to_owned()));
    }
}
