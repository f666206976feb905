//! A client's settings on disk: read whole, replaced whole, and never half of either.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use outlive_sys::durable;

use super::client::shown;
use super::failure;
use crate::failure::{Failure, chain};

/// No client's settings are longer: a longer file is something else.
const MOST: u64 = 64 << 20;

/// A file of settings, as it was read.
pub(super) struct Settings {
    /// Where it really is, behind all links.
    path: PathBuf,
    /// What is in it; nothing where there is none.
    pub(super) text: String,
    is_there: bool,
}

impl Settings {
    /// Reads the file; one that is not there is empty.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.is_symlink() {
                    return Err(failure(
                        format!("{} is a link to nothing", shown(path)),
                        "make the file that it leads to, or remove the link",
                    ));
                }
                return Ok(Self { path: path.to_owned(), text: String::new(), is_there: false });
            }
            Err(error) => return Err(failed(path, &error)),
        };
        let text = read(&path)?;
        Ok(Self { path, text, is_there: true })
    }

    /// Puts a copy beside the file, and says where; nothing where there is no file. The copy is always of what was there
    /// before the last change.
    pub(super) fn back_up(&self) -> Result<Option<PathBuf>, Failure> {
        if !self.is_there {
            return Ok(None);
        }
        let copy = self.backup();
        write(&copy, &self.text, &self.path).map_err(|error| failed(&copy, &error))?;
        Ok(Some(copy))
    }

    /// Removes the copy beside the file where it is the same as this text: nothing is lost that it would bring back.
    pub(super) fn forget_backup(&self, text: &str) {
        let copy = self.backup();
        if read(&copy).is_ok_and(|before| before == text) {
            // One that cannot be removed does no harm.
            fs::remove_file(&copy).ok();
        }
    }

    fn backup(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".before-outlive");
        PathBuf::from(name)
    }

    /// Removes the file.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        fs::remove_file(&self.path).map_err(|error| failed(&self.path, &error))
    }

    /// Replaces what was read with this text, unless another program has changed the file meanwhile.
    pub(super) fn replace(&self, text: &str) -> Result<(), Failure> {
        let wrong = |error: io::Error| failed(&self.path, &error);
        if let Some(parent) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(wrong)?;
        }
        let is_same = if self.is_there { read(&self.path)? == self.text } else { !self.path.exists() };
        if !is_same {
            return Err(failure(
                format!("{} was changed by somebody else meanwhile", shown(&self.path)),
                "nothing was written; do it again",
            ));
        }
        write(&self.path, text, &self.path).map_err(wrong)
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let hint = "it was left alone; put the entry in by hand: outlive setup --print";
    let not_settings = |what| failure(format!("{} {what}", shown(path)), hint);
    // Opened before it is looked at, and read no further than that: another program may replace it or write to it meanwhile.
    let file = durable::open_foreign(path).map_err(|error| match path.is_file() {
        true => failed(path, &error),
        false => not_settings("is not a file"),
    })?;
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| failed(path, &error))?;
    if bytes.len() as u64 > MOST {
        return Err(not_settings("is too long to be settings"));
    }
    String::from_utf8(bytes).map_err(|_| failure(format!("{} is not UTF-8", shown(path)), hint))
}

/// Writes a whole file in one step: beside its place, synced, and then into it. It gets the mode and the owner of `like`, and
/// where that is not there, those that a user's own file has.
fn write(path: &Path, text: &str, like: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = directory.join(format!(".{name}.outlive-{}", std::process::id()));
    let written = write_new(&temporary, text, like, directory).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The temporary file is ours alone; if it cannot be removed either, the first failure is reported.
        fs::remove_file(&temporary).ok();
    }
    written?;
    File::open(directory)?.sync_all()
}

fn write_new(temporary: &Path, text: &str, like: &Path, directory: &Path) -> io::Result<()> {
    // A file of this name was left by a killed run with the same pid.
    fs::remove_file(temporary).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    file.write_all(text.as_bytes())?;
    let (mode, owner) = match fs::metadata(like) {
        Ok(metadata) => (metadata.permissions().mode() & 0o7777, metadata),
        Err(_) => (0o600, fs::metadata(directory)?),
    };
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (owner.uid(), owner.gid()) {
        // With sudo the file must stay the user's. Without root, chown fails and the file is the user's anyway.
        std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid())).ok();
    }
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    failure(format!("{}: {}", shown(path), chain(error)), "nothing was changed")
}
