//! What another machine costs: a start and a list of many jobs over a warm connection of `ssh`, beside `ssh HOST true` and the same list
//! here; and the time from a key to its echo in an attached terminal, beside a plain `ssh` in a terminal, over a connection that is made
//! slow. The machine is this one, behind an `sshd` of its own on loopback.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use outlive::{Request, Until};
use outlive_bench::window::Window;
use outlive_bench::{Failure, Options, Samples, World, conclude, end, finish, go_on, judge, rest};

/// A start may take so many times as long as `ssh HOST true`.
const START: f64 = 1.5;

/// A list may take so many times as long as here, and a round trip more: that of `ssh HOST true`.
const LIST: f64 = 3.0;

/// A key may take so many milliseconds longer to its echo than the round trip.
const ECHO: f64 = 2.0;

/// How long the slow connection holds everything back, in each direction.
const DELAY: Duration = Duration::from_millis(10);

/// Between two keys.
const PAUSE: Duration = Duration::from_millis(20);

/// A window that has shown nothing for so long is there and waits.
const QUIET: Duration = Duration::from_secs(1);

/// Shows each letter in place of the one before.
const ECHOES: &str = "stty raw -echo; exec cat";

/// Shown in turn; none of them is in a sequence that one of the windows sends.
const LETTERS: &[u8] = b"ABCDEFG";

const SSHD: &str = "/usr/sbin/sshd";

fn main() -> ExitCode {
    conclude(run)
}

fn run() -> Result<bool, Failure> {
    let (options, [jobs, rounds, keys]) = Options::parse([("jobs", 1000), ("rounds", 20), ("keys", 100)])?;
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
    let [floor, start, here, there] = sides.each_ref().map(|(_, _, samples)| samples.median());
    let mut all_kept = true;
    let (start, list) = (start / floor, (there - floor) / here);
    let verdicts = [
        String::new(),
        format!("{} {start:.2} x, at most {START}", judge(start <= START, &mut all_kept)),
        String::new(),
        format!("{} {list:.2} x and a round trip, at most {LIST}", judge(list <= LIST, &mut all_kept)),
    ];
    for ((name, _, samples), verdict) in sides.iter().zip(&verdicts) {
        print(name, samples, verdict);
    }
    let echoed = store.start(&Request::shell(ECHOES).pty(true))?.job;
    let attach = outlive(&["--host", "ssh://slow", "attach", echoed.id().as_str()]);
    let kept = echo(&ssh, &attach, usize::try_from(keys)?, &mut all_kept);
    end(&store, &echoed)?;
    kept?;
    let listed = store.list(None)?.jobs;
    listed.iter().try_for_each(|job| finish(&store, job))?;
    Ok(all_kept || !options.is_check)
}

/// Types into two windows in turn, and compares the time to the echo: that of a plain `ssh` is the round trip.
fn echo(ssh: &Server, attach: &Command, keys: usize, all_kept: &mut bool) -> Result<(), Failure> {
    let mut plain = Command::new(&ssh.ssh);
    plain.args(["-tt", "slow", ECHOES]);
    let mut sides = [("key, ssh -t", plain), ("key, attach there", command_of(attach))]
        .map(|(name, command)| (name, Window::open((80, 24), &command), Samples::default()));
    for (_, window, _) in &mut sides {
        let window = window.as_mut().map_err(|error| error.to_string())?;
        // The first key is echoed when all is connected.
        window.settle(QUIET)?;
        window.press(b"Z")?;
        window.shows(b"Z")?;
        window.settle(QUIET)?;
    }
    for key in 0..keys {
        go_on()?;
        let letter = &LETTERS[key % LETTERS.len()..][..1];
        for (_, window, samples) in &mut sides {
            let window = window.as_mut().map_err(|error| error.to_string())?;
            let begun = Instant::now();
            window.press(letter)?;
            window.shows(letter)?;
            samples.add(begun.elapsed().as_secs_f64() * 1000.0);
            rest(PAUSE)?;
        }
    }
    let [plain, attached] = sides.each_ref().map(|(_, _, samples)| samples.median());
    let more = attached - plain;
    let verdict = format!("{} {more:+.2} ms, at most {ECHO}", judge(more <= ECHO, all_kept));
    for ((name, _, samples), verdict) in sides.iter().zip([String::new(), verdict]) {
        print(name, samples, &verdict);
    }
    Ok(())
}

fn print(name: &str, samples: &Samples, verdict: &str) {
    let (best, median, most) = (samples.best(), samples.median(), samples.quantile(1.0));
    println!("{name:<26}{best:>9.1}{median:>9.1}{most:>9.1}  {verdict}");
}

/// Copies a command that was not run.
fn command_of(of: &Command) -> Command {
    let mut command = Command::new(of.get_program());
    command.args(of.get_args());
    command.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Listens on a port, and passes all that comes on to another one, later by so much; in both directions. Ends with this program.
fn delayed(to: u16) -> Result<u16, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(other) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            for (from, to) in [(stream.try_clone(), other.try_clone()), (Ok(other), Ok(stream))] {
                if let (Ok(from), Ok(to)) = (from, to) {
                    pass_on(from, to);
                }
            }
        }
    });
    Ok(port)
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    to.set_nodelay(true).ok();
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + DELAY, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for (at, bytes) in receiver {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        to.shutdown(Shutdown::Write).ok();
    });
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
        let (shown, store, home) = (dir.display(), store.display(), directory.display());
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/authorized\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nLogLevel ERROR\nPrintMotd no\n\
             SetEnv OUTLIVE_HOME={store} HOME={home} SHLVL=1\n"
        );
        fs::write(dir.join("sshd_config"), config)?;
        let slow = delayed(port)?;
        let config = format!(
            "Host bench\n  Port {port}\nHost slow\n  Port {slow}\nHost *\n  HostName 127.0.0.1\n  IdentityFile {shown}/user\n  IdentitiesOnly yes\n  BatchMode yes\n  \
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
        for (path, host) in [("floor-%C", "bench"), ("outlive/%C", "bench"), ("outlive/%C", "slow")] {
            let path = format!("ControlPath={}", self.run.join(path).display());
            let mut command = Command::new(&self.ssh);
            command.args(["-o", &path, "-O", "exit", host]).stderr(Stdio::null()).status().ok();
        }
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}
