//! Connections: which client a server of tools works for, so that a program that the client runs finds its reader.
//!
//! A server holds a lock on the file of its connection, which the kernel releases at its end. What is not locked is left over.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use outlive_core::FORMAT;
use outlive_core::id::{Nonce, SessionName};
use outlive_core::spec::Host;
use outlive_sys::identity::{self, ProcessId};
use outlive_sys::{durable, lock, random};
use serde::{Deserialize, Serialize};

use crate::notify::events::make_dir;
use crate::store::{Store, age};

pub(crate) const DIRECTORY: &str = "connections";

/// After this time an empty file that is not locked was left by a killed program.
const LEFT_OVER: Duration = Duration::from_secs(60);

/// A connection of this program, held until it is dropped.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    _held: File,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // One that stays is not locked, and the next look removes it.
        fs::remove_file(&self.path).ok();
    }
}

/// What a server serves: `connections/<random>` in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connected {
    format: u32,
    /// The session of its jobs.
    pub session: SessionName,
    /// Its reader.
    pub reader: SessionName,
    /// The profile whose tools it has.
    pub profile: String,
    /// The pid of the client, and when that was started.
    client: (i32, u64),
    /// Where that pid means something.
    host: Host,
}

impl Connected {
    /// Returns the process of the client.
    pub fn client(&self) -> ProcessId {
        ProcessId { pid: self.client.0, start_time: self.client.1 }
    }
}

impl Store {
    fn connections_dir(&self) -> PathBuf {
        self.root().join(DIRECTORY)
    }

    /// Says that this program serves the process that started it, for a reader of a session.
    ///
    /// # Errors
    ///
    /// If the store cannot be written, or the process that started it is gone.
    pub fn connect(
        &self,
        session: &SessionName,
        reader: &SessionName,
        profile: &str,
    ) -> io::Result<Connection> {
        let client = identity::ancestors().into_iter().next().ok_or(io::ErrorKind::NotFound)?;
        let connected = Connected {
            format: FORMAT,
            session: session.clone(),
            reader: reader.clone(),
            profile: profile.to_owned(),
            client: (client.pid, client.start_time),
            host: self.host().clone(),
        };
        make_dir(&self.connections_dir())?;
        let path = self.connections_dir().join(Nonce(random::bytes16()).to_string());
        let mut held = durable::open_or_create(durable::CWD, &path)?;
        lock::try_lock(&held, lock::Kind::Exclusive)?;
        let written = held.write_all(&serde_json::to_vec(&connected)?);
        let connection = Connection { path, _held: held };
        written.map(|()| connection)
    }

    /// Returns the connections of the client that this program was started by, at whatever distance; the nearest client's.
    pub fn own_connections(&self) -> Vec<Connected> {
        let all = self.connections();
        let of = |client: &ProcessId| {
            let of_client: Vec<Connected> =
                all.iter().filter(|one| one.client() == *client).cloned().collect();
            Some(of_client).filter(|of_client| !of_client.is_empty())
        };
        identity::ancestors().iter().find_map(of).unwrap_or_default()
    }

    /// Becomes the only program that waits to wake the agent of a client, until the file is dropped; `None` if another does.
    pub fn be_waker(&self, client: ProcessId) -> Option<File> {
        make_dir(&self.connections_dir()).ok()?;
        let name = format!("wake.{}.{}", client.pid, client.start_time);
        let file = durable::open_or_create(durable::CWD, self.connections_dir().join(name)).ok()?;
        lock::try_lock(&file, lock::Kind::Exclusive).ok()?.then_some(file)
    }

    /// Tells whether a server works for a reader now.
    pub fn is_connected(&self, session: &SessionName, reader: &SessionName) -> bool {
        self.connections().iter().any(|one| one.session == *session && one.reader == *reader)
    }

    /// Lists the connections of this host, and removes what servers have left that were killed.
    fn connections(&self) -> Vec<Connected> {
        let entries = fs::read_dir(self.connections_dir()).into_iter().flatten().flatten();
        let read = |path: PathBuf| {
            let held = durable::open_ro(durable::CWD, &path).ok()?;
            if lock::try_lock(&held, lock::Kind::Shared).ok()? {
                // One that is being made is empty, and is locked right after.
                let is_left = held.metadata().is_ok_and(|data| data.len() > 0)
                    || age(&path).is_some_and(|age| age >= LEFT_OVER);
                if is_left {
                    fs::remove_file(path).ok();
                }
                return None;
            }
            let connected: Connected = serde_json::from_slice(&durable::read_open(&held).ok()?).ok()?;
            Some(connected).filter(|connected| connected.host == *self.host())
        };
        entries.filter_map(|entry| read(entry.path())).collect()
    }
}
