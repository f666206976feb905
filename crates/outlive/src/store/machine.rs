//! The machine as far as jobs depend on it: kernel features, use of limits, containment, and what jobs survive here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outlive_core::VERSION;
use outlive_core::containment::Level;
use outlive_core::control::SPOKEN;
use outlive_core::options::JobOptions;
use outlive_core::restart::RestartWhen;
use outlive_sys::cgroup::{Group, Hierarchies};
use outlive_sys::identity::ProcessId;
use outlive_sys::{features, scope, socket};
use serde::Serialize;

use crate::store::Store;

/// Kernel features of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// The features that outlive uses, present or not.
    pub features: Vec<Feature>,
}

/// A kernel feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// A stable word for it.
    pub name: &'static str,
    /// The kernel has it, and this user may use it.
    pub available: bool,
    /// The consequence of its absence; none if it is available.
    pub without: Option<&'static str>,
}

/// Current use and limits; `None` where there is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Allowances {
    /// Live jobs, by their marks.
    pub live_jobs: usize,
    /// Most live jobs in the store.
    pub live_jobs_limit: usize,
    /// Most live jobs in one session.
    pub session_jobs_limit: usize,
    /// Bytes of output that ended jobs have and live ones may come to print; none where there is no limit.
    pub reserved_bytes: Option<u64>,
    /// Most bytes of output in the store.
    pub bytes_limit: Option<u64>,
    /// Soft limit on this program's open files.
    pub open_files: Option<u64>,
    /// Hard limit on this program's open files.
    pub open_files_most: Option<u64>,
    /// Most inotify instances of this user.
    pub watchers: Option<u64>,
    /// Most inotify watches of this user.
    pub watches: Option<u64>,
}

/// Versions of the programs that share this store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// Version of this program.
    pub outlive: &'static str,
    /// Version of the keeper program that the next job gets; none if it does not say.
    pub keeper: Option<String>,
    /// Oldest and newest control protocol that this program speaks.
    pub protocol: [u32; 2],
    /// Live jobs whose keeper is of another version, as `ID (VERSION)`.
    pub live_jobs_of_others: Vec<String>,
}

impl Machine {
    /// Examines this machine; `directory` is used to try a watch.
    pub fn here(directory: &Path) -> Self {
        let features = features::probe(directory).into_iter().map(|feature| Feature {
            name: feature.name,
            available: feature.is_there,
            without: (!feature.is_there).then_some(feature.without),
        });
        Self { kernel: features::kernel(), features: features.collect() }
    }
}

impl Store {
    /// Returns current use and limits.
    pub fn allowances(&self) -> Allowances {
        let limits = &self.config().limits;
        let (open_files, open_files_most) = features::open_files();
        let (watchers, watches) = features::watch_allowance();
        Allowances {
            live_jobs: fs::read_dir(self.live()).map_or(0, Iterator::count),
            live_jobs_limit: limits.total,
            session_jobs_limit: limits.session,
            // The file `reserved` has an upper bound, which would alarm: what was removed is in it until it is reached.
            reserved_bytes: limits.bytes.map(|_| self.measure().used),
            bytes_limit: limits.bytes,
            open_files,
            open_files_most,
            watchers,
            watches,
        }
    }

    /// Returns what is wrong with the keeper program of the next job, if anything.
    pub(crate) fn keeper_problem(&self) -> Option<(PathBuf, String)> {
        let program = self.keeper_program()?;
        let problem = match keeper_version(&program) {
            Some(version) if version == VERSION => return None,
            Some(version) => format!("it is of version {version}, and this program of {VERSION}"),
            None => {
                "it does not say its version: it is no outlive-keeper, or one of another version".to_owned()
            }
        };
        Some((program, format!("{problem}; install both of the same version side by side")))
    }

    /// Returns the versions of the programs that share this store.
    pub fn versions(&self) -> Versions {
        let others = self.list(None).map(|listing| listing.jobs).unwrap_or_default().into_iter();
        let others = others.filter_map(|job| {
            let state = job.state(self);
            // An upgraded keeper is of another version than the starter was.
            let of_keeper = state.meta.as_ref().and_then(|meta| meta.outlive.clone());
            let version = of_keeper.unwrap_or_else(|| job.spec().outlive.clone());
            (version != VERSION && state.is_live()).then(|| format!("{} ({version})", job.id()))
        });
        Versions {
            outlive: VERSION,
            keeper: self.keeper_program().and_then(|program| keeper_version(&program)),
            protocol: [SPOKEN.min, SPOKEN.max],
            live_jobs_of_others: others.collect(),
        }
    }
}

