//! Endings that the reader has not received: they come with the next answer of any tool.
//!
//! An ending is marked as delivered only after the answer was written to the client. If it never was, a later answer repeats it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::duration::format_duration;
use outlive::{AwaitedObject, Inbox, JobId, MatchedLine, Nonce, Notice, Started, Status, Store};
use serde_json::Value;

use crate::jobs::{exit_words, with_pipe};
use crate::profiles::NoticeStyle;
use crate::reply::{After, MARK, Reply, push_line, quoted};
use crate::scope::Scope;

/// The most bytes of an answer that endings take.
pub(crate) const ROOM: usize = 2 << 10;

/// How many bytes of output are shown of a failed job.
const FAILED: usize = 700;

/// How many bytes a notice of a success has.
const SUCCEEDED: usize = 200;

/// How long to wait for the lock of the reader's inbox, which another answer or program may hold.
const PATIENCE: Duration = Duration::from_millis(500);

/// Jobs whose end a call in progress will report: no other answer of the connection reports it meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<Claimed>);

#[derive(Debug, Default)]
struct Claimed {
    /// The number of calls that are starting a job whose id is not known yet.
    starting: usize,
    jobs: Vec<JobId>,
    /// Of each job the question that an answer has told, by when it was asked: it stays open, and is not told with each answer.
    questions: HashMap<Nonce, String>,
}

/// A job whose end is left to one call. Dropped after that call's answer; if there was none, the end becomes a notice.
#[derive(Debug)]
pub(crate) struct Claim {
    claims: Arc<Claims>,
    job: Option<JobId>,
}

impl Claims {
    /// Never held over another lock, a sync or a read of the store.
    fn claimed(&self) -> MutexGuard<'_, Claimed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the end of a job to the calling call.
    pub(crate) fn claim(self: &Arc<Self>, job: JobId) -> Claim {
        self.claimed().jobs.push(job.clone());
        Claim { claims: Arc::clone(self), job: Some(job) }
    }

    /// Starts a job, and leaves its end to the call that starts it.
    pub(crate) fn claim_started<E>(
        self: &Arc<Self>,
        start: impl FnOnce() -> Result<Started, E>,
    ) -> Result<(Started, Claim), E> {
        self.claimed().starting += 1;
        let any = Claim { claims: Arc::clone(self), job: None };
        let started = start()?;
        // The job's own claim must exist before the general one is dropped.
        let claim = self.claim(started.job.id().clone());
        drop(any);
        Ok((started, claim))
    }

    /// Notes that the answer of this call tells what a job asks.
    pub(crate) fn note_question(&self, job: Nonce, awaited: &AwaitedObject) {
        self.claimed().questions.insert(job, awaited.since.clone());
    }

    /// Tells whether an answer has told this question.
    fn has_told(&self, notice: &Notice) -> bool {
        let Some(awaited) = &notice.awaits else { return false };
        self.claimed().questions.get(&notice.nonce) == Some(&awaited.since)
    }

    /// Tells whether a call in progress reports the end of this job.
    pub(crate) fn has_claimed(&self, job: &JobId) -> bool {
        self.claimed().jobs.contains(job)
    }

    /// Tells whether a job is claimed. While a call is starting a job, every job counts as claimed.
    fn holds(&self, job: &JobId) -> bool {
        let claimed = self.claimed();
        claimed.starting > 0 || claimed.jobs.contains(job)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = self.claims.claimed();
        match &self.job {
            None => claimed.starting -= 1,
            Some(job) => {
                if let Some(at) = claimed.jobs.iter().position(|claimed| claimed == job) {
                    claimed.jobs.swap_remove(at);
                }
            }
        }
    }
}

/// The pending endings of the reader, with its inbox. The inbox is locked until the client has the answer, so that no other answer
/// or program reports the same; without an answer they stay pending.
#[derive(Debug)]
pub(crate) struct Due {
    inbox: Inbox,
    notices: Vec<Notice>,
}

impl Due {
    /// Looks up what is pending after the reader's position; `None` if nothing is. If the inbox is locked or unreadable, a later
    /// answer reports it.
    pub(crate) fn look_up(store: &Store, scope: &Scope, claims: &Claims, style: NoticeStyle) -> Option<Self> {
        let mut inbox = store.inbox(&scope.session, &scope.reader, PATIENCE).ok()?;
        // The messages of other designs are about endings alone.
        if style == NoticeStyle::Lines {
            inbox = inbox.with_questions().with_matches();
        }
        let mut pending = inbox.pending_unless(|job| claims.holds(job)).ok()?;
        pending.notices.retain(|notice| !claims.has_told(notice));
        if pending.notices.is_empty() {
            if inbox.is_far_behind(pending.up_to) {
                // If it cannot be written, the same events are read again.
                inbox.acknowledge(pending.up_to).ok();
            }
            return None;
        }
        Some(Self { inbox, notices: pending.notices })
    }

