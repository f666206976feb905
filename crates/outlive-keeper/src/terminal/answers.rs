//! Answers to what the command asks its terminal.
//!
//! The keeper has no emulator. When the command asks for the cursor, it starts `outlive cursor`, which derives the screen from the
//! log up to the question, prints the answer and ends; a job that never asks pays nothing. Answers to later questions wait for it:
//! programs ask for the cursor and then something that every terminal answers, and take that for the end.

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::{ChildStdout, Command, Stdio};

use outlive_core::terminal::query::{Answer, Facts, Queries, Query};

/// How many answers may wait for the cursor's; a command that asks for more without reading any gets none for them.
const MAX_WAITING: usize = 64;

#[derive(Default)]
pub(crate) struct Answers {
    queries: Queries,
    /// Bytes that were looked through.
    seen: u64,
    waiting: VecDeque<Waiting>,
    /// `outlive`, where it was found when the job was started.
    program: Option<OwnedFd>,
    /// What the running `outlive cursor` prints: the first of `waiting`.
    printed: Option<ChildStdout>,
}

enum Waiting {
    Known(Vec<u8>),
    /// The cursor, at this offset of the log.
    Cursor {
        offset: u64,
        extended: bool,
    },
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
                    waiting.push_back(Waiting::Cursor { offset, extended });
                }
                _ if known.is_empty() => {}
                _ => waiting.push_back(Waiting::Known(known)),
            }
        });
    }

    /// Returns the answers that can be given now. `started` is told the pid of a process that finds out the next one.
    pub(crate) fn take(&mut self, dir: &OwnedFd, mut started: impl FnMut(u32)) -> Vec<u8> {
        let mut answers = Vec::new();
        while self.printed.is_none()
            && let Some(next) = self.waiting.pop_front()
        {
            match next {
                Waiting::Known(known) => answers.extend(known),
                Waiting::Cursor { offset, extended } => {
                    // Without the program there is no answer: a wrong one would be worse.
                    let Some((pid, printed)) = self.start(dir, offset, extended) else { continue };
                    started(pid);
                    self.printed = Some(printed);
                }
            }
        }
        answers
    }

    fn start(&self, dir: &OwnedFd, offset: u64, extended: bool) -> Option<(u32, ChildStdout)> {
        let path = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mut command = Command::new(path(self.program.as_ref()?));
        command.arg("cursor").arg(std::fs::read_link(path(dir)).ok()?).arg(offset.to_string());
        command.args(extended.then_some("--extended"));
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        Some((child.id(), child.stdout.take()?))
    }

    /// Returns what to poll while a process finds out an answer.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.printed.as_ref().map(AsFd::as_fd)
    }

    /// Reads the answer of the process, which has printed something or has ended.
    pub(crate) fn read(&mut self) -> Vec<u8> {
        let mut answer = [0; 64];
        let count = self.printed.as_mut().map_or(0, |printed| printed.read(&mut answer).unwrap_or(0));
        if count == 0 {
            self.printed = None;
        }
        answer[..count].to_vec()
    }
}
