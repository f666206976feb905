//! Waiting for jobs: for their end, and for what comes before it.
//!
//! There is one engine (`engine.rs`), which looks at a job when the kernel told something about it and sleeps in one `poll`
//! otherwise. `conditions.rs` is what can be waited for; the other files each watch for one kind of thing.

pub(crate) mod auto_background;
pub(crate) mod conditions;
mod engine;
mod event_wait;
pub(crate) mod exits;
pub(crate) mod http;
mod job_wait;
pub(crate) mod probe;
pub(crate) mod ready;
pub(crate) mod shell_words;
mod silence;
