//! Finding out that the job waits for an answer.
//!
//! A job is looked at once, a moment after it has printed or was given something, and when a front end asks. So a keeper whose
//! job is silent sleeps. What is found is dropped with the next input or output.

use outlive_core::awaits::{Awaited, AwaitedKind, KnownBy};
use outlive_core::event::{Event, Kind};
use outlive_core::meta::Meta;
use outlive_core::timestamp::Timestamp;
use outlive_sys::awaits;
use outlive_sys::clock;
use outlive_sys::fault::Replacing;

use crate::start::Keeper;

/// How long a job is silent before it is looked at: a program that prints its prompt reads right after it.
const SILENT_US: u64 = 300_000;

/// What a question ends with, apart from blanks.
const ENDS_OF_QUESTIONS: &[u8] = b":?>])";

/// What the job waits for, and when to look.
pub(crate) struct InputWait {
    /// Whether it can be given input at all.
    is_possible: bool,
    /// Until then it may not have got what it was given, and still look as if it waited.
    given_until_us: u64,
    next_us: Option<u64>,
    found: Option<Awaited>,
    line: UnfinishedLine,
    /// The last question that was told, with the line it stood in: an answer that is typed is echoed in parts, and takes no
    /// question away until its line has ended.
    told: Option<(u64, Awaited)>,
}

impl InputWait {
    pub(crate) fn new(is_possible: bool) -> Self {
        let line = UnfinishedLine::default();
        let mut wait = Self { is_possible, given_until_us: 0, next_us: None, found: None, line, told: None };
        wait.begin_silence();
        wait
    }

    /// Goes on after a keeper that died: `tail` is the end of the output, and `asked` what that keeper had written down.
    pub(crate) fn resume(&mut self, tail: &[u8], asked: Option<Awaited>) {
        self.line.push(tail);
        self.told = asked.map(|asked| (self.line.number, asked));
        self.found = asked;
    }

    /// When the job is to be looked at next; never, for a job that is silent or takes no input.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.next_us
    }

    /// Notes that the job has printed this.
    pub(crate) fn note_output(&mut self, bytes: &[u8]) {
        if self.is_possible {
            self.line.push(bytes);
            self.begin_silence();
        }
    }

    /// Notes that the job was given this input.
    pub(crate) fn note_input(&mut self, bytes: &[u8]) {
        // After a whole line the next question is another one, whether or not what was typed is echoed.
        if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            self.told = None;
        }
        self.begin_silence();
        self.given_until_us = self.next_us.unwrap_or(0);
    }

    fn begin_silence(&mut self) {
        self.found = None;
        self.next_us = self.is_possible.then(|| clock::boot_us() + SILENT_US);
    }
}

impl Keeper {
    /// Looks what the job waits for, and writes a question down, once.
    pub(crate) fn look_for_input_wait(&mut self) {
        self.input_wait.next_us = None;
        let found = if self.ending.is_running() { self.awaits() } else { None };
        let since = Timestamp(clock::wall_us());
        let told = self.input_wait.told.filter(|(line, _)| *line == self.input_wait.line.number);
        let before = self.input_wait.found.or(told.map(|(_, told)| told));
        let since = before
            .filter(|before| Some((before.kind, before.known)) == found)
            .map_or(since, |before| before.since);
        let found = found.map(|(kind, known)| Awaited { kind, known, since });
        self.input_wait.found = found;
        self.note_question();
    }

    /// Returns the snapshot with what the job waits for now, keys included.
    pub(crate) fn with_input_wait(&mut self) -> Meta {
        if clock::boot_us() >= self.input_wait.given_until_us {
            self.look_for_input_wait();
        }
        Meta { awaits: self.input_wait.found.map(Into::into), ..self.meta.clone() }
    }

    fn awaits(&self) -> Option<(AwaitedKind, KnownBy)> {
        if !self.input_wait.is_possible {
            return None;
        }
        let pids: Vec<i32> = self.containment.members().iter().map(|member| member.id.pid).collect();
        let is_prompted = self.input_wait.line.is_question();
        let (kind, known) = match &self.terminal {
            Some(terminal) => terminal.awaits(&pids, is_prompted)?,
            None => self.input.awaits(&pids, is_prompted)?,
        };
        let kind = match kind {
            awaits::Kind::Line => AwaitedKind::Line,
            awaits::Kind::Password => AwaitedKind::Password,
            awaits::Kind::Keys => AwaitedKind::Keys,
        };
        let known = match known {
            awaits::Known::Kernel => KnownBy::Kernel,
            awaits::Known::Likely => KnownBy::Likely,
        };
        Some((kind, known))
    }

    /// Brings the snapshot in line with what was found.
    pub(crate) fn note_question(&mut self) {
        let question = self.input_wait.found.filter(|found| found.kind.is_question());
        let awaits = question.map(Into::into);
        if self.meta.awaits == awaits {
            return;
        }
        self.meta.awaits = awaits;
        self.write_meta(Replacing::META_START);
        let Some(question) = question else { return };
        let told = Some((self.input_wait.line.number, question));
        if std::mem::replace(&mut self.input_wait.told, told) != told {
            let awaits = Some(question.kind.into());
            self.write_event(&Event { at: question.since, awaits, ..self.event(Kind::AwaitsInput) });
        }
    }
}

/// The line that the output ends with, as far as it matters.
#[derive(Default)]
struct UnfinishedLine {
    /// Another one for each line.
    number: u64,
    /// Its last character that is not blank; 0: there is none.
    last: u8,
    /// It was written over, as progress is.
    is_rewritten: bool,
}

impl UnfinishedLine {
    fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if let Some(end) = bytes.iter().rposition(|&byte| byte == b'\n') {
            *self = Self { number: self.number + 1, ..Self::default() };
            rest = &bytes[end + 1..];
        }
        self.is_rewritten |= rest.contains(&b'\r');
        self.last = rest.iter().rfind(|byte| !byte.is_ascii_whitespace()).copied().unwrap_or(self.last);
    }

    fn is_question(&self) -> bool {
        !self.is_rewritten && ENDS_OF_QUESTIONS.contains(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_an_unfinished_line_that_is_not_progress() {
        let is_question = |pieces: &[&str]| {
            let mut line = UnfinishedLine::default();
            pieces.iter().for_each(|piece| line.push(piece.as_bytes()));
            line.is_question()
        };
        assert!(is_question(&["hello\r\nYour name", "? "]));
        assert!(is_question(&["Go on? [y/N]", " "]));
        assert!(!is_question(&[]) && !is_question(&["What now?\r\n"]) && !is_question(&["compiling"]));
        assert!(!is_question(&["\r[==>   ]", "\r[===>  ]"]));
    }
}
