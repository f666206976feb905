//! Copying a directory to a machine that `ssh` reaches: by `rsync` where both have it, else as a `tar` through the connection.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::RemoteError;
use crate::ssh::Machine;

/// The directory of copies there, as a shell reads it.
const COPIES: &str = "${XDG_DATA_HOME:-$HOME/.local/share}/outlive/sync";

/// Copies a directory there; returns its path there.
pub(crate) fn copy(machine: &Machine<'_>, from: &Path) -> Result<String, RemoteError> {
    let failed = |error: io::Error| RemoteError::Unreachable(machine.name(), error);
    let from = from.canonicalize().map_err(|error| RemoteError::Directory(from.to_owned(), error))?;
    let script = format!(
        "d=\"{COPIES}/{}\"; mkdir -p \"$d\" && echo \"outlive-copy $d\" && command -v rsync >/dev/null && echo outlive-rsync; true",
        name(&from)
    );
    let made = machine.ssh(&script).stdin(Stdio::null()).output().map_err(failed)?;
    let listed = String::from_utf8_lossy(&made.stdout);
    let to = listed.lines().find_map(|line| line.strip_prefix("outlive-copy "));
    let Some(to) = to.filter(|_| made.status.success()) else {
        let said = outlive::one_line(String::from_utf8_lossy(&made.stderr).trim());
        return Err(RemoteError::Ssh(machine.name(), said));
    };
    let has_rsync = listed.lines().any(|line| line == "outlive-rsync") && is_here("rsync");
    let said = if has_rsync { by_rsync(machine, &from, to) } else { by_tar(machine, &from) };
    match said.map_err(failed)? {
        None => Ok(to.to_owned()),
        Some(said) => Err(RemoteError::NotCopied(from, machine.name(), said)),
    }
}

/// Names the copy of a directory: as it is called here, and apart from others that are called so.
fn name(from: &Path) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let own = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let own: String = own.chars().map(keep).take(40).collect();
    format!("{own}-{:08x}", outlive::hash(from.as_os_str().as_bytes()) >> 32)
}

fn is_here(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Returns what went wrong, in its own words.
fn by_rsync(machine: &Machine<'_>, from: &Path, to: &str) -> io::Result<Option<String>> {
    let quoted: Vec<String> = machine.words().iter().map(|word| outlive::quote(word)).collect();
    let mut source = from.as_os_str().to_owned();
    source.push("/");
    let done = Command::new("rsync")
        // What git ignores, such as what was built here and files of secrets, stays here.
        .args(["-azs", "--filter=:- .gitignore", "-e", &quoted.join(" ")])
        .arg(source)
        .arg(format!("{}:{to}/", machine.destination()))
        .stdin(Stdio::null())
        .output()?;
    Ok((!done.status.success()).then(|| outlive::one_line(String::from_utf8_lossy(&done.stderr).trim())))
}

fn by_tar(machine: &Machine<'_>, from: &Path) -> io::Result<Option<String>> {
    let mut tar = Command::new("tar")
        .args(["--create", "--gzip", "--exclude-vcs-ignores", "--directory"])
        .args([from.as_os_str(), ".".as_ref()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let script = format!("tar --extract --gzip --directory \"{COPIES}/{}\"", name(from));
    let input = tar.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let done = machine.ssh(&script).stdin(input).output()?;
    let packed = tar.wait()?;
    let said = outlive::one_line(String::from_utf8_lossy(&done.stderr).trim());
    Ok((!done.status.success() || !packed.success()).then_some(said))
}
