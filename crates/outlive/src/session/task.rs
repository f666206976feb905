//! Tasks: waits that a client of the MCP server requested, stored in their session so that they outlive the server.
//!
//! A task is one JSON object; the server decides what the fields mean.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use outlive_core::id::{Nonce, SessionName};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::{durable, random};
use serde_json::{Map, Value};

use crate::notify::events::make_dir;
use crate::store::{Store, age};

const DIRECTORY: &str = "tasks";

/// How long a task is kept after its last change; clients forget theirs sooner.
const KEPT: Duration = Duration::from_secs(7 * 86_400);

/// A stored task.
#[derive(Debug)]
pub struct Task {
    directory: PathBuf,
    id: String,
    /// The server's fields.
    pub contents: Map<String, Value>,
}

impl Store {
    /// Stores a new task under a random id.
    ///
    /// # Durability
    ///
    /// Written, not synced.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn create_task(&self, session: &SessionName, contents: Map<String, Value>) -> io::Result<Task> {
        let directory = self.tasks_dir(session);
        fault::step(Point::TasksMake, || make_dir(&directory))?;
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if age(&entry.path()).is_some_and(|age| age >= KEPT) {
                fs::remove_file(entry.path()).ok();
            }
        }
        let task = Task { directory, id: Nonce(random::bytes16()).to_string(), contents };
        task.save()?;
        Ok(task)
    }

    /// Finds a task of a session by its id; damaged tasks are not found.
    pub fn task(&self, session: &SessionName, id: &str) -> Option<Task> {
        // Any other text could be a path.
        let is_id = id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let directory = self.tasks_dir(session);
        let text = durable::read(durable::CWD, directory.join(file_name(id))).ok().filter(|_| is_id)?;
        let contents = serde_json::from_slice(&text).ok()?;
        Some(Task { directory, id: id.to_owned(), contents })
    }

    fn tasks_dir(&self, session: &SessionName) -> PathBuf {
        self.session_dir(session).join(DIRECTORY)
    }
}

impl Task {
    /// Returns its random id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Replaces the stored object: a reader sees the old one or the new one.
    ///
    /// # Durability
    ///
    /// Written, not synced.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn save(&self) -> io::Result<()> {
        let bytes = serde_json::to_vec(&self.contents)?;
        durable::replace(Replacing::TASK, durable::open_dir(&self.directory)?, &file_name(&self.id), &bytes)
    }
}

fn file_name(id: &str) -> String {
    format!("{id}.json")
}
