//! Readers: a conversation, a terminal, a page. Their names, and whether they are present.
//!
//! A front end that lives as long as its reader holds a shared lock for it, which the kernel releases at its end. A reader that
//! comes now and then leaves the time of its last visit.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use outlive_core::id::{SessionName, hash};
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point};
use outlive_sys::{durable, lock};

use crate::notify::events::make_dir;
use crate::store::Store;

/// Variables in which clients name the conversation of a command, the most reliable first.
const CONVERSATIONS: [&str; 4] =
    ["OUTLIVE_READER", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_SESSION_ID"];

/// Returns the reader of this process: the conversation that its environment names, else `default`.
pub fn reader_of_environment() -> SessionName {
    conversation_of_environment().unwrap_or_default()
}

/// Returns the conversation that the environment names, if any.
pub fn conversation_of_environment() -> Option<SessionName> {
    let named = |variable: &&str| std::env::var(variable).ok().filter(|value| !value.is_empty());
    let name = reader_name(&CONVERSATIONS.iter().find_map(named)?);
    Some(name).filter(|name| *name != SessionName::default())
}

/// Turns a client's conversation id into a reader's name: unchanged if valid, else with a hash of the id.
pub fn reader_name(text: &str) -> SessionName {
    if text.is_empty() {
        return SessionName::default();
    }
    if let Ok(name) = SessionName::parse(text) {
        return name;
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mark = format!("-{:016x}", hash(text.as_bytes()));
    let word: String = text.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let word: String =
        word.trim_start_matches(['-', '_', '.']).chars().take(SessionName::MAX - mark.len()).collect();
    let word = if word.is_empty() { "reader" } else { word.as_str() };
    SessionName::parse(&format!("{word}{mark}")).unwrap_or_default()
}

const DIRECTORY: &str = "readers";

/// While it is held, its reader counts as present.
#[derive(Debug)]
pub struct Presence {
    file: File,
}

impl Drop for Presence {
    fn drop(&mut self) {
        // The absence counts from now; if this fails, from earlier.
        self.file.set_modified(SystemTime::now()).ok();
    }
}

impl Store {
    /// Marks a reader as present, for front ends that live as long as it does: no other reader receives its endings meanwhile.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn be_present(&self, session: &SessionName, reader: &SessionName) -> io::Result<Presence> {
        let directory = self.readers_dir(session);
        make_dir(&directory)?;
        let file = durable::open_or_create(durable::open_dir(&directory)?, here(reader))?;
        fault::step(Point::PresenceLock, || lock::wait_shared(&file))?;
        file.set_modified(SystemTime::now())?;
        Ok(Presence { file })
    }

    pub(crate) fn readers_dir(&self, session: &SessionName) -> PathBuf {
        self.session_dir(session).join(DIRECTORY)
    }

    /// Tells whether a reader has been away for so long that another reader receives its endings. A reader that was never seen
    /// counts as away since the end of the job.
    pub(crate) fn is_absent(&self, session: &SessionName, reader: &SessionName, ended: Timestamp) -> bool {
        let directory = self.readers_dir(session);
        let presence = durable::open_dir(&directory).and_then(|dir| durable::open_rw(dir, &here(reader)));
        if let Ok(file) = &presence
            && lock::try_lock(file, lock::Kind::Exclusive).is_ok_and(|is_free| !is_free)
        {
            // The last time it was seen, in case it is killed.
            file.set_modified(SystemTime::now()).ok();
            return false;
        }
        let time = |name: &str| directory.join(name).metadata().and_then(|data| data.modified()).ok();
        let ended = SystemTime::UNIX_EPOCH + Duration::from_micros(ended.0);
        let last = [time(reader.as_str()), time(&here(reader)), Some(ended)].into_iter().flatten().max();
        // A time in the future dates from before the clock was set back, and counts as long ago.
        let absence = self.config().session.absence;
        last.is_none_or(|last| last.elapsed().map_or(true, |away| away >= absence))
    }
}

/// Names the presence file. A reader's name has no `@`, so it clashes with no position file.
fn here(reader: &SessionName) -> String {
    format!("{reader}@here")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_names_a_reader() {
        for (text, name) in [("abc-1", "abc-1"), ("", "default"), ("a..b", "a..b")] {
            assert_eq!(reader_name(text).as_str(), name, "{text:?}");
        }
        for (text, begins) in
            [("a/b c", "a-b-c-"), ("--x", "x-"), ("\u{e9}", "reader-"), ("../../evil", "evil-")]
        {
            assert!(reader_name(text).as_str().starts_with(begins), "{text:?} is {}", reader_name(text));
        }
        assert_eq!(reader_name(&"x".repeat(500)).as_str().len(), SessionName::MAX);
    }

    #[test]
    fn two_conversations_are_two_readers() {
        let long = "x".repeat(200);
        let texts = [
            "a/b",
            "a-b",
            "a b",
            "-a",
            "a",
            "///",
            "..",
            "evil",
            "../../../evil",
            &long,
            &format!("{long}x"),
        ];
        let names: std::collections::BTreeSet<SessionName> =
            texts.iter().map(|text| reader_name(text)).collect();
        assert_eq!(names.len(), texts.len(), "{names:?}");
    }
}