/// Runs a keeper program for its version; `None` if it does not say.
fn keeper_version(program: &PathBuf) -> Option<String> {
    // This program as keeper has the same version.
    if program == Path::new("/proc/self/exe") {
        return Some(VERSION.to_owned());
    }
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).env_clear();
    let said = command.output().ok().filter(|said| said.status.success())?;
    let text = String::from_utf8(said.stdout).ok()?;
    text.trim().strip_prefix("outlive-keeper ").map(str::to_owned)
}

/// Lists the containment levels that jobs can have here, the best first. It tries: a cgroup is made and removed. Where systemd
/// gives keepers a scope of their own, they can have a level that this program cannot.
pub fn levels() -> Vec<Level> {
    let hierarchies = Hierarchies::discover();
    let can_make = |place: Option<&Path>| {
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

/// Events that could end a job, each with what happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Survival {
    /// Exit of the program, terminal or connection that started it.
    pub starter: &'static str,
    /// Logout of the user.
    pub logout: String,
    /// Stop of the service or container that it runs in.
    pub surroundings: String,
    /// Restart of the machine.
    pub restart: String,
}

/// The name of the unit that lets jobs come back after a restart of the machine.
pub const BOOT_UNIT: &str = "outlive-boot.service";

/// Tells whether the user's systemd lets jobs come back. A crontab is not looked at: only its own program can.
fn comes_back() -> bool {
    let config = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")));
    config.is_some_and(|config| config.join("systemd/user/default.target.wants").join(BOOT_UNIT).is_symlink())
}

impl Survival {
    /// Finds out for jobs that are started from this process, whatever they are.
    pub fn here() -> Self {
        let mut here = Self::of(&JobOptions::default());
        here.restart += match comes_back() {
            true => "; schedules and jobs with --restart always come back (outlive setup boot)",
            false => "; `outlive setup boot` lets schedules and jobs with --restart always come back",
        };
        here
    }

    /// Finds out for a job with these options that is started from this process.
    pub(crate) fn of(options: &JobOptions) -> Self {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self {
            starter: "yes",
            logout: logout(&cgroups),
            surroundings: surroundings(&cgroups),
            restart: restart(options).to_owned(),
        }
    }
}

fn restart(options: &JobOptions) -> &'static str {
    match (options.schedule.is_set(), options.restart.when == RestartWhen::Always, comes_back()) {
        (true, _, true) | (_, true, true) => "yes: its next run comes back (outlive setup boot)",
        (true, _, false) => {
            "its schedule goes on when outlive is next used; `outlive setup boot` lets it go on by itself"
        }
        (_, true, false) => "no: it is then reported as lost; `outlive setup boot` lets it come back",
        _ => "no: the job is then reported as lost, its output stays",
    }
}

/// Under `KillUserProcesses` of systemd's logind, the end of a login session kills its jobs.
fn logout(cgroups: &str) -> String {
    let uid = socket::own_uid();
    if cgroups.contains(&format!("/user@{uid}.service/")) && !scope::lingers(uid) {
        return "no: the user's systemd ends with the last login; loginctl enable-linger keeps it".to_owned();
    }
    if !fs::exists("/run/systemd/system").unwrap_or(false) || !cgroups.contains("session-") {
        return "yes".to_owned();
    }
    let is_yes = |line: &str| line.trim().eq_ignore_ascii_case("killuserprocesses=yes");
    let files = ["/etc/systemd/logind.conf", "/usr/lib/systemd/logind.conf"].into_iter().map(PathBuf::from);
    let parts =
        fs::read_dir("/etc/systemd/logind.conf.d").into_iter().flatten().flatten().map(|entry| entry.path());
    let kills =
        files.chain(parts).any(|path| fs::read_to_string(path).is_ok_and(|text| text.lines().any(is_yes)));
    if kills { "no: logind has KillUserProcesses=yes".to_owned() } else { "yes".to_owned() }
}

fn surroundings(cgroups: &str) -> String {
    if scope::manager().is_some() && Hierarchies::discover().is_pure_v2() {
        return "yes: systemd gives its keeper a scope of its own".to_owned();
    }
    let unit = cgroups
        .split(['/', '\n'])
        .rev()
        .find(|part| part.ends_with(".service") && !part.starts_with("user@"));
    if let Some(unit) = unit {
        return format!("no: it ends when the unit {unit} is stopped");
    }
    let is_container = fs::exists("/.dockerenv").unwrap_or(false)
        || fs::exists("/run/.containerenv").unwrap_or(false)
        || ["docker", "containerd", "kubepods", "libpod", "lxc"].iter().any(|name| cgroups.contains(name));
    if is_container { "no: it ends with its container".to_owned() } else { "yes: it runs in none".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_and_a_container_are_named() {
        assert!(surroundings("0::/system.slice/agent.service\n").contains("agent.service"));
        assert!(surroundings("0::/kubepods/pod1/x\n").starts_with("no: it ends with its container"));
        assert!(!surroundings("0::/user.slice/user-1.slice/user@1.service/app.slice\n").contains("user@1"));
    }
}
