//! Pairs of points, for operations of two steps.

use super::Point;

/// The two steps of replacing a file: what is new is written beside it, and gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacing {
    /// Making and writing the new file.
    pub write: Point,
    /// Renaming it.
    pub rename: Point,
}

impl Replacing {
    /// The keeper's snapshot of a running job.
    pub const META_START: Self = Self { write: Point::MetaStartWrite, rename: Point::MetaStartRename };
    /// The keeper's snapshot of an ended job.
    pub const META_END: Self = Self { write: Point::MetaEndWrite, rename: Point::MetaEndRename };
    /// The snapshot of a job whose outcome a front end writes, because its keeper died.
    pub const RECOVER_META: Self = Self { write: Point::RecoverMetaWrite, rename: Point::RecoverMetaRename };
    /// The snapshot of a job that a front end closes, because its keeper died.
    pub const CLOSE_META: Self = Self { write: Point::CloseMetaWrite, rename: Point::CloseMetaRename };
    /// Where a reader is.
    pub const CURSOR: Self = Self { write: Point::CursorWrite, rename: Point::CursorRename };
    /// The results of a job's on-exit command and webhook.
    pub const PARTING: Self = Self { write: Point::PartingWrite, rename: Point::PartingRename };
    /// What is to be sent.
    pub const SPOOL: Self = Self { write: Point::SpoolWrite, rename: Point::SpoolRename };
    /// What became of what was sent.
    pub const SENT: Self = Self { write: Point::SentWrite, rename: Point::SentRename };
    /// How far a reader has received events.
    pub const INBOX: Self = Self { write: Point::InboxWrite, rename: Point::InboxRename };
    /// What a session says.
    pub const SETTINGS: Self = Self { write: Point::SettingsWrite, rename: Point::SettingsRename };
    /// The session that a job is given to.
    pub const TRANSFER: Self = Self { write: Point::TransferWrite, rename: Point::TransferRename };
    /// The new name of a job.
    pub const NAME: Self = Self { write: Point::NameWrite, rename: Point::NameRename };
    /// What is known of an agent.
    pub const AGENT: Self = Self { write: Point::AgentWrite, rename: Point::AgentRename };
    /// Who asked for the end of a job without a keeper.
    pub const ORPHAN_ASKED: Self = Self { write: Point::OrphanAskedWrite, rename: Point::OrphanAskedRename };
    /// The snapshot of a job without a keeper that was paused or goes on.
    pub const ORPHAN_PAUSE: Self = Self { write: Point::OrphanPauseWrite, rename: Point::OrphanPauseRename };
}

/// The two steps of appending to a file that may not be there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appending {
    /// Opening or making it.
    pub open: Point,
    /// The one write.
    pub write: Point,
}

impl Appending {
    /// The keeper's event of a start.
    pub const EVENT_START: Self = Self { open: Point::EventStartOpen, write: Point::EventStartWrite };
    /// The keeper's events of all that comes later.
    pub const EVENT_END: Self = Self { open: Point::EventEndOpen, write: Point::EventEndWrite };
    /// The event of an outcome that a front end writes.
    pub const RECOVER_EVENT: Self = Self { open: Point::RecoverEventOpen, write: Point::RecoverEventWrite };
    /// The event of a removal.
    pub const REMOVE_EVENT: Self = Self { open: Point::RemoveEventOpen, write: Point::RemoveEventWrite };
    /// That a job is ready.
    pub const READY_EVENT: Self = Self { open: Point::ReadyEventOpen, write: Point::ReadyEventWrite };
    /// An end that is not among the events.
    pub const SETTLE_EVENT: Self = Self { open: Point::SettleEventOpen, write: Point::SettleEventWrite };
    /// The event of a job that was given to another session.
    pub const TRANSFER_EVENT: Self =
        Self { open: Point::TransferEventOpen, write: Point::TransferEventWrite };
    /// The event of a keeper's death.
    pub const ORPHAN_EVENT: Self = Self { open: Point::OrphanEventOpen, write: Point::OrphanEventWrite };
}
