//! Starts jobs: the request, the intent in the store, and the keeper that takes it over.

pub(crate) mod after;
pub(crate) mod engine;
pub(crate) mod ensure;
pub(crate) mod next_run;
pub(crate) mod pipe;
pub(crate) mod prepared;
pub(crate) mod programs;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod resolve;
pub(crate) mod restart;
pub(crate) mod schedule;
pub(crate) mod start;
