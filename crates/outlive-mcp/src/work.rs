//! What a call does, in a thread of its own.

use std::sync::{Arc, OnceLock};

use outlive::{JobEnvironment, Lease, Presence, Store};

use crate::arguments::Arguments;
use crate::environment::Environment;
use crate::notices::{self, Notices};
use crate::profiles::{News, Profile};
use crate::reply::Reply;
use crate::scope::Scope;
use crate::stdio::Outgoing;
use crate::tools::{AROUND, Call, ROOM, Stop, Tool};

/// What all calls of a connection share.
pub(crate) struct Work {
    pub(crate) store: Arc<Store>,
    environment: Environment,
    outgoing: Outgoing,
    /// While it is held, jobs that live with their session go on.
    lease: OnceLock<Option<Lease>>,
    /// While it is held, this reader's endings are told to nobody else.
    presence: OnceLock<Option<Presence>>,
    notices: Arc<Notices>,
    profile: &'static Profile,
}

impl Work {
    pub(crate) fn new(
        store: Store,
        environment: JobEnvironment,
        outgoing: Outgoing,
        profile: &'static Profile,
    ) -> Self {
        Self {
            store: Arc::new(store),
            environment: Environment::new(environment),
            outgoing,
            lease: OnceLock::new(),
            presence: OnceLock::new(),
            notices: Arc::default(),
            profile,
        }
    }

    /// Has a look on behalf of a task, which is told nothing else.
    pub(crate) fn with_call<T>(
        &self,
        arguments: Arguments,
        scope: &Scope,
        stop: &Stop,
        since: Option<u64>,
        look: impl FnOnce(&mut Call<'_>) -> T,
    ) -> T {
        self.outgoing.finish_writes();
        let (store, environment) = (&self.store, &self.environment);
        let (has_news, room) = (false, ROOM - AROUND);
        let (notices, profile) = (&self.notices, self.profile);
        look(&mut Call {
            store,
            scope,
            environment,
            profile,
            notices,
            arguments,
            stop,
            since,
            has_news,
            room,
        })
    }

    /// Calls a tool, and adds to its answer what the reader has not heard of.
    pub(crate) fn call(
        &self,
        tool: &'static Tool,
        arguments: Arguments,
        scope: &Scope,
        stop: &Stop,
    ) -> Reply {
        let (session, reader) = (&scope.session, &scope.reader);
        self.lease.get_or_init(|| self.store.hold_lease_until_drop(session));
        self.presence.get_or_init(|| self.store.be_present(session, reader).ok());
        // What the client has heard is noted before what it asks next is answered.
        self.outgoing.finish_writes();
        let look = || match self.profile.news {
            News::None => Vec::new(),
            News::Lines | News::Messages => self.notices.look(&self.store, session, reader),
        };
        let mut news = look();
        let has_news = !news.is_empty();
        let room = ROOM - AROUND - if has_news { notices::ROOM } else { 0 };
        let (store, environment) = (&self.store, &self.environment);
        let (notices, profile, since) = (&self.notices, self.profile, None);
        let mut call =
            Call { store, scope, environment, profile, notices, arguments, stop, since, has_news, room };
        let mut reply = (tool.call)(&mut call).unwrap_or_else(|failure| self.profile.failed(failure));
        if tool.waits {
            news = look();
        }
        let (texts, after) =
            self.notices.tell(&self.store, session, reader, news, &reply.told, self.profile.news);
        match self.profile.news {
            News::Messages => reply.messages = texts,
            News::Lines | News::None => reply.notices = texts.concat(),
        }
        reply.after.extend(after);
        reply.footers.extend(call.arguments.take_notes().into_iter().map(|note| format!("note: {note}")));
        reply
    }
}
