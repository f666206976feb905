//! From an ending to its reader: the event log, each reader's position in it, and the notice that is shown.

pub(crate) mod changes;
pub(crate) mod delivered;
pub(crate) mod events;
pub(crate) mod inbox;
pub(crate) mod listener;
pub(crate) mod notice;
pub(crate) mod object;
mod rate;
pub(crate) mod watch;
pub(crate) mod watched;
