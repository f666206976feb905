//! Answers to what the command asks its terminal.
//!
//! The keeper has no emulator. When the command asks for the cursor, it starts `outlive cursor`, which derives the screen from the
//! log up to the question, prints the answer and ends; a job that never asks pays nothing. One that is killed before it has
//! answered is started again. Answers to later questions wait for it: programs ask for the cursor and then something that every
//! terminal answers, and take that for the end.

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::{ChildStdout, Command, Stdio};

use outlive_core::terminal::query::{Answer, Facts, Queries, Query};

use super::checkpoints::KeptScreens;

/// How many answers may wait for the cursor's; a command that asks for more without reading any gets none for them.
const MAX_WAITING: usize = 64;

/// How often the cursor of one question is worked out at most: what ends one process may end them all.
const ATTEMPTS: u32 = 3;

#[derive(Default)]
pub(crate) struct Answers {
    queries: Queries,
    /// Bytes that were looked through.
    seen: u64,
    waiting: VecDeque<Waiting>,
    /// `outlive`, where it was found when the job was started.
    program: Option<OwnedFd>,
    asked: Option<Asked>,
    pub(super) screens: KeptScreens,
}

/// The running `outlive cursor`, and what it works out.
struct Asked {
    printed: ChildStdout,
    has_answered: bool,
    question: Cursor,
}

/// A question for the cursor.
#[derive(Clone, Copy)]
struct Cursor {
    /// Of the log, right after the question.
    offset: u64,
    extended: bool,
    attempts: u32,
}

enum Waiting {
    Known(Vec<u8>),
    Cursor(Cursor),
}

impl Answers {
    pub(crate) fn set_program(&mut self, program: Option<OwnedFd>) {
        self.program = program;
    }

    /// Returns the number of the program's descriptor.
    pub(crate) fn program_fd(&self) -> Option<RawFd> {
        self.program.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Finds the questions in output that ends at `log_end` of the log.
    pub(crate) fn look_through(&mut self, output: &[u8], log_end: u64, facts: &Facts) {
        self.seen += output.len() as u64;
        let (seen, waiting) = (self.seen, &mut self.waiting);
        self.queries.push(output, |query, end| {
            if waiting.len() >= MAX_WAITING {
                return;
            }
            let mut known = Vec::new();
            match (query.answer(facts, &mut known), query) {
                (Answer::NeedsCursor, Query::Cursor { extended }) => {
                    let offset = log_end.saturating_sub(seen - end);
                    waiting.push_back(Waiting::Cursor(Cursor { offset, extended, attempts: 0 }));
                }
                _ if known.is_empty() => {}
                _ => waiting.push_back(Waiting::Known(known)),
            }
        });
    }

    /// Returns the answers that can be given now. `started` is told the pid of a process that finds out the next one.
    pub(crate) fn take(&mut self, dir: &OwnedFd, mut started: impl FnMut(u32)) -> Vec<u8> {
        let mut answers = Vec::new();
        while self.asked.is_none()
            && let Some(next) = self.waiting.pop_front()
        {
            match next {
                Waiting::Known(known) => answers.extend(known),
                Waiting::Cursor(mut question) => {
                    // Without the program there is no answer: a wrong one would be worse.
                    let Some((pid, printed)) = self.start(dir, question) else { continue };
                    started(pid);
                    question.attempts += 1;
                    self.asked = Some(Asked { printed, has_answered: false, question });
                }
            }
        }
        answers
    }

    fn start(&self, dir: &OwnedFd, question: Cursor) -> Option<(u32, ChildStdout)> {
        let mut command = self.screen_process(dir, question.offset)?;
        command.args(question.extended.then_some("--extended")).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        Some((child.id(), child.stdout.take()?))
    }

    /// Returns the command for a process that derives the screen at an offset; `None` where there is no `outlive`.
    pub(super) fn screen_process(&self, dir: &OwnedFd, offset: u64) -> Option<Command> {
        let path = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mut command = Command::new(path(self.program.as_ref()?));
        command.arg("cursor").arg(std::fs::read_link(path(dir)).ok()?).arg(offset.to_string());
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(command)
    }

    /// Returns what to poll while a process finds out an answer.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.asked.as_ref().map(|asked| asked.printed.as_fd())
    }

    /// Reads the answer of the process, which has printed something or has ended.
    pub(crate) fn read(&mut self) -> Vec<u8> {
        let Some(asked) = &mut self.asked else { return Vec::new() };
        let mut answer = [0; 64];
        let count = asked.printed.read(&mut answer).unwrap_or(0);
        let (has_answered, question) = (asked.has_answered, asked.question);
        asked.has_answered = true;
        if count == 0 {
            self.asked = None;
            if !has_answered && question.attempts < ATTEMPTS {
                self.waiting.push_front(Waiting::Cursor(question));
            }
        }
        answer[..count].to_vec()
    }
}
