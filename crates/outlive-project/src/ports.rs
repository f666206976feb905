//! Ports of jobs: which one a job gets, and which process has one that is taken.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use outlive::{Listeners, Store, hash};

use crate::project::{Port, Project};
use crate::up::converge::last_run;

/// Ports that are given out: above those that servers have by habit, below those that Linux gives to clients (from 32768 on).
const RANGE: Range<u16> = 20_000..30_000;

/// Returns the port of each job that has one. A port that is chosen is the same each time for a job of a project in a directory, unless
/// another process has it.
pub(crate) fn assign(store: &Store, project: &Project) -> BTreeMap<String, u16> {
    let mut ports: BTreeMap<String, u16> = BTreeMap::new();
    // A port on another machine is chosen and looked at there.
    let here = || project.jobs.iter().filter(|job| job.there.is_none());
    let fixed = here().filter_map(|job| match job.port? {
        Port::Fixed(port) => Some((job.name.clone(), port)),
        Port::Auto => None,
    });
    ports.extend(fixed);
    for job in here().filter(|job| job.port == Some(Port::Auto)) {
        let session = project.session();
        let last = last_run(store, &session, &job.name).ok().flatten();
        let live = last.filter(|last| last.state(store).is_live());
        // A job that runs keeps what it has.
        let kept = live.and_then(|live| live.spec().env_set.get("PORT")?.to_lossy().parse().ok());
        let place = hash(format!("{}\0{}", job.name, project.dir.display()).as_bytes());
        let count = u64::from(RANGE.end - RANGE.start);
        let candidate = |step: u64| RANGE.start + u16::try_from((place % count + step) % count).unwrap_or(0);
        let is_usable = |port: &u16| !ports.values().any(|other| other == port) && is_free(*port);
        let port = kept.or_else(|| (0..count).map(candidate).find(is_usable));
        ports.extend(port.map(|port| (job.name.clone(), port)));
    }
    ports
}

fn is_free(port: u16) -> bool {
    !outlive_sys::ports::is_taken(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Says which process listens on a port; none if no process does.
pub(crate) fn holder(store: &Store, port: u16) -> Option<String> {
    if !outlive_sys::ports::is_taken(port) {
        return None;
    }
    if let Ok(job) = store.find_by_port(port, None) {
        return Some(format!("job {} of session {}", job.id(), job.session()));
    }
    let mut listeners = Listeners::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let pid = pids.find(|&pid| listeners.of(pid).iter().any(|found| found.port == port));
    Some(match pid {
        Some(pid) => {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("pid {pid} ({})", outlive::one_line(name.trim()))
        }
        None => "a process of another user".to_owned(),
    })
}
