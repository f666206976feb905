//! Ending the tree, step by step, without ever holding up the loop.
//!
//! First a signal to every process, then a grace, then SIGKILL again and again until nothing is left. The keeper adopts
//! orphans, so whatever a process does to escape (its own session, a double fork), it stays below the keeper.

use outlive_core::control::Survivor;
use outlive_sys::signal::Signal;
use outlive_sys::tree::{self, Member};

/// How long to wait between two rounds of SIGKILL: a process needs a moment to die.
const ROUND_US: u64 = 2_000;

/// After so long the survivors are reported; the rounds go on, less often.
const PATIENCE_US: u64 = 2_000_000;

/// How often a process that cannot die yet (in the kernel, on a dead disk) is tried again.
const SLOW_ROUND_US: u64 = 1_000_000;

/// A running attempt to end the tree.
pub(crate) struct Killing {
    /// When SIGKILL begins.
    hard_from_us: u64,
    next_us: u64,
    pub(crate) signalled: u32,
    refused: Vec<Survivor>,
}

impl Killing {
    /// Sends the first signal and sets the grace.
    pub(crate) fn begin(signal: Signal, grace_ms: u64, now_us: u64) -> Self {
        let mut killing = Self { hard_from_us: now_us, next_us: now_us, signalled: 0, refused: Vec::new() };
        if signal != Signal::KILL {
            killing.hard_from_us = now_us.saturating_add(grace_ms.saturating_mul(1000));
            killing.next_us = killing.hard_from_us;
            let sent = send(signal);
            // A stopped process hears nothing before it goes on.
            send(Signal::CONT);
            killing.signalled = sent.count;
        }
        killing
    }

    /// Makes it no gentler and no later than a second request asks for.
    pub(crate) fn hasten(&mut self, signal: Signal, grace_ms: u64, now_us: u64) {
        if signal == Signal::KILL {
            self.hard_from_us = self.hard_from_us.min(now_us);
        } else {
            self.hard_from_us = self.hard_from_us.min(now_us.saturating_add(grace_ms.saturating_mul(1000)));
            if now_us < self.hard_from_us {
                self.signalled = self.signalled.max(send(signal).count);
                send(Signal::CONT);
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
    pub(crate) fn step(&mut self, now_us: u64) -> Vec<Survivor> {
        let sent = send(Signal::KILL);
        self.signalled = self.signalled.max(sent.count);
        self.refused = sent.refused;
        let is_stuck = now_us > self.hard_from_us.saturating_add(PATIENCE_US);
        self.next_us = now_us + if is_stuck { SLOW_ROUND_US } else { ROUND_US };
        if is_stuck { members().iter().map(|member| self.explain(member)).collect() } else { Vec::new() }
    }

    fn explain(&self, member: &Member) -> Survivor {
        let pid = member.id.pid;
        let why = match self.refused.iter().find(|refused| refused.pid == pid) {
            Some(refused) => refused.why.clone(),
            None if member.state == 'D' => {
                "it waits in the kernel and cannot be ended before that is over".to_owned()
            }
            None => format!("it is still there, in state {}", member.state),
        };
        Survivor { pid, command: command(pid), why }
    }
}

/// What a signal to the tree came to.
pub(crate) struct Sent {
    pub(crate) count: u32,
    pub(crate) refused: Vec<Survivor>,
}

/// Sends a signal to every process of the job.
pub(crate) fn send(signal: Signal) -> Sent {
    let mut sent = Sent { count: 0, refused: Vec::new() };
    for member in members() {
        match tree::signal(&member, signal) {
            Ok(true) => sent.count += 1,
            Ok(false) => {}
            Err(error) => sent.refused.push(Survivor {
                pid: member.id.pid,
                command: command(member.id.pid),
                why: format!(
                    "it may not be signalled: {}",
                    outlive_core::outcome::errno_text(error.raw_os_error().unwrap_or(0))
                ),
            }),
        }
    }
    sent
}

/// Returns what a process runs, for people.
pub(crate) fn command(pid: i32) -> String {
    let words = tree::arguments(pid);
    let words: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    words.join(" ")
}

/// Lists the live processes of the job. Another keeper below is a job of its own, and so is all below it.
pub(crate) fn members() -> Vec<Member> {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    tree::below(me, |member| !is_keeper(member.id.pid))
}

/// Tells whether a process is the keeper of another job: it says so, and holds a job's lock where a keeper does.
fn is_keeper(pid: i32) -> bool {
    let says_so = tree::arguments(pid).first().is_some_and(|program| program == crate::PROGRAM.as_bytes());
    says_so
        && tree::descriptor(pid, crate::start::LOCK_FD)
            .is_some_and(|path| path.file_name().is_some_and(|name| name == outlive_core::file::LOCK))
}
