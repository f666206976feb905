//! The names in a directory, in one piece of memory: a list of jobs reads hundreds, and needs each only to look at what has it.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::RawDir;

/// What the kernel is asked for at once: some hundred names.
const ROOM: usize = 16 << 10;

/// Names without `.` and `..`, in the directory's order.
#[derive(Debug, Default)]
pub struct Names {
    /// Each with a NUL at its end.
    bytes: Vec<u8>,
    count: usize,
}

impl Names {
    /// Reads the names in a directory that was just opened.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn read(dir: impl AsFd) -> io::Result<Self> {
        let mut names = Self::default();
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut entries = RawDir::new(dir, &mut room);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes_with_nul();
            if name != b".\0" && name != b"..\0" {
                names.bytes.extend_from_slice(name);
                names.count += 1;
            }
        }
        Ok(names)
    }

    /// Returns how many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns each.
    pub fn iter(&self) -> impl Iterator<Item = &OsStr> {
        self.bytes.split_inclusive(|byte| *byte == 0).map(|name| OsStr::from_bytes(&name[..name.len() - 1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn all_names_are_read_however_many() {
        let home = tempfile::tempdir().unwrap();
        let read = || Names::read(durable::open_dir(home.path()).unwrap()).unwrap();
        assert_eq!((read().count(), read().iter().count()), (0, 0));
        let made: BTreeSet<Vec<u8>> = (0..1500_u32)
            .map(|number| [&b"\xff "[..], format!("{number:0>40}").as_bytes()].concat())
            .collect();
        made.iter().for_each(|name| fs::write(home.path().join(OsStr::from_bytes(name)), "").unwrap());
        assert_eq!(read().count(), made.len());
        assert_eq!(read().iter().map(|name| name.as_bytes().to_vec()).collect::<BTreeSet<_>>(), made);
    }
}
