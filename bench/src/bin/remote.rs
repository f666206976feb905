//! What another machine costs: a start and a list of many jobs over a warm connection of `ssh`, beside `ssh HOST true` and the same list
//! here. The machine is this one, behind an `sshd` of its own on loopback.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive::{Request, Until};
use outlive_bench::{Failure, Options, Samples, World, conclude, finish, go_on, judge, rest};

/// A start may take so many times as long as `ssh HOST true`.
const START: f64 = 1.5;

/// A list may take so many times as long as here, and a round trip more.
const LIST: f64 = 3.0;

const SSHD: &str = "/usr/sbin/sshd";

fn main() -> ExitCode {
    conclude(run)
}

fn run() -> Result<bool, Failure> {
    let (options, [jobs, rounds]) = Options::parse([("jobs", 1000), ("rounds", 20)])?;
    if !Path::new(SSHD).is_file() {
        println!("remote: not measured, for want of {SSHD}");
        return Ok(true);
    }
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    let store = world.store(keeper)?;
    let mut ours = Vec::new();
    for _ in 0..jobs {
        go_on()?;
        ours.push(store.start(&Request::argv(["true"]))?.job);
        if ours.len().is_multiple_of(25) && !store.wait(&ours, Until::All, None).is_reached {
            return Err("a job does not end".into());
        }
    }
    ours.iter().try_for_each(|job| finish(&store, job))?;
    let ssh = Server::start(world.path(), store.root())?;
    let outlive = |arguments: &[&str]| {
        let mut command = Command::new(&options.outlive);
        command.env("OUTLIVE_HOME", store.root()).env("XDG_RUNTIME_DIR", &ssh.run).env("PATH", &ssh.path);
        command.args(arguments);
        command
    };
    println!("remote: {jobs} jobs; {}", world.describe());
    println!("{:<26}{:>9}{:>9}{:>9}", "", "best ms", "p50", "most");
    let mut warm = ssh.command(&["true"]);
    let mut sides = [
        ("ssh HOST true", ssh.command(&["true"]), Samples::default()),
        ("start there", outlive(&["--host", "ssh://bench", "run", "true"]), Samples::default()),
        ("list here", outlive(&["--json", "list"]), Samples::default()),
        ("list there", outlive(&["--host", "ssh://bench", "--json", "list"]), Samples::default()),
    ];
    // The first of each copies the program and makes the shared connection.
    for command in [&mut warm].into_iter().chain(sides.iter_mut().map(|(_, command, _)| command)) {
        time(command)?;
    }
    for _ in 0..rounds {
        go_on()?;
        for (_, command, samples) in &mut sides {
            samples.add(time(command)?);
        }
    }
    let medians = sides.each_ref().map(|(_, _, samples)| samples.median());
    let mut all_kept = true;
    let verdicts = [
        "",
        judge(medians[1] <= START * medians[0], &mut all_kept),
        "",
        judge(medians[3] <= LIST * medians[2] + medians[0], &mut all_kept),
    ];
    for ((name, _, samples), verdict) in sides.iter().zip(verdicts) {
        let (best, median, most) = (samples.best(), samples.median(), samples.quantile(1.0));
        println!("{name:<26}{best:>9.1}{median:>9.1}{most:>9.1}  {verdict}");
    }
    let listed = store.list(None)?.jobs;
    listed.iter().try_for_each(|job| finish(&store, job))?;
    Ok(all_kept || !options.is_check)
}

/// Runs a command, and returns how many milliseconds it took.
fn time(command: &mut Command) -> Result<f64, Failure> {
    let begun = Instant::now();
    let done = command.stdin(Stdio::null()).output()?;
    let millis = begun.elapsed().as_secs_f64() * 1000.0;
    match done.status.success() {
        true => Ok(millis),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr)).into()),
    }
}

/// An `sshd` that ends with this.
struct Server {
    child: Child,
    /// Where the shared connection is.
    run: PathBuf,
    /// With the `ssh` that knows the server.
    path: std::ffi::OsString,
    ssh: PathBuf,
}

impl Server {
    fn start(directory: &Path, store: &Path) -> Result<Self, Failure> {
        let (dir, run) = (directory.join("ssh"), directory.join("run"));
        for path in [&dir, &run] {
            fs::create_dir_all(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
        for name in ["host", "user"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.join(name));
            if !command.status()?.success() {
                return Err("ssh-keygen does not work".into());
            }
        }
        fs::copy(dir.join("user.pub"), dir.join("authorized"))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (shown, store, data) = (dir.display(), store.display(), directory.join("data"));
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/authorized\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nLogLevel ERROR\nPrintMotd no\n\
             SetEnv OUTLIVE_HOME={store} XDG_DATA_HOME={} SHLVL=1\n",
            data.display()
        );
        fs::write(dir.join("sshd_config"), config)?;
        let config = format!(
            "Host bench\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {shown}/user\n  IdentitiesOnly yes\n  BatchMode yes\n  \
             UserKnownHostsFile {shown}/known\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"
        );
        fs::write(dir.join("ssh_config"), config)?;
        let ssh = dir.join("ssh");
        fs::write(&ssh, format!("#!/bin/sh\nexec /usr/bin/ssh -F {shown}/ssh_config \"$@\"\n"))?;
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755))?;
        // As root the server wants a directory that the system makes at its start.
        fs::create_dir_all("/run/sshd").ok();
        let child = Command::new(SSHD)
            .args(["-D", "-f"])
            .arg(dir.join("sshd_config"))
            .stdin(Stdio::null())
            .spawn()?;
        let own = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(dir).chain(std::env::split_paths(&own)))?;
        let server = Self { child, run, path, ssh };
        let mut tries = 0;
        while time(&mut server.command(&["true"])).is_err() {
            tries += 1;
            if tries > 100 {
                return Err("sshd does not answer".into());
            }
            rest(Duration::from_millis(50))?;
        }
        Ok(server)
    }

    /// Returns `ssh` over a shared connection, as outlive uses it.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.ssh);
        let path = format!("ControlPath={}", self.run.join("floor-%C").display());
        command
            .args(["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", &path, "-T", "bench"])
            .args(words);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for path in ["floor-%C", "outlive/%C"] {
            let path = format!("ControlPath={}", self.run.join(path).display());
            let mut command = Command::new(&self.ssh);
            command.args(["-o", &path, "-O", "exit", "bench"]).stderr(Stdio::null()).status().ok();
        }
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}
