//! The capabilities of outlive, each proved on the real binaries.
//!
//! A module per capability; its header says what it proves and quotes the requirement lines of the source designs.

mod big;
mod bystanders;
mod clear;
mod cli;
mod clocks;
mod concurrency;
mod cursors;
mod cycles;
mod damage;
mod doctor;
mod environment;
mod events;
mod exit;
mod hostile;
mod identity;
mod input;
mod job_limits;
mod kill;
mod killing;
mod limits;
mod lingering;
mod many;
mod orphans;
mod output;
mod pause;
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
mod survivors;
mod timeouts;
mod upgrade;
mod usage;
mod views;
mod wait;
mod wait_for;
mod zoo;
