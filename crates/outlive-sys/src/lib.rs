//! The operating system, made safe for outlive.
//!
//! This is the only crate of the workspace with `unsafe` in it. It owns what differs from kernel to kernel (spawning,
//! identity of processes, process trees, locks, durable files, sockets, kernel notifications) and nothing that is
//! outlive's own business: it knows no job, no store and no format.
//!
//! Everything here is synchronous, and every function that can block says so.

pub mod awaits;
pub mod cancel;
pub mod cgroup;
pub mod clock;
pub mod detach;
pub mod durable;
pub mod exit;
pub mod fault;
pub mod features;
pub mod fifo_lock;
pub mod figures;
pub mod fork;
#[cfg(feature = "heap")]
pub mod heap;
pub mod identity;
pub mod inherited;
pub mod keeper;
pub mod local_time;
pub mod lock;
pub mod memory;
pub mod names;
pub mod owner;
pub mod pipe;
pub mod poll;
pub mod ports;
pub mod prefault;
pub mod pty;
pub mod random;
pub mod region;
pub mod scope;
pub mod shared;
pub mod signal;
pub mod socket;
pub mod spawn;
pub mod stamp;
pub mod terminal;
pub mod tree;
pub mod watch;

mod vfork;
