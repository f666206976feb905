//! The capabilities of outlive, each proved on the real binaries.
//!
//! A module per capability; its header says what it proves and quotes the requirement lines of the source designs.

mod cli;
mod concurrency;
mod damage;
mod environment;
mod exit;
mod identity;
mod input;
mod kill;
mod limits;
mod lingering;
mod many;
mod output;
mod reference;
mod retention;
mod start;
mod survive;
mod wait;
