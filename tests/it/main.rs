//! The capabilities of outlive, each proved on the real binaries.
//!
//! A module per capability; its header says what it proves and quotes the requirement lines of the source designs.

mod big;
mod clear;
mod cli;
mod concurrency;
mod cursors;
mod damage;
mod environment;
mod events;
mod exit;
mod hostile;
mod identity;
mod input;
mod kill;
mod killing;
mod limits;
mod lingering;
mod many;
mod output;
mod ports;
mod power;
mod read_only;
mod reference;
mod regression;
mod reserve;
mod retention;
mod splits;
mod start;
mod storm;
mod survive;
mod usage;
mod views;
mod wait;
