//! Waits for jobs: for their end, and for conditions before it.
//!
//! One engine (`engine.rs`) examines a job after a kernel event and sleeps in one `poll` otherwise. `conditions.rs` lists the
//! conditions; each other file watches for one of them.

pub(crate) mod auto_background;
mod command;
pub(crate) mod conditions;
mod engine;
mod event_wait;
pub(crate) mod exits;
pub(crate) mod health;
pub(crate) mod http;
mod input;
mod job_wait;
pub(crate) mod probe;
pub(crate) mod ready;
pub(crate) mod shell_words;
mod silence;