    /// Returns the notices that fit into an answer, and what to do once the client has it. What the answer itself reports is left
    /// out: the end of jobs, and lines that it shows.
    pub(crate) fn tell(
        mut self,
        store: &Store,
        answer: &Reply,
        style: NoticeStyle,
    ) -> (Vec<String>, Option<After>) {
        let (mut texts, mut length, mut sequences) = (Vec::new(), 0, Vec::new());
        for notice in &self.notices {
            let is_line_shown =
                |matched: &MatchedLine| answer.body.lines().any(|line| line.contains(&matched.text));
            match &notice.matched {
                Some(matched) if matched.skipped == 0 && is_line_shown(matched) => {
                    sequences.push(notice.seq);
                    continue;
                }
                None if answer.delivered.contains(&notice.nonce) => continue,
                _ => {}
            }
            let text = match style {
                NoticeStyle::Messages => notice.to_message(store),
                NoticeStyle::Lines | NoticeStyle::None => lines(store, notice),
            };
            if length > 0 && length + text.len() > ROOM {
                if style == NoticeStyle::Lines {
                    texts.push(format!("{MARK} more endings come with the next result\n"));
                }
                break;
            }
            length += text.len();
            texts.push(text);
            sequences.push(notice.seq);
        }
        if sequences.is_empty() {
            return (texts, None);
        }
        // If it cannot be written, a later answer repeats them.
        let after = move || drop(self.inbox.acknowledge_these(&sequences));
        (texts, Some(Box::new(after)))
    }
}

/// Formats an ending: a line of the server, and the last lines of the output.
fn lines(store: &Store, notice: &Notice) -> String {
    let name = notice.name.as_deref().filter(|name| !notice.job.as_str().starts_with(*name));
    let name = name.map(|name| format!(" ({})", crate::arguments::shown(name))).unwrap_or_default();
    if let Some(awaited) = &notice.awaits {
        let hint = awaited.tool_hint(&notice.job).map(|hint| format!("; {hint}")).unwrap_or_default();
        return format!("{MARK} since your last call: {}{name} {}{hint}\n", notice.job, awaited.sentence());
    }
    if let Some(matched) = &notice.matched {
        let more = match matched.skipped {
            0 => String::new(),
            _ => format!("; all of them: read_output job={} grep=…", notice.job),
        };
        let mut text =
            format!("{MARK} since your last call: {}{name}: {}{more}\n", notice.job, matched.sentence());
        push_line(&mut text, &format!("  | {}", matched.text));
        return text;
    }
    let tail = notice.output.as_ref().map(|output| output.tail.as_str()).unwrap_or_default();
    let subject = format!("{}{name}", notice.job);
    let is_success = notice.status == Status::Completed;
    let job = is_success.then(|| store.find_exactly(&notice.job, notice.nonce)).flatten();
    let words = exit_words(notice);
    ending(&subject, &job.map_or(words.clone(), |job| with_pipe(words, &job)), is_success, tail)
}

/// Formats an ending, or a question, on another machine, as its inbox tells it.
pub(crate) fn lines_of(host: &str, notice: &Value) -> String {
    let text = |name: &str| notice[name].as_str();
    let job = text("job").unwrap_or_default();
    let name = text("name").filter(|name| !job.starts_with(*name));
    let name = name.map(|name| format!(" ({})", crate::arguments::shown(name))).unwrap_or_default();
    let subject = format!("{host}/{job}{name}");
    if let Some(prompt) = notice["awaits"].as_object().map(|awaited| awaited.get("prompt")) {
        let prompt = prompt.and_then(Value::as_str).map(|prompt| format!(": {}", quoted(prompt)));
        let hint = format!("; answer with send_input job={host}/{job}");
        return format!("{MARK} since your last call: {subject} asks{}{hint}\n", prompt.unwrap_or_default());
    }
    let status = text("status").unwrap_or("ended");
    let how = match (text("cause"), notice["exit_code"].as_i64(), text("reason")) {
        (None | Some("natural"), Some(code), _) => Some(format!("exit {code}")),
        (_, _, Some(reason)) => Some(outlive::one_line(reason)),
        (_, _, None) => text("signal").map(|signal| format!("ended by {signal}")),
    };
    let how = how.map(|how| format!(", {how}")).unwrap_or_default();
    let after = notice["runtime_ms"].as_u64().map(|millis| format!(", after {}", format_duration(millis)));
    let words = format!("{status}{how}{}", after.unwrap_or_default());
    ending(
        &subject,
        &words,
        status == Status::Completed.word(),
        notice["output"]["tail"].as_str().unwrap_or_default(),
    )
}

fn ending(subject: &str, words: &str, is_success: bool, tail: &str) -> String {
    const LEAD: &str = "; last lines:";
    let head = format!("{MARK} since your last call: {subject} {words}");
    // Each line of output has a mark and a newline.
    let room = match is_success {
        true => SUCCEEDED.saturating_sub(head.len() + LEAD.len() + 6),
        false => FAILED,
    };
    let shown = last_lines(tail.trim_end(), room);
    let lead = if shown.is_empty() { "" } else { LEAD };
    let mut text = format!("{head}{lead}\n");
    for line in shown {
        push_line(&mut text, &format!("  | {line}"));
    }
    text
}

/// Returns the last lines that fit; if the last alone does not, its end.
fn last_lines(text: &str, room: usize) -> Vec<&str> {
    let (mut lines, mut used) = (Vec::new(), 0);
    if text.trim().is_empty() || room == 0 {
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
