//! How long the job may live, apart from its timeout.
//!
//! A job that lives with its session is ended some time after the last front end of the session is gone. Each front end
//! holds the session's lease, shared, for as long as it runs, and the kernel frees it however the front end ends. One that
//! runs only for a moment leaves the lease's file with another time. No front end has to say goodbye.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::SystemTime;

use outlive_core::file;
use outlive_core::outcome::Cause;
use outlive_core::spec::Lifetime;
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
    lease: LeaseLooks,
}

/// What the keeper has seen of its session's lease.
struct LeaseLooks {
    /// When a look last found a sign of a front end, by the boot clock.
    alive_us: u64,
    /// The file's time at the last look. It is only compared with the next one, never with a clock: the wall clock may jump.
    touched: Option<SystemTime>,
}

impl LeaseLooks {
    /// Takes in what a look has found, and returns for how long no look has found a front end.
    fn idle_us(&mut self, is_held: bool, touched: Option<SystemTime>, now_us: u64) -> u64 {
        if is_held || (touched.is_some() && touched != self.touched) {
            self.alive_us = now_us;
        }
        self.touched = touched.or(self.touched);
        now_us.saturating_sub(self.alive_us)
    }
}

impl Expiry {
    pub(crate) fn new(lifetime: Lifetime) -> Self {
        let now_us = clock::boot_us();
        let next_us = match lifetime {
            Lifetime::Forever => None,
            Lifetime::Until { at } => Some(now_us.saturating_add(at.0.saturating_sub(clock::wall_us()))),
            Lifetime::Session { .. } => Some(0),
        };
        Self { lifetime, next_us, lease: LeaseLooks { alive_us: now_us, touched: None } }
    }

    /// When [`Keeper::check_lifetime`] wants to be called.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.next_us
    }

    /// Tells whether it is over, and sets the time of the next look.
    fn is_over(&mut self, session_dir: &str, dir: impl AsFd, now_us: u64) -> bool {
        match self.lifetime {
            Lifetime::Forever => false,
            Lifetime::Until { at } => {
                // More than nothing is left where the clock was set back meanwhile.
                let left_us = at.0.saturating_sub(clock::wall_us());
                self.next_us = Some(now_us.saturating_add(left_us));
                left_us == 0
            }
            Lifetime::Session { lease_ms } => {
                let lease_us = lease_ms.saturating_mul(1000);
                let lease = durable::open_ro(dir, format!("{session_dir}/{}", file::LEASE)).ok();
                let touched = lease.as_ref().and_then(|lease| lease.metadata().ok()?.modified().ok());
                self.next_us = Some(now_us + (lease_us / 5).clamp(*EVERY_US.start(), *EVERY_US.end()));
                self.lease.idle_us(lease.as_ref().is_some_and(is_held), touched, now_us) >= lease_us
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_lease_is_idle_since_the_last_sign_of_a_front_end() {
        let mut looks = LeaseLooks { alive_us: 100, touched: None };
        assert_eq!(looks.idle_us(false, None, 150), 50, "no front end has been there");
        assert_eq!(looks.idle_us(true, None, 200), 0, "a front end holds it");
        assert_eq!(looks.idle_us(false, None, 1000), 800);
        let early = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        assert_eq!(looks.idle_us(false, Some(early), 1100), 0, "a front end came and went");
        assert_eq!(looks.idle_us(false, Some(early), 1400), 300);
        assert_eq!(looks.idle_us(false, None, 1500), 400, "a look that failed is no sign");
        assert_eq!(looks.idle_us(false, Some(early), 1600), 500);
        // Whatever the wall clock says: before or after the time that was there.
        for touched in [SystemTime::UNIX_EPOCH, early + Duration::from_secs(1 << 33)] {
            assert_eq!(looks.idle_us(false, Some(touched), 2000), 0);
        }
    }
}
