//! Whether a job goes on working: when it counts as unhealthy, and what is done then.

use serde::Deserialize;

use crate::options::Health;

words! {
    /// What is done when a job is unhealthy.
    #[derive(Default)]
    pub enum HealthThen {
        /// It is told as an event, and the job goes on.
        #[default]
        Event = "event",
        /// The job is restarted, as often as its restart policy allows.
        Restart = "restart",
    }
}

/// How often health is checked, where the job does not say.
const INTERVAL_MS: u64 = 10_000;

/// How many failures in a row are too many, where the job does not say: one may be chance.
const FAILURES: u64 = 3;

impl Health {
    /// Tells whether anything is checked.
    pub fn is_checked(&self) -> bool {
        let Self { port, http, command, line, notify, .. } = self;
        port.is_some() || http.is_some() || command.is_some() || line.is_some() || *notify
    }

    /// Returns how often it is checked.
    pub fn interval_ms(&self) -> u64 {
        self.interval_ms.unwrap_or(INTERVAL_MS)
    }

    /// Returns after how many failures in a row it is unhealthy.
    pub fn failures(&self) -> u64 {
        self.failures.unwrap_or(FAILURES)
    }
}

/// Tells whether the file `health` of a job says that a check has succeeded, and none has failed too often since.
pub fn is_healthy(file: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Record {
        why: Option<String>,
    }
    serde_json::from_slice::<Record>(file).is_ok_and(|record| record.why.is_none())
}
