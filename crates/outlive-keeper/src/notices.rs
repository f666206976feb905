//! What a command says on the socket that `NOTIFY_SOCKET` names, as services of systemd do: only that it is ready.
//!
//! The guard has the socket, too, so that a message that comes while the keeper dies is not lost. It stays in the queue until the snapshot
//! says what it said.

use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::socket;

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
            if !self.meta.notified && says_ready(&message[..count]) {
                self.meta.notified = true;
                self.write_meta(Replacing::META_START);
            }
            self.notices.iter().for_each(socket::drop_message);
        }
    }
}

/// Tells whether a message says that the service is ready: assignments, one in a line.
fn says_ready(message: &[u8]) -> bool {
    message.split(|byte| *byte == b'\n').any(|line| line == b"READY=1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_its_own_says_ready() {
        for (message, is_ready) in [
            (&b"READY=1"[..], true),
            (b"STATUS=up\nREADY=1\nMAINPID=5", true),
            (b"READY=1\n", true),
            (b"READY=10", false),
            (b"STATUS=READY=1", false),
            (b"READY=0", false),
            (b"", false),
            (b"\xff\n\0", false),
        ] {
            assert_eq!(says_ready(message), is_ready, "{message:?}");
        }
    }
}
