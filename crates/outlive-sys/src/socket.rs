//! Unix sockets in a directory, however long its path.
//!
//! A socket's address holds 108 bytes; a job's path may be longer. The keeper binds a relative name from inside the
//! directory, and a client goes through an open directory.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, recvmsg, sendmsg, socket_with, socketpair,
};

use crate::fault::{self, Point};

/// Waiting connections that the kernel holds for a keeper that is busy.
const BACKLOG: i32 = 128;

/// The longest path that is an address of a socket.
pub const LONGEST_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Listens on `name` in `dir`, without blocking.
///
/// Changes this program's working directory to `/`; only for a program with one thread.
///
/// # Errors
///
/// If the name is taken or the file system does not take sockets.
pub fn listen_in(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let socket = bind_in(dir, name, SocketType::STREAM)?;
    fault::step(Point::SocketListen, || Ok(listen(&socket, BACKLOG)?))?;
    Ok(socket)
}

/// Makes a socket that receives messages at `name` in `dir`, without blocking. As [`listen_in`] in everything else.
///
/// # Errors
///
/// If the name is taken or the file system does not take sockets.
pub fn receive_in(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    bind_in(dir, name, SocketType::DGRAM)
}

fn bind_in(dir: impl AsFd, name: &str, kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::process::fchdir(dir)?;
    let bound = fault::step(Point::SocketBind, || Ok(bind(&socket, &SocketAddrUnix::new(name)?)?));
    crate::spawn::leave_directory();
    bound?;
    Ok(socket)
}

/// Returns the next message, as much of it as the buffer holds, and leaves it in the queue; `None` if there is none. Descriptors that came
/// with it are not taken.
///
/// # Errors
///
/// If the kernel is out of memory.
pub fn look_at_message(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match retry_on_intr(|| recv(&socket, &mut *buffer, RecvFlags::PEEK)) {
        Ok((count, _)) => Ok(Some(count)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes the next message out of the queue.
pub fn drop_message(socket: impl AsFd) {
    recv(socket, &mut [0u8; 1], RecvFlags::empty()).ok();
}

/// Takes a waiting connection, non-blocking; `None` if there is none or it is already gone.
///
/// # Errors
///
/// If there are no descriptors left: the connection then stays waiting.
pub fn accept(listener: impl AsFd) -> io::Result<Option<UnixStream>> {
    match accept_with(&listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(fd) => Ok(Some(UnixStream::from(fd))),
        Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Lets no process connect any more, whichever processes have the socket open.
pub fn stop_listening(listener: impl AsFd) {
    rustix::net::shutdown(listener, rustix::net::Shutdown::Both).ok();
}

/// Connects to `name` in `dir`; connecting, reading and writing fail after `limit` without progress.
///
/// # Errors
///
/// If no process listens there.
pub fn connect_in(dir: impl AsFd, name: &str, limit: Duration) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let path = format!("/proc/self/fd/{}/{name}", dir.as_fd().as_raw_fd());
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}

/// Makes a connected pair, close-on-exec.
///
/// # Errors
///
/// If there are no descriptors left.
pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok((UnixStream::from(a), UnixStream::from(b)))
}

/// The most descriptors that go with one message.
pub const MAX_PASSED: usize = 8;

/// Sends bytes, and descriptors with the first of them.
///
/// # Errors
///
/// If the other side is gone or does not read.
///
/// # Panics
///
/// If more than [`MAX_PASSED`] descriptors are given.
pub fn send_with(mut stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    use std::io::Write;
    assert!(fds.len() <= MAX_PASSED, "at most {MAX_PASSED} descriptors go with a message");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_PASSED))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    let sent =
        retry_on_intr(|| sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL))?;
    stream.write_all(&bytes[sent..])
}

/// Receives into the whole buffer, and the descriptors that come with its first bytes, close-on-exec.
///
/// # Errors
///
/// If the other side is gone before the buffer is full.
pub fn receive_with(stream: &mut UnixStream, buffer: &mut [u8]) -> io::Result<Vec<OwnedFd>> {
    use std::io::Read;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_PASSED))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        recvmsg(&*stream, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    });
    let received = received?.bytes;
    if received == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = rights.flatten().collect();
    stream.read_exact(&mut buffer[received..])?;
    Ok(fds)
}

/// Returns the user at the other end.
pub fn peer_uid(stream: &UnixStream) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|credentials| credentials.uid.as_raw())
}

/// Returns this program's effective user.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
