//! Background work that outlasts a front end: `outlive` itself is the helper program.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use outlive_sys::detach;

use crate::launch::keeper::in_path;
use crate::store::Store;

const PROGRAM: &str = "outlive";

impl Store {
    /// Lets this program itself be the helper; only for `outlive`.
    pub fn with_self_as_helper(mut self) -> Self {
        self.is_helper = true;
        self
    }

    /// Finds the helper: this program, `$OUTLIVE_PROGRAM`, beside the keeper, beside this program, or in `PATH`.
    fn helper_program(&self) -> Option<PathBuf> {
        if self.is_helper {
            // Still valid if the file was replaced or deleted since this program started.
            return Some(PathBuf::from("/proc/self/exe"));
        }
        let named = std::env::var_os("OUTLIVE_PROGRAM").filter(|path| !path.is_empty()).map(PathBuf::from);
        let beside = |path: PathBuf| Some(path.parent()?.join(PROGRAM)).filter(|path| path.is_file());
        named
            .or_else(|| beside(self.keeper_program()?))
            .or_else(|| beside(std::env::current_exe().ok()?))
            .or_else(|| in_path(OsStr::new(PROGRAM), std::env::var_os("PATH").as_deref()).next())
    }

    /// Opens the helper for a keeper, because its file may be gone when the keeper executes it.
    pub(crate) fn open_helper(&self) -> io::Result<File> {
        let program = self.helper_program().ok_or(io::ErrorKind::NotFound)?;
        File::open(program)
    }

    /// Starts the helper in the background, for this store: `outlive VERB …`.
    pub(crate) fn start_helper(&self, arguments: &[&str]) -> io::Result<()> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let program = self.helper_program().ok_or(io::ErrorKind::NotFound)?;
        let program = CString::new(program.as_os_str().as_bytes()).map_err(invalid)?;
        let words = std::iter::once(&PROGRAM).chain(arguments);
        let words = words.map(|word| CString::new(*word)).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
        // The helper is no part of the job that this program may run in.
        let own = ["OUTLIVE_HOME", "OUTLIVE_CONFIG", "OUTLIVE_JOB"];
        let inherited = std::env::vars_os().filter(|(name, _)| !own.iter().any(|own| name == own));
        let home = (OsStr::new("OUTLIVE_HOME").to_owned(), self.root().as_os_str().to_owned());
        let named = self.config_path.iter().filter(|path| path.is_file());
        let config = named.map(|path| (OsStr::new("OUTLIVE_CONFIG").to_owned(), path.as_os_str().to_owned()));
        let join = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        let environment = inherited
            .chain([home])
            .chain(config)
            .map(join)
            .collect::<Result<Vec<_>, _>>()
            .map_err(invalid)?;
        detach::start(&program, &words, &environment, &[])
    }
}
