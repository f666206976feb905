//! Waking an idle agent: a program that its client runs at the end of a turn waits for what the agent has to hear, and tells it.
//!
//! The client is the process above; the server that works for the same client knows the reader. What is told here counts as told, and
//! what an answer of the server tells meanwhile is not told here.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use outlive::{Connected, Job, Listeners, State, Store, WatchedOutput};
use outlive_sys::identity::Handle;
use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_sys::watch::Watch;

use crate::notices::{Claims, Due};
use crate::profiles::{NoticeStyle, Profile};
use crate::reply::Reply;
use crate::scope::Scope;

/// How long something is pending before it is told here: the answer of a call that waits for it comes sooner, and so does that of a
/// task, which clients ask for every second.
const LEFT_TO_ANSWERS: Duration = Duration::from_millis(1500);

/// How often to look for what causes no file event: a killed keeper, a killed server.
const LOOK: Duration = Duration::from_secs(5);

/// Waits until the agent whose client runs this program has to hear of something, and returns it; `None` if nothing can come any more,
/// the limit is reached, the client is gone, or another program waits for the same agent already. With `skips_servers` it does not
/// wait for jobs that listen on a port, or that said when they are ready: these are not meant to end.
pub fn wake(store: &Store, limit: Duration, skips_servers: bool) -> Option<String> {
    let began = Instant::now();
    let connected = store.own_connections();
    let client = Handle::open(connected.first()?.client())?;
    let _waiting = store.be_waker(connected.first()?.client())?;
    let mut waiters: Vec<Waiter> = connected.into_iter().map(|one| Waiter::new(store, one)).collect();
    loop {
        for waiter in &mut waiters {
            if let Some(text) = waiter.look(store) {
                return Some(text);
            }
        }
        let left = limit.saturating_sub(began.elapsed());
        if left.is_zero() || !waiters.iter().any(|waiter| waiter.can_come(store, skips_servers)) {
            return None;
        }
        let naps = waiters.iter().filter_map(Waiter::nap).chain([left, LOOK]);
        let fds = waiters.iter().flat_map(Waiter::fds).chain([client.as_fd()]);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        poll(&mut fds, naps.min()).ok()?;
        if client.has_ended() {
            return None;
        }
    }
}

/// One reader of the client.
struct Waiter {
    scope: Scope,
    style: NoticeStyle,
    events: Watch,
    output: WatchedOutput,
    /// Since when something is pending.
    pending: Option<Instant>,
}

impl Waiter {
    fn new(store: &Store, connected: Connected) -> Self {
        let Connected { session, reader, profile, .. } = connected;
        // Other designs know of messages about endings, and have none of the tools that lines name.
        let style = if profile == <&'static Profile>::default().name {
            NoticeStyle::Lines
        } else {
            NoticeStyle::Messages
        };
        let events = store.events(&session, 0).watch();
        let output = WatchedOutput::new(Some(session.clone()));
        let here = Default::default();
        let scope =
            Scope { session, sees_all: false, reader, directory: None, here, is_remote: false, host: None };
        Self { scope, style, events, output, pending: None }
    }

    /// Returns what is to be told, once no answer has told it in time.
    fn look(&mut self, store: &Store) -> Option<String> {
        self.events.clear();
        self.output.look(store);
        let Some(due) = Due::look_up(store, &self.scope, &Claims::default(), self.style) else {
            self.pending = None;
            return None;
        };
        if self.pending.get_or_insert_with(Instant::now).elapsed() < LEFT_TO_ANSWERS {
            return None;
        }
        let (texts, after) = due.tell(store, &Reply::default(), self.style);
        // The client takes it when this program has ended; there is no later moment to note it.
        after.into_iter().for_each(|after| after());
        Some(texts.concat())
    }

    /// Tells whether there may be something to tell: a job of this reader is live, or one that it watches.
    fn can_come(&self, store: &Store, skips_servers: bool) -> bool {
        let is_own = |job: &Job| {
            job.spec().reader.as_ref() == Some(&self.scope.reader)
                || job.watched_for(&self.scope.reader).is_some()
        };
        let states = store.list_states(Some(&self.scope.session), is_own).unwrap_or_default();
        let counts =
            |(job, state): &(Job, State)| state.is_live() && !(skips_servers && is_server(store, job, state));
        self.pending.is_some() || states.jobs.iter().any(counts)
    }

    fn nap(&self) -> Option<Duration> {
        let left = self.pending.map(|since| LEFT_TO_ANSWERS.saturating_sub(since.elapsed()));
        let timer = (!self.events.is_pushed()).then_some(LEFT_TO_ANSWERS);
        [left, timer, self.output.nap()].into_iter().flatten().min()
    }

    fn fds(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        self.events.fd().into_iter().chain(self.output.fd())
    }
}

fn is_server(store: &Store, job: &Job, state: &State) -> bool {
    let listens = || job.tree(store, state).is_some_and(|tree| !tree.ports(&mut Listeners::new()).is_empty());
    job.spec().can_be_ready() || listens()
}
