//! Endings that the reader has not heard of: they ride on the next answer of any tool.
//!
//! Telling comes before noting: what was put into an answer is noted when that was handed to the client, and comes again in another
//! answer if it never was.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use outlive::{Events, JobId, Nonce, Notice, SessionName, Started, Status, Store};

use crate::jobs::exit_words;
use crate::profiles::News;
use crate::reply::{After, MARK, push_line};

/// How much endings may take of an answer.
pub(crate) const ROOM: usize = 2 << 10;

/// How much of the output of a job that failed is shown.
const FAILED: usize = 700;

/// How much of one that did not.
const SUCCEEDED: usize = 200;

/// Endings of jobs whose reader stays away come with time alone: so often it is looked for them.
const OFTEN: Duration = Duration::from_secs(20);

/// How long another program that tells the same reader is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a connection has to tell.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    known: Mutex<Known>,
    /// Held, shared, while a job is started whose end is left to its call: until that is noted nobody may tell it.
    starting: RwLock<()>,
}

#[derive(Debug, Default)]
struct Known {
    events: Option<Events>,
    /// When it was last looked.
    looked: Option<Instant>,
    /// What was found then and is not noted yet.
    found: Vec<Notice>,
    /// What is in an answer that is under way.
    offered: HashSet<Nonce>,
    /// Jobs whose end a call waits for: its own answer tells it.
    awaited: HashSet<JobId>,
}

impl Notices {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out what there is to tell.
    pub(crate) fn look(&self, store: &Store, session: &SessionName, reader: &SessionName) -> Vec<Notice> {
        let mut known = self.known();
        // An inbox is read from the beginning of the events; most calls come when there are no new ones.
        let events = known.events.get_or_insert_with(|| store.events(session, 0));
        let has_new = events.read().map_or(true, |new| !new.is_empty());
        if has_new || known.looked.is_none_or(|looked| looked.elapsed() >= OFTEN) {
            known.looked = Some(Instant::now());
            let pending =
                store.inbox(session, reader, PATIENCE).ok().and_then(|mut inbox| inbox.pending().ok());
            // Where another is telling them, or they cannot be read, they come with the next answer.
            match pending {
                Some(pending) => known.found = pending.notices,
                None => known.looked = None,
            }
        }
        let is_free =
            |notice: &&Notice| !known.offered.contains(&notice.nonce) && !known.awaited.contains(&notice.job);
        known.found.iter().filter(is_free).cloned().collect()
    }

    /// Leaves the end of a job to the call that waits for it: no other answer tells it meanwhile.
    pub(crate) fn leave(self: &Arc<Self>, job: JobId) -> Left {
        self.known().awaited.insert(job.clone());
        Left { notices: Arc::clone(self), job }
    }

    /// Starts a job, and leaves its end to the call that does.
    pub(crate) fn leave_started<E>(
        self: &Arc<Self>,
        start: impl FnOnce() -> Result<Started, E>,
    ) -> Result<(Started, Left), E> {
        let _starting = self.starting.read().unwrap_or_else(PoisonError::into_inner);
        let started = start()?;
        let left = self.leave(started.job.id().clone());
        Ok((started, left))
    }

    /// Writes what fits into an answer; returns it, and what is to be done once the client has it.
    pub(crate) fn tell(
        self: &Arc<Self>,
        store: &Arc<Store>,
        session: &SessionName,
        reader: &SessionName,
        found: Vec<Notice>,
        told: &[Nonce],
        news: News,
    ) -> (Vec<String>, Option<After>) {
        let (mut texts, mut length, mut offer) = (Vec::new(), 0, Offer::new(self));
        let mut sequences = Vec::new();
        // It may be the end of what is being started: then it comes with the next answer.
        let Ok(quiet) = self.starting.try_write() else { return (texts, None) };
        for notice in found {
            // What this very answer is about is told by it.
            let text = match news {
                _ if told.contains(&notice.nonce) => String::new(),
                News::Messages => notice.to_message(store),
                News::Lines | News::None => lines(&notice),
            };
            if length > 0 && length + text.len() > ROOM {
                if news == News::Lines {
                    texts.push(format!("{MARK} more endings come with the next result\n"));
                }
                break;
            }
            if offer.add(&notice) {
                length += text.len();
                texts.extend(Some(text).filter(|text| !text.is_empty()));
                sequences.push(notice.seq);
            }
        }
        drop(quiet);
        if sequences.is_empty() {
            return (texts, None);
        }
        let (store, session, reader) = (Arc::clone(store), session.clone(), reader.clone());
        let has_news = !texts.is_empty();
        let after = move || {
            // Where it cannot be noted it is told again.
            if has_news
                && let Ok(mut inbox) = store.inbox(&session, &reader, PATIENCE)
                && inbox.pending().is_ok()
            {
                inbox.acknowledge_these(&sequences).ok();
            }
            offer.noted();
        };
        (texts, Some(Box::new(after)))
    }
}

