//! What leaves the store: the command that runs at a job's end, and the notices that go to webhooks.

pub(crate) mod deliver;
pub(crate) mod on_exit;
pub(crate) mod pending;
pub(crate) mod record;
pub(crate) mod spool;
pub(crate) mod webhook;
