//! The command's standard input.
//!
//! The keeper owns the writing end, so input survives every front end. What the command does not read yet is held in a pipe, which is
//! bounded; the keeper never waits for it. From there the kernel moves it on to the command, so that a keeper can be killed at any
//! moment, and each byte arrives once.

use std::os::fd::OwnedFd;

use outlive_core::control::Place;
use outlive_sys::awaits::{self, Kind, Known};
use outlive_sys::fault::{self, Point};
use outlive_sys::pipe::{self, Attempt, try_move, try_write};

use crate::guard::{Custody, Word};

/// How much input is held for a command that does not read, where the user may have so much; beyond it, writers wait.
const QUEUE: usize = 256 << 10;

/// What a pipe takes, as it is, in whatever parts it comes.
const SMALL: usize = pipe::DEFAULT_CAPACITY / 2;

pub(crate) struct Input {
    pipe: Option<OwnedFd>,
    /// Holds what the command's pipe does not take; none after a while without input.
    queue: Option<Queue>,
    /// The pipe is to be closed when the queue is empty.
    is_ending: bool,
    custody: Custody,
}

struct Queue {
    reading: OwnedFd,
    writing: OwnedFd,
    /// How many bytes are in it: no other process moves any.
    held: usize,
    /// It holds as much as it may.
    is_grown: bool,
}

impl Queue {
    fn new(reading: OwnedFd, writing: OwnedFd) -> Self {
        let held = pipe::held(&reading);
        Self { reading, writing, held, is_grown: false }
    }

    /// Lets it hold as much as it may. A key that is passed on at once needs no room.
    fn grow(&mut self) {
        if !self.is_grown {
            self.is_grown = true;
            pipe::resize(&self.writing, QUEUE);
        }
    }
}

impl Input {
    pub(crate) fn new(pipe: Option<OwnedFd>, custody: Custody) -> Self {
        if let Some(pipe) = &pipe {
            custody.lend(Word::Stdin, pipe);
        }
        Self { pipe, queue: None, is_ending: false, custody }
    }

    /// Makes the pipe that holds input, for the time in which keeper and guard have two tables of descriptors.
    pub(crate) fn keep_queue(&mut self) {
        if self.pipe.is_some() {
            self.queue();
        }
    }

