//! What is on disk, file by file, as `docs/on-disk-format.md` says.

pub mod after;
pub mod awaits;
pub mod cache;
pub mod checksum;
pub mod containment;
pub mod event;
pub mod index;
pub mod meta;
pub mod newer;
pub mod outcome;
pub mod placement;
pub mod queue;
pub mod segment;
pub mod session;
pub mod spec;
