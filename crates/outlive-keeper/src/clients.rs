//! Front ends that are connected to the keeper's socket.
//!
//! No client can hold the keeper up: sockets do not block, a connection buffers one request and one answer, and an idle
//! connection is closed when there are too many.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use outlive_core::control::{Hello, MAX_INPUT, Place, Reply, Request};
use outlive_core::wire::{HEADER, WireError, first_frame};
use outlive_sys::fault::{self, Point};
use outlive_sys::pipe::{Attempt, try_read, try_write};
use outlive_sys::socket;

use crate::terminal::viewers::Viewer;

/// How many clients may be connected at a time.
pub(crate) const MAX_CLIENTS: usize = 64;

/// The longest contents of a request: a full piece of input and its fields.
const MAX_REQUEST: usize = MAX_INPUT + 64;

/// What a client waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Nothing: it may ask.
    No,
    /// The end of the tree.
    Killed,
    /// The end of an upgrade.
    Upgraded,
    /// Room for this input.
    Room(Vec<u8>, Place),
}

/// What the other end of a connection can still do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Open,
    /// It sends nothing more. What it has sent is served.
    HalfClosed,
    Gone,
}

pub(crate) struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    /// At most one answer: the next request is taken when this one is sent.
    unsent: Vec<u8>,
    pub(crate) waiting: Waiting,
    /// It shows the command's terminal to a person.
    pub(crate) viewer: Option<Viewer>,
    peer: Peer,
}

impl Client {
    /// Greets a new connection; `None` if it is of another user.
    pub(crate) fn new(stream: UnixStream, hello: &Hello) -> Option<Self> {
        if !is_allowed(socket::peer_uid(&stream)?, socket::own_uid()) {
            return None;
        }
        let (unsent, waiting) = (hello.to_frame(), Waiting::No);
        let mut client =
            Self { stream, received: Vec::new(), unsent, waiting, viewer: None, peer: Peer::Open };
        client.flush();
        Some(client)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Tells whether a request may be taken: the one before was answered, and its answer is sent. A client that does not
    /// read its answers is not read from, so that neither buffer grows.
    fn may_ask(&self) -> bool {
        self.waiting == Waiting::No && self.unsent.is_empty()
    }

    /// Tells whether to wait for requests.
    pub(crate) fn expects_request(&self) -> bool {
        self.may_ask() && self.peer == Peer::Open
    }

    /// Tells whether there is something to do for [`Client::next_request`] though nothing new has come.
    pub(crate) fn has_request(&self) -> bool {
        self.may_ask() && self.peer != Peer::Gone && !matches!(self.first_frame(), Ok(None))
    }

    /// Tells whether the connection can be closed.
    pub(crate) fn is_finished(&self) -> bool {
        match self.peer {
            Peer::Open => false,
            Peer::HalfClosed => self.may_ask() && !self.has_request(),
            Peer::Gone => true,
        }
    }

    /// Sends and receives what the socket takes and has now.
    pub(crate) fn exchange(&mut self, is_hung_up: bool) {
        self.flush();
        if self.may_ask() {
            self.receive();
        } else if is_hung_up {
            self.peer = Peer::Gone;
        }
    }

    /// Reads what has come, up to a whole request of the longest kind.
    fn receive(&mut self) {
        let mut buffer = [0; 4096];
        loop {
            let room = (HEADER + MAX_REQUEST).saturating_sub(self.received.len()).min(buffer.len());
            if room == 0 {
                return;
            }
            match fault::attempt(Point::ClientReceive, || try_read(&self.stream, &mut buffer[..room])) {
                Attempt::Moved(count) => self.received.extend_from_slice(&buffer[..count]),
                Attempt::WouldBlock => return,
                Attempt::Closed => return self.peer = Peer::HalfClosed,
                Attempt::Failed(_) => return self.peer = Peer::Gone,
            }
        }
    }

    /// Returns the contents and length of the first frame, if it is whole. One that claims to be longer than any request is
    /// not waited for.
    fn first_frame(&self) -> Result<Option<(&[u8], usize)>, WireError> {
        match self.received.first_chunk::<HEADER>() {
            Some(header) if u32::from_le_bytes(*header) as usize > MAX_REQUEST => Err(WireError::Long),
            _ => first_frame(&self.received),
        }
    }

    /// Takes the next whole request. One that is not known is refused.
    pub(crate) fn next_request(&mut self) -> Option<Request> {
        if !self.has_request() {
            return None;
        }
        let Ok(frame) = self.first_frame() else {
            // There is no way to find the next one.
            self.peer = Peer::Gone;
            return None;
        };
        let (request, length) = frame.map(|(contents, length)| (Request::parse(contents), length))?;
        self.received.drain(..length);
        if self.received.is_empty() {
            // A connection may stay for long; its memory need not.
            self.received = Vec::new();
        }
        match request {
            Ok(request) => Some(request),
            Err(error) => {
                self.reply(&Reply::refused("unknown_request", error.to_string()));
                None
            }
        }
    }

    /// Answers the request that was taken last.
    pub(crate) fn reply(&mut self, reply: &Reply) {
        self.waiting = Waiting::No;
        self.unsent.extend(reply.to_frame());
        self.flush();
    }

    /// Sends what the socket takes now.
    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            let send = || try_write(&self.stream, fault::shortened(Point::ClientReply, &self.unsent));
            match fault::attempt(Point::ClientReply, send) {
                Attempt::Moved(count) => {
                    self.unsent.drain(..count);
                }
                Attempt::WouldBlock => return,
                Attempt::Closed | Attempt::Failed(_) => return self.peer = Peer::Gone,
            }
        }
    }
}

