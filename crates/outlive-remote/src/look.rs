//! The jobs of a machine that the configuration names, as it tells of them now, or as it last did: answers are kept in the store, so that
//! a machine that cannot be reached is shown with what was known of it, and how long ago.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use outlive::duration::format_duration;
use outlive::{Failure, HostRules, Status, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{Client, Filter};
use crate::objects::Job;

/// The jobs of a machine.
#[derive(Debug, Clone, Serialize)]
pub struct HostLook {
    /// What the configuration calls it.
    pub host: String,
    /// The oldest first.
    pub jobs: Vec<Job>,
    /// Why it cannot be reached; none: all this is so now.
    pub unreachable: Option<String>,
    /// The age of what is known, where it cannot be reached and was before.
    pub unreachable_ms: Option<u64>,
}

impl HostLook {
    /// Asks a machine for its last jobs, at most so many, and keeps the answer. What was known of one that cannot be reached is shown
    /// with its age.
    ///
    /// # Errors
    ///
    /// If it answers with a failure: it was reached.
    pub fn now(store: &Store, host: &str, client: &Client, filter: &Filter) -> Result<Self, Failure> {
        let host = host.to_owned();
        match client.jobs(filter) {
            Ok(mut listed) => {
                listed.jobs.reverse();
                if filter.session.is_none() {
                    Seen::keep(store, &host, &listed.jobs);
                }
                Ok(Self { host, jobs: listed.jobs, unreachable: None, unreachable_ms: None })
            }
            Err(error) if error.is_passing() => {
                let seen: Option<Seen<Vec<Job>>> = Seen::last(store, &host);
                let unreachable_ms = seen.as_ref().map(|seen| seen.age_ms);
                let mut jobs = seen.map(|seen| seen.answer).unwrap_or_default();
                jobs.retain(|job| filter.session.as_ref().is_none_or(|session| job.session == *session));
                Ok(Self { host, jobs, unreachable: Some(outlive::chain(&error)), unreachable_ms })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns how a job is doing, in words. Of one that cannot be reached only an end is certain.
    pub fn words(&self, job: &Job) -> String {
        let status = job.status.replace('_', " ");
        match self.unreachable_ms.filter(|_| !job.has_ended()) {
            Some(age) => format!("unreachable, {status} {} ago", format_duration(age)),
            None => status,
        }
    }

    /// Says how the machine is, in words; none where it answers.
    pub fn unreachable_words(&self) -> Option<String> {
        self.unreachable.as_ref()?;
        Some(match self.unreachable_ms {
            Some(age) => format!("unreachable; as it was {} ago", format_duration(age)),
            None => "unreachable; nothing is known of it yet".to_owned(),
        })
    }
}

impl Job {
    /// Tells whether its main process has ended, as far as this version knows the word.
    pub fn has_ended(&self) -> bool {
        Status::parse(&self.status).is_some_and(Status::has_ended)
    }
}

/// Lists the machines that can be asked: those with an address.
pub fn machines(hosts: &BTreeMap<String, HostRules>) -> impl Iterator<Item = (&String, &HostRules)> {
    hosts.iter().filter(|(_, rules)| !rules.address.is_empty())
}

/// An earlier answer.
#[derive(Debug, Clone)]
pub struct Seen<T> {
    /// What the machine said.
    pub answer: T,
    /// How long ago.
    pub age_ms: u64,
}

impl<T: Serialize + DeserializeOwned> Seen<T> {
    /// Keeps what a machine answered just now. One that cannot be kept is not known later, and all else is as it was.
    pub fn keep(store: &Store, what: &str, answer: &T) {
        let (Some(path), Ok(text)) = (path(store, what), serde_json::to_vec(answer)) else { return };
        let new = path.with_extension(format!("new-{}", std::process::id()));
        if fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).is_err() {
            fs::remove_file(&new).ok();
        }
    }

    /// Returns what a machine last answered.
    pub fn last(store: &Store, what: &str) -> Option<Self> {
        let path = path(store, what)?;
        let kept = fs::metadata(&path).ok()?.modified().ok()?;
        let age = SystemTime::now().duration_since(kept).unwrap_or_default();
        let answer = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        Some(Self { answer, age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX) })
    }
}

fn path(store: &Store, what: &str) -> Option<PathBuf> {
    Some(store.serve_dir().ok()?.join(format!("host-{what}.json")))
}
