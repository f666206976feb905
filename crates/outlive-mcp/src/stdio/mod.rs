//! The connection on standard input and output: one message a line.
//!
//! A thread reads and a thread writes, so that any kind of file works. A line that is no message is answered with an error, and the
//! connection goes on. Unanswered requests are bounded: at the bound the thread stops reading, and the client blocks.

mod long_line;

use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use self::long_line::IdScanner;
use crate::reply::After;

/// The longest line in bytes, as in other servers.
const LONGEST: usize = 16 << 20;

/// The bound of unanswered requests, in bytes.
const MOST_PENDING: usize = 48 << 20;

/// What a request counts in addition to its bytes.
const REQUEST: usize = 4 << 10;

/// The capacity of the channels between the threads and the server.
const QUEUE: usize = 64;

/// The connection to a client.
pub(crate) struct Stdio {
    lines: Arc<tokio::sync::Mutex<mpsc::Receiver<Line>>>,
    pub(crate) outgoing: Outgoing,
}

/// A line as it was read.
enum Line {
    Message(Box<ClientJsonRpcMessage>),
    /// No message; holds the answer.
    Bad(Vec<u8>),
}

/// The sending half of the connection.
#[derive(Clone)]
pub(crate) struct Outgoing {
    writer: mpsc::Sender<OutgoingMessage>,
    shared: Arc<Shared>,
}

struct OutgoingMessage {
    bytes: Vec<u8>,
    after: Vec<After>,
    done: oneshot::Sender<io::Result<()>>,
}

#[derive(Default)]
struct Shared {
    /// Requests that were read and not answered.
    pending: Mutex<Pending>,
    answered: Condvar,
    /// Actions for when a request is answered.
    after: Mutex<HashMap<RequestId, Vec<After>>>,
    /// Held while an answer is written and its actions run.
    writing: Mutex<()>,
    /// True from the end of input on.
    ended: watch::Sender<bool>,
}

#[derive(Default)]
struct Pending {
    bytes: usize,
    requests: HashMap<RequestId, usize>,
}

impl Stdio {
    /// Starts the two threads.
    ///
    /// # Errors
    ///
    /// If a thread cannot be created.
    pub(crate) fn open(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (line_sender, lines) = mpsc::channel(QUEUE);
        let (writer, writes) = mpsc::channel(QUEUE);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned()).stack_size(1 << 20);
        thread("read").spawn({
            let shared = Arc::clone(&shared);
            move || {
                read(input, &line_sender, &shared);
                shared.ended.send_replace(true);
            }
        })?;
        thread("write").spawn({
            let shared = Arc::clone(&shared);
            move || write(output, writes, &shared)
        })?;
        let lines = Arc::new(tokio::sync::Mutex::new(lines));
        Ok(Self { lines, outgoing: Outgoing { writer, shared } })
    }

    /// Returns another handle of the connection, for a client that begins anew.
    pub(crate) fn reopen(&self) -> Self {
        Self { lines: Arc::clone(&self.lines), outgoing: self.outgoing.clone() }
    }
}

impl Outgoing {
    /// Runs the actions once the request is answered; never if the client has cancelled it.
    pub(crate) fn after(&self, request: &RequestId, after: Vec<After>) {
        if !after.is_empty() {
            lock(&self.shared.after).insert(request.clone(), after);
            if !lock(&self.shared.pending).requests.contains_key(request) {
                self.forget(request);
            }
        }
    }

    fn forget(&self, request: &RequestId) {
        lock(&self.shared.after).remove(request);
    }

    /// Waits until the actions of all answers that the client may already have are done.
    pub(crate) fn finish_writes(&self) {
        drop(lock(&self.shared.writing));
    }

    /// Waits for the end of input: no request follows, and calls that only wait may stop.
    pub(crate) async fn ended(&self) {
        let mut ended = self.shared.ended.subscribe();
        // Cannot fail: `self` holds the sender.
        ended.wait_for(|is_ended| *is_ended).await.ok();
    }

    /// Waits until all queued messages are written.
    pub(crate) async fn flush(&self) {
        self.clone().send(Vec::new(), Vec::new()).await.ok();
    }

