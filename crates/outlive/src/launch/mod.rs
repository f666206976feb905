//! Starts jobs: the request, the intent in the store, and the keeper that takes it over.

pub(crate) mod containment;
pub(crate) mod detached;
pub(crate) mod keeper;
pub(crate) mod request;
pub(crate) mod start;
