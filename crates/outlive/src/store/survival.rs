//! What jobs that are started here survive, and what they do not.

use std::fs;

use outlive_sys::cgroup::Hierarchies;
use outlive_sys::socket;

/// Events that could end a job, each with what happens.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Survival {
    /// Exit of the program, terminal or connection that started it.
    pub starter: &'static str,
    /// Logout of the user.
    pub logout: String,
    /// Stop of the service or container that it runs in.
    pub surroundings: String,
    /// Restart of the machine.
    pub restart: &'static str,
}

impl Survival {
    /// Finds out for jobs that are started from this process.
    pub fn here() -> Self {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self {
            starter: "yes",
            logout: logout(&cgroups),
            surroundings: surroundings(&cgroups),
            restart: "no: the job is then reported as lost, its output stays",
        }
    }
}

/// Under `KillUserProcesses` of systemd's logind, the end of a login session kills its jobs.
fn logout(cgroups: &str) -> String {
    let uid = socket::own_uid();
    if cgroups.contains(&format!("/user@{uid}.service/")) && !outlive_sys::scope::lingers(uid) {
        return "no: the user's systemd ends with the last login; loginctl enable-linger keeps it".to_owned();
    }
    if !fs::exists("/run/systemd/system").unwrap_or(false) || !cgroups.contains("session-") {
        return "yes".to_owned();
    }
    let is_yes = |line: &str| line.trim().eq_ignore_ascii_case("killuserprocesses=yes");
    let files = ["/etc/systemd/logind.conf", "/usr/lib/systemd/logind.conf"]
        .into_iter()
        .map(std::path::PathBuf::from);
    let parts =
        fs::read_dir("/etc/systemd/logind.conf.d").into_iter().flatten().flatten().map(|entry| entry.path());
    let kills =
        files.chain(parts).any(|path| fs::read_to_string(path).is_ok_and(|text| text.lines().any(is_yes)));
    if kills { "no: logind has KillUserProcesses=yes".to_owned() } else { "yes".to_owned() }
}

fn surroundings(cgroups: &str) -> String {
    if outlive_sys::scope::manager().is_some() && Hierarchies::discover().is_pure_v2() {
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
