//! How long the job may live, apart from its timeout.
//!
//! A job that lives with its session is ended some time after the last front end of it is gone. Each front end holds the
//! session's lease, shared, for as long as it runs, and the kernel frees it however it ends; one that runs only for a moment
//! leaves the time of the file. So nobody has to say goodbye.

use std::fs::File;
use std::os::fd::AsFd;

use outlive_core::file;
use outlive_core::outcome::Cause;
use outlive_core::spec::Lifetime;
use outlive_core::timestamp::Timestamp;
use outlive_sys::signal::Signal;
use outlive_sys::{clock, durable, lock};

use crate::start::Keeper;

/// How often, at most and at least, the lease is looked at.
const EVERY_US: std::ops::RangeInclusive<u64> = 20_000..=5_000_000;

/// When the job's life is over, whatever it does.
pub(crate) struct Expiry {
    lifetime: Lifetime,
    /// When to look next, by the boot clock; never for most jobs.
    next_us: Option<u64>,
    /// When somebody last held the lease, by the wall clock.
    held: Timestamp,
}

impl Expiry {
    pub(crate) fn new(lifetime: Lifetime) -> Self {
        let held = Timestamp(clock::wall_us());
        let mut expiry = Self { lifetime, next_us: None, held };
        expiry.next_us = match lifetime {
            Lifetime::Forever => None,
            Lifetime::Until { at } => Some(clock::boot_us().saturating_add(at.0.saturating_sub(held.0))),
            Lifetime::Session { .. } => Some(0),
        };
        expiry
    }

    /// When [`Keeper::check_lifetime`] wants to be called.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.next_us
    }

    /// Tells whether it is over, and sets the time of the next look.
    fn is_over(&mut self, session_dir: &str, dir: impl AsFd, now_us: u64) -> bool {
        let wall = clock::wall_us();
        match self.lifetime {
            Lifetime::Forever => false,
            Lifetime::Until { at } if wall >= at.0 => true,
            // The clock was set back meanwhile.
            Lifetime::Until { at } => {
                self.next_us = Some(now_us.saturating_add(at.0 - wall));
                false
            }
            Lifetime::Session { lease_ms } => {
                let lease_us = lease_ms.saturating_mul(1000);
                let lease = durable::open_ro(dir, &format!("{session_dir}/{}", file::LEASE)).ok();
                if lease.as_ref().is_some_and(is_held) {
                    self.held = Timestamp(wall);
                } else if let Some(touched) = lease.as_ref().and_then(modified_us) {
                    // A time in the future is no reason to live for ever.
                    self.held = self.held.max(Timestamp(touched.min(wall)));
                }
                self.next_us = Some(now_us + (lease_us / 5).clamp(*EVERY_US.start(), *EVERY_US.end()));
                wall.saturating_sub(self.held.0) >= lease_us
            }
        }
    }
}

/// Tells whether some front end holds the lease.
fn is_held(lease: &File) -> bool {
    let is_free = lock::try_lock(lease, lock::Kind::Exclusive).unwrap_or(false);
    lock::unlock(lease).ok();
    !is_free
}

fn modified_us(lease: &File) -> Option<u64> {
    let time = lease.metadata().and_then(|data| data.modified()).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_micros()).ok()
}

impl Keeper {
    /// Ends the job if its life is over.
    pub(crate) fn check_lifetime(&mut self, now_us: u64) {
        let session = self.session_dir();
        if self.expiry.is_over(&session, &self.dir, now_us) {
            self.expiry.next_us = None;
            let by = match self.expiry.lifetime {
                Lifetime::Session { .. } => "the end of its session",
                _ => "the end of its lifetime",
            };
            self.kill(Signal::TERM, None, Cause::Kill { by: by.to_owned() });
        }
    }
}
