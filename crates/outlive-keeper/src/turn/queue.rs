//! A job's place in its queue.
//!
//! The keeper of a job that waits holds a ticket, and watches that of its predecessor alone: it is woken when that one has a slot, was
//! ended, or died. The first in the order looks for a slot, and is woken when one is given back or the queue is set otherwise. Tickets
//! and slots are locks that the kernel frees. Their descriptors are lent to the guard, so that the death of a keeper frees neither.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;

use outlive_core::file::{QUEUE_SETTINGS, SLOTS, TICKETS};
use outlive_core::id::{JobId, QueueName};
use outlive_core::queue::QueueSettings;
use outlive_sys::fault::{self, Point};
use outlive_sys::watch::Watch;
use outlive_sys::{durable, fifo_lock, lock};

use crate::guard::{Custody, Word};

/// A job that waits for its turn in a queue.
pub(super) struct Place<'a> {
    /// The queue's directory, seen from the job's.
    path: String,
    job: &'a JobId,
    custody: Custody,
    /// What hangs up when the job may have come forward: the ticket before its own, or the slots that others hold.
    watched: Vec<OwnedFd>,
    /// Of the first in the order: tells when the queue is set otherwise.
    settings: Option<Watch>,
}

impl<'a> Place<'a> {
    pub(super) fn new(queue: &QueueName, job: &'a JobId, custody: Custody) -> Self {
        let path = format!("../../{}/{queue}", outlive_core::QUEUES);
        Self { path, job, custody, watched: Vec::new(), settings: None }
    }