    async fn send(self, bytes: Vec<u8>, after: Vec<After>) -> io::Result<()> {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (done, written) = oneshot::channel();
        self.writer.send(OutgoingMessage { bytes, after, done }).await.map_err(|_| closed())?;
        written.await.map_err(|_| closed())?
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let shared = &self.outgoing.shared;
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let after = answered.and_then(|id| lock(&shared.after).remove(id)).unwrap_or_default();
        if let Some(id) = answered {
            shared.release(id);
        }
        let bytes = serde_json::to_vec(&message);
        let outgoing = self.outgoing.clone();
        async move { outgoing.send(bytes.map_err(io::Error::other)?, after).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = self.lines.lock().await.recv().await?;
            match line {
                Line::Message(message) => {
                    if let JsonRpcMessage::Notification(notification) = &*message
                        && let ClientNotification::CancelledNotification(cancelled) =
                            &notification.notification
                        && let Some(id) = &cancelled.params.request_id
                    {
                        self.outgoing.shared.release(id);
                        self.outgoing.forget(id);
                    }
                    return Some(*message);
                }
                Line::Bad(answer) => {
                    crate::log(&format!("a line that is no message: {}", String::from_utf8_lossy(&answer)));
                    // In a task of its own: it is sent even if this future is dropped while the channel is full.
                    let sent = self.outgoing.clone().send(answer, Vec::new());
                    tokio::spawn(async move { sent.await.ok() });
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    /// Counts a request, once there is room for it.
    fn take(&self, id: &RequestId, bytes: usize) {
        let mut pending = lock(&self.pending);
        while pending.bytes > 0 && pending.bytes + bytes > MOST_PENDING {
            pending = self.answered.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        pending.bytes += bytes;
        *pending.requests.entry(id.clone()).or_default() += bytes;
    }

    fn release(&self, id: &RequestId) {
        let mut pending = lock(&self.pending);
        if let Some(bytes) = pending.requests.remove(id) {
            pending.bytes -= bytes;
            self.answered.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads lines until the end of input, or until the receiver is gone.
fn read(input: impl Read, lines: &mpsc::Sender<Line>, shared: &Shared) {
    let mut input = io::BufReader::with_capacity(64 << 10, input);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let (is_ended, too_long) = match read_line(&mut input, &mut bytes) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let line = if let Some(scanner) = too_long {
            let words = format!("a line of more than {} MiB was passed over", LONGEST >> 20);
            Some(refusal(-32700, &words, &scanner.finish()))
        } else {
            // The last line may lack its newline; a truncated message is dropped.
            understand(&bytes).filter(|line| is_ended || matches!(line, Line::Message(_)))
        };
        if let Some(line) = line {
            if let Line::Message(message) = &line
                && let JsonRpcMessage::Request(request) = &**message
            {
                shared.take(&request.id, bytes.len() + REQUEST);
            }
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
        if !is_ended {
            return;
        }
        // The memory of one huge line is not kept.
        if bytes.capacity() > 1 << 20 {
            bytes = Vec::new();
        }
    }
}

/// Reads a line; returns whether it had a newline, and of one that was too long and was skipped, what was read for its id.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<(bool, Option<IdScanner>)> {
    let mut too_long: Option<IdScanner> = None;
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok((false, too_long));
        }
        let newline = available.iter().position(|&byte| byte == b'\n');
        let taken = newline.unwrap_or(available.len());
        if line.len() + taken > LONGEST {
            let kept = std::mem::take(line);
            too_long.get_or_insert_default().push(&kept);
        }
        match &mut too_long {
            Some(scanner) => scanner.push(&available[..taken]),
            None => line.extend_from_slice(&available[..taken]),
        }
        input.consume(newline.map_or(taken, |at| at + 1));
        if newline.is_some() {
            return Ok((true, too_long));
        }
    }
}

/// Parses a line; `None` if it needs no answer and holds no message.
fn understand(line: &[u8]) -> Option<Line> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return None;
    }
    let error = match serde_json::from_slice(line) {
        Ok(message) => return Some(Line::Message(Box::new(message))),
        Err(error) => error,
    };
    if let Some(mended) = mend_surrogates(line) {
        return understand(&mended);
    }
    let value = match serde_json::from_slice::<Value>(line) {
        Ok(value) => value,
        Err(error) => {
            return Some(refusal(-32700, &format!("this line is not JSON: {error}"), &Value::Null));
        }
    };
    let id = value.get("id").filter(|id| id.is_string() || id.is_number()).unwrap_or(&Value::Null);
    let is_notification = value.get("method").is_some() && value.get("id").is_none();
    // Notifications have no answer.
    if is_notification {
        return None;
    }
    let message = match &value {
        Value::Array(_) => {
            "several messages in one line are not taken: send each in a line of its own".to_owned()
        }
        _ => format!("this is no JSON-RPC message: {error}"),
    };
    Some(refusal(-32600, &message, id))
}

/// Replaces lone surrogate escapes, which JavaScript writes, with U+FFFD; `None` if there are none.
fn mend_surrogates(line: &[u8]) -> Option<Vec<u8>> {
    let escape = |at: usize| {
        let digits = line.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut mended, mut has_lone, mut at) = (Vec::with_capacity(line.len()), false, 0);
    while at < line.len() {
        let length = match (line[at], escape(at)) {
            (b'\\', Some(0xd800..=0xdbff)) if matches!(escape(at + 6), Some(0xdc00..=0xdfff)) => 12,
            (b'\\', Some(0xd800..=0xdfff)) => {
                has_lone = true;
                mended.extend_from_slice(b"\\ufffd");
                at += 6;
                continue;
            }
            (b'\\', _) => 2,
            _ => 1,
        };
        let end = (at + length).min(line.len());
        mended.extend_from_slice(&line[at..end]);
        at = end;
    }
    has_lone.then_some(mended)
}

fn refusal(code: i32, message: &str, id: &Value) -> Line {
    let error = ErrorData::new(ErrorCode(code), message.to_owned(), None);
    Line::Bad(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into_bytes())
}

/// Writes messages, a line each, and runs the actions of each that was written.
fn write(mut output: impl Write, mut writes: mpsc::Receiver<OutgoingMessage>, shared: &Shared) {
    while let Some(OutgoingMessage { mut bytes, after, done }) = writes.blocking_recv() {
        if !bytes.is_empty() {
            bytes.push(b'\n');
        }
        let writing = lock(&shared.writing);
        let written = output.write_all(&bytes).and_then(|()| output.flush());
        if written.is_ok() {
            after.into_iter().for_each(|act| act());
        }
        drop(writing);
        // The receiver may be gone.
        done.send(written).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &[u8]) -> Option<Value> {
        match understand(line)? {
            Line::Bad(answer) => Some(serde_json::from_slice(&answer).unwrap()),
            Line::Message(_) => None,
        }
    }

    #[test]
    fn what_is_no_message_is_answered() {
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        for (line, code) in [
            (&b"{"[..], -32700),
            (b"\xff\xfe\x00", -32700),
            (b"nonsense", -32700),
            (&deep, -32700),
            (b"[]", -32600),
            (b"3", -32600),
            (b"null", -32600),
            (b"{}", -32600),
            (br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        ] {
            let answer = answer(line).unwrap();
            assert_eq!(answer["error"]["code"], code, "{answer}");
            assert_eq!(answer["id"], Value::Null);
        }
        assert_eq!(answer(br#"{"id":7,"method":3}"#).unwrap()["id"], 7);
    }

    #[test]
    fn what_is_a_message_is_taken() {
        for line in [
            &br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#[..],
            b" {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/list\",\"params\":{}}\r",
        ] {
            assert!(matches!(understand(line), Some(Line::Message(_))));
        }
        assert!(understand(b"  ").is_none());
    }

    #[test]
    fn half_of_a_character_is_no_reason_to_be_silent() {
        for (line, mended) in [
            (r#"{"a":"x\udcffy"}"#, Some(r#"{"a":"x\ufffdy"}"#)),
            (r#"{"a":"\ud83d\ude00 \ud83d"}"#, Some(r#"{"a":"\ud83d\ude00 \ufffd"}"#)),
            (r#"{"a":"\ud83d\ude00 \\udcff"}"#, None),
            (r#"{"a":"\ud8"#, None),
        ] {
            assert_eq!(mend_surrogates(line.as_bytes()).as_deref(), mended.map(str::as_bytes), "{line}");
        }
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":{"command":"\udcff"}}}"#;
        assert!(matches!(understand(line), Some(Line::Message(_))));
    }

    #[test]
    fn lines_that_are_too_long_are_passed_over() {
        let read = |input: &mut _, line: &mut _| {
            let (is_ended, too_long) = read_line(input, line).unwrap();
            (is_ended, too_long.is_some())
        };
        let mut input =
            io::BufReader::new(io::repeat(b'x').take(LONGEST as u64 + 5).chain(&b"\nnext\nlast"[..]));
        let mut line = Vec::new();
        assert_eq!(read(&mut input, &mut line), (true, true));
        line.clear();
        assert_eq!(read(&mut input, &mut line), (true, false));
        assert_eq!(line, b"next");
        line.clear();
        assert_eq!(read(&mut input, &mut line), (false, false));
        assert_eq!(line, b"last");
    }
}
