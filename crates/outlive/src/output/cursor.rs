//! Each reader's position in a job's output.
//!
//! A cursor is a file in the job's directory, replaced as a whole: it is removed with the job, and readers do not affect each
//! other.

use std::io;

use outlive_core::cursor::Cursor;
use outlive_core::id::SessionName;
use outlive_core::index::Stream;
use outlive_sys::durable;
use outlive_sys::fault::{self, Point, Replacing};

use crate::job::Job;

pub(crate) const DIRECTORY: &str = "cursors";

impl Job {
    /// Returns a reader's position in one stream or in both; `None` if it has not read yet.
    ///
    /// A damaged cursor counts as none: the reader sees everything again, and misses nothing.
    pub fn cursor(&self, reader: &SessionName, stream: Option<Stream>) -> Option<u64> {
        let text = durable::read_line(self.dir(), format!("{DIRECTORY}/{}", file_name(reader, stream)))?;
        let cursor: Cursor = text.parse().ok()?;
        (cursor.nonce == self.spec().nonce).then_some(cursor.offset)
    }

    /// Stores a reader's position.
    ///
    /// # Durability
    ///
    /// Written, not synced: after a power loss a reader may see output twice.
    ///
    /// # Errors
    ///
    /// If the store cannot be written, or the job was removed.
    pub fn set_cursor(&self, reader: &SessionName, stream: Option<Stream>, offset: u64) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        let directory = self.path().join(DIRECTORY);
        let make = || std::fs::DirBuilder::new().mode(0o700).create(&directory);
        match fault::step(Point::CursorsMake, make) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Without parents: the directory of a removed job must not come back, as a damaged one.
            made => made?,
        }
        let cursor = Cursor { nonce: self.spec().nonce, offset };
        let text = format!("{cursor}\n");
        let name = file_name(reader, stream);
        let directory = durable::open_dir(&directory)?;
        durable::replace(Replacing::CURSOR, &directory, &name, text.as_bytes())
    }
}

fn file_name(reader: &SessionName, stream: Option<Stream>) -> String {
    match stream {
        Some(stream) => format!("{reader}@{}", stream.word()),
        None => reader.to_string(),
    }
}
