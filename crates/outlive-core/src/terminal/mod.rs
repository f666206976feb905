//! What is said between a program and its terminal: sequences, queries and their answers, keys, sizes.
//!
//! Everything here keeps a bounded state and needs no emulator, so that a keeper can use it.

pub mod keys;
pub mod palette;
pub mod query;
pub mod sequence;
pub mod size;
