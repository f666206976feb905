//! Limits on the number of live jobs.

use std::fs;

use outlive_core::duration::format_size;
use outlive_core::id::SessionName;

use crate::store::Store;

/// Part of a limit from which on the caller is warned.
const WARN_AT_PERCENT: usize = 80;

/// Why no job can be started now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too many live jobs in the session.
    #[error("{live} jobs are live in session {session}, and the limit is {limit}")]
    Session {
        /// The session that is full.
        session: SessionName,
        /// Live jobs now.
        live: usize,
        /// The configured limit.
        limit: usize,
    },
    /// No room in the store for what the job may print.
    #[error("the output of jobs takes {} of {}, and {} more would be reserved", format_size(*.used), format_size(*.limit), format_size(*.wanted))]
    Bytes {
        /// Used or reserved, after all that could be removed is gone.
        used: u64,
        /// What the new job would reserve.
        wanted: u64,
        /// The configured limit.
        limit: u64,
    },
    /// Too many live jobs in the store.
    #[error("{live} jobs are live in all, and the limit is {limit}")]
    Total {
        /// Live jobs now.
        live: usize,
        /// The configured limit.
        limit: usize,
    },
}

/// Counts of live jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Live {
    session: usize,
    total: usize,
}

impl Store {
    /// Checks whether one more job may start; returns a warning when a limit is near.
    pub(crate) fn check_limits(&self, session: &SessionName) -> Result<Option<String>, LimitError> {
        let limits = self.config().limits;
        let mut live = self.count_live(session);
        if live.session >= limits.session || live.total >= limits.total {
            // Stale marks are swept only when they would matter.
            self.sweep_marks();
            live = self.count_live(session);
        }
        if live.session >= limits.session {
            return Err(LimitError::Session {
                session: session.clone(),
                live: live.session,
                limit: limits.session,
            });
        }
        if live.total >= limits.total {
            return Err(LimitError::Total { live: live.total, limit: limits.total });
        }
        let near = |live: usize, limit: usize| (live + 1) * 100 >= limit * WARN_AT_PERCENT;
        Ok(if near(live.session, limits.session) {
            Some(format!(
                "{} of {} live jobs of session {session} are used",
                live.session + 1,
                limits.session
            ))
        } else if near(live.total, limits.total) {
            Some(format!("{} of {} live jobs are used", live.total + 1, limits.total))
        } else {
            None
        })
    }

    fn count_live(&self, session: &SessionName) -> Live {
        let mut live = Live { session: 0, total: 0 };
        for entry in fs::read_dir(self.live()).into_iter().flatten().flatten() {
            live.total += 1;
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.split_once('@')).map(|(_, owner)| owner);
            live.session += usize::from(owner == Some(session.as_str()));
        }
        live
    }
}
