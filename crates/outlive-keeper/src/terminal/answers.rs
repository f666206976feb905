//! Answers to what the command asks its terminal.
//!
//! The keeper has no emulator. When the command asks for the cursor, it starts `outlive cursor`, which derives the screen from the
//! log up to the question, prints the answer and ends; a job that never asks pays nothing. One that ends without
//! an answer is started again. Answers to later questions wait for it: programs ask for the cursor and then something that every terminal answers, and take that for the end.
//!
//! A question is known by the offset of the log at its end, so that a guard which goes on after the keeper's death answers those
//! questions that have no answer yet.

use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::{ChildStdout, Command, Stdio};

use outlive_core::control::Place;
use outlive_core::terminal::query::{Answer, Facts, Queries, Query};
use outlive_sys::fault::{self, Point};

use super::checkpoints::KeptScreens;
use crate::guard::Word;
use crate::start::Keeper;

/// The longest answer of a process; the cursor takes less.
const MAX_ANSWER: usize = 64;

/// How many answers may wait for the cursor's; a command that asks for more without reading any gets none for them.
const MAX_WAITING: usize = 64;

/// How often the cursor of one question is worked out at most: what ends one process may end them all.
const ATTEMPTS: u32 = 3;

#[derive(Default)]
pub(crate) struct Answers {
    queries: Queries,
    /// Bytes that were looked through.
    seen: u64,
    /// The questions that have no answer yet.
    waiting: VecDeque<Question>,
    /// Where the log ends, and where the last question ended that was answered.
    log_end: u64,
    answered: u64,
    /// `outlive`, where it was found when the job was started.
    program: Option<OwnedFd>,
    /// What the running `outlive cursor` prints.
    printed: Option<Printed>,
    pub(super) screens: KeptScreens,
}

/// A question; `end` is the offset of the log behind it.
struct Question {
    end: u64,
    asked: Asked,
}

enum Asked {
    /// Its answer is this.
    Known(Vec<u8>),
    /// The cursor.
    Cursor { extended: bool, attempts: u32 },
}

/// The answer to a question that a process finds out.
struct Printed {
    end: u64,
    pipe: ChildStdout,
    answer: Vec<u8>,
    extended: bool,
    attempts: u32,
}

impl Answers {
    pub(crate) fn set_program(&mut self, program: Option<OwnedFd>) {
        self.program = program;
    }

