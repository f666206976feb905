//! Disks of a test's own: a small one, and one that breaks.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{lacks, until};

/// A small file system, unmounted when the test is over.
#[derive(Debug)]
pub struct SmallDisk {
    place: PathBuf,
    _parent: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts one; `None`, with a note, where that is not permitted.
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

    /// Makes it read-only, or writable again. No process may have a file of it open for writing.
    pub fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        run(Command::new("mount").args(["-o", &options]).arg(&self.place));
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

/// A disk that can be broken: its file system then finds an error and turns read-only, even with open files.
#[derive(Debug)]
pub struct FragileDisk {
    place: PathBuf,
    image: PathBuf,
    parent: tempfile::TempDir,
}

impl FragileDisk {
    /// Mounts one; `None`, with a note, where that is not possible.
    pub fn mount() -> Option<Self> {
        let parent = tempfile::tempdir().unwrap();
        let disk = Self { place: parent.path().join("fragile"), image: parent.path().join("image"), parent };
        fs::create_dir(&disk.place).unwrap();
        File::create(&disk.image).unwrap().set_len(32 << 20).unwrap();
        // Without a journal it can be repaired and used again.
        let made = Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(&disk.image).output();
        let is_made = made.is_ok_and(|output| output.status.success());
        if !is_made || !disk.attach() || !disk.trigger().is_some_and(|trigger| trigger.exists()) {
            lacks("mkfs.ext4, loop devices and CAP_SYS_ADMIN, to break a file system");
            return None;
        }
        Some(disk)
    }

    fn attach(&self) -> bool {
        let mut command = Command::new("mount");
        command.args(["-t", "ext4", "-o", "loop,errors=remount-ro"]).arg(&self.image).arg(&self.place);
        command.output().is_ok_and(|output| output.status.success())
    }

    /// Returns the file through which the kernel is told of an error.
    fn trigger(&self) -> Option<PathBuf> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let place = self.place.canonicalize().unwrap();
        let line = mounts.lines().find(|line| line.split(' ').nth(1) == place.to_str())?;
        let device = Path::new(line.split(' ').next()?).file_name()?.to_owned();
        Some(Path::new("/sys/fs/ext4").join(device).join("trigger_fs_error"))
    }

    /// Returns where it is mounted.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Writes all of it out, as the kernel does after half a minute.
    pub fn sync(&self) {
        run(Command::new("sync").arg("--file-system").arg(&self.place));
    }

    /// Breaks it.
    pub fn fail(&self) {
        fs::write(self.trigger().unwrap(), "a test").unwrap();
    }

    /// Repairs it, once no process has a file of it open.
    pub fn repair(&self) {
        let trigger = self.trigger().unwrap();
        run(Command::new("umount").arg(&self.place));
        // A process of another test that has its own view of all mounts has this one, too: while that lives, the broken file system would
        // be mounted again.
        until("the kernel has let go of it", || !trigger.exists());
        // 1: there were errors, and they are corrected.
        let repaired = Command::new("e2fsck").args(["-f", "-y"]).arg(&self.image).output().unwrap();
        assert!(matches!(repaired.status.code(), Some(0 | 1)), "{repaired:?}");
        assert!(self.attach());
    }
}

impl Drop for FragileDisk {
    fn drop(&mut self) {
        // It may never have been mounted.
        drop(Command::new("umount").arg(&self.place).output());
        assert!(self.parent.path().exists() || std::thread::panicking());
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
