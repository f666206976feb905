//! How many jobs may be live at a time.

use std::fs;

use outlive_core::duration::format_size;
use outlive_core::id::SessionName;

use crate::store::Store;

/// From this part of a limit on, the caller is warned.
const WARN_AT_PERCENT: usize = 80;

/// Too many jobs are live.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// In this session.
    #[error("{live} jobs are live in session {session}, and the limit is {limit}")]
    Session {
        /// Which session.
        session: SessionName,
        /// How many.
        live: usize,
        /// Of how many.
        limit: usize,
    },
    /// The store has no room for what the job may print.
    #[error("the output of jobs takes {} of {}, and {} more would be reserved", format_size(*.used), format_size(*.limit), format_size(*.wanted))]
    Bytes {
        /// What is used or reserved, after all that could go is gone.
        used: u64,
        /// What was asked for.
        wanted: u64,
        /// Of how much.
        limit: u64,
    },
    /// In the store.
    #[error("{live} jobs are live in all, and the limit is {limit}")]
    Total {
        /// How many.
        live: usize,
        /// Of how many.
        limit: usize,
    },
}

/// How many jobs are live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Live {
    session: usize,
    total: usize,
}

impl Store {
    /// Tells whether one more job may be started; returns a warning when a limit is near.
    pub(crate) fn check_limits(&self, session: &SessionName) -> Result<Option<String>, LimitError> {
        let limits = self.config().limits;
        let mut live = self.count_live(session);
        if live.session >= limits.session || live.total >= limits.total {
            // Marks of jobs that have ended do not count; nobody looks at them before it matters.
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
