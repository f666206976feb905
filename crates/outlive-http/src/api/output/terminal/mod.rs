//! A job's terminal over a WebSocket: rows of styled text out, keys in.
//!
//! The emulator runs in another process ([`Store::follow_screen_apart`]), so what a job prints harms at most that. A page that is slow
//! holds up its own process, which then sends the newest state: nothing piles up here.

mod mouse;

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::mpsc as threads;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use outlive::{Failure, Job, Sizing, Store, TerminalSize, keys};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use self::mouse::Mouse;
use crate::access::Caller;
use crate::access::scope::Scope;
use crate::api::find;
use crate::api::input::no_terminal;
use crate::problem::Problem;
use crate::server::{Held, Shared};
use crate::work;

/// What a page may type ahead of a job that does not read.
const TYPED: usize = 256;

/// A message of a page may have so much: a paste.
const MESSAGE: usize = 1 << 20;

/// A screen of the largest size takes less.
const LONGEST_LINE: u64 = 16 << 20;

/// Proxies and browsers give up on a silent connection.
const PING: Duration = Duration::from_secs(15);

/// A page that has taken nothing for so long is gone.
const SEND_LIMIT: Duration = Duration::from_secs(60);

/// What a page sends: one of these.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Typed {
    /// Keys by name.
    Keys(String),
    /// Text as it is typed.
    Text(String),
    /// Text as it is pasted.
    Paste(String),
    /// The terminal is to have this size, as `120x40`.
    Size(String),
    /// The page has room for this size, which the terminal gets whenever it was used last; none: it has no say in the size any more.
    Lead(Option<String>),
    /// Something was done with the mouse.
    Mouse(Mouse),
}

/// What of a screen is needed here.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Known {
    columns: u16,
    rows: u16,
    modes: Modes,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Modes {
    application_cursor: bool,
    application_keypad: bool,
    bracketed_paste: bool,
    /// The mode by which the program reports the mouse, and in which form.
    mouse: Option<u16>,
    mouse_encoding: Option<u16>,
}

/// Follows a job's screen over a WebSocket. Each message has the state of the terminal and the rows that have changed; the client sends
/// `{"keys": "C-c"}`, `{"text": "…"}`, `{"paste": "…"}`, `{"size": "120x40"}`, `{"lead": "120x40"}` or
/// `{"mouse": {"row": 1, "column": 1, "button": "left", "action": "press"}}`, for which scope `drive` is needed.
#[utoipa::path(get, path = "/v1/jobs/{job}/terminal", tag = "output", security(("token" = ["view"])),
    params(("job" = String, Path, description = "Id, name, or the beginning of an id")),
    responses((status = 101, description = "The WebSocket is open")))]
pub(crate) async fn terminal(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    held: Option<Extension<Held>>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let looking = caller.clone();
    let id = work::quick(&shared, move |store| {
        let job = find(store, &looking, &job)?;
        match job.spec().options.pty {
            true => Ok(job.id().to_string()),
            false => Err(no_terminal(&job)),
        }
    })
    .await?;
    let upgrade = upgrade.map_err(|error| {
        let status = error.status();
        Problem::from(Failure::usage(error.body_text(), "open it as a WebSocket")).with_status(status)
    })?;
    let (lines, receive) = mpsc::channel(1);
    let (kill, killed) = threads::channel();
    let (reference, looking) = (id.clone(), caller.clone());
    work::stream(&shared, move |store| {
        let child =
            find(store, &looking, &reference).ok().and_then(|job| store.follow_screen_apart(&job).ok());
        if let Some(child) = child {
            pass_on(child, lines, killed);
        }
    })?;
    let session = Session { shared, caller, id, lines: receive, _kill: kill, _held: held };
    Ok(upgrade.max_message_size(MESSAGE).on_upgrade(move |socket| session.run(socket)).into_response())
}

/// Hands on what the process prints, until it or the page ends; then the process is gone.
fn pass_on(mut child: Child, lines: mpsc::Sender<String>, killed: threads::Receiver<()>) {
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    std::thread::scope(|scope| {
        // The page goes: its half of the channel is dropped, and the process sees the end of its input.
        scope.spawn(move || {
            killed.recv().ok();
            drop(stdin);
        });
        let mut stdout = stdout.map(BufReader::new);
        while let Some(stdout) = &mut stdout {
            let mut line = String::new();
            match stdout.by_ref().take(LONGEST_LINE).read_line(&mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) if lines.blocking_send(line).is_err() => break,
                Ok(_) => {}
            }
        }
        child.kill().ok();
        child.wait().ok();
        // Tells the page, whose going the other thread waits for.
        drop(lines);
    });
}

struct Session {
    shared: Shared,
    caller: Caller,
    id: String,
    lines: mpsc::Receiver<String>,
    /// Dropped with the session, which ends the process.
    _kill: threads::Sender<()>,
    _held: Option<Extension<Held>>,
}

