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
        self.read_cursor(&path_of(reader, stream))
    }

    /// Returns the offset up to which the output had come when a reader last looked at the screen.
    pub fn screen_cursor(&self, reader: &SessionName) -> Option<u64> {
        self.read_cursor(&screen_path_of(reader))
    }

    fn read_cursor(&self, path: &str) -> Option<u64> {
        let text = durable::read_line(self.dir().ok()?, path)?;
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
        self.write_cursor(&path_of(reader, stream), offset)
    }

    /// Stores up to which offset of the output a reader has seen the screen.
    ///
    /// # Durability
    ///
    /// Written, not synced: after a power loss a reader may see more as changed than was.
    ///
    /// # Errors
    ///
    /// If the store cannot be written, or the job was removed.
    pub fn set_screen_cursor(&self, reader: &SessionName, offset: u64) -> io::Result<()> {
        self.write_cursor(&screen_path_of(reader), offset)
    }

    fn write_cursor(&self, path: &str, offset: u64) -> io::Result<()> {
        // Below the open directory: that of a removed job must not come back, as a damaged one.
        fault::step(Point::CursorsMake, || durable::make_dir(self.dir()?, DIRECTORY))?;
        let text = format!("{}\n", Cursor { nonce: self.spec().nonce, offset });
        durable::replace(Replacing::CURSOR, self.dir()?, path, text.as_bytes())
    }
}

fn screen_path_of(reader: &SessionName) -> String {
    format!("{DIRECTORY}/{reader}@screen")
}

fn path_of(reader: &SessionName, stream: Option<Stream>) -> String {
    match stream {
        Some(stream) => format!("{DIRECTORY}/{reader}@{}", stream.word()),
        None => format!("{DIRECTORY}/{reader}"),
    }
}
