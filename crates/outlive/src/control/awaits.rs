//! What a job waits for from its user.

use outlive_core::awaits::{Awaited, AwaitedKind, KnownBy};
use outlive_core::control::{Reply, Request};
use outlive_core::id::JobId;
use outlive_core::meta::Meta;
use outlive_core::newer::OrNewer;
use outlive_core::status::Status;
use serde::Serialize;

use super::{Connection, SNAPSHOT_LIMIT};
use crate::job::Job;
use crate::job::state::{Custody, State};
use crate::notify::notice::one_line;
use crate::output::excerpt::tail_text;
use crate::store::Store;

/// The longest prompt that is shown; of a longer line, its end.
const PROMPT_BYTES: usize = 300;

/// The input that a job waits for, for scripts and people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AwaitedObject {
    /// A line, a password, or keys.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: AwaitedKind,
    /// How it is known.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub known: KnownBy,
    /// When the keeper saw it first.
    pub since: String,
    /// Of a line or a password: the line that the output ends with.
    pub prompt: Option<String>,
}

impl AwaitedObject {
    /// Describes what a job waits for.
    pub fn new(job: &Job, awaited: Awaited) -> Self {
        let Awaited { kind, known, since } = awaited;
        // A program that takes keys draws where it likes: its screen shows more than its last line.
        let prompt = if kind.is_question() { job.prompt() } else { None };
        Self { kind, known, since: since.to_string(), prompt }
    }

    /// Says what is wanted: `asks for a line: "Your name?"`.
    pub fn sentence(&self) -> String {
        let what = match (self.kind, self.known) {
            (AwaitedKind::Line, KnownBy::Kernel) => "asks for a line",
            (AwaitedKind::Line, KnownBy::Likely) => "seems to ask for a line",
            (AwaitedKind::Password, KnownBy::Kernel) => "asks for a password",
            (AwaitedKind::Password, KnownBy::Likely) => "seems to ask for a password",
            (AwaitedKind::Keys, _) => "takes keys",
        };
        let prompt = self.prompt.as_ref().map(|prompt| format!(": {prompt:?}"));
        format!("{what}{}", prompt.unwrap_or_default())
    }

    /// Says what to do at a command line; nothing for a job that takes keys, which may not need any.
    pub fn hint(&self, job: &JobId) -> Option<String> {
        match self.kind {
            AwaitedKind::Line => Some(format!("answer it with: outlive send {job} TEXT")),
            AwaitedKind::Password => Some(format!("a person types it in: outlive attach {job}")),
            AwaitedKind::Keys => None,
        }
    }

    /// Says what an agent can do; a password is not for it to know.
    pub fn tool_hint(&self, job: &JobId) -> Option<String> {
        match self.kind {
            AwaitedKind::Line => Some(format!("answer it: send_input job={job} text=…")),
            AwaitedKind::Password => Some(format!("let your user type it: outlive attach {job}")),
            AwaitedKind::Keys => None,
        }
    }
}

impl State {
    /// Returns what it waits for, as far as its keeper has written it down: a question, and not that it takes keys.
    /// [`Store::look_for_input_wait`] has all of it, and as it is now.
    pub fn awaits(&self) -> Option<Awaited> {
        let is_kept = self.status == Status::Running && self.custody == Custody::Keeper;
        let awaits = self.meta.as_ref().filter(|_| is_kept)?.awaits.as_ref();
        awaits.and_then(OrNewer::known).copied()
    }
}

impl Job {
    /// Returns the line that the output ends with, if it has no end: what a program prints before it reads an answer.
    pub fn prompt(&self) -> Option<String> {
        let tail = tail_text(self, PROMPT_BYTES).ok()?;
        let line = one_line(tail.rsplit('\n').next()?.trim());
        (!line.is_empty()).then_some(line)
    }
}

impl Store {
    /// As [`Store::look_for_input_wait`], but only where a question is written down: a program that gives up waiting may print
    /// nothing, and its keeper sleeps.
    pub fn look_at_question(&self, job: &Job, state: &mut State) {
        if state.awaits().is_some() {
            self.look_for_input_wait(job, state);
        }
    }

    /// Asks the job's keeper what the job waits for now, and puts it into `state`. Changes nothing if the job takes no input, or
    /// the keeper does not answer or is too old to know.
    pub fn look_for_input_wait(&self, job: &Job, state: &mut State) {
        let is_kept = state.status == Status::Running && state.custody == Custody::Keeper;
        if !is_kept || !job.spec().options.takes_input() || job.spec().stdin_from.is_some() {
            return;
        }
        let ask = || Connection::greet(job, None, SNAPSHOT_LIMIT)?.ask(&Request::Awaits, SNAPSHOT_LIMIT);
        let answer = match ask() {
            // Its guard knows as much.
            Err(error) if error.is_keeper_gone() => ask(),
            answer => answer,
        };
        if let Ok(Reply::Described(snapshot)) = answer
            && let Some(meta) = Meta::parse(job.spec().nonce, &snapshot)
        {
            state.meta = Some(meta.into());
        }
    }
}
