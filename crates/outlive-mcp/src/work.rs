//! Running calls, each in a blocking thread.

use std::cell::OnceCell;
use std::sync::{Arc, Once, OnceLock};

use outlive::{Cancel, Connection, JobEnvironment, Lease, Presence, Store};

use crate::answers::Answers;
use crate::arguments::Arguments;
use crate::environment::Environment;
use crate::jobs::LONGEST_WAIT_MS;
use crate::notices::Claims;
use crate::profiles::{NoticeStyle, Profile};
use crate::remote::{self, Watches};
use crate::reply::{Failure, Reply};
use crate::scope::Scope;
use crate::tools::{Call, Tool};

/// The state that all calls of a connection share.
pub(crate) struct Work {
    pub(crate) store: Arc<Store>,
    environment: Environment,
    answers: Answers,
    /// Keeps jobs with the lifetime of the session alive.
    lease: OnceLock<Option<Lease>>,
    /// While it is held, no other reader receives the endings of this reader's jobs.
    presence: OnceLock<Option<Presence>>,
    /// By which programs that the client runs find this reader.
    connection: OnceLock<Option<Connection>>,
    claims: Arc<Claims>,
    profile: &'static Profile,
    /// Other machines with jobs of the session.
    watches: Watches,
    /// Those that earlier servers used are watched from the first call on.
    resumed: Once,
}

impl Work {
    pub(crate) fn new(
        store: Arc<Store>,
        environment: JobEnvironment,
        answers: Answers,
        profile: &'static Profile,
    ) -> Self {
        Self {
            store,
            environment: Environment::new(environment),
            answers,
            lease: OnceLock::new(),
            presence: OnceLock::new(),
            connection: OnceLock::new(),
            claims: Arc::default(),
            profile,
            watches: Watches::default(),
            resumed: Once::new(),
        }
    }

    /// Runs a check for a task, which receives no notices.
    pub(crate) fn with_call<T>(
        &self,
        arguments: Arguments,
        scope: &Scope,
        since: Option<u64>,
        look: impl FnOnce(&mut Call<'_>) -> T,
    ) -> T {
        self.answers.finish_writes();
        look(&mut self.new_call(arguments, scope, None, LONGEST_WAIT_MS, since, NoticeStyle::None))
    }

    fn new_call<'a>(
        &'a self,
        arguments: Arguments,
        scope: &'a Scope,
        cancel: Option<&'a Cancel>,
        longest_ms: u64,
        since: Option<u64>,
        notices: NoticeStyle,
    ) -> Call<'a> {
        let (store, environment, claims) = (&self.store, &self.environment, &self.claims);
        let due = OnceCell::new();
        let profile = self.profile;
        Call {
            store,
            scope,
            environment,
            profile,
            claims,
            arguments,
            cancel,
            longest_ms,
            since,
            notices,
            placement: None,
            due,
        }
    }

    /// Calls a tool, on another machine if it is meant for one, and adds the reader's pending endings to its answer.
    pub(crate) fn call(
        &self,
        tool: &'static Tool,
        arguments: Arguments,
        on: Option<&str>,
        scope: &Scope,
        cancel: &Cancel,
        longest_ms: u64,
    ) -> Reply {
        let (session, reader) = (&scope.session, &scope.reader);
        self.lease.get_or_init(|| self.store.hold_lease_until_drop(session));
        self.presence.get_or_init(|| self.store.be_present(session, reader).ok());
        // A client elsewhere runs no program that could look for this process.
        if !scope.is_remote {
            self.connection.get_or_init(|| self.store.connect(session, reader, self.profile.name).ok());
        }
        // Deliveries of earlier answers must be noted before this call looks.
        self.answers.finish_writes();
        let style = self.profile.notices;
        let mut call = self.new_call(arguments, scope, Some(cancel), longest_ms, None, style);
        // Endings that this call causes come with the next answer, unless the call waits for them.
        if !tool.waits {
            call.due();
        }
        self.resumed.call_once(|| self.watches.resume(&self.store, scope));
        let mut target = None;
        let answered = call.arguments.check().and_then(|()| {
            target = remote::target(&mut call, on)?;
            match &target {
                Some(host) => Ok(remote::forward(&mut call, tool, host, &self.watches)),
                None => (tool.call)(&mut call),
            }
        });
        let mut reply = answered.unwrap_or_else(|failure: Failure| self.profile.failed(failure));
        if target.is_none() && tool.name == "list_jobs" && !reply.is_error {
            remote::add_lists(&call, tool, &mut reply);
        }
        let due = call.take_due();
        let (texts, after) = due.map(|due| due.tell(&self.store, &reply, style)).unwrap_or_default();
        match style {
            NoticeStyle::Messages => reply.messages = texts,
            NoticeStyle::Lines | NoticeStyle::None => reply.notices = texts.concat(),
        }
        if style == NoticeStyle::Lines {
            let (lines, after) = self.watches.tell(scope, target.as_ref().map(|host| host.name.as_str()));
            reply.notices += &lines;
            reply.after.extend(after);
        }
        reply.after.extend(after);
        reply.footers.extend(call.arguments.take_notes());
        if let Some(host) = &scope.host {
            let listed = self.store.list(None).map(|listing| listing.jobs).unwrap_or_default();
            reply.address(host, &listed.iter().map(|job| job.id().to_string()).collect());
        }
        reply
    }
}
