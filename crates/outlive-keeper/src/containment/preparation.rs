//! Containment that is prepared before the launch request arrives.

use std::fs::File;
use std::path::{Path, PathBuf};

use outlive_core::containment::Level;
use outlive_sys::cgroup::{self, Group, Hierarchies};
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::ProcessId;
use outlive_sys::scope;

/// Where control groups can be made, and the first of them.
pub(crate) struct Preparation {
    pub(super) hierarchies: Hierarchies,
    /// Where the group of version 2 is made.
    place: Option<PathBuf>,
    /// That group, which is made while the starter prepares the job: most jobs need it.
    pub(super) unified: Option<Group>,
    /// Its directory, in which the command will be started.
    pub(super) unified_dir: Option<File>,
    /// The process that groups are named after: the guard, which has this program's pid when it has forked the keeper.
    pub(crate) owner: ProcessId,
}

impl Preparation {
    /// Leaves what would end with another job or service, where this process, `me`, stands in these `hierarchies`; what it forks stands
    /// where it does. `is_foreground`: that is the place that an engine has given the job, with its limits, and is not left.
    pub(crate) fn new(mut hierarchies: Hierarchies, me: ProcessId, is_foreground: bool) -> Self {
        let is_in_scope = !is_foreground && hierarchies.is_pure_v2() && enter_scope(me);
        if is_in_scope {
            hierarchies = Hierarchies::discover();
            hierarchies.enter_leaf();
        } else if hierarchies.is_in_job() {
            // This keeper was started from inside a job, and must not end with it.
            cgroup::leave_job(&hierarchies);
        }
        let place = if is_in_scope { hierarchies.unified.as_deref() } else { hierarchies.best_place() };
        let place = place.map(Path::to_owned);
        let unified = place.as_deref().map(|place| Group::named(place, me));
        Self { hierarchies, place, unified, unified_dir: None, owner: me }
    }

    /// Removes the group for a command that is not started yet: until then it would only cost the kernel memory.
    pub(crate) fn put_off(&mut self) {
        self.unified_dir = None;
        if let Some(group) = self.unified.take() {
            group.remove();
        }
    }

    /// Makes the group, or finds it: it is named after the guard that the job has now.
    pub(crate) fn take_up(&mut self, guard: ProcessId) {
        self.owner = guard;
        let make = |place: &Path| fault::step(Point::GroupMake, || Group::make(place, guard)).ok();
        self.unified = self.place.as_deref().and_then(make);
        self.unified_dir = self.unified.as_ref().and_then(|group| group.open().ok());
    }

    /// Lets go of the directory, which another process has closed: its number may mean another file.
    pub(crate) fn forget_dir(&mut self) {
        std::mem::forget(self.unified_dir.take());
    }

    /// Removes what was made: there is no command to contain.
    pub(crate) fn discard(self) {
        if let Some(group) = self.unified {
            group.remove();
        }
        if self.hierarchies.is_in_job() {
            cgroup::leave_keepers(&self.hierarchies);
        }
    }

    /// Lists the rungs to try, the best first.
    pub(super) fn levels(&self, asked: Option<Level>) -> Vec<Level> {
        match asked {
            Some(level) => vec![level],
            None => {
                let has_v1 = self.hierarchies.v1.iter().any(Option::is_some);
                vec![if has_v1 { Level::Hybrid } else { Level::Cgroup2 }, Level::Freezer, Level::Sweep]
            }
        }
    }
}

/// Asks systemd, where it runs this machine, to move the keeper out of the unit that it was started from: a service or
/// terminal that is stopped ends all processes of its control group.
fn enter_scope(me: ProcessId) -> bool {
    let name = format!("outlive-{}-{}", me.pid, me.start_time);
    scope::manager().is_some_and(|manager| scope::enter(&manager, &name).is_ok())
}
