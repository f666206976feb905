//! A scope of systemd's: a control group that its manager knows and leaves alone, outside of whatever this program was started
//! from.
//!
//! One message to the manager's own socket, spoken by hand: it is a method call with a handful of strings, and a
//! library for the whole of D-Bus would be larger than the rest of a keeper.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::socket::own_uid;

/// How long the manager may take; it takes a few milliseconds.
const LIMIT: Duration = Duration::from_secs(2);

/// Tells where the manager listens that this user's programs should ask, if the machine has one.
///
/// A user's manager ends with the last login, and its scopes with it, unless the user lingers. A program in a login session
/// would be worse off there, and stays.
pub fn manager() -> Option<PathBuf> {
    let uid = own_uid();
    let path = match uid {
        0 => PathBuf::from("/run/systemd/private"),
        _ if is_in_manager(uid) || lingers(uid) => PathBuf::from(format!("/run/user/{uid}/systemd/private")),
        _ => return None,
    };
    // A machine may have systemd's files and another init.
    (Path::new("/run/systemd/system").exists() && path.exists()).then_some(path)
}

/// Tells whether this program stands below the user's manager.
fn is_in_manager(uid: u32) -> bool {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    own.contains(&format!("/user@{uid}.service/"))
}

/// Tells whether the user's manager stays after the last login.
pub fn lingers(uid: u32) -> bool {
    let known = std::fs::read_to_string(format!("/run/systemd/users/{uid}")).unwrap_or_default();
    let name = known.lines().find_map(|line| line.strip_prefix("NAME="));
    name.is_some_and(|name| Path::new("/var/lib/systemd/linger").join(name).exists())
}

/// Asks the manager to put this program into a scope of its own, and waits until it stands there.
///
/// # Errors
///
/// If there is no manager, it refuses, or it takes too long.
pub fn enter(manager: &Path, name: &str) -> io::Result<()> {
    let before = std::fs::read("/proc/self/cgroup")?;
    let deadline = Instant::now() + LIMIT;
    let mut stream = UnixStream::connect(manager)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    authenticate(&mut stream)?;
    stream.write_all(&start_scope(name, std::process::id()))?;
    wait_for_answer(&mut stream)?;
    // The answer says that it will be done.
    while std::fs::read("/proc/self/cgroup")? == before {
        if Instant::now() >= deadline {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

fn authenticate(stream: &mut UnixStream) -> io::Result<()> {
    let uid: String = own_uid().to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
    stream.write_all(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n") && answer.len() < 512 {
        stream.read_exact(&mut byte)?;
        answer.push(byte[0]);
    }
    if !answer.starts_with(b"OK ") {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    stream.write_all(b"BEGIN\r\n")
}

/// Reads messages until the answer to the first call.
fn wait_for_answer(stream: &mut UnixStream) -> io::Result<()> {
    const RETURN: u8 = 2;
    const ERROR: u8 = 3;
    const LONGEST: usize = 1 << 20;
    loop {
        let mut head = [0; 16];
        stream.read_exact(&mut head)?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let (body, fields) = (word(4), word(12));
        let rest = fields.next_multiple_of(8).saturating_add(body);
        // The other byte order is another machine's, and this socket has none.
        if head[0] != b'l' || rest > LONGEST {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let mut skipped = vec![0; rest];
        stream.read_exact(&mut skipped)?;
        match head[1] {
            RETURN => return Ok(()),
            ERROR => {
                let words = String::from_utf8_lossy(&skipped[rest - body..]).into_owned();
                return Err(io::Error::other(words));
            }
            _ => {}
        }
    }
}

/// Writes the values of a message, each aligned as its type wants it.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn word(&mut self, value: u32) {
        self.align(4);
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, value: &str) {
        self.word(value.len() as u32);
        self.0.extend(value.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, value: &str) {
        self.0.push(value.len() as u8);
        self.0.extend(value.as_bytes());
        self.0.push(0);
    }

    /// Writes an array of structures: its length goes before the padding of its first element.
    fn structures(&mut self, write: impl FnOnce(&mut Self)) {
        self.word(0);
        let length_at = self.0.len() - 4;
        self.align(8);
        let begin = self.0.len();
        write(self);
        let length = (self.0.len() - begin) as u32;
        self.0[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// Returns the call that makes a scope with one process in it.
fn start_scope(name: &str, pid: u32) -> Vec<u8> {
    let mut body = Message::default();
    body.text(&format!("{name}.scope"));
    body.text("fail");
    body.structures(|body| {
        let mut property = |key: &str, signature: &str, write: &dyn Fn(&mut Message)| {
            body.align(8);
            body.text(key);
            body.signature(signature);
            write(body);
        };
        property("Description", "s", &|body| body.text("a job of outlive's"));
        property("PIDs", "au", &|body| {
            body.word(4);
            body.word(pid);
        });
        // Its groups are ours, with the controllers.
        property("Delegate", "b", &|body| body.word(1));
        property("CollectMode", "s", &|body| body.text("inactive-or-failed"));
    });
    body.structures(|_| {});

    let mut message = Message(vec![b'l', 1, 0, 1]);
    message.word(body.0.len() as u32);
    message.word(1);
    message.structures(|message| {
        let fields = [
            (1, "o", "/org/freedesktop/systemd1"),
            (2, "s", "org.freedesktop.systemd1.Manager"),
            (3, "s", "StartTransientUnit"),
            (6, "s", "org.freedesktop.systemd1"),
        ];
        for (code, signature, value) in fields {
            message.align(8);
            message.0.push(code);
            message.signature(signature);
            message.text(value);
        }
        message.align(8);
        message.0.push(8);
        message.signature("g");
        message.signature("ssa(sv)a(sa(sv))");
    });
    message.align(8);
    message.0.extend(body.0);
    message.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_framed_as_it_says() {
        let message = start_scope("outlive-1-2", 4242);
        let word = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!(&message[..4], &[b'l', 1, 0, 1]);
        let (body, fields) = (word(4), word(12));
        assert_eq!(16 + fields.next_multiple_of(8) + body, message.len());
        let body_at = message.len() - body;
        assert_eq!(body_at % 8, 0);
        assert_eq!(&message[body_at + 4..body_at + 21], b"outlive-1-2.scope");
        assert!(message.windows(4).any(|window| window == 4242u32.to_le_bytes()));
    }
}
