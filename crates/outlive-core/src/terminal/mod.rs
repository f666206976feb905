//! Terminals, without an emulator: what front ends and keepers agree on, and what programs and terminals say to each other.
//!
//! Everything here keeps a bounded state, so that a keeper can use it.

pub mod keys;
pub mod palette;
pub mod query;
pub mod sequence;
pub mod size;
pub mod typed;
