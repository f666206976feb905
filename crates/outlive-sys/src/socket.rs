//! Unix sockets in a directory, however long its path.
//!
//! A socket's address holds 108 bytes; a job's path may be longer. The keeper binds a relative name from inside the
//! directory, and a client goes through an open directory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
    socketpair,
};

/// Waiting connections that the kernel holds for a keeper that is busy.
const BACKLOG: i32 = 128;

/// Listens on `name` in `dir`, without blocking.
///
/// Changes this program's working directory to `/`; only for a program with one thread.
///
/// # Errors
///
/// If the name is taken or the file system does not take sockets.
pub fn listen_in(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::process::fchdir(dir)?;
    let bound = SocketAddrUnix::new(name).and_then(|address| bind(&socket, &address));
    crate::spawn::leave_directory();
    bound?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
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

/// Connects to `name` in `dir`; reading and writing then fail after `limit` without progress.
///
/// # Errors
///
/// If nobody listens there.
pub fn connect_in(dir: impl AsFd, name: &str, limit: Duration) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let path = format!("/proc/self/fd/{}/{name}", dir.as_fd().as_raw_fd());
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
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

/// Returns the user at the other end.
pub fn peer_uid(stream: &UnixStream) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|credentials| credentials.uid.as_raw())
}

/// Returns this program's effective user.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
