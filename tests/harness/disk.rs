//! A small disk of a test's own.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::lacks;

/// A small file system, unmounted when the test is over.
#[derive(Debug)]
pub struct SmallDisk {
    place: PathBuf,
    _parent: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts one; `None`, with a word about it, where that is not permitted.
    pub fn mount(size: &str) -> Option<Self> {
        let parent = tempfile::tempdir().unwrap();
        let place = parent.path().join("small");
        fs::create_dir(&place).unwrap();
        let options = format!("size={size},mode=0700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "outlive-test"]).arg(&place).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { place, _parent: parent }),
            _ => {
                lacks("CAP_SYS_ADMIN, to mount a small tmpfs");
                None
            }
        }
    }

    /// Returns where it is mounted.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Fills it to the last byte; removing the file that is returned makes room again.
    pub fn fill(&self) -> PathBuf {
        let path = self.place.join("filler");
        let mut filler = File::create(&path).unwrap();
        let page = [7; 4096];
        while filler.write_all(&page).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.place).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}