/// Tells whether a user may control the jobs of another.
fn is_allowed(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    use outlive_core::control::SPOKEN;
    use outlive_core::id::Nonce;

    /// Connects a client with its other end, whose greeting is read.
    fn connected() -> (Client, UnixStream) {
        let (ours, mut theirs) = socket::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let hello = Hello { versions: SPOKEN, nonce: Nonce([7; 16]) };
        let client = Client::new(ours, &hello).expect("it is of the same user");
        let mut greeting = vec![0; hello.to_frame().len()];
        theirs.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting, hello.to_frame());
        theirs.set_nonblocking(true).unwrap();
        (client, theirs)
    }

    fn frame(claimed: usize, contents: &[u8]) -> Vec<u8> {
        [&u32::try_from(claimed).unwrap().to_le_bytes()[..], contents].concat()
    }

    #[test]
    fn only_the_same_user_and_root_are_heard() {
        assert!(is_allowed(1000, 1000) && is_allowed(0, 1000) && is_allowed(0, 0));
        assert!(!is_allowed(1001, 1000) && !is_allowed(1000, 0));
    }

    #[test]
    fn a_request_in_pieces_is_whole_with_its_last_byte() {
        let (mut client, mut theirs) = connected();
        let request = Request::Input(b"abc".to_vec(), Place::default());
        for byte in request.to_frame() {
            assert_eq!(client.next_request(), None);
            theirs.write_all(&[byte]).unwrap();
            client.exchange(false);
        }
        assert_eq!(client.next_request(), Some(request));
        assert_eq!(client.next_request(), None);
        assert!(!client.is_finished());
    }

    #[test]
    fn pipelined_requests_wait_until_the_one_before_is_answered() {
        let (mut client, mut theirs) = connected();
        let requests = [
            Request::Pause.to_frame(),
            frame(1, &[250]),
            frame(0, &[]),
            Request::Eof(Place::default()).to_frame(),
        ];
        theirs.write_all(&requests.concat()).unwrap();
        client.exchange(false);
        assert_eq!(client.next_request(), Some(Request::Pause));
        client.waiting = Waiting::Killed;
        assert_eq!(client.next_request(), None, "it waits");
        assert!(!client.has_request() && !client.expects_request());
        client.reply(&Reply::Accepted);
        for _ in 0..2 {
            assert!(client.has_request());
            assert_eq!(client.next_request(), None, "what is not known is refused");
        }
        assert_eq!(client.next_request(), Some(Request::Eof(Place::default())));
        let refused = |error: WireError| {
            Reply::Refused { code: "unknown_request".into(), message: error.to_string() }.to_frame()
        };
        let expected =
            [Reply::Accepted.to_frame(), refused(WireError::Type(250)), refused(WireError::Short)].concat();
        let mut answers = vec![0; expected.len()];
        theirs.read_exact(&mut answers).unwrap();
        assert_eq!(answers, expected);
    }

    #[test]
    fn a_frame_that_is_too_long_ends_the_connection_with_its_header() {
        for claimed in [MAX_REQUEST + 1, 16 << 20, u32::MAX as usize] {
            let (mut client, mut theirs) = connected();
            theirs.write_all(&frame(claimed, &[])).unwrap();
            client.exchange(false);
            assert!(client.has_request(), "there is something to do");
            assert_eq!(client.next_request(), None);
            assert!(client.is_finished(), "{claimed}");
        }
    }

    #[test]
    fn the_longest_request_fits() {
        let (mut client, mut theirs) = connected();
        let request = Request::Input(vec![b'x'; MAX_INPUT], Place::default());
        let mut bytes = request.to_frame();
        // Fields of a later version follow, and then the next request.
        bytes.resize(HEADER + MAX_REQUEST, 0);
        bytes[..HEADER].copy_from_slice(&u32::try_from(MAX_REQUEST).unwrap().to_le_bytes());
        bytes.extend(Request::Eof(Place::default()).to_frame());
        let mut sent = 0;
        while client.received.len() < HEADER + MAX_REQUEST {
            sent += theirs.write(&bytes[sent..]).unwrap_or(0);
            client.exchange(false);
        }
        assert_eq!(client.received.len(), HEADER + MAX_REQUEST, "and no more than that is held");
        assert_eq!(client.next_request(), Some(request));
        while sent < bytes.len() {
            sent += theirs.write(&bytes[sent..]).unwrap_or(0);
        }
        client.exchange(false);
        assert_eq!(client.next_request(), Some(Request::Eof(Place::default())));
        assert_eq!(client.received.capacity(), 0, "an idle connection holds no memory");
    }

    #[test]
    fn a_client_that_reads_no_answer_is_not_read_from() {
        let (mut client, mut theirs) = connected();
        let requests = Request::Resume.to_frame().repeat(1000);
        let large = Reply::Refused { code: "x".repeat(5000), message: String::new() };
        let mut answers = 0;
        loop {
            // The other end writes whatever it can.
            while theirs.write(&requests).is_ok() {}
            client.exchange(false);
            let Some(request) = client.next_request() else { break };
            assert_eq!(request, Request::Resume);
            client.reply(&large);
            answers += 1;
            assert!(client.received.len() <= HEADER + MAX_REQUEST);
        }
        assert!(answers > 0 && client.has_unsent() && !client.expects_request() && !client.is_finished());
        assert!(client.unsent.len() <= large.to_frame().len(), "one answer at most");
        // It goes on as soon as the other end reads.
        let mut buffer = vec![0; 1 << 20];
        while theirs.read(&mut buffer).is_ok() {}
        client.exchange(false);
        assert_eq!(client.next_request(), Some(Request::Resume));
    }

    #[test]
    fn what_was_sent_before_the_end_is_served() {
        let (mut client, mut theirs) = connected();
        let half = &Request::Eof(Place::default()).to_frame()[..3];
        theirs
            .write_all(&[&Request::Pause.to_frame()[..], &Request::Resume.to_frame(), half].concat())
            .unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        client.exchange(false);
        for request in [Request::Pause, Request::Resume] {
            assert!(!client.is_finished() && !client.expects_request());
            assert_eq!(client.next_request(), Some(request));
            client.reply(&Reply::Accepted);
        }
        assert!(client.is_finished(), "half a request will never be whole");
    }

    #[test]
    fn one_that_hangs_up_while_it_waits_is_gone() {
        let (mut client, theirs) = connected();
        client.waiting = Waiting::Killed;
        drop(theirs);
        client.exchange(true);
        assert!(client.is_finished());
        assert_eq!(client.next_request(), None);
    }
}
