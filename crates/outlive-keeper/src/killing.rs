//! Ending the tree, step by step, without ever holding up the loop.
//!
//! First a signal to every process, then a grace, then the hard kill again and again until nothing is left.

use outlive_core::containment::Level;
use outlive_core::control::Survivor;
use outlive_sys::signal::Signal;
use outlive_sys::tree::Member;

use crate::containment::{Containment, survivor};

/// How long to wait between two rounds of the hard kill: a process needs a moment to die.
const ROUND_US: u64 = 2_000;

/// After so long the survivors are reported; the rounds go on, less often.
const PATIENCE_US: u64 = 2_000_000;

/// How often a process that cannot die yet (in the kernel, on a dead disk) is tried again.
const SLOW_ROUND_US: u64 = 1_000_000;

/// A running attempt to end the tree.
pub(crate) struct Killing {
    /// When the hard kill begins.
    hard_from_us: u64,
    next_us: u64,
    pub(crate) signalled: u32,
    refused: Vec<Survivor>,
}

impl Killing {
    /// Sends the first signal and sets the grace.
    pub(crate) fn begin(containment: &mut Containment, signal: Signal, grace_ms: u64, now_us: u64) -> Self {
        let mut killing = Self { hard_from_us: now_us, next_us: now_us, signalled: 0, refused: Vec::new() };
        if signal != Signal::KILL {
            killing.hard_from_us = now_us.saturating_add(grace_ms.saturating_mul(1000));
            killing.next_us = killing.hard_from_us;
            killing.signalled = ask(containment, signal);
        }
        killing
    }

    /// Makes it no gentler and no later than a second request asks for.
    pub(crate) fn hasten(
        &mut self,
        containment: &mut Containment,
        signal: Signal,
        grace_ms: u64,
        now_us: u64,
    ) {
        if signal == Signal::KILL {
            self.hard_from_us = self.hard_from_us.min(now_us);
        } else {
            self.hard_from_us = self.hard_from_us.min(now_us.saturating_add(grace_ms.saturating_mul(1000)));
            if now_us < self.hard_from_us {
                self.signalled = self.signalled.max(ask(containment, signal));
            }
        }
        self.next_us = self.next_us.min(self.hard_from_us);
    }

    /// When [`Killing::step`] wants to be called again.
    pub(crate) fn next_us(&self) -> u64 {
        self.next_us
    }

    /// Does the round that is due. Returns those who should long be gone and are not; that nothing is left shows when
    /// the last child is reaped.
    pub(crate) fn step(&mut self, containment: &mut Containment, now_us: u64) -> Vec<Survivor> {
        let sent = containment.end();
        self.signalled = self.signalled.max(sent.count);
        self.refused = sent.refused;
        // Of a bare process group, whoever has left it is never reached: no use in waiting for that.
        let is_beyond_reach =
            containment.level == Level::Group && sent.count == 0 && !self.refused.is_empty();
        let is_stuck = is_beyond_reach || now_us > self.hard_from_us.saturating_add(PATIENCE_US);
        self.next_us = now_us + if is_stuck { SLOW_ROUND_US } else { ROUND_US };
        if !is_stuck {
            return Vec::new();
        }
        containment.members().iter().map(|member| self.explain(member)).collect()
    }

    fn explain(&self, member: &Member) -> Survivor {
        match self.refused.iter().find(|refused| refused.pid == member.id.pid) {
            Some(refused) => refused.clone(),
            None if member.state == 'D' => {
                survivor(member, "it waits in the kernel and cannot be ended before that is over")
            }
            None => survivor(member, &format!("it is still there, in state {}", member.state)),
        }
    }
}

/// Asks every process to end; returns how many there were.
fn ask(containment: &mut Containment, signal: Signal) -> u32 {
    let sent = containment.send(signal);
    // A stopped process hears nothing before it goes on.
    containment.resume();
    containment.send(Signal::CONT);
    sent.count
}
