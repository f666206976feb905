//! A program on another machine, over the connection that `ssh` shares, without executing `ssh` for it: that takes longer than all that
//! outlive itself does for a start.
//!
//! It is the part of OpenSSH's `PROTOCOL.mux` that `ssh` itself speaks where it finds a shared connection: the process that has the
//! connection is handed the three ends, and tells the exit status. Whatever it does not agree to is left to `ssh`.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use outlive_sys::fault::{self, Point};
use outlive_sys::socket;

use crate::connection::{LastWords, said_until_now};

const HELLO: u32 = 1;
const NEW_SESSION: u32 = 0x1000_0002;
const EXIT_MESSAGE: u32 = 0x8000_0004;
const SESSION_OPENED: u32 = 0x8000_0006;

/// Of the protocol.
const VERSION: u32 = 4;

/// There is one request on a connection.
const REQUEST: u32 = 0;

/// What stands for no escape character.
const NO_ESCAPE: u32 = u32::MAX;

/// The most that an answer has: a reason, in words.
const LONGEST: u32 = 64 << 10;

/// A process that listens takes a connection at once, or is stopped: then `ssh` is left to find out.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// What a shared connection is asked for.
pub(crate) struct Wanted<'a> {
    /// A line for the user's shell there.
    pub(crate) line: &'a str,
    /// Variables for it, as `NAME=value`.
    pub(crate) variables: &'a [Vec<u8>],
    /// The agent of the user's keys is to be reached from there.
    pub(crate) with_agent: bool,
}

/// A program there that has begun. It is told to end where this is dropped.
pub(crate) struct Session {
    control: UnixStream,
    stderr: PipeReader,
}

/// Starts a program there; returns what reads from it and what writes to it.
///
/// # Errors
///
/// If there is no shared connection, or it takes no program more: nothing was written to any program then.
pub(crate) fn open(
    directory: &Path,
    name: &str,
    wanted: &Wanted<'_>,
) -> io::Result<(PipeReader, PipeWriter, Session)> {
    let mut control = socket::connect_in(File::open(directory)?, name, CONNECT_LIMIT)?;
    if socket::peer_uid(&control) != Some(socket::own_uid()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let (stdin, writer) = io::pipe()?;
    let (reader, stdout) = io::pipe()?;
    let (stderr, errors) = io::pipe()?;
    let messages = [packet(HELLO, &VERSION.to_be_bytes()), packet(NEW_SESSION, &request(wanted))].concat();
    fault::write(Point::SessionSend, &messages, |part| control.write_all(part))?;
    for end in [stdin.as_fd(), stdout.as_fd(), errors.as_fd()] {
        socket::send_with(&control, &[0], &[end])?;
    }
    // The other machine may be far away, or not there any more, which `ssh` notices in its own time.
    control.set_read_timeout(None)?;
    await_opened(&mut control)?;
    Ok((reader, writer, Session { control, stderr }))
}

fn await_opened(control: &mut UnixStream) -> io::Result<()> {
    let refused = |what: &str| Err(io::Error::other(what));
    match receive(control)? {
        (HELLO, [VERSION, ..]) => {}
        _ => return refused("another protocol"),
    }
    match receive(control)? {
        (SESSION_OPENED, [REQUEST, ..]) => Ok(()),
        _ => refused("no session"),
    }
}

impl Session {
    /// Returns the exit status of a program that has closed its output, and what it wrote to standard error.
    pub(crate) fn last_words(&mut self) -> LastWords {
        loop {
            match receive(&mut self.control) {
                Ok((EXIT_MESSAGE, [_, status])) => {
                    return (i32::try_from(status).ok(), said_until_now(&self.stderr));
                }
                Ok(_) => {}
                // What was written to the program may have arrived.
                Err(_) => return (None, "the shared connection has ended".to_owned()),
            }
        }
    }
}

/// Writes a request for a program without a terminal.
fn request(wanted: &Wanted<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    let number = |body: &mut Vec<u8>, number: u32| body.extend_from_slice(&number.to_be_bytes());
    let text = |body: &mut Vec<u8>, text: &[u8]| {
        body.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        body.extend_from_slice(text);
    };
    number(&mut body, REQUEST);
    text(&mut body, b"");
    // No terminal, no X11, perhaps an agent, no subsystem.
    for flag in [false, false, wanted.with_agent, false] {
        number(&mut body, u32::from(flag));
    }
    number(&mut body, NO_ESCAPE);
    // The kind of the terminal.
    text(&mut body, b"");
    text(&mut body, wanted.line.as_bytes());
    for variable in wanted.variables {
        text(&mut body, variable);
    }
    body
}

fn packet(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), &kind.to_be_bytes(), body].concat()
}

