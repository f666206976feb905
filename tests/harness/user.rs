//! The users that run a test's commands, and the containment levels of each.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outlive::Level;

use crate::{Home, binary, finish, lacks};

/// Numbers of a user and group without rights to any control group.
const NOBODY: u32 = 65534;

/// The user that runs a test's commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The user that runs the tests.
    Myself,
    /// An ordinary user, for tests that root runs.
    Nobody,
}

impl User {
    /// Returns all users that a test can run as; without root, only the present one.
    pub fn all() -> Vec<Self> {
        if rustix::process::geteuid().is_root() {
            return vec![Self::Myself, Self::Nobody];
        }
        lacks("root; as this user only");
        vec![Self::Myself]
    }

    /// Makes a command one of this user's.
    pub(crate) fn run(self, command: &mut Command) {
        if self == Self::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
    }

    /// Gives a file or directory to this user.
    pub(crate) fn give(self, path: &Path) {
        if self == Self::Nobody {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// Returns a directory from which this user can execute our programs: that of the build, else a copy in its home.
    pub(crate) fn binaries(self, home: &Path) -> PathBuf {
        let built = binary("outlive").parent().unwrap().to_owned();
        let runs = |directory: &Path| {
            let mut command = Command::new(directory.join("outlive"));
            self.run(command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).current_dir(home));
            command.status().is_ok_and(|status| status.success())
        };
        if self == Self::Myself || runs(&built) {
            return built;
        }
        let copies = home.join("bin");
        std::fs::create_dir(&copies).unwrap();
        for program in ["outlive", "outlive-keeper", "zoo"] {
            std::fs::copy(built.join(program), copies.join(program)).unwrap();
        }
        self.give(&copies);
        assert!(runs(&copies), "{self:?} can execute nothing in {}", home.display());
        copies
    }
}

/// Runs a test for every user and every containment level that this user has here.
pub fn everywhere(mut test: impl FnMut(&Home, Level)) {
    for user in User::all() {
        let home = Home::of(user);
        let levels = home.levels();
        // These two need nothing but a kernel.
        assert!(levels.contains(&Level::Sweep) && levels.contains(&Level::Group), "{levels:?}");
        levels.into_iter().for_each(|level| test(&home, level));
    }
}

impl Home {
    /// Returns the containment levels of this home's user, the best first; what the machine lacks is
    /// named.
    pub fn levels(&self) -> Vec<Level> {
        Level::ALL.into_iter().filter(|&level| self.has_level(level)).collect()
    }

    fn has_level(&self, level: Level) -> bool {
        let tried = finish(self.outlive(["run", "--wait", "--containment", level.word(), "--", "true"]), b"");
        match tried.code {
            0 => true,
            // The ordinary user that root's tests become lacks them on purpose.
            126 if self.user() == User::Nobody => false,
            126 => {
                lacks(&format!("containment {}: {}", level.word(), tried.error().trim_end()));
                false
            }
            code => panic!("{}: {code}: {}", level.word(), tried.error()),
        }
    }
}
