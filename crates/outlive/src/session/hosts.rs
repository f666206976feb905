//! Other machines that a session has jobs on: a mark each, so that the next front end knows where to look.

use std::fs;
use std::io;

use outlive_core::id::SessionName;
use outlive_sys::durable;

use crate::notify::events::make_dir;
use crate::store::Store;

const DIRECTORY: &str = "hosts";

impl Store {
    /// Notes that a session has jobs on a machine of the configuration.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn note_host(&self, session: &SessionName, host: &str) -> io::Result<()> {
        let directory = self.session_dir(session).join(DIRECTORY);
        make_dir(&directory)?;
        durable::open_or_create(durable::CWD, directory.join(host)).map(drop)
    }

    /// Forgets a machine on which nothing of a session is left to be told.
    pub fn forget_host(&self, session: &SessionName, host: &str) {
        // One that stays is looked at once more.
        fs::remove_file(self.session_dir(session).join(DIRECTORY).join(host)).ok();
    }

    /// Lists the machines that a session has jobs on and that the configuration still names.
    pub fn hosts_of(&self, session: &SessionName) -> Vec<String> {
        let hosts = &self.config().hosts;
        if hosts.is_empty() {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir(self.session_dir(session).join(DIRECTORY)) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| hosts.contains_key(name)).collect();
        names.sort_unstable();
        names
    }
}
