//! A verb of the command line, run where the store is: what it prints comes back over a WebSocket, and its exit status.
//!
//! The words, columns, hints and exit statuses of the command line are one program, so another machine has them from that program
//! (`docs/design/host.md`). The verb is a process of its own, with the rights of its caller (`outlive served`); it is killed when the
//! client goes, which no front end minds.

pub(crate) mod pipes;
mod process;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use outlive::{Failure, RawText, TerminalSize};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;

use crate::access::Caller;
use crate::problem::Problem;
use crate::server::{Held, Shared};
use crate::work;
pub use process::Verb;
use process::{Process, Said};

/// The most that one message of a client may have; it sends its input in far smaller pieces.
const MESSAGE: usize = 1 << 20;

/// The call has come by then.
const CALL_LIMIT: Duration = Duration::from_secs(20);

/// Tunnels give up on a silent connection.
const PING: Duration = Duration::from_secs(15);

/// A client that has taken nothing for so long is gone, or stopped by its user for good.
const SEND_LIMIT: Duration = Duration::from_secs(600);

/// What a client that said something else is told.
const HINT: &str = r#"begin with a text such as {"arguments": ["list"], "stdout": "pipe"}"#;

/// What a client says first.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Call {
    /// The words after `outlive`.
    arguments: Vec<RawText>,
    /// The directory; none: the user's home.
    directory: Option<RawText>,
    /// Variables of the caller that the command line looks at.
    variables: BTreeMap<String, String>,
    /// What the client has there.
    stdin: End,
    stdout: End,
    stderr: End,
    /// Of the client's terminal, as `120x40`.
    size: Option<String>,
    #[serde(flatten)]
    manner: Manner,
}

/// What the verb's process is told of its caller, beside the words.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Manner {
    /// What the caller calls this machine, for hints; none: its environment says it.
    host: Option<String>,
    /// The reader, where the words name none.
    reader: Option<String>,
    /// The secret that begins a mark; none: no marks are wanted.
    mark: Option<String>,
    /// The last marks that were received, of standard output and standard error: the verb goes on from there.
    places: [Option<String>; 2],
    /// The time since the first call, which counts for a limit.
    elapsed_ms: u64,
    /// What a viewer of a terminal shows first.
    notice: Option<String>,
}

/// What is at one of the three ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    /// Nothing.
    #[default]
    None,
    /// A pipe or a file.
    Pipe,
    /// A terminal.
    Terminal,
}

/// What a client says later.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    /// Its terminal has this size.
    Size(String),
    /// Ctrl-C, where its terminal is not read.
    Signal(String),
    /// Its input has ended.
    Eof(bool),
}

/// Runs a verb of the command line over a WebSocket. The client first sends `{"arguments": ["list"], "stdout": "pipe"}`; then what the
/// verb prints comes as binary messages, whose first byte is 1 for standard output and 2 for standard error, and last `{"exit": 0}`.
/// The client's input goes as binary messages, then `{"eof": true}`; of input for a terminal, `{"taken": 5}` says how many bytes have
/// arrived. The verb may do what the caller may.
#[utoipa::path(get, path = "/v1/command", tag = "command line", security(("token" = ["view"])),
    responses((status = 101, description = "The WebSocket is open")))]
pub(crate) async fn command(
    State(shared): State<Shared>,
    caller: Caller,
    held: Option<Extension<Held>>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|error| {
        let status = error.status();
        Problem::from(Failure::usage(error.body_text(), "open it as a WebSocket")).with_status(status)
    })?;
    let upgrade = upgrade.max_message_size(MESSAGE).max_frame_size(MESSAGE);
    let session = Session { shared, caller, _held: held };
    Ok(upgrade.on_upgrade(move |socket| session.run(socket)).into_response())
}

struct Session {
    shared: Shared,
    caller: Caller,
    _held: Option<Extension<Held>>,
}

