//! The API on standard input and output, for a program that has reached this machine in its own way: nothing listens.
//!
//! The program that started this process is this user's, as on the Unix socket. It serves one connection, and ends with it. A verb of the
//! command line is run without the server (`command::pipes`), in a process that is a copy of this one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use outlive::Store;
use outlive_sys::socket;
use tokio::sync::Semaphore;

use crate::access::tokens::Tokens;
use crate::command::Verb;
use crate::command::pipes::{self, Input};
use crate::server::{End, Peer, ServeError, connection, prepare};

/// How much is copied at once.
const PIECE: usize = 64 << 10;

/// Serves a store on standard input and output, until the input ends; `greeting` comes before all else. Returns a verb in the process
/// that is to do it.
///
/// # Errors
///
/// If the store cannot be used.
pub fn serve_pipes(store: Store, greeting: &str) -> Result<Option<Verb>, ServeError> {
    outlive_sys::signal::unblock_all();
    let (key, mut begun) = pipes::begin(Input::take()?)?;
    if let Some(key) = key {
        // A client that is gone is told nothing.
        return Ok(pipes::run(&store, &key, greeting, begun).unwrap_or_default());
    }
    File::from(io::stdout().as_fd().try_clone_to_owned()?).write_all(greeting.as_bytes())?;
    let tokens = Tokens::of(&store)?;
    let (router, shared, runtime) = prepare(store, tokens, None)?;
    let (ours, theirs) = socket::pair()?;
    let input = ours.try_clone()?;
    std::thread::spawn(move || {
        copy(&mut begun, &input);
        // The client is gone, and so is what it asked for.
        input.shutdown(std::net::Shutdown::Write).ok();
    });
    let output = std::thread::spawn(move || copy(&ours, io::stdout()));
    theirs.set_nonblocking(true)?;
    let room = Arc::new(Semaphore::new(1));
    runtime.block_on(async {
        let stream = tokio::net::UnixStream::from_std(theirs)?;
        let permit = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
        connection(stream, router, Arc::clone(&shared), Peer::Unix, permit).await;
        // A WebSocket goes on after its connection's task.
        End::catch()?.wait(&shared, Some(Duration::ZERO)).await;
        Ok::<(), io::Error>(())
    })?;
    // Closes our side of the pair, so that the last bytes are written and the thread ends.
    drop(runtime);
    output.join().ok();
    Ok(None)
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; PIECE];
    loop {
        match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
                    return;
                }
            }
        }
    }
}