/// A job whose end is left to a call: without that call's answer it is told like any other.
pub(crate) struct Left {
    notices: Arc<Notices>,
    job: JobId,
}

impl Left {
    /// The client has it, and the store says so.
    pub(crate) fn told(self) {
        self.notices.known().found.retain(|notice| notice.job != self.job);
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.notices.known().awaited.remove(&self.job);
    }
}

/// What is in an answer: it is free again if that is never given.
struct Offer {
    notices: Arc<Notices>,
    nonces: Vec<Nonce>,
}

impl Offer {
    fn new(notices: &Arc<Notices>) -> Self {
        Self { notices: Arc::clone(notices), nonces: Vec::new() }
    }

    /// Takes one; false if another answer has it, or had it since it was found.
    fn add(&mut self, notice: &Notice) -> bool {
        let mut known = self.notices.known();
        let is_free = known.found.iter().any(|found| found.nonce == notice.nonce)
            && !known.awaited.contains(&notice.job)
            && known.offered.insert(notice.nonce);
        drop(known);
        if is_free {
            self.nonces.push(notice.nonce);
        }
        is_free
    }

    /// The client has them.
    fn noted(self) {
        let mut known = self.notices.known();
        known.found.retain(|notice| !self.nonces.contains(&notice.nonce));
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let mut known = self.notices.known();
        for nonce in &self.nonces {
            known.offered.remove(nonce);
        }
    }
}

/// Writes an ending: a line of the server's own, and the end of what was printed.
fn lines(notice: &Notice) -> String {
    let name = notice.name.as_deref().filter(|name| !notice.job.as_str().starts_with(*name));
    let name = name.map(|name| format!(" ({})", crate::arguments::shown(name))).unwrap_or_default();
    let words = exit_words(notice);
    let tail = notice.output.as_ref().map(|output| output.tail.trim_end()).unwrap_or_default();
    let room = if notice.status == Status::Completed { SUCCEEDED } else { FAILED };
    let shown = last_lines(tail, room);
    let lead = if shown.is_empty() { "" } else { "; last lines:" };
    let mut text = format!("{MARK} since your last call: {}{name} {words}{lead}\n", notice.job);
    for line in shown {
        push_line(&mut text, &format!("  | {line}"));
    }
    text
}

/// Returns the last lines that have room; of a longer one its end.
fn last_lines(text: &str, room: usize) -> Vec<&str> {
    let (mut lines, mut used) = (Vec::new(), 0);
    if text.trim().is_empty() {
        return lines;
    }
    for line in text.rsplit('\n').take(12) {
        if used + line.len() > room {
            if lines.is_empty() {
                let from = line.char_indices().map(|(at, _)| at).find(|at| line.len() - at <= room);
                lines.push(&line[from.unwrap_or(line.len())..]);
            }
            break;
        }
        used += line.len() + 5;
        lines.push(line);
    }
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_that_fit() {
        assert_eq!(last_lines("a\nb\nc", 100), ["a", "b", "c"]);
        assert_eq!(last_lines("aaaa\nbbbb\nc", 8), ["c"]);
        assert_eq!(last_lines("éééé", 4), ["éé"]);
        assert!(last_lines("", 100).is_empty());
    }
}
