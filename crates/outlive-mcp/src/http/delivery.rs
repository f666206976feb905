//! Whether a client has an answer: what the body of a response tells of that.
//!
//! An answer counts as delivered when its response was written to the end. A client that breaks off before gets what rides on the answer
//! with a later one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde_json::Value;

use crate::reply::After;

/// How long a call waits for the actions of an earlier answer. They take a moment; a client that does not read its answers must not
/// keep others from theirs.
const PATIENCE: Duration = Duration::from_millis(500);

/// Counts the answers of a client that are being written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deliveries(Arc<(Mutex<usize>, Condvar)>);

impl Deliveries {
    /// Runs the actions once the client has the answer of this request.
    pub(crate) fn after(&self, context: &RequestContext<RoleServer>, after: Vec<After>) {
        let exchange = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Exchange>());
        if let Some(exchange) = exchange.filter(|_| !after.is_empty()) {
            let mut state = exchange.lock();
            // The client has gone already: the actions are dropped.
            if let State::Open(pending) = &mut *state {
                *pending = Some(Pending { after, deliveries: self.clone() });
            }
        }
    }

    /// Waits until the actions of all answers that the client may have are done.
    pub(crate) fn finish(&self) {
        let (count, changed) = &*self.0;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(changed.wait_timeout_while(count, PATIENCE, |count| *count > 0));
    }

    fn change(&self, by: isize) {
        let (count, changed) = &*self.0;
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_add_signed(by);
        changed.notify_all();
    }
}

/// One request over HTTP and its response.
#[derive(Clone, Default)]
pub(crate) struct Exchange(Arc<Mutex<State>>);

enum State {
    /// With what is to be done once the answer is written.
    Open(Option<Pending>),
    /// The response is over.
    Closed,
}

impl Default for State {
    fn default() -> Self {
        Self::Open(None)
    }
}

struct Pending {
    after: Vec<After>,
    deliveries: Deliveries,
}

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is to be done, if these bytes are the answer.
    fn answered_by(&self, bytes: &[u8]) -> Option<Pending> {
        match &mut *self.lock() {
            State::Open(pending) if pending.is_some() && is_answer(bytes) => pending.take(),
            _ => None,
        }
    }

    fn close(&self) {
        // What is dropped with it may take locks of its own.
        let closed = std::mem::replace(&mut *self.lock(), State::Closed);
        drop(closed);
    }
}

/// Tells whether a part of a response, as JSON or as an event, is an answer: notifications and requests of the server come before it.
fn is_answer(bytes: &[u8]) -> bool {
    let holds = |json: &[u8]| {
        let message = serde_json::from_slice::<Value>(json).unwrap_or_default();
        message.get("result").is_some() || message.get("error").is_some()
    };
    let lines = bytes.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    holds(bytes) || lines.map(<[u8]>::trim_ascii).any(holds)
}

/// The body of a response.
pub struct HttpBody {
    inner: BoxBody<Bytes, Infallible>,
    exchange: Exchange,
    /// The answer is with the connection; it is not known yet whether it was written.
    written: Option<Pending>,
}

impl HttpBody {
    pub(crate) fn new(inner: BoxBody<Bytes, Infallible>, exchange: Exchange) -> Self {
        Self { inner, exchange, written: None }
    }

    /// Runs the actions of the answer: the whole response was taken.
    fn delivered(&mut self) {
        let Some(Pending { after, deliveries }) = self.written.take() else { return };
        let act = move || {
            after.into_iter().for_each(|act| act());
            deliveries.change(-1);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(act)),
            // The process is ending.
            Err(_) => act(),
        }
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let answer = frame.data_ref().and_then(|bytes| self.exchange.answered_by(bytes));
                if let Some(answer) = answer {
                    // Before a byte of it is sent, so that no later call can miss it.
                    answer.deliveries.change(1);
                    self.written = Some(answer);
                }
            }
            Poll::Ready(None) => self.delivered(),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for HttpBody {
    fn drop(&mut self) {
        // A body of known length is not asked for its end.
        if self.inner.is_end_stream() {
            self.delivered();
        }
        if let Some(Pending { after, deliveries }) = self.written.take() {
            drop(after);
            deliveries.change(-1);
        }
        self.exchange.close();
    }
}

impl std::fmt::Debug for HttpBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HttpBody").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::is_answer;

    #[test]
    fn an_answer_is_told_from_what_comes_before_it() {
        assert!(is_answer(b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"));
        assert!(is_answer(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}"));
        assert!(!is_answer(
            b"data: {\"method\":\"notifications/progress\",\"params\":{\"message\":\"result\"}}\n\n"
        ));
        assert!(!is_answer(b": keep-alive\n\n"));
        assert!(!is_answer(b"id: 0\nretry: 3000\ndata:\n\n"));
    }
}
