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
use outlive::{EventObject, Events, Failure, JobId, SessionName, Store, Timestamp, WatchedOutput};
use outlive_sys::poll::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
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

/// So much news may wait for a stream; one that is further behind reads the store itself.
const NEWS: usize = 256;

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
    /// `false`: the stream ends with what has happened so far
    follow: Option<bool>,
}

/// Events that are no longer kept, or damaged.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Gap<'a> {
    #[schema(value_type = String)]
    session: &'a SessionName,
    from: u64,
    to: u64,
}

/// What a thread that watches the store tells all streams.
#[derive(Debug, Clone)]
enum News {
    /// Something may have happened.
    Look,
    /// This has happened; it is read and written out once for all.
    Events(Arc<[Fresh]>),
}

/// An event that has just been read.
#[derive(Debug)]
struct Fresh {
    session: SessionName,
    /// The place of the event before it in its session.
    after: u64,
    seq: u64,
    job: JobId,
    text: String,
}

/// Tells all streams what happens; a thread watches the store for as long as there is one.
#[derive(Debug, Default)]
pub(crate) struct Hub(Mutex<Weak<broadcast::Sender<News>>>);

impl Hub {
    /// Joins the streams. The sender keeps the thread alive.
    fn join(
        &self,
        store: &Arc<Store>,
    ) -> Result<(Arc<broadcast::Sender<News>>, broadcast::Receiver<News>), Failure> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = known.upgrade() {
            let receiver = sender.subscribe();
            return Ok((sender, receiver));
        }
        let (sender, receiver) = broadcast::channel(NEWS);
        let sender = Arc::new(sender);
        let (weak, store) = (Arc::downgrade(&sender), Arc::clone(store));
        // Watching begins before the first stream looks, so that nothing is missed between the two.
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

fn observe(store: &Store, mut changes: outlive::Changes, streams: &Weak<broadcast::Sender<News>>) {
    let mut reconciled: Option<Instant> = None;
    let mut watched = WatchedOutput::new(None);
    let mut reader = Reader::new(None, None, After::Now);
    // What happened before this is no news to any stream, though one may have looked earlier.
    let mut news = reader.find_sessions(store).ok().map(|()| News::Look);
    loop {
        let Some(streams) = streams.upgrade() else { return };
        if let Some(news) = news.take() {
            // No stream is open: the next one looks first.
            streams.send(news).ok();
        }
        drop(streams);
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
        if changes.take(store) {
            news = reader.fresh(store);
        }
    }
}

/// One reader: where it is in each session.
struct Reader {
    session: Option<SessionName>,
    job: Option<String>,
    /// The place from which a session is read that was not seen before; none: at its end.
    after: After,
    sessions: BTreeMap<SessionName, Place>,
    is_first: bool,
}

/// A place in a session.
struct Place {
    /// Of the last event.
    seq: u64,
    /// What reads on from there; none after events that came as news.
    events: Option<Events>,
}

/// An event, or the bounds of a gap.
struct Unread {
    session: SessionName,
    seq: u64,
    what: Result<outlive::Numbered, (u64, u64)>,
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
    fn new(session: Option<SessionName>, job: Option<String>, after: After) -> Self {
        Self { session, job, after, sessions: BTreeMap::new(), is_first: true }
    }

    /// Finds the place to begin at in each session that was not seen before.
    fn find_sessions(&mut self, store: &Store) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::other("events", &error);
        let sessions = match &self.session {
            Some(session) => vec![session.clone()],
            None => store.sessions().map_err(failed)?,
        };
        for session in sessions {
            if !self.sessions.contains_key(&session) {
                let since = self.begin(&session);
                let mut events = store.events(&session, since.unwrap_or(0));
                let mut seq = since.unwrap_or(0);
                if since.is_none() {
                    seq = events.read().map_err(failed)?.last().map_or(0, |last| last.seq);
                    while events.take_gap().is_some() {}
                }
                self.sessions.insert(session, Place { seq, events: Some(events) });
            }
        }
        self.is_first = false;
        Ok(())
    }

    /// Returns the place to begin at in a session that was not seen before; none: at its end.
    fn begin(&self, session: &SessionName) -> Option<u64> {
        match &self.after {
            After::Beginning => Some(0),
            // The id named every session that there was: any other is new since.
            After::Places(places) => Some(places.get(session).copied().unwrap_or(0)),
            // A session that appears later is new from its first event on.
            After::Now => (!self.is_first).then_some(0),
        }
    }

    /// Reads what is new, in the order in which it happened.
    fn unread(&mut self, store: &Store) -> Result<Vec<Unread>, Failure> {
        let failed = |error: std::io::Error| Failure::other("events", &error);
        self.find_sessions(store)?;
        let mut unread = Vec::new();
        for (session, place) in &mut self.sessions {
            let seq = place.seq;
            let events = place.events.get_or_insert_with(|| store.events(session, seq));
            let all = events.read_with_gaps(seq == 0).map_err(failed)?;
            // Within a session the sequence decides: an event counts as no earlier than those before it.
            let mut latest = Timestamp(0);
            for (seq, what) in all {
                latest = latest.max(what.as_ref().map_or(latest, |numbered| numbered.event.at));
                unread.push((latest, Unread { session: session.clone(), seq, what }));
            }
        }
        unread.sort_by_key(|(latest, _)| *latest);
        Ok(unread.into_iter().map(|(_, unread)| unread).collect())
    }

