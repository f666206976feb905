//! Says what it was given, one `name: value` line each, and exits: `reports-self`.
//!
//! Pid, parent, group and session, directory, ignored and blocked signals, descriptors, arguments, environment.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let status = std::fs::read_to_string("/proc/self/status")?;
    for line in status
        .lines()
        .filter(|line| ["SigBlk", "SigIgn", "PPid", "Umask"].iter().any(|name| line.starts_with(name)))
    {
        writeln!(out, "{}", line.replace(":\t", ": "))?;
    }
    if let Some(stat) = outlive_sys::identity::Stat::read(std::process::id().cast_signed()) {
        writeln!(out, "pid: {}\ngroup: {}\nsession: {}", stat.id.pid, stat.group, stat.session)?;
    }
    writeln!(out, "cwd: {}", std::env::current_dir()?.display())?;
    let mut fds: Vec<(i32, String)> = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let link = std::fs::read_link(entry.path()).unwrap_or_default();
        // The descriptor of this very listing is not one that was given.
        if let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && !link.starts_with(format!("/proc/{}/fd", std::process::id()))
        {
            fds.push((number, link.display().to_string()));
        }
    }
    fds.sort();
    for (number, link) in fds {
        writeln!(out, "fd {number}: {link}")?;
    }
    for argument in std::env::args_os().skip(1) {
        writeln!(out, "arg: {argument:?}")?;
    }
    for (name, value) in std::env::vars_os() {
        writeln!(out, "env {}: {}", name.display(), value.display())?;
    }
    out.flush()
}
