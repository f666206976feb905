//! Checking the job's limits from time to time.
//!
//! A limit that the kernel enforces is only checked to report when it is near. Any other is enforced here: a job that is
//! over it is ended. A job without limits is never checked, and its keeper sleeps.

use outlive_core::containment::{Enforcement, Kept, NEAR_PERCENT, is_near};
use outlive_core::event::{Event, Kind};
use outlive_core::meta::Near;
use outlive_core::options::JobLimits;
use outlive_core::outcome::{Cause, Usage};
use outlive_core::timestamp::Timestamp;
use outlive_sys::clock;
use outlive_sys::fault::Replacing;
use outlive_sys::signal::Signal;

use crate::start::Keeper;

/// Poll interval for limits that the kernel enforces.
const KEPT_EVERY_US: u64 = 500_000;

/// Poll interval for limits that the kernel does not enforce.
const POLLED_EVERY_US: u64 = 20_000;

/// The limits, and the peaks that were seen.
pub(crate) struct LimitMonitor {
    limits: JobLimits,
    kept: Kept,
    next_us: Option<u64>,
    memory_peak: u64,
    pids_peak: u64,
}

impl LimitMonitor {
    pub(crate) fn new(limits: JobLimits, kept: Kept) -> Self {
        let is_any = limits.memory_bytes.is_some() || limits.pids.is_some();
        Self { limits, kept, next_us: is_any.then_some(0), memory_peak: 0, pids_peak: 0 }
    }

    /// When to look next; never, for most jobs.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.next_us
    }

    /// The most memory that was seen, if it was looked at.
    pub(crate) fn memory_peak(&self) -> Option<u64> {
        Some(self.memory_peak).filter(|&peak| peak > 0)
    }

    /// The most processes that were seen, if they were looked at.
    pub(crate) fn pids_peak(&self) -> Option<u64> {
        Some(self.pids_peak).filter(|&peak| peak > 0)
    }

    fn is_polled(&self) -> bool {
        [self.kept.memory, self.kept.pids].contains(&Some(Enforcement::Polled))
    }
}

impl Keeper {
    /// Compares what the job uses with its limits, and acts on it.
    pub(crate) fn check_limits(&mut self, now_us: u64) {
        let every = if self.limit_monitor.is_polled() { POLLED_EVERY_US } else { KEPT_EVERY_US };
        self.limit_monitor.next_us = Some(now_us + every);
        let now = Timestamp(clock::wall_us());
        if let Some(limit) = self.limit_monitor.limits.memory_bytes {
            let used = self.containment.memory(limit / 100 * NEAR_PERCENT);
            self.limit_monitor.memory_peak = self.limit_monitor.memory_peak.max(used);
            // What ran out of memory had reached its limit, though the dead process has given it back.
            let is_over = self.containment.oom_kills().is_some();
            self.note_near("memory", if is_over { limit } else { used }, limit, now);
            if is_over {
                self.note_out_of_memory(now);
            }
            if used > limit && self.limit_monitor.kept.memory == Some(Enforcement::Polled) {
                self.note_out_of_memory(now);
                self.end_for(Cause::Oom);
            }
        }
        if let Some(limit) = self.limit_monitor.limits.pids {
            let used = self.containment.count();
            self.limit_monitor.pids_peak = self.limit_monitor.pids_peak.max(used);
            self.note_near("pids", used, limit, now);
            if used > limit && self.limit_monitor.kept.pids == Some(Enforcement::Polled) {
                self.end_for(Cause::Kill { by: format!("its limit of {limit} processes") });
            }
        }
    }

    /// Ends a job that is over its limit, without a grace in which it could take more.
    fn end_for(&mut self, cause: Cause) {
        self.limit_monitor.next_us = None;
        self.kill(Signal::KILL, None, cause);
    }

    /// Notes at the end what may have happened between two looks. What ran out of memory had reached its limit, also where the
    /// kernel does not keep the peak.
    pub(crate) fn note_peaks(&mut self, peaks: &Usage, ended: Timestamp) {
        if let Some(limit) = self.limit_monitor.limits.memory_bytes {
            let is_over = peaks.oom_kills.is_some();
            let peak = if is_over { limit } else { peaks.memory_peak_bytes.unwrap_or(0) };
            self.note_near("memory", peak, limit, ended);
            if is_over {
                self.note_out_of_memory(ended);
            }
        }
        if let Some(limit) = self.limit_monitor.limits.pids {
            self.note_near("pids", peaks.pids_peak.unwrap_or(0), limit, ended);
        }
    }

    /// Writes down, once for each job, that a process of it was ended for want of memory.
    fn note_out_of_memory(&mut self, at: Timestamp) {
        if self.meta.out_of_memory.is_none() {
            self.meta.out_of_memory = Some(at);
            self.write_meta(Replacing::META_START);
            self.write_event(&Event { at, ..self.event(Kind::OutOfMemory) });
        }
    }

    /// Writes down, once for each job, that a limit is near.
    fn note_near(&mut self, limit: &str, used: u64, of: u64, at: Timestamp) {
        if self.meta.near.is_none() && is_near(used, of) {
            self.meta.near = Some(Near { limit: limit.to_owned(), at });
            self.write_meta(Replacing::META_START);
            self.write_event(&Event { limit: Some(limit.to_owned()), at, ..self.event(Kind::LimitNear) });
        }
    }
}
