//! What a command says on the socket that `NOTIFY_SOCKET` names, as services of systemd do: that it is ready, and that it goes on working.
//!
//! The guard has the socket, too, so that a message that comes while the keeper dies is not lost. It stays in the queue until the snapshot
//! says what it said. That the command goes on working is noted as the time of the socket's file: the process that checks its health looks
//! at that, and no other process wakes for it.

use outlive_core::file;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::{socket, stamp};

use crate::start::Keeper;

/// The longest message that is understood; as with systemd.
const LONGEST: usize = 4096;

/// How many messages are taken in one turn: a command that sends without a pause does not keep its output from being read.
const MOST: usize = 16;

impl Keeper {
    /// Takes messages out of the queue. Those that say something else are dropped, so that no sender waits for room.
    pub(crate) fn hear_notices(&mut self) {
        let mut message = [0; LONGEST];
        for _ in 0..MOST {
            let Some(notices) = &self.notices else { return };
            let look = || socket::look_at_message(notices, &mut message);
            let Ok(Some(count)) = fault::step(Point::NoticeReceive, look) else { return };
            let told = Told::of(&message[..count]);
            if !self.meta.notified && told.is_ready {
                self.meta.notified = true;
                self.write_meta(Replacing::META_START);
            }
            if let Some(works) = told.works {
                let note = || stamp::set_modified(&self.dir, file::NOTIFY, works);
                // What is not noted is said again in the next interval.
                fault::step(Point::NoticeNote, note).ok();
            }
            self.notices.iter().for_each(socket::drop_message);
        }
    }
}

/// What a message says: assignments, one in a line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    is_ready: bool,
    /// It goes on working, or has noticed itself that it does not.
    works: Option<bool>,
}

impl Told {
    fn of(message: &[u8]) -> Self {
        let mut told = Self::default();
        for line in message.split(|byte| *byte == b'\n') {
            match line {
                b"READY=1" => told.is_ready = true,
                b"WATCHDOG=1" => told.works = Some(true),
                b"WATCHDOG=trigger" => told.works = Some(false),
                _ => {}
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_its_own_says_it() {
        for (message, is_ready, works) in [
            (&b"READY=1"[..], true, None),
            (b"STATUS=up\nREADY=1\nMAINPID=5", true, None),
            (b"READY=1\n", true, None),
            (b"READY=10", false, None),
            (b"STATUS=READY=1", false, None),
            (b"READY=0", false, None),
            (b"", false, None),
            (b"\xff\n\0", false, None),
            (b"WATCHDOG=1", false, Some(true)),
            (b"READY=1\nWATCHDOG=1\n", true, Some(true)),
            (b"WATCHDOG=trigger", false, Some(false)),
            (b"WATCHDOG=10", false, None),
            (b"WATCHDOG_USEC=1", false, None),
        ] {
            assert_eq!(Told::of(message), Told { is_ready, works }, "{message:?}");
        }
    }
}
