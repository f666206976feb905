//! The documented JSON object of an event, for scripts and other programs.

use outlive_core::awaits::AwaitedKind;
use outlive_core::event::Kind;
use outlive_core::id::{JobId, SessionName};
use outlive_core::newer::OrNewer;
use outlive_core::status::Status;
use serde::Serialize;

use crate::job::object::{JobObject, signal_name};
use crate::notify::events::Numbered;
use crate::output::excerpt::Excerpt;
use crate::store::Store;

/// How much of the output an ending comes with.
const TAIL: usize = 240;

/// An event as scripts see it. Times are RFC 3339 with milliseconds; what an event has nothing to say of is `null`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventObject {
    /// Its place in the session's log; it only ever grows.
    pub seq: u64,
    /// The session that has the job.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub session: SessionName,
    /// What happened.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub event: OrNewer<Kind>,
    /// The job that it happened to.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job: JobId,
    /// When it happened.
    pub at: String,
    /// The status of the job since then.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub status: Option<OrNewer<Status>>,
    /// The exit code of the main process.
    pub exit_code: Option<i32>,
    /// The signal that ended the main process.
    pub signal: Option<String>,
    /// The cause of an ending, while the job is in the store.
    pub cause: Option<String>,
    /// The limit that is near.
    pub limit: Option<String>,
    /// What it waits for.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub awaits: Option<OrNewer<AwaitedKind>>,
    /// Where a job that is ready answers.
    pub url: Option<String>,
    /// The number of the line that matches what a reader watches for.
    pub line: Option<u64>,
    /// That line, at most 300 characters.
    pub text: Option<String>,
    /// How many lines before it matched and have no event of their own.
    pub skipped: Option<u64>,
    /// The reader that watches for it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub reader: Option<SessionName>,
    /// The end of the output; of an ending, while the job is in the store.
    pub tail: Option<String>,
}

impl EventObject {
    /// Describes an event of a session; what the job itself has to say of its end is looked up.
    pub fn new(store: &Store, session: &SessionName, numbered: &Numbered) -> Self {
        let event = &numbered.event;
        let job = store.find_exactly(&event.job, event.nonce).filter(|_| event.is_end());
        let cause = job.as_ref().and_then(|job| JobObject::new(job, &job.state(store)).cause);
        Self {
            seq: numbered.seq,
            session: session.clone(),
            event: event.event.clone(),
            job: event.job.clone(),
            at: event.at.to_string(),
            status: event.status.clone(),
            exit_code: event.exit_code,
            signal: event.signal.map(signal_name),
            cause,
            limit: event.limit.clone(),
            awaits: event.awaits.clone(),
            url: event.url.clone(),
            line: event.line,
            text: event.text.clone(),
            skipped: event.skipped,
            reader: event.reader.clone(),
            tail: job.map(|job| Excerpt::of(&job, 0, TAIL).tail),
        }
    }
}
