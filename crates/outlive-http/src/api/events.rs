//! What happens to jobs, as it happens: one stream of server-sent events for everything.
//!
//! The id of an event names the place in every session of the stream, `session:sequence`, so that a client that comes back goes on
//! exactly where it was, also at another server: the sequences are offsets of the logs in the store.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use outlive::{EventObject, Events, Failure, SessionName, Store, Timestamp, WatchedOutput};
use outlive_sys::poll::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::{IntoParams, ToSchema};

use super::session;
use crate::access::Caller;
use crate::extract::Params;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// A comment is sent so often: proxies and browsers give up on a silent connection after a minute or less.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How soon a browser comes back.
const RETRY: Duration = Duration::from_secs(1);

/// How often to look for keepers that were killed, for which no event is written, and whether a reader is left.
const RECONCILE_EVERY: Duration = Duration::from_secs(5);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scope {
    /// Only events of this session
    session: Option<String>,
    /// Only events of this job, by its id
    job: Option<String>,
    /// Go on after this: the id of the last event; `0` for all that is kept; else only what is new. The header `Last-Event-ID` counts
    /// more
    after: Option<String>,
}

/// Events that are no longer kept, or damaged.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Gap<'a> {
    #[schema(value_type = String)]
    session: &'a SessionName,
    from: u64,
    to: u64,
}

/// Wakes all readers when something may have happened; a thread watches the store for as long as there is one.
#[derive(Debug, Default)]
pub(crate) struct Hub(Mutex<Weak<watch::Sender<u64>>>);

impl Hub {
    /// Joins the readers. The sender keeps the thread alive.
    fn join(&self, store: &Arc<Store>) -> Result<(Arc<watch::Sender<u64>>, watch::Receiver<u64>), Failure> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = known.upgrade() {
            let receiver = sender.subscribe();
            return Ok((sender, receiver));
        }
        let (sender, receiver) = watch::channel(0);
        let sender = Arc::new(sender);
        let (weak, store) = (Arc::downgrade(&sender), Arc::clone(store));
        // Watching begins before the first reader looks, so that nothing is missed between the two.
        let changes = store.changes();
        std::thread::Builder::new()
            .name("events".to_owned())
            .stack_size(256 << 10)
            .spawn(move || observe(&store, changes, &weak))
            .map_err(|error| Failure::other("events", &error))?;
        *known = Arc::downgrade(&sender);
        Ok((sender, receiver))
    }
}

fn observe(store: &Store, mut changes: outlive::Changes, readers: &Weak<watch::Sender<u64>>) {
    let mut reconciled: Option<Instant> = None;
    let mut watched = WatchedOutput::new(None);
    loop {
        if reconciled.is_none_or(|reconciled| reconciled.elapsed() >= RECONCILE_EVERY) {
            store.reconcile(None);
            reconciled = Some(Instant::now());
        }
        // What it appends is a change of a session.
        watched.look(store);
        let nap = [changes.nap(), watched.nap()].into_iter().flatten().min().unwrap_or(RECONCILE_EVERY);
        let nap = nap.min(RECONCILE_EVERY);
        let fds = [changes.fd(), watched.fd()].into_iter().flatten();
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if poll(&mut fds, Some(nap)).is_err() {
            std::thread::sleep(Duration::from_millis(100));
        }
        let is_changed = changes.take(store);
        let Some(readers) = readers.upgrade() else { return };
        if is_changed {
            readers.send_modify(|count| *count += 1);
        }
    }
}

/// One reader: where it is in each session.
struct Reader {
    session: Option<SessionName>,
    job: Option<String>,
    /// The place from which a session is read that was not seen before; none: at its end.
    after: After,
    sessions: BTreeMap<SessionName, (Events, u64)>,
    is_first: bool,
}

enum After {
    /// Only what is new.
    Now,
    /// All that is kept.
    Beginning,
    /// After these places; all of other sessions.
    Places(BTreeMap<SessionName, u64>),
}

impl After {
    fn parse(text: Option<&str>) -> Result<Self, Failure> {
        let wrong = || {
            Failure::usage(
                format!("after: {:?} is no id of an event", text.unwrap_or_default()),
                "such as default:1024",
            )
        };
        match text {
            None | Some("") => Ok(Self::Now),
            Some("0") => Ok(Self::Beginning),
            Some(ids) => {
                let place = |part: &str| {
                    let (session, place) = part.rsplit_once(':')?;
                    Some((SessionName::parse(session).ok()?, place.parse().ok()?))
                };
                let places: Option<BTreeMap<_, _>> = ids.split(',').map(place).collect();
                places.map(Self::Places).ok_or_else(wrong)
            }
        }
    }
}