    /// Goes on to a place, and returns the one before.
    fn pass(&mut self, session: &SessionName, seq: u64) -> u64 {
        let Some(place) = self.sessions.get_mut(session) else { return 0 };
        let before = place.seq;
        place.seq = before.max(seq);
        before
    }

    /// Reads what is new, to be sent.
    fn read(&mut self, store: &Store) -> Result<VecDeque<Sent>, Failure> {
        let mut sent = VecDeque::new();
        for Unread { session, seq, what } in self.unread(store)? {
            self.pass(&session, seq);
            match what {
                Ok(numbered) => {
                    if self.is_wanted(&numbered.event.job) {
                        sent.push_back(("event", self.id(), text_of(store, &session, &numbered)));
                    }
                }
                Err((from, to)) => {
                    let gap = Gap { session: &session, from, to };
                    sent.push_back(("gap", self.id(), serde_json::to_string(&gap).unwrap_or_default()));
                }
            }
        }
        Ok(sent)
    }

    fn is_wanted(&self, job: &JobId) -> bool {
        self.job.as_deref().is_none_or(|wanted| wanted == job.as_str())
    }

    /// Reads what is new, for all streams; none if that is nothing.
    fn fresh(&mut self, store: &Store) -> Option<News> {
        // Each stream finds out by itself what cannot be read, or is gone.
        let Ok(unread) = self.unread(store) else { return Some(News::Look) };
        let (mut all, mut is_whole) = (Vec::with_capacity(unread.len()), true);
        for Unread { session, seq, what } in unread {
            let after = self.pass(&session, seq);
            match what {
                Ok(numbered) => {
                    let text = text_of(store, &session, &numbered);
                    all.push(Fresh { session, after, seq, job: numbered.event.job, text });
                }
                Err(_) => is_whole = false,
            }
        }
        match is_whole {
            true => (!all.is_empty()).then(|| News::Events(all.into())),
            false => Some(News::Look),
        }
    }

    /// Takes what others have read; false if something before it is missing here.
    fn hear(&mut self, all: &[Fresh], sent: &mut VecDeque<Sent>) -> bool {
        for Fresh { session, after, seq, job, text } in all {
            if self.session.as_ref().is_some_and(|own| own != session) {
                continue;
            }
            let begin = self.begin(session).unwrap_or(0);
            let place = self.sessions.entry(session.clone()).or_insert(Place { seq: begin, events: None });
            match place.seq {
                // It was read from the store already.
                known if known >= *seq => continue,
                known if known == *after => *place = Place { seq: *seq, events: None },
                _ => return false,
            }
            if self.is_wanted(job) {
                sent.push_back(("event", self.id(), text.clone()));
            }
        }
        true
    }

    /// Names the place in every session.
    fn id(&self) -> String {
        let places = self.sessions.iter().map(|(session, place)| format!("{session}:{}", place.seq));
        let places: Vec<String> = places.collect();
        // Where there is no session yet, all that comes is new.
        if places.is_empty() { "0".to_owned() } else { places.join(",") }
    }
}

fn text_of(store: &Store, session: &SessionName, numbered: &outlive::Numbered) -> String {
    serde_json::to_string(&EventObject::new(store, session, numbered)).unwrap_or_default()
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
    let mut reader = Reader::new(
        caller.session(session(scope.session.as_deref())?)?,
        scope.job,
        After::parse(last.or(scope.after.as_deref()))?,
    );
    // Before the first look.
    let (sender, news) = shared.hub.join(&shared.store)?;
    let first = work::quick(&shared, move |store| {
        reader.find_sessions(store)?;
        // Says where the stream begins, so that a client that sees no event can come back to here.
        let start = ("start", reader.id(), "{}".to_owned());
        let mut read = reader.read(store)?;
        read.push_front(start);
        Ok((reader, read))
    });
    let (reader, waiting) = first.await?;
    let news = scope.follow.unwrap_or(true).then_some(news);
    let stream = Stream { shared, reader: Some(reader), news, waiting, _sender: sender };
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
    /// None: it ends with what waits to be sent.
    news: Option<broadcast::Receiver<News>>,
    waiting: VecDeque<Sent>,
    _sender: Arc<broadcast::Sender<News>>,
}

impl Stream {
    /// Returns the next event. A client that does not read holds up only itself: events stay in the store until it does.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((name, id, text)) = self.waiting.pop_front() {
                return Some(Event::default().event(name).id(id).retry(RETRY).data(text));
            }
            let news = match self.news.as_mut()?.recv().await {
                Ok(news) => news,
                // It was slow, and catches up from the store.
                Err(broadcast::error::RecvError::Lagged(_)) => News::Look,
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            let mut reader = self.reader.take()?;
            if let News::Events(all) = news
                && reader.hear(&all, &mut self.waiting)
            {
                self.reader = Some(reader);
                continue;
            }
            let read = work::quick(&self.shared, move |store| {
                let read = reader.read(store);
                Ok((reader, read))
            });
            let (reader, read) = read.await.ok()?;
            self.reader = Some(reader);
            // A store that cannot be read ends the stream; the client comes back and is told why.
            self.waiting.extend(read.ok()?);
        }
    }
}