    /// Returns what to poll for; each is of interest when it hangs up or can be read.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.watched.iter().map(AsFd::as_fd).chain(self.settings.as_ref().and_then(Watch::fd))
    }

    /// Tells whether it has to look again now and then, because the kernel does not tell.
    pub(super) fn needs_timer(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| !settings.is_pushed())
    }

    /// Closes what was only watched.
    pub(super) fn forget(&mut self) {
        self.watched.clear();
        self.settings = None;
    }

    /// Tells whether the job has a slot; takes one if it is its turn.
    ///
    /// # Errors
    ///
    /// If there is no descriptor or room for it now.
    pub(super) fn look(&mut self, job_dir: impl AsFd) -> io::Result<bool> {
        self.forget();
        let queue = durable::open_dir_in(job_dir, self.path.as_str())?;
        let tickets = durable::open_dir_in(&queue, TICKETS)?;
        if self.custody.get(Word::Slot) == 0 {
            let own = self.ticket(&tickets)?;
            if !self.is_first(&tickets, &own)? {
                return Ok(false);
            }
            let Some(slot) = self.slot(&queue)? else { return Ok(false) };
            self.custody.lend(Word::Slot, &slot);
            // From now on it is the page's.
            let _ = slot.into_raw_fd();
        }
        self.leave(&tickets)?;
        Ok(true)
    }

    /// Gives the ticket back, if it has one.
    pub(super) fn leave_queue(&mut self, job_dir: impl AsFd) {
        self.forget();
        let tickets = durable::open_dir_in(job_dir, format!("{}/{TICKETS}", self.path).as_str());
        tickets.and_then(|tickets| self.leave(&tickets)).ok();
    }

    /// Returns the name of the job's ticket. Makes one if it has none, behind all others.
    fn ticket(&self, tickets: &OwnedFd) -> io::Result<String> {
        let (mut own, mut last) = (None, 0);
        durable::visit_names(tickets, |name| match number(name) {
            Some((_, job)) if job == self.job.as_str() => own = Some(name.to_owned()),
            Some((number, _)) => last = last.max(number),
            None => {}
        })?;
        let is_held = self.custody.get(Word::Ticket) != 0;
        match own {
            Some(own) if is_held => return Ok(own),
            // Of a job with the same id that was removed.
            Some(own) => durable::remove(tickets, &own)?,
            // A keeper died before its ticket had its name.
            None => self.drop_ticket(),
        }
        // Locked before it is seen: a ticket that is not locked is one that was left behind.
        let new = format!("new.{}", self.job);
        durable::remove(tickets, &new)?;
        fault::step(Point::TicketMake, || fifo_lock::make(tickets, &new))?;
        let Some(ticket) = fifo_lock::try_hold(tickets, &new)? else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        self.custody.lend(Word::Ticket, &ticket);
        // From now on it is the page's.
        let _ = ticket.into_raw_fd();
        let own = format!("{:010}.{}", last + 1, self.job);
        fault::step(Point::TicketRename, || durable::rename(tickets, &new, &own))?;
        Ok(own)
    }

    /// Tells whether no job is before this one; otherwise the last of those is watched.
    fn is_first(&mut self, tickets: &OwnedFd, own: &str) -> io::Result<bool> {
        loop {
            let mut before = None::<String>;
            durable::visit_names(tickets, |name| {
                if number(name).is_some() && name < own && before.as_deref().is_none_or(|last| last < name) {
                    before = Some(name.to_owned());
                }
            })?;
            let Some(before) = before else { return Ok(true) };
            let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            let watched = match fifo_lock::watch(tickets, &before) {
                Err(error) if is_gone(&error) => continue,
                watched => watched?,
            };
            match fifo_lock::try_hold(tickets, &before) {
                Ok(None) => {
                    self.watched.push(watched);
                    return Ok(false);
                }
                // Its keeper and guard were killed at once.
                Ok(Some(_left)) => durable::remove(tickets, &before)?,
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a slot; `None` if there is none now, and then all that are held are watched, and how the queue is set.
    fn slot(&mut self, queue: &OwnedFd) -> io::Result<Option<OwnedFd>> {
        let place = format!("/proc/self/fd/{}", queue.as_raw_fd());
        self.settings = Some(Watch::for_replaced(Path::new(&place)));
        let settings = durable::read(queue, QUEUE_SETTINGS).map(|text| QueueSettings::parse(&text)).or_else(
            |error| match error.kind() {
                io::ErrorKind::NotFound => Ok(QueueSettings::default()),
                _ => Err(error),
            },
        )?;
        if settings.is_paused {
            return Ok(None);
        }
        let slots = durable::open_dir_in(queue, SLOTS)?;
        // More than may be held now, if fewer jobs may run at once than before.
        let mut count = settings.parallel;
        durable::visit_names(&slots, |name| {
            count = count.max(name.parse().map_or(0, |number: u32| number.saturating_add(1)));
        })?;
        let (mut free, mut held) = (None, 0);
        for number in 0..count {
            let name = number.to_string();
            let watched = match fifo_lock::watch(&slots, &name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && number < settings.parallel => {
                    fifo_lock::make(&slots, &name)?;
                    fifo_lock::watch(&slots, &name)?
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                watched => watched?,
            };
            match fault::step(Point::SlotTake, || fifo_lock::try_hold(&slots, &name))? {
                Some(slot) if free.is_none() && number < settings.parallel => free = Some(slot),
                Some(_) => {}
                None => {
                    held += 1;
                    self.watched.push(watched);
                }
            }
        }
        Ok(free.filter(|_| held < settings.parallel))
    }

    /// Removes the ticket, so that the next in the order is woken.
    fn leave(&self, tickets: &OwnedFd) -> io::Result<()> {
        let mut own = None;
        durable::visit_names(tickets, |name| {
            if number(name).is_some_and(|(_, job)| job == self.job.as_str()) {
                own = Some(name.to_owned());
            }
        })?;
        if let Some(own) = own {
            fault::step(Point::TicketRemove, || durable::remove(tickets, &own))?;
        }
        self.drop_ticket();
        Ok(())
    }

    fn drop_ticket(&self) {
        let ticket = self.custody.inherit(Word::Ticket);
        self.custody.withdraw(Word::Ticket);
        drop(ticket);
    }
}

/// Returns the number and the job of a ticket; `None` of a name that is none.
fn number(name: &str) -> Option<(u64, &str)> {
    let (number, job) = name.split_once('.')?;
    Some((number.parse().ok().filter(|_| number.len() == 10)?, job))
}

/// Gives back the slot of a job whose main process has ended, so that the next job of its queue is started.
pub(crate) fn release(custody: Custody) {
    let Some(slot) = custody.inherit(Word::Slot) else { return };
    custody.withdraw(Word::Slot);
    fault::around(Point::SlotRelease, || {
        // A guard with a table of its own has a copy, which is closed when it hears of this.
        lock::unlock(&slot).ok();
        drop(slot);
    });
    custody.tell_split_guard();
}