/// What is sent: the name of the event, its id and its text.
type Sent = (&'static str, String, String);

impl Reader {
    /// Finds the place to begin at in each session that was not seen before.
    fn find_sessions(&mut self, store: &Store) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::other("events", &error);
        let sessions = match &self.session {
            Some(session) => vec![session.clone()],
            None => store.sessions().map_err(failed)?,
        };
        for session in sessions {
            if !self.sessions.contains_key(&session) {
                let since = match &self.after {
                    After::Beginning => Some(0),
                    // The id named every session that there was: any other is new since.
                    After::Places(places) => Some(places.get(&session).copied().unwrap_or(0)),
                    // A session that appears later is new from its first event on.
                    After::Now => (!self.is_first).then_some(0),
                };
                let mut events = store.events(&session, since.unwrap_or(0));
                let mut place = since.unwrap_or(0);
                if since.is_none() {
                    place = events.read().map_err(failed)?.last().map_or(0, |last| last.seq);
                    while events.take_gap().is_some() {}
                }
                self.sessions.insert(session, (events, place));
            }
        }
        self.is_first = false;
        Ok(())
    }

    /// Reads what is new.
    fn read(&mut self, store: &Store) -> Result<VecDeque<Sent>, Failure> {
        let failed = |error: std::io::Error| Failure::other("events", &error);
        self.find_sessions(store)?;
        let (mut sent, mut unread) = (VecDeque::new(), Vec::new());
        for (session, (events, place)) in &mut self.sessions {
            let read = events.read().map_err(failed)?;
            while let Some((from, to)) = events.take_gap() {
                if from > 0 || *place > 0 {
                    unread.push((Timestamp(0), session.clone(), to, Err((from, to))));
                }
            }
            // Within a session the sequence decides: an event counts as no earlier than those before it.
            let mut latest = Timestamp(0);
            for numbered in read {
                latest = latest.max(numbered.event.at);
                unread.push((latest, session.clone(), numbered.seq, Ok(numbered)));
            }
        }
        unread.sort_by_key(|(latest, ..)| *latest);
        for (_, session, seq, item) in unread {
            if let Some((_, place)) = self.sessions.get_mut(&session) {
                *place = (*place).max(seq);
            }
            let id = self.id();
            match item {
                Ok(numbered) if self.job.as_deref().is_some_and(|job| job != numbered.event.job.as_str()) => {
                }
                Ok(numbered) => {
                    let object = EventObject::new(store, &session, &numbered);
                    sent.push_back(("event", id, serde_json::to_string(&object).unwrap_or_default()));
                }
                Err((from, to)) => {
                    let gap = Gap { session: &session, from, to };
                    sent.push_back(("gap", id, serde_json::to_string(&gap).unwrap_or_default()));
                }
            }
        }
        Ok(sent)
    }

    /// Names the place in every session.
    fn id(&self) -> String {
        let places = self.sessions.iter().map(|(session, (_, place))| format!("{session}:{place}"));
        let places: Vec<String> = places.collect();
        // Where there is no session yet, all that comes is new.
        if places.is_empty() { "0".to_owned() } else { places.join(",") }
    }
}

/// Follows what happens to jobs, as server-sent events: `event` with an event, `gap` where some are no longer kept.
#[utoipa::path(get, path = "/v1/events", tag = "events", security(("token" = ["view"])),
    params(Scope, ("last-event-id" = Option<String>, Header, description = "Go on after this event")),
    responses((status = 200, description = "Events, as `text/event-stream`", body = EventObject, content_type = "text/event-stream")))]
pub(crate) async fn events(
    State(shared): State<Shared>,
    caller: Caller,
    Params(scope): Params<Scope>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    let mut reader = Reader {
        session: caller.session(session(scope.session.as_deref())?)?,
        job: scope.job,
        after: After::parse(last.or(scope.after.as_deref()))?,
        sessions: BTreeMap::new(),
        is_first: true,
    };
    let (sender, mut changed) = shared.hub.join(&shared.store)?;
    // Before the first look.
    changed.mark_unchanged();
    let first = work::quick(&shared, move |store| {
        reader.find_sessions(store)?;
        // Says where the stream begins, so that a client that sees no event can come back to here.
        let start = ("start", reader.id(), "{}".to_owned());
        let mut read = reader.read(store)?;
        read.push_front(start);
        Ok((reader, read))
    });
    let (reader, waiting) = first.await?;
    let stream = Stream { shared, reader: Some(reader), changed, waiting, _sender: sender };
    let stream = futures_util::stream::unfold(stream, |mut stream| async move {
        stream.next().await.map(|event| (Ok::<_, Infallible>(event), stream))
    });
    let mut response = Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

struct Stream {
    shared: Shared,
    reader: Option<Reader>,
    changed: watch::Receiver<u64>,
    waiting: VecDeque<Sent>,
    _sender: Arc<watch::Sender<u64>>,
}

impl Stream {
    /// Returns the next event. A client that does not read holds up only itself: events stay in the store until it does.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((name, id, text)) = self.waiting.pop_front() {
                return Some(Event::default().event(name).id(id).retry(RETRY).data(text));
            }
            self.changed.changed().await.ok()?;
            let mut reader = self.reader.take()?;
            let read = work::quick(&self.shared, move |store| {
                let read = reader.read(store);
                Ok((reader, read))
            });
            let (reader, read) = read.await.ok()?;
            self.reader = Some(reader);
            // A store that cannot be read ends the stream; the client comes back and is told why.
            self.waiting = read.ok()?;
        }
    }
}
