//! Which processes belong to the job.

use std::collections::HashSet;

use outlive_core::control::Survivor;
use outlive_sys::cgroup;
use outlive_sys::identity::Stat;
use outlive_sys::keeper::is_keeper;
use outlive_sys::spawn;
use outlive_sys::tree::{self, Member};

use super::Containment;

impl Containment {
    /// Lists the live processes of the job. Another keeper below is a job of its own, and so is all below it.
    pub(crate) fn members(&self) -> Vec<Member> {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let root = self.root.map_or(me, |root| root.pid);
        let mut found = tree::below(root, |member| !self.is_other(member.id.pid));
        if let Some(root) = self.root {
            match Stat::read(root.pid).filter(|stat| stat.id == root) {
                Some(stat) if !stat.has_ended() => {
                    found.insert(0, Member { id: stat.id, parent: stat.parent, state: stat.state });
                }
                // What was below it is below init now.
                Some(_) => {}
                None => found.clear(),
            }
        }
        let Some(group) = &self.group else { return found };
        let inside = group.members();
        // An inner job whose keeper died is below this one now, and is not of this job.
        found.retain(|member| {
            inside.contains(&member.id.pid) || !cgroup::is_in_other_job(member.id.pid, group)
        });
        let known: HashSet<i32> = found.iter().map(|member| member.id.pid).collect();
        for pid in inside {
            if pid == me || known.contains(&pid) || self.is_other(pid) {
                continue;
            }
            if let Some(stat) = Stat::read(pid).filter(|stat| !stat.has_ended()) {
                found.push(Member { id: stat.id, parent: stat.parent, state: stat.state });
            }
        }
        found
    }

    fn is_other(&self, pid: i32) -> bool {
        self.worker == Some(pid) || is_keeper(pid)
    }

    /// Leaves out a child of the keeper that works for the keeper, until it is reaped.
    pub(crate) fn except(&mut self, pid: u32) {
        self.worker = i32::try_from(pid).ok();
    }

    /// Notes that a child was reaped, because another process may get its number; tells whether it worked for the keeper.
    pub(crate) fn reaped(&mut self, pid: i32) -> bool {
        self.worker.take_if(|worker| *worker == pid).is_some()
    }

    /// Tells whether nothing of the job runs any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.members().is_empty()
    }

    /// Tells whether nothing of the job runs any more, beyond doubt. Listing takes time, and misses a process that is forked
    /// meanwhile while its parent exits; but then the keeper has a child of the job, running or not yet reaped.
    pub(crate) fn is_surely_empty(&self) -> bool {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let is_other_job = |pid| {
            self.is_other(pid) || self.group.as_ref().is_some_and(|group| cgroup::is_in_other_job(pid, group))
        };
        // One child of the job is enough to know; to list all of them each time that one has ended takes long.
        if spawn::has_children() && !tree::all_children(me, is_other_job) {
            return false;
        }
        // The kernel lists children while a chain of forks goes on, and may miss a process; not twice in a row.
        let are_others = || (0..2).all(|_| tree::all_children(me, is_other_job));
        self.is_empty() && (!spawn::has_children() || are_others())
    }
}

/// Names a process that is left.
pub(crate) fn survivor(member: &Member, why: &str) -> Survivor {
    Survivor::new(member.id.pid, &tree::arguments(member.id.pid), why)
}
