//! Signals to the whole tree: sending one, ending, stopping and continuing it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use outlive_core::containment::Level;
use outlive_core::control::Survivor;
use outlive_sys::cgroup::Group;
use outlive_sys::identity::{ProcessId, Stat};
use outlive_sys::keeper::{self, is_keeper};
use outlive_sys::signal::Signal;
use outlive_sys::tree::{self, Member};

use super::{Containment, STOP_LIMIT, survivor};

/// How long a sweep repeats while it still finds processes, before the loop goes on.
const SWEEP_LIMIT: Duration = Duration::from_millis(3);

/// Which processes a signal reached, by pid, and which it did not.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) reached: Vec<i32>,
    pub(crate) refused: Vec<Survivor>,
}

impl Containment {
    /// Sends a signal to every process of the job.
    pub(crate) fn send(&self, signal: Signal) -> Sent {
        self.send_to(&self.members(), signal)
    }

    /// Sends a signal to some processes of the job.
    pub(crate) fn send_to<'a>(&self, members: impl IntoIterator<Item = &'a Member>, signal: Signal) -> Sent {
        let mut sent = Sent::default();
        for member in members {
            if !self.reaches(member.id.pid) {
                sent.refused
                    .push(survivor(member, "it has left the process group, and nothing else holds it"));
                continue;
            }
            match tree::signal(member, signal) {
                Ok(true) => sent.reached.push(member.id.pid),
                Ok(false) => {}
                Err(error) => {
                    let why = outlive_core::outcome::errno_text(error.raw_os_error().unwrap_or(0));
                    sent.refused.push(survivor(member, &format!("it may not be signalled: {why}")));
                }
            }
        }
        sent
    }

    /// Does one round of ending everything.
    pub(crate) fn end(&mut self) -> Sent {
        match self.level {
            Level::Cgroup2 | Level::Hybrid => {
                let members = self.members();
                let inside: HashSet<i32> = self.group.as_ref().map(Group::members).unwrap_or_default();
                let is_killed = self.group.as_ref().is_some_and(|group| group.kill().is_ok());
                if !is_killed {
                    return self.end_frozen();
                }
                self.is_paused = false;
                let (inside, strays): (Vec<&Member>, Vec<&Member>) =
                    members.iter().partition(|member| inside.contains(&member.id.pid));
                // A process that was moved out of the group is still below the keeper.
                let mut sent = self.send_to(strays, Signal::KILL);
                sent.reached.extend(inside.iter().map(|member| member.id.pid));
                sent
            }
            Level::Freezer => self.end_frozen(),
            Level::Sweep => self.sweep(),
            Level::Group => self.send(Signal::KILL),
        }
    }

    /// Freezes the group, so that none of its processes can fork, then kills each of them.
    fn end_frozen(&mut self) -> Sent {
        let Some(group) = self.group.clone() else { return self.sweep() };
        group.freeze(true).ok();
        group.wait_frozen();
        let sent = self.send(Signal::KILL);
        group.freeze(false).ok();
        self.is_paused = false;
        sent
    }

    /// Kills what it finds until it finds nothing: what is forked during one round is found by the next.
    fn sweep(&mut self) -> Sent {
        self.is_paused = false;
        let until = Instant::now() + SWEEP_LIMIT;
        let mut all = Sent::default();
        loop {
            // Listed before the kills of this round, or those that end at once would not be counted.
            let members = self.members();
            // The whole first process group at once: no process in it can escape that by forking.
            if let Some((_, main)) = &self.main {
                main.signal_group(Signal::KILL).ok();
            }
            let hit: HashSet<i32> = self.end_children().into_iter().collect();
            let others = members.iter().filter(|member| !hit.contains(&member.id.pid));
            let sent = self.send_to(others, Signal::KILL);
            let is_over = sent.reached.is_empty() && hit.is_empty();
            all.reached.extend(hit.into_iter().chain(members.iter().map(|member| member.id.pid)));
            all.refused = sent.refused;
            if is_over || Instant::now() >= until {
                all.reached.retain(|pid| all.refused.iter().all(|refused| refused.pid != *pid));
                return all;
            }
        }
    }

    /// Kills the keeper's own children by their pids alone. Only the keeper can reap them, so their pids cannot mean other
    /// processes; and a process that forks and exits as fast as it can would be gone before its start time is compared.
    fn end_children(&self) -> Vec<i32> {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        // Only of what has the name of a keeper's program, here or there, are the arguments worth a look.
        let may_be = |name: &[u8]| [keeper::PROGRAM.as_bytes(), b"outlive", b"exe"].contains(&name);
        tree::signal_own_children(me, Signal::KILL, |pid, name| may_be(name) && is_keeper(pid))
    }

    /// Tells whether signals of this rung reach a process of the job.
    fn reaches(&self, pid: i32) -> bool {
        let leader = self.main.as_ref().map(|(pid, _)| *pid);
        self.level != Level::Group || Stat::read(pid).is_some_and(|stat| Some(stat.group) == leader)
    }

    fn is_to_stop(&self, member: &Member) -> bool {
        !matches!(member.state, 'T' | 't') && self.reaches(member.id.pid)
    }

    /// Stops every process where it is; `false` if one has not stopped in the moment that a keeper has for it.
    ///
    /// # Errors
    ///
    /// In words, if a process cannot be stopped.
    pub(crate) fn pause(&mut self) -> Result<bool, String> {
        self.is_paused = true;
        if let Some(group) = &self.group {
            group.freeze(true).map_err(|error| format!("the control group cannot be frozen: {error}"))?;
            let is_frozen = group.wait_frozen();
            // A process that was moved out of the group is still below the keeper.
            self.signal_strays(Signal::STOP);
            return Ok(is_frozen);
        }
        let until = Instant::now() + STOP_LIMIT;
        let mut still = 0;
        let mut signalled: Vec<ProcessId> = Vec::new();
        while still < 2 {
            // A task in uninterruptible sleep stops when it leaves the kernel. It may be a parent that waits for a child which
            // stopped before it had executed its program.
            let is_running = |member: &Member| {
                self.is_to_stop(member) && !(member.state == 'D' && signalled.contains(&member.id))
            };
            let running: Vec<Member> = self.members().into_iter().filter(is_running).collect();
            still = if running.is_empty() { still + 1 } else { 0 };
            for member in &running {
                tree::signal(member, Signal::STOP).ok();
                signalled.push(member.id);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
        }
        if self.members().iter().any(|member| !self.reaches(member.id.pid)) {
            return Err("some have left the process group, which is all that holds it, and go on".to_owned());
        }
        Ok(true)
    }

    /// Sends a signal to those of the job that are not in its group.
    fn signal_strays(&self, signal: Signal) {
        let inside = self.group.as_ref().map(Group::members).unwrap_or_default();
        for member in self.members().iter().filter(|member| !inside.contains(&member.id.pid)) {
            tree::signal(member, signal).ok();
        }
    }

    /// Lets every process go on.
    pub(crate) fn resume(&mut self) {
        if !std::mem::replace(&mut self.is_paused, false) {
            return;
        }
        match &self.group {
            Some(group) => {
                group.freeze(false).ok();
                self.signal_strays(Signal::CONT);
            }
            None => {
                self.send(Signal::CONT);
            }
        }
    }
}
