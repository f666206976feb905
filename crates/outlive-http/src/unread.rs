//! A client that asks and does not read.
//!
//! Once what the kernel holds for it is full, its connection would stay for as long as it likes. A client that has shown a token may: a
//! pager at its end waits for a person. Others are sent away, or a few hundred of them would keep the owner out.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// So long a client without a token may leave an answer unread.
const LIMIT: Duration = Duration::from_secs(15);

/// Whether the client of a connection has shown that it may ask.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(Arc<AtomicBool>);

impl Known {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A stream that fails when a client that is not known takes nothing for too long.
#[derive(Debug)]
pub(crate) struct Unread<S> {
    stream: S,
    known: Known,
    limit: Option<Pin<Box<Sleep>>>,
}

impl<S> Unread<S> {
    pub(crate) fn new(stream: S, known: Known) -> Self {
        Self { stream, known, limit: None }
    }

    /// Passes on what the stream said of a write, unless it has waited for too long.
    fn within<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() || self.known.0.load(Ordering::Relaxed) {
            self.limit = None;
            return written;
        }
        let limit = self.limit.get_or_insert_with(|| Box::pin(tokio::time::sleep(LIMIT)));
        limit.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unread<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unread<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.within(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.within(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within(shut, context)
    }
}