/// Reads a message: its kind, and the first two numbers in it, 0 where there are none.
fn receive(control: &mut UnixStream) -> io::Result<(u32, [u32; 2])> {
    let mut length = [0; 4];
    control.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if !(4..=LONGEST).contains(&length) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length as usize];
    control.read_exact(&mut message)?;
    let mut numbers =
        message.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
    let mut next = || numbers.next().unwrap_or(0);
    Ok((next(), [next(), next()]))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    const FAILURE: u32 = 0x8000_0003;

    /// Asks a process that answers with these messages, writes to the ends that it was handed, and says this last.
    fn asked(answers: &[Vec<u8>], last: &[Vec<u8>]) -> io::Result<(String, LastWords)> {
        let directory = tempfile::tempdir()?;
        let listener = UnixListener::bind(directory.path().join("shared"))?;
        let (answers, last) = (answers.concat(), last.concat());
        let keeping = std::thread::spawn(move || -> io::Result<Vec<u8>> {
            let (mut control, _) = listener.accept()?;
            let mut body = vec![0; 12];
            control.read_exact(&mut body)?;
            assert_eq!(body, packet(HELLO, &VERSION.to_be_bytes()));
            let mut length = [0; 4];
            control.read_exact(&mut length)?;
            body.resize(u32::from_be_bytes(length) as usize, 0);
            control.read_exact(&mut body)?;
            let mut ends = Vec::new();
            for _ in 0..3 {
                ends.extend(socket::receive_with(&mut control, &mut [0])?.into_iter().map(File::from));
            }
            control.write_all(&answers)?;
            // One that was refused has not waited.
            ends[1].write_all(b"printed").and_then(|()| ends[2].write_all(b"said\n")).ok();
            drop(ends);
            control.write_all(&last).ok();
            Ok(body)
        });
        let wanted = Wanted { line: "exec true", variables: &[b"A=b".to_vec()], with_agent: true };
        let opened = open(directory.path(), "shared", &wanted);
        let asked = keeping.join().expect("no panic")?;
        assert_eq!(asked[..4], NEW_SESSION.to_be_bytes());
        assert!(asked.ends_with(b"\0\0\0\x09exec true\0\0\0\x03A=b"), "{asked:?}");
        let (mut reader, _writer, mut session) = opened?;
        let mut printed = String::new();
        reader.read_to_string(&mut printed)?;
        Ok((printed, session.last_words()))
    }

    fn message(kind: u32, numbers: &[u32]) -> Vec<u8> {
        packet(kind, &numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>())
    }

    #[test]
    fn a_program_has_its_three_ends_and_a_status() {
        let agreed = [message(HELLO, &[VERSION]), message(SESSION_OPENED, &[REQUEST, 3])];
        let ended = asked(&agreed, &[message(EXIT_MESSAGE, &[3, 7])]).unwrap();
        assert_eq!(ended, ("printed".to_owned(), (Some(7), "said".to_owned())));
        let cut = asked(&agreed, &[]).unwrap();
        assert_eq!(cut.1, (None, "the shared connection has ended".to_owned()));
    }

    #[test]
    fn what_is_not_agreed_to_is_left_to_ssh() {
        let hello = message(HELLO, &[VERSION]);
        for answers in [
            vec![],
            vec![message(HELLO, &[VERSION + 1]), message(SESSION_OPENED, &[REQUEST, 3])],
            vec![hello.clone()],
            vec![hello.clone(), message(FAILURE, &[REQUEST])],
            vec![hello.clone(), message(SESSION_OPENED, &[REQUEST + 1, 3])],
            vec![hello, u32::MAX.to_be_bytes().to_vec()],
        ] {
            assert!(asked(&answers, &[]).is_err(), "{answers:?}");
        }
        let wanted = Wanted { line: "", variables: &[], with_agent: false };
        assert!(open(Path::new("/nowhere"), "shared", &wanted).is_err());
    }
}
