//! Ending the tree, step by step, without ever holding up the loop.
//!
//! First a signal to every process, then a grace, then the hard kill again and again until nothing is left.

use std::collections::HashSet;

use outlive_core::containment::Level;
use outlive_core::control::Survivor;
use outlive_sys::signal::Signal;
use outlive_sys::tree::Member;

use crate::containment::{Containment, Sent, survivor};

/// How long to wait between two rounds of the hard kill: a process needs a moment to die.
const ROUND_US: u64 = 2_000;

/// After so long the survivors are reported; the rounds go on, less often.
const PATIENCE_US: u64 = 2_000_000;

/// How often a process that cannot die yet (in the kernel, on a dead disk) is tried again.
const SLOW_ROUND_US: u64 = 1_000_000;

/// What is ended: the job's processes.
pub(crate) trait Target {
    /// Asks every process to end; returns which there were.
    fn ask(&mut self, signal: Signal) -> Vec<i32>;
    /// Does one round of the hard kill.
    fn end(&mut self) -> Sent;
    fn members(&self) -> Vec<Member>;
    /// Tells whether a process that has refused a round will refuse all others.
    fn is_beyond_reach(&self, sent: &Sent) -> bool;
}

impl Target for Containment {
    fn ask(&mut self, signal: Signal) -> Vec<i32> {
        let members = self.members();
        let sent = self.send_to(&members, signal);
        // A stopped process hears nothing before it goes on.
        self.resume();
        self.send_to(&members, Signal::CONT);
        sent.reached
    }

    fn end(&mut self) -> Sent {
        Self::end(self)
    }

    fn members(&self) -> Vec<Member> {
        Self::members(self)
    }

    fn is_beyond_reach(&self, sent: &Sent) -> bool {
        // A process that has left a bare process group is never reached.
        self.level == Level::Group && sent.reached.is_empty() && !sent.refused.is_empty()
    }
}

/// A running attempt to end the tree.
pub(crate) struct Killing {
    /// When the hard kill begins.
    hard_from_us: u64,
    next_us: u64,
    /// The processes that any signal of it reached, by pid: each is counted once.
    reached: HashSet<i32>,
    refused: Vec<Survivor>,
}

impl Killing {
    /// Sends the first signal and sets the grace.
    pub(crate) fn begin(target: &mut impl Target, signal: Signal, grace_ms: u64, now_us: u64) -> Self {
        let (reached, refused) = (HashSet::new(), Vec::new());
        let mut killing = Self { hard_from_us: now_us, next_us: now_us, reached, refused };
        if signal != Signal::KILL {
            killing.hard_from_us = now_us.saturating_add(grace_ms.saturating_mul(1000));
            killing.next_us = killing.hard_from_us;
            killing.reached.extend(target.ask(signal));
        }
        killing
    }

    /// Goes on with a kill that a keeper which died had begun.
    pub(crate) fn resume(hard_from_us: u64) -> Self {
        Self { hard_from_us, next_us: hard_from_us, reached: HashSet::new(), refused: Vec::new() }
    }

    /// Returns when the hard kill begins.
    pub(crate) fn hard_from_us(&self) -> u64 {
        self.hard_from_us
    }

    /// Makes it no gentler and no later than a second request asks for.
    pub(crate) fn hasten(&mut self, target: &mut impl Target, signal: Signal, grace_ms: u64, now_us: u64) {
        if signal == Signal::KILL {
            self.hard_from_us = self.hard_from_us.min(now_us);
        } else {
            self.hard_from_us = self.hard_from_us.min(now_us.saturating_add(grace_ms.saturating_mul(1000)));
            if now_us < self.hard_from_us {
                self.reached.extend(target.ask(signal));
            }
        }
        self.next_us = self.next_us.min(self.hard_from_us);
    }

