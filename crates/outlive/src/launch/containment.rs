//! Containment levels that this machine offers this user.

use outlive_core::containment::Level;
use outlive_sys::cgroup::{Group, Hierarchies};
use outlive_sys::identity::ProcessId;
use outlive_sys::scope;

/// Lists the containment levels that jobs can have here, the best first. It tries: a cgroup is made and removed. Where systemd
/// gives keepers a scope of their own, they can have a level that this program cannot.
pub fn levels() -> Vec<Level> {
    let hierarchies = Hierarchies::discover();
    let can_make = |place: Option<&std::path::Path>| {
        place.is_some_and(|place| Group::make(place, ProcessId::current()).is_ok_and(|group| group.remove()))
    };
    let has_scope = hierarchies.is_pure_v2() && scope::manager().is_some();
    let has_v2 = has_scope || can_make(hierarchies.best_place());
    Level::ALL
        .into_iter()
        .filter(|level| match level {
            Level::Cgroup2 => has_v2,
            Level::Hybrid => has_v2 && !hierarchies.is_pure_v2(),
            Level::Freezer => can_make(hierarchies.of("freezer")),
            Level::Sweep | Level::Group => true,
        })
        .collect()
}