    /// Tells whether something waits to be written.
    pub(crate) fn holds(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.held > 0)
    }

    /// Takes over the pipes that a keeper which died has left.
    pub(crate) fn inherit(custody: Custody) -> Self {
        let queue = custody.inherit(Word::QueueReading).zip(custody.inherit(Word::QueueWriting));
        let queue = queue.map(|(reading, writing)| Queue::new(reading, writing));
        if custody.get(Word::IsPushing) == 1 {
            let held = queue.as_ref().map_or(0, |queue| queue.held as u64);
            let pushed = held.saturating_sub(custody.get(Word::PushedUpon));
            custody.note_taken(custody.get(Word::PushedBy), custody.get(Word::PushedAt) + pushed);
            custody.set(Word::IsPushing, 0);
        }
        let is_ending = custody.get(Word::IsInputEnding) == 1;
        let mut input = Self { queue, is_ending, ..Self::new(custody.inherit(Word::Stdin), custody) };
        input.flush();
        input
    }

    /// Lets go of pipes whose numbers may mean other files.
    pub(crate) fn forget(&mut self) {
        std::mem::forget((self.pipe.take(), self.queue.take()));
    }

    /// Tells whether more can be written.
    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some() && !self.is_ending
    }

    /// Tells whether so many bytes are sure to have room.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.held + bytes <= SMALL)
    }

    /// Returns how many of so many bytes at a place were taken before, by this keeper or one that died.
    pub(crate) fn taken_before(&self, place: Place, length: usize) -> usize {
        let taken = self.custody.taken_from(place.client).saturating_sub(place.offset);
        usize::try_from(taken).unwrap_or(usize::MAX).min(length)
    }

    /// Takes as much of a client's input as there is room for; returns how much. What was taken of the same place before is not
    /// taken again.
    pub(crate) fn push(&mut self, bytes: &[u8], place: Place) -> usize {
        let taken = self.taken_before(place, bytes.len());
        let rest = &bytes[taken..];
        if rest.is_empty() {
            return taken;
        }
        let custody = self.custody;
        let offset = place.offset + taken as u64;
        let Some(queue) = self.queue() else { return taken + self.push_on(rest, place.client, offset) };
        if queue.held + rest.len() > SMALL {
            queue.grow();
        }
        custody.set(Word::PushedUpon, queue.held as u64);
        custody.set(Word::PushedBy, place.client);
        custody.set(Word::PushedAt, offset);
        custody.set(Word::IsPushing, 1);
        let pushed = match fault::attempt(Point::InputQueue, || try_write(&queue.writing, rest)) {
            Attempt::Moved(count) => count,
            _ => 0,
        };
        queue.held += pushed;
        custody.note_taken(place.client, offset + pushed as u64);
        custody.set(Word::IsPushing, 0);
        self.flush();
        taken + pushed
    }

    /// Writes to the command's pipe itself, where there is no descriptor for a queue.
    fn push_on(&mut self, bytes: &[u8], client: u64, offset: u64) -> usize {
        let Some(pipe) = &self.pipe else { return 0 };
        match fault::attempt(Point::InputWrite, || try_write(pipe, bytes)) {
            Attempt::Moved(count) => {
                self.custody.note_taken(client, offset + count as u64);
                count
            }
            Attempt::WouldBlock => 0,
            Attempt::Closed | Attempt::Failed(_) => {
                self.close();
                0
            }
        }
    }

    fn queue(&mut self) -> Option<&mut Queue> {
        if self.queue.is_none() {
            let (reading, writing) = pipe::own().ok()?;
            self.custody.lend(Word::QueueReading, &reading);
            self.custody.lend(Word::QueueWriting, &writing);
            self.queue = Some(Queue::new(reading, writing));
        }
        self.queue.as_mut()
    }

    /// Closes the pipe once all is written.
    pub(crate) fn end(&mut self) {
        self.is_ending = true;
        self.custody.set(Word::IsInputEnding, 1);
        self.flush();
    }

    /// Tells whether a process waits for what is written here.
    pub(crate) fn awaits(&self, pids: &[i32], is_prompted: bool) -> Option<(Kind, Known)> {
        awaits::of_pipe(self.pipe.as_ref().filter(|_| !self.holds())?, pids, is_prompted)
    }

    /// Returns the pipe if something waits to be written to it.
    pub(crate) fn waiting(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref().filter(|_| self.holds())
    }

    /// Moves on what the command's pipe takes now.
    pub(crate) fn flush(&mut self) {
        while let Some(pipe) = &self.pipe {
            let Some(queue) = self.queue.as_mut().filter(|queue| queue.held > 0) else {
                if self.is_ending {
                    self.close();
                }
                return;
            };
            match fault::attempt(Point::InputWrite, || try_move(&queue.reading, pipe, QUEUE)) {
                Attempt::Moved(count) => queue.held -= count,
                Attempt::WouldBlock => return,
                // The command has closed its end.
                Attempt::Closed | Attempt::Failed(_) => self.close(),
            }
        }
    }

    /// Tells whether there is a queue that holds nothing, and could be given back.
    pub(crate) fn has_idle_queue(&self) -> bool {
        // A guard that has another table could not have the next one.
        self.queue.is_some() && !self.holds() && !self.custody.is_split()
    }

    /// Gives the memory of a queue back that holds nothing. A person who types would have one made and closed for each key.
    pub(crate) fn release(&mut self) {
        if self.has_idle_queue() {
            self.close_queue();
        }
    }

    pub(crate) fn close(&mut self) {
        self.custody.withdraw(Word::Stdin);
        self.pipe = None;
        self.close_queue();
        self.custody.tell_split_guard();
    }

    fn close_queue(&mut self) {
        self.custody.withdraw(Word::QueueReading);
        self.custody.withdraw(Word::QueueWriting);
        self.queue = None;
    }
}
