//! Results of the on-exit command and of the webhook: `completion.json`, `webhook.json`, and how they are shown.

use std::time::Duration;

use outlive_core::file;
use outlive_core::spec::Process;
use outlive_sys::fault::Replacing;
use outlive_sys::identity::ProcessId;
use outlive_sys::{clock, durable};
use serde::{Deserialize, Serialize};

use crate::control::tree::identity;
use crate::delivery::webhook;
use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;

/// After so long without a record, the process that was to run the command is dead.
const SILENCE: Duration = Duration::from_secs(10);

/// The content of `completion.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) on_exit: Option<OnExitRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) webhook: Option<WebhookRecord>,
    /// Why neither step could be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct OnExitRecord {
    #[serde(flatten)]
    pub(super) run: OnExitRun,
    /// The process that runs it.
    pub(super) by: Option<Process>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WebhookRecord {
    pub(super) spooled_at: Option<String>,
    pub(super) seq: u64,
    pub(super) error: Option<String>,
}

/// The content of `webhook.json`: the final result of the notice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sent {
    pub(crate) attempts: u32,
    pub(crate) delivered_at: Option<String>,
    pub(crate) given_up_at: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) error: Option<String>,
}

/// Progress of an on-exit command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExitState {
    /// The job has not ended, or the command is about to start.
    Waiting,
    /// The command runs.
    Running,
    /// The command has ended.
    Ended,
    /// The command was not run, and will not be.
    NotRun,
    /// The process that ran the command died before the command ended.
    Unknown,
}

/// An on-exit command and its progress.
#[derive(Debug, Clone, Serialize)]
pub struct OnExit {
    /// The line for the shell.
    pub line: String,
    /// How far the command has come.
    pub state: OnExitState,
    /// What is recorded of it.
    #[serde(flatten)]
    pub run: OnExitRun,
}

/// What is recorded of an on-exit command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OnExitRun {
    /// Start of the command.
    pub started_at: Option<String>,
    /// End of the command.
    pub ended_at: Option<String>,
    /// The exit code of the command; none if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<String>,
    /// Why it could not be run, or was killed.
    pub error: Option<String>,
    /// Anything unusual about its end.
    pub note: Option<String>,
    /// The last 4 KiB that it printed.
    pub output: Option<String>,
}

/// Progress of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookState {
    /// The job has not ended.
    Waiting,
    /// The job has ended; its notice is not in the spool yet.
    Owed,
    /// The notice is in the spool.
    Spooled,
    /// The notice has arrived.
    Delivered,
    /// The notice did not arrive in the allowed time, and was moved to `failed/`.
    GivenUp,
    /// The notice is no longer in the spool, and no arrival is recorded.
    Unknown,
}

/// The notice to a webhook and its progress.
#[derive(Debug, Clone, Serialize)]
pub struct Webhook {
    /// Scheme, host and port: the rest may hold a secret.
    pub address: String,
    /// How far the notice has come.
    pub state: WebhookState,
    /// Its sequence among the session's events.
    pub seq: Option<u64>,
    /// How many times it was sent.
    pub attempts: u32,
    /// Time of the answer that accepted it.
    pub delivered_at: Option<String>,
    /// Earliest time of the next attempt.
    pub next_attempt_at: Option<String>,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

impl Job {
    pub(super) fn completion_record(&self) -> Record {
        self.read_json(file::COMPLETION).unwrap_or_default()
    }

    fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&durable::read(self.dir().ok()?, name).ok()?).ok()
    }

    /// Changes the record of the on-exit work. Best effort: on a full disk, or after the job was removed, nothing is recorded.
    pub(super) fn note_completion(&self, change: impl FnOnce(&mut Record)) {
        let mut record = self.completion_record();
        change(&mut record);
        if let Ok(bytes) = serde_json::to_vec(&record)
            && !self.is_removed()
        {
            self.dir()
                .and_then(|dir| durable::replace(Replacing::PARTING, dir, file::COMPLETION, &bytes))
                .ok();
        }
    }

    pub(super) fn note_on_exit(&self, on_exit: &OnExitRecord) {
        self.note_completion(|record| record.on_exit = Some(on_exit.clone()));
    }

    /// Returns the on-exit command and its progress; `None` if the job has none.
    pub fn on_exit(&self, state: &State) -> Option<OnExit> {
        let line = self.spec().options.completion.on_exit.as_ref()?.to_lossy();
        let mut record = self.completion_record();
        let has_runner = loop {
            let runner = record.on_exit.as_ref().and_then(|on_exit| on_exit.by).map(identity);
            if runner.is_some_and(ProcessId::is_alive) {
                break true;
            }
            // It may have written the end, and ended itself, since the record was read.
            let again = self.completion_record();
            if again == record {
                break false;
            }
            record = again;
        };
        let general = record.error;
        let OnExitRecord { mut run, .. } = record.on_exit.unwrap_or_default();
        let closed = state.closed.map(|closed| closed.closed);
        let silent_us = clock::wall_us().saturating_sub(closed.map_or(u64::MAX, |closed| closed.0));
        let is_over = closed.is_some() && Duration::from_micros(silent_us) >= SILENCE;
        let word = match (run.started_at.is_some(), run.ended_at.is_some()) {
            (true, true) => OnExitState::Ended,
            (true, false) if has_runner => OnExitState::Running,
            (true, false) => OnExitState::Unknown,
            (false, _) if run.error.is_some() || general.is_some() || is_over => OnExitState::NotRun,
            (false, _) => OnExitState::Waiting,
        };
        let died = (word == OnExitState::NotRun).then(|| "its keeper died".to_owned());
        run.error = run.error.or(general).or(died);
        run.output = run.output.filter(|output| !output.is_empty());
        Some(OnExit { line, state: word, run })
    }

    /// Returns the webhook's notice and its progress; `None` if the job has none.
    pub fn webhook(&self, store: &Store, state: &State) -> Option<Webhook> {
        let address = webhook::origin(self.spec().options.completion.webhook.as_ref()?);
        let record = self.completion_record().webhook;
        let nonce = self.spec().nonce.to_string();
        let name = store.spooled().into_iter().find(|name| name.split('.').nth(1) == Some(nonce.as_str()));
        let entry = name.and_then(|name| store.read_spooled(&name)?.ok());
        // After the spool: a notice that is no longer there has its result here.
        let sent: Option<Sent> = self.read_json(file::WEBHOOK);
        let word = match (&entry, &sent, &record) {
            (Some(_), ..) => WebhookState::Spooled,
            (None, Some(sent), _) if sent.delivered_at.is_some() => WebhookState::Delivered,
            (None, Some(_), _) => WebhookState::GivenUp,
            (None, None, Some(record)) if record.spooled_at.is_some() => WebhookState::Unknown,
            _ if state.status.has_ended() => WebhookState::Owed,
            _ => WebhookState::Waiting,
        };
        let entry_error = entry.as_ref().and_then(|entry| entry.error.clone());
        let sent_error = sent.as_ref().and_then(|sent| sent.error.clone());
        let attempts = entry.as_ref().map(|entry| entry.attempts).or(sent.as_ref().map(|sent| sent.attempts));
        Some(Webhook {
            address,
            state: word,
            seq: record.as_ref().map(|record| record.seq),
            attempts: attempts.unwrap_or(0),
            delivered_at: sent.and_then(|sent| sent.delivered_at).filter(|_| word == WebhookState::Delivered),
            next_attempt_at: entry.filter(|entry| entry.attempts > 0).map(|entry| entry.next.to_string()),
            error: entry_error.or(sent_error).or(record.and_then(|record| record.error)),
        })
    }
}