    /// Returns the program.
    pub(crate) fn program(&self) -> Option<BorrowedFd<'_>> {
        self.program.as_ref().map(AsFd::as_fd)
    }

    /// Returns the number of the program's descriptor.
    pub(crate) fn program_fd(&self) -> Option<RawFd> {
        self.program.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Finds the questions in output that ends at `log_end` of the log.
    pub(crate) fn look_through(&mut self, output: &[u8], log_end: u64, facts: &Facts) {
        self.seen += output.len() as u64;
        self.log_end = log_end;
        let (seen, waiting) = (self.seen, &mut self.waiting);
        self.queries.push(output, |query, end| {
            if waiting.len() >= MAX_WAITING {
                return;
            }
            let mut known = Vec::new();
            let asked = match (query.answer(facts, &mut known), query) {
                (Answer::NeedsCursor, Query::Cursor { extended }) => Asked::Cursor { extended, attempts: 0 },
                _ if known.is_empty() => return,
                _ => Asked::Known(known),
            };
            waiting.push_back(Question { end: log_end.saturating_sub(seen - end), asked });
        });
    }

    /// Returns the next answer that can be given now, with the end of its question. `started` is told the pid of a process that
    /// finds one out.
    fn next(&mut self, dir: &OwnedFd, mut started: impl FnMut(u32)) -> Option<(u64, Vec<u8>)> {
        while self.printed.is_none() {
            let Question { end, asked } = self.waiting.pop_front()?;
            match asked {
                Asked::Known(answer) => return Some((end, answer)),
                Asked::Cursor { extended, attempts } => {
                    let attempts = attempts + 1;
                    if let Some((pid, pipe)) = self.start(dir, end, extended) {
                        started(pid);
                        self.printed = Some(Printed { end, pipe, answer: Vec::new(), extended, attempts });
                    } else if attempts < ATTEMPTS {
                        // A command that waits for the cursor waits for ever, and what lacked may be there again.
                        let asked = Asked::Cursor { extended, attempts };
                        self.waiting.push_front(Question { end, asked });
                    }
                    // Without the program there is no answer: a wrong one would be worse.
                }
            }
        }
        None
    }

    /// Returns the offset of the log before which no question is without an answer.
    fn settled(&self) -> u64 {
        if self.waiting.is_empty() && self.printed.is_none() {
            let begun = self.seen - self.queries.position();
            self.answered.max(self.log_end.saturating_sub(begun))
        } else {
            self.answered
        }
    }

    /// Forgets all questions, because a keeper that died has had them; the log has those without an answer, from `settled` on.
    pub(crate) fn begin_again(&mut self, settled: u64) {
        // The number of its descriptor may mean another file.
        std::mem::forget(self.printed.take());
        let program = self.program.take();
        *self = Self { program, answered: settled, ..Self::default() };
    }

    fn start(&self, dir: &OwnedFd, offset: u64, extended: bool) -> Option<(u32, ChildStdout)> {
        let mut command = self.screen_process(dir, offset)?;
        command.args(extended.then_some("--extended")).stdout(Stdio::piped());
        let mut child = fault::step(Point::ScreenExec, || command.spawn()).ok()?;
        Some((child.id(), child.stdout.take()?))
    }

    /// Returns the command for a process that derives the screen at an offset; `None` where there is no `outlive`.
    pub(super) fn screen_process(&self, dir: &OwnedFd, offset: u64) -> Option<Command> {
        let path = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mut command = Command::new(path(self.program.as_ref()?));
        command.arg("cursor").arg(std::fs::read_link(path(dir)).ok()?).arg(offset.to_string());
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        fault::give_screen_process(&mut command);
        Some(command)
    }

    /// Returns what to poll while a process finds out an answer.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.printed.as_ref().map(|printed| printed.pipe.as_fd())
    }

    /// Reads from the process, which has printed something or has ended; returns the answer once it is whole.
    pub(crate) fn read(&mut self) -> Option<(u64, Vec<u8>)> {
        let (printed, mut bytes) = (self.printed.as_mut()?, [0; MAX_ANSWER]);
        let count = fault::step(Point::ScreenRead, || printed.pipe.read(&mut bytes)).unwrap_or(0);
        printed.answer.extend_from_slice(&bytes[..count]);
        if count > 0 && printed.answer.len() < MAX_ANSWER {
            return None;
        }
        let Printed { end, mut answer, extended, attempts, .. } = self.printed.take()?;
        // The beginning of an answer is none: the command would wait for its end, and take keys for it.
        if answer.last() != Some(&b'R') {
            if attempts < ATTEMPTS {
                self.waiting.push_front(Question { end, asked: Asked::Cursor { extended, attempts } });
                return None;
            }
            answer.clear();
        }
        Some((end, answer))
    }
}

/// A bit of the numbers that questions have among the clients; the rest of it is the question's end.
const QUESTION: u64 = 1 << 63;

impl Keeper {
    /// Types the answers to what the command asked its terminal, this one first, as far as they are known.
    pub(crate) fn answer(&mut self, mut found: Option<(u64, Vec<u8>)>) {
        let (containment, custody) = (&mut self.containment, self.custody);
        while let Some(terminal) = &mut self.terminal {
            let answers = &mut terminal.answers;
            let next = found.take().or_else(|| {
                answers.next(&self.dir, |pid| {
                    custody.add_worker(pid);
                    containment.except(pid);
                })
            });
            let Some((end, answer)) = next else { return custody.set(Word::Answered, answers.settled()) };
            // A question that a full disk has kept out of the log has no offset of its own.
            let client = if end > answers.answered { QUESTION | end } else { 0 };
            // A command that asks without end and reads no answer gets none.
            if self.input.has_room_for(answer.len()) {
                self.input.push(&answer, Place { client, offset: 0 });
            }
            answers.answered = answers.answered.max(end);
            custody.set(Word::Answered, answers.answered);
        }
    }
}