impl Session {
    async fn run(mut self, mut socket: WebSocket) {
        let mut typing: Option<threads::SyncSender<Order>> = None;
        let (tell, mut told) = mpsc::channel::<Failure>(4);
        let mut known: Option<Known> = None;
        let mut ping = tokio::time::interval(PING);
        loop {
            let message = tokio::select! {
                line = self.lines.recv() => match line {
                    Some(line) => {
                        known = serde_json::from_str(&line).ok().or(known);
                        Message::Text(line.into())
                    }
                    // The job has ended, or its screen cannot be derived.
                    None => {
                        let close = CloseFrame { code: 1000, reason: "ended".into() };
                        socket.send(Message::Close(Some(close))).await.ok();
                        return;
                    }
                },
                Some(failure) = told.recv() => failed(&failure),
                _ = ping.tick() => Message::Ping(Vec::new().into()),
                received = socket.recv() => match received {
                    Some(Ok(Message::Text(text))) => match self.order(&text, known) {
                        Ok(order) => match self.pass(&mut typing, order, known, &tell) {
                            Ok(()) => continue,
                            Err(failure) => failed(&failure),
                        },
                        Err(failure) => failed(&failure),
                    },
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => continue,
                },
            };
            if !matches!(tokio::time::timeout(SEND_LIMIT, socket.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Understands what a page sends.
    fn order(&self, text: &str, known: Option<Known>) -> Result<Order, Failure> {
        if self.caller.scope < Scope::Drive {
            return Err(Failure::new(outlive::Code::Forbidden, "this browser may only look")
                .hint("outlive open --scope drive"));
        }
        let usage = |error: String, hint: &str| Failure::usage(error, hint);
        let size = |text: &str| {
            TerminalSize::parse(text).map_err(|error| usage(error.to_string(), "such as 120x40"))
        };
        let typed = serde_json::from_str(text)
            .map_err(|error| usage(error.to_string(), r#"such as {"keys": "C-c"}"#))?;
        let modes = known.map(|known| known.modes);
        let reporting = modes.map_or((None, None), |modes| (modes.mouse, modes.mouse_encoding));
        let modes = keys::KeyModes {
            application_cursor: modes.is_some_and(|modes| modes.application_cursor),
            application_keypad: modes.is_some_and(|modes| modes.application_keypad),
            bracketed_paste: modes.is_some_and(|modes| modes.bracketed_paste),
        };
        Ok(match typed {
            Typed::Keys(names) => Order::Type(
                keys::parse(&names, &modes).map_err(|error| usage(error.to_string(), "such as C-c or Up"))?,
            ),
            Typed::Text(text) => Order::Type(text.into_bytes()),
            Typed::Paste(text) => Order::Type(keys::paste(&text, &modes)),
            // Of what the program does not want to know, nothing is typed.
            Typed::Mouse(mouse) => Order::Type(mouse.bytes(reporting.0, reporting.1).unwrap_or_default()),
            Typed::Size(text) => Order::Fit(size(&text)?),
            Typed::Lead(text) => Order::Lead(text.as_deref().map(size).transpose()?),
        })
    }

    /// Hands an order to the thread that types, which is started with the first.
    fn pass(
        &self,
        typing: &mut Option<threads::SyncSender<Order>>,
        order: Order,
        known: Option<Known>,
        tell: &mpsc::Sender<Failure>,
    ) -> Result<(), Failure> {
        let order = match typing {
            None => order,
            Some(typing) => match typing.try_send(order) {
                Ok(()) => return Ok(()),
                Err(threads::TrySendError::Full(_)) => {
                    return Err(Failure::new(
                        outlive::Code::NotReading,
                        "the job does not read what is typed",
                    ));
                }
                // The thread has ended, and told why; the job may take keys again.
                Err(threads::TrySendError::Disconnected(order)) => order,
            },
        };
        let (send, receive) = threads::sync_channel(TYPED);
        send.try_send(order).ok();
        let (id, caller, tell) = (self.id.clone(), self.caller.clone(), tell.clone());
        let size =
            known.map_or_else(TerminalSize::default, |known| TerminalSize::new(known.columns, known.rows));
        work::stream(&self.shared, move |store| {
            let typed = find(store, &caller, &id).and_then(|job| type_into(store, &job, size, &receive));
            if let Err(failure) = typed {
                tell.blocking_send(failure).ok();
            }
        })?;
        *typing = Some(send);
        Ok(())
    }
}

enum Order {
    Type(Vec<u8>),
    Fit(TerminalSize),
    Lead(Option<TerminalSize>),
}

/// Is a viewer of the job's terminal until the page goes.
fn type_into(
    store: &Store,
    job: &Job,
    size: TerminalSize,
    orders: &threads::Receiver<Order>,
) -> Result<(), Failure> {
    let failed = |error| Failure::from(error).during("terminal");
    let mut viewer = store.view(job, size, Sizing::Fixed).map_err(failed)?;
    let mut is_lead = false;
    while let Ok(order) = orders.recv() {
        match order {
            Order::Type(bytes) if bytes.is_empty() => Ok(()),
            Order::Type(bytes) => viewer.keys(&bytes),
            Order::Fit(size) => viewer.fit(size),
            // A window that is made larger or smaller has not been used by that.
            Order::Lead(Some(size)) if is_lead => viewer.resize(size),
            Order::Lead(Some(size)) => {
                is_lead = true;
                viewer.fit(size)
            }
            Order::Lead(None) => {
                is_lead = false;
                viewer.let_go()
            }
        }
        .map_err(failed)?;
    }
    Ok(())
}

fn failed(failure: &Failure) -> Message {
    let error = json!({ "code": failure.code.word(), "detail": failure.text(), "hint": failure.hint });
    Message::Text(json!({ "error": error }).to_string().into())
}