impl Session {
    async fn run(self, mut socket: WebSocket) {
        let started = match self.call(&mut socket).await {
            Some(Ok(call)) => self.start(call).await,
            Some(Err(failure)) => Err(failure),
            None => return,
        };
        match started {
            Ok(process) => pass_on(&mut socket, process).await,
            Err(failure) => drop(send(&mut socket, Message::Text(failed(&failure).into())).await),
        }
        // A client that is gone needs no farewell.
        let farewell = Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }));
        send(&mut socket, farewell).await;
    }

    /// Receives the call; `None` if the client goes.
    async fn call(&self, socket: &mut WebSocket) -> Option<Result<Call, Failure>> {
        loop {
            match tokio::time::timeout(CALL_LIMIT, socket.recv()).await {
                Err(_) => return Some(Err(Failure::timed_out("command: no call came", HINT))),
                Ok(Some(Ok(Message::Text(text)))) => {
                    let call = serde_json::from_str(&text);
                    return Some(call.map_err(|error| Failure::usage(format!("command: {error}"), HINT)));
                }
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                Ok(Some(Ok(Message::Binary(_)))) => {
                    return Some(Err(Failure::usage("command: no call", HINT)));
                }
                Ok(Some(Ok(Message::Close(_)) | Err(_)) | None) => return None,
            }
        }
    }

    async fn start(&self, call: Call) -> Result<Process, Failure> {
        let caller = self.caller.clone();
        let started = work::quick(&self.shared, move |store| process::execute(store, &caller, &call)).await?;
        let (process, waiting) = started;
        // Counts as a wait for as long as it runs. Where there are too many, dropping the process ends it.
        work::stream(&self.shared, move |_| waiting.run())?;
        Ok(process)
    }
}

/// Moves bytes and orders between the client and the process, until one of them ends.
async fn pass_on(socket: &mut WebSocket, mut process: Process) {
    let mut ping = tokio::time::interval_at(tokio::time::Instant::now() + PING, PING);
    // Input that the process has not taken; no more is read from the client meanwhile.
    let (mut typed, mut has_ended): (Option<Vec<u8>>, bool) = (None, false);
    let mut taken = 0;
    loop {
        if has_ended {
            // The thread that writes sees the end after all that came before.
            process.input = None;
        }
        let message = tokio::select! {
            said = process.said.recv() => match said {
                Some(Said::Bytes(bytes)) => Message::Binary(bytes.into()),
                Some(Said::Exit(code)) => {
                    send(socket, Message::Text(json!({ "exit": code }).to_string().into())).await;
                    return;
                }
                None => return,
            },
            room = reserve(&process.input), if typed.is_some() => {
                match room {
                    Some(room) => room.send(typed.take().unwrap_or_default()),
                    // It reads no more, which is its own business.
                    None => typed = None,
                }
                continue;
            }
            _ = ping.tick() => Message::Ping(Vec::new().into()),
            received = socket.recv(), if typed.is_none() => match received {
                Some(Ok(Message::Binary(bytes))) => {
                    typed = process.input.is_some().then(|| bytes.to_vec());
                    taken += bytes.len();
                    match process.is_typed_into() {
                        true => Message::Text(confirmed(taken).into()),
                        false => continue,
                    }
                }
                Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                    Ok(Order::Size(size)) => {
                        if let Ok(size) = TerminalSize::parse(&size) {
                            process.resize(size);
                        }
                        continue;
                    }
                    Ok(Order::Signal(name)) => {
                        process.interrupt(&name);
                        continue;
                    }
                    Ok(Order::Eof(is_end)) => {
                        has_ended |= is_end;
                        continue;
                    }
                    Err(error) => Message::Text(failed(&misunderstood(&error)).into()),
                },
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
        };
        if !send(socket, message).await {
            return;
        }
    }
}

/// Waits until the process has room for more input; `None` if it takes none.
async fn reserve(input: &Option<mpsc::Sender<Vec<u8>>>) -> Option<mpsc::Permit<'_, Vec<u8>>> {
    input.as_ref()?.reserve().await.ok()
}

/// Sends a message; `false` if the client is gone.
async fn send(socket: &mut WebSocket, message: Message) -> bool {
    matches!(tokio::time::timeout(SEND_LIMIT, socket.send(message)).await, Ok(Ok(())))
}

/// Returns the text that tells a client how much of its input has arrived.
fn confirmed(taken: usize) -> String {
    json!({ "taken": taken }).to_string()
}

/// Explains an order that is none.
fn misunderstood(error: &serde_json::Error) -> Failure {
    let hint = r#"such as {"size": "80x24"}, {"signal": "INT"} or {"eof": true}"#;
    Failure::usage(format!("command: {error}"), hint)
}

/// Returns the text that tells a client of a failure.
fn failed(failure: &Failure) -> String {
    let error = json!({ "code": failure.code.word(), "detail": failure.text(), "hint": failure.hint });
    json!({ "error": error }).to_string()
}