    /// Returns how many processes a signal reached so far.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.reached.len()).unwrap_or(u32::MAX)
    }

    /// Puts the next round off by as long as the last one took: of a large tree a round takes longer than the pause, and the
    /// processes need the processor to end.
    pub(crate) fn rest(&mut self, took_us: u64) {
        self.next_us = self.next_us.saturating_add(took_us.saturating_mul(2));
    }

    /// When [`Killing::step`] wants to be called again.
    pub(crate) fn next_us(&self) -> u64 {
        self.next_us
    }

    /// Does the round that is due. Returns the processes that should long be gone and are not. That none is left shows
    /// when the last child is reaped.
    pub(crate) fn step(&mut self, target: &mut impl Target, now_us: u64) -> Vec<Survivor> {
        let sent = target.end();
        self.reached.extend(&sent.reached);
        let is_stuck =
            target.is_beyond_reach(&sent) || now_us > self.hard_from_us.saturating_add(PATIENCE_US);
        self.refused = sent.refused;
        self.next_us = now_us + if is_stuck { SLOW_ROUND_US } else { ROUND_US };
        if !is_stuck {
            return Vec::new();
        }
        target.members().iter().map(|member| self.explain(member)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use outlive_sys::identity::ProcessId;

    /// A tree that notes what is done to it.
    #[derive(Default)]
    struct Tree {
        pids: Vec<i32>,
        asked: Vec<i32>,
        rounds: u32,
        /// Each round ends so many.
        ends: usize,
        refused: Vec<Survivor>,
        is_beyond_reach: bool,
    }

    impl Target for Tree {
        fn ask(&mut self, signal: Signal) -> Vec<i32> {
            self.asked.push(signal.number());
            self.pids.clone()
        }

        fn end(&mut self) -> Sent {
            self.rounds += 1;
            let reached = self.pids.clone();
            self.pids.truncate(self.pids.len() - self.ends.min(self.pids.len()));
            Sent { reached, refused: self.refused.clone() }
        }

        fn members(&self) -> Vec<Member> {
            let member = |&pid: &i32| Member { id: ProcessId { pid, start_time: 1 }, parent: 1, state: 'D' };
            self.pids.iter().map(member).collect()
        }

        fn is_beyond_reach(&self, _: &Sent) -> bool {
            self.is_beyond_reach
        }
    }

    /// Pids that no process has.
    fn tree(count: i32) -> Tree {
        Tree { pids: (0..count).map(|index| i32::MAX - index).collect(), ..Tree::default() }
    }

    #[test]
    fn a_signal_comes_first_and_the_hard_kill_after_the_grace() {
        let mut tree = Tree { ends: 2, ..tree(3) };
        let mut killing = Killing::begin(&mut tree, Signal::TERM, 5, 1000);
        assert_eq!((&tree.asked[..], tree.rounds), (&[15][..], 0));
        assert_eq!((killing.next_us(), killing.count()), (6000, 3));
        for _ in 0..3 {
            let now_us = killing.next_us();
            assert!(killing.step(&mut tree, now_us).is_empty());
            assert_eq!(killing.next_us(), now_us + ROUND_US, "it goes round until the last child is reaped");
        }
        assert_eq!((tree.pids.len(), tree.rounds, killing.count()), (0, 3, 3));
        assert_eq!(tree.asked, [15], "it is asked once");
    }

    #[test]
    fn sigkill_has_no_grace() {
        let mut tree = tree(1);
        let killing = Killing::begin(&mut tree, Signal::KILL, 60_000, 1000);
        assert_eq!((killing.next_us(), tree.asked.len()), (1000, 0));
    }

    #[test]
    fn a_second_request_makes_it_sooner_and_never_later() {
        let mut tree = tree(1);
        let mut killing = Killing::begin(&mut tree, Signal::TERM, 10, 0);
        killing.hasten(&mut tree, Signal::TERM, 60_000, 1000);
        assert_eq!((killing.next_us(), &tree.asked[..]), (10_000, &[15, 15][..]));
        killing.hasten(&mut tree, Signal::TERM, 2, 1000);
        assert_eq!(killing.next_us(), 3000);
        killing.hasten(&mut tree, Signal::TERM, 0, 2000);
        assert_eq!(
            (killing.next_us(), tree.asked.len()),
            (2000, 3),
            "with no grace left it is not asked again"
        );
        killing.hasten(&mut tree, Signal::KILL, 60_000, 1500);
        assert_eq!(killing.next_us(), 1500);
        killing.step(&mut tree, 1500);
        killing.hasten(&mut tree, Signal::TERM, 60_000, 1600);
        assert_eq!((killing.next_us(), tree.asked.len()), (1500, 3), "the hard kill is under way");
    }

    #[test]
    fn survivors_are_named_when_patience_is_over_and_tried_on() {
        let why = |pid, why: &str| Survivor { pid, command: String::new(), why: why.to_owned() };
        let mut tree = Tree { refused: vec![why(i32::MAX, "it may not be signalled")], ..tree(2) };
        let mut killing = Killing::begin(&mut tree, Signal::KILL, 0, 0);
        assert!(killing.step(&mut tree, PATIENCE_US).is_empty(), "patience is not over");
        let named = killing.step(&mut tree, PATIENCE_US + 1);
        assert_eq!(named[0], why(i32::MAX, "it may not be signalled"));
        assert!(named[1].why.contains("waits in the kernel"), "{named:?}");
        assert_eq!(killing.next_us(), PATIENCE_US + 1 + SLOW_ROUND_US);
    }

    #[test]
    fn what_is_beyond_reach_is_named_at_once() {
        let mut tree = Tree { is_beyond_reach: true, ..tree(1) };
        let mut killing = Killing::begin(&mut tree, Signal::KILL, 0, 0);
        assert_eq!(killing.step(&mut tree, 0).len(), 1);
        assert_eq!(killing.next_us(), SLOW_ROUND_US);
    }
}
