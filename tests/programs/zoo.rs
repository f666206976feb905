//! A zoo of trees that are hard to end: `zoo FILE KIND [NUMBER]`.
//!
//! Every process of a tree appends its pid and start time to FILE once it is what it is to be, so that a test knows all
//! of them and when the tree is complete. All end by themselves after two minutes, so that no test leaves one behind.
//!
//! - `wait`: does nothing.
//! - `stubborn`: ignores TERM, with two children that do.
//! - `many N`: has N children.
//! - `session`: has a child in a session of its own, and one there that ignores TERM.
//! - `daemon`: has a double-forked daemon, adopted by somebody else.
//! - `storm DEPTH`: has two children with two children each and so on, as fast as it can; those at the ends then have one
//!   after the other.
//! - `stopped`: has a child that has stopped itself.
//! - `pipe`: exits; a child in another session goes on, ignores TERM and has the pipes.
//! - `chain LANES`, `setsid-chain LANES`: exits; each of its children forks one and exits, over and over, as fast as it
//!   can. Ends when there is a FILE.stop.
//! - `traced`: has a child that traces two of its own; it ignores TERM, and they stand still in its hand.
//! - `port`: has a child in another process group, which listens on a port and says in FILE.port on which.
//! - `menagerie`: 21 of all kinds together.
//! - `eats`: allocates a gigabyte and waits. `forks N`: tries to have N children, and prints how many it got.
//!   `spins`: uses all the processor time it gets. `counts`: writes a number to FILE.count, over and over. `opens`:
//!   opens files until it is refused, and prints how many it had.
//!
//! With `ZOO_BYSTANDER` in its environment it is one who has nothing to do with it: whatever its command line says, it
//! registers in FILE.bystander and waits.

#![expect(clippy::print_stdout, reason = "what it prints is what a test asks for")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive_sys::identity::ProcessId;
use rustix::process::{Signal, getpid, getppid, kill_process, setsid};

/// Far longer than any test takes.
const LIFE: Duration = Duration::from_secs(120);

/// Says that the signals are set as they are to be.
const IS_DEAF: &str = "ZOO_IS_DEAF";

/// Forks and exits, over and over. In Python, because it is `fork` without `exec` that makes it fast.
const CHAIN: &str = r#"
import os, sys, time
path, how = sys.argv[1:]
end = time.monotonic() + 120
tree = os.open(path, os.O_WRONLY | os.O_APPEND)
while time.monotonic() < end and not os.path.exists(path + ".stop"):
    if os.fork():
        os._exit(0)
    if how == "setsid":
        os.setsid()
    with open("/proc/self/stat", "rb") as stat:
        start = stat.read().rpartition(b")")[2].split()[19]
    os.write(tree, b"%d %s\n" % (os.getpid(), start))
"#;

/// Traces two children: one that it seizes, and one that asks to be traced. In Python, because only one crate of ours may
/// call the C library.
const TRACER: &str = r#"
import ctypes, os, signal, sys, time
TRACEME, SEIZE, INTERRUPT, TRACE_EXIT = 0, 0x4206, 0x4207, 0x40
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
ptrace.restype = ctypes.c_long
def check(result):
    if result < 0:
        os._exit(3)
def register():
    with open("/proc/self/stat", "rb") as stat:
        start = stat.read().rpartition(b")")[2].split()[19]
    tree = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
    os.write(tree, b"%d %s\n" % (os.getpid(), start))
    os.close(tree)
has_registered, registered = os.pipe()
seized = os.fork()
if seized == 0:
    register()
    os.write(registered, b".")
    time.sleep(120)
    os._exit(0)
os.read(has_registered, 1)
# It is even to stop on its way out, when it has been killed already.
check(ptrace(SEIZE, seized, None, TRACE_EXIT))
check(ptrace(INTERRUPT, seized, None, None))
os.waitpid(seized, 0)
asking = os.fork()
if asking == 0:
    check(ptrace(TRACEME, 0, None, None))
    register()
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(120)
    os._exit(0)
os.waitpid(asking, 0)
# TERM is ignored, and from here on nobody waits for the children.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
register()
time.sleep(120)
"#;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, kind, rest @ ..] = arguments.as_slice() else { return ExitCode::from(2) };
    let number = rest.first().and_then(|text| text.parse().ok()).unwrap_or(0);
    let tree = Tree { file, number };
    let done = if std::env::var_os("ZOO_BYSTANDER").is_some() {
        Tree { file: &tree.beside("bystander"), number }.wait()
    } else {
        tree.be(kind)
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            println!("zoo: {kind}: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Tree<'a> {
    file: &'a str,
    number: u64,
}

type Done = std::io::Result<ExitCode>;

impl Tree<'_> {
    fn be(&self, kind: &str) -> Done {
        match kind {
            "wait" => self.wait(),
            "stubborn" => self.stubborn(),
            "many" => self.parent(&vec!["wait"; usize::try_from(self.number).unwrap_or(0)]),
            "session" => self.parent(&["in-session", "deaf-in-session"]),
            "daemon" => self.parent(&["between"]),
            "storm" => self.storm(),
            "stopped" => self.parent(&["stops"]),
            "pipe" => self.leave(&["deaf-in-session"]),
            "chain" => self.chains("plain"),
            "setsid-chain" => self.chains("setsid"),
            "traced" => self.traced(),
            "port" => self.port(),
            "menagerie" => self.menagerie(),

            // The animals that the trees above are made of.
            "deaf" => self.deaf()?.wait(),
            "in-session" => self.leave_session()?.wait(),
            "deaf-in-session" => self.leave_session()?.deaf()?.wait(),
            "between" => self.between(),
            "daemon-of" => self.daemon(),
            "brief" => self.brief(),
            "stops" => self.stop(),
            "listens" => self.listen(),

            "eats" => self.eat(),
            "forks" => self.forks(),
            "spins" => self.spin(),
            "counts" => self.count(),
            "opens" => self.open(),
            _ => Ok(ExitCode::from(2)),
        }
    }

    fn beside(&self, ending: &str) -> String {
        format!("{}.{ending}", self.file)
    }

    fn register(&self) -> std::io::Result<()> {
        let me = ProcessId::current();
        // One write of a whole line: many do it at the same time.
        let mut file = OpenOptions::new().append(true).create(true).open(self.file)?;
        file.write_all(format!("{} {}\n", me.pid, me.start_time).as_bytes())
    }

    fn wait(&self) -> Done {
        self.register()?;
        sleep();
        Ok(ExitCode::SUCCESS)
    }

    fn command(&self, kind: &str) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([self.file, kind, &self.number.to_string()]).env_remove(IS_DEAF);
        Ok(command)
    }

    fn start(&self, kinds: &[&str]) -> std::io::Result<()> {
        kinds.iter().try_for_each(|kind| self.command(kind)?.spawn().map(drop))
    }

    fn parent(&self, kinds: &[&str]) -> Done {
        self.start(kinds)?;
        self.wait()
    }

    fn leave(&self, kinds: &[&str]) -> Done {
        self.register()?;
        self.start(kinds)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Goes on with TERM ignored. What is ignored stays so across `exec`, and a shell knows how to ignore.
    fn deaf(&self) -> std::io::Result<&Self> {
        if std::env::var_os(IS_DEAF).is_some() {
            return Ok(self);
        }
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM HUP INT; exec \"$0\" \"$@\""]).arg(std::env::current_exe()?);
        // Returns only if it fails.
        Err(command.args(std::env::args_os().skip(1)).env(IS_DEAF, "1").exec())
    }

    fn stubborn(&self) -> Done {
        self.deaf()?.parent(&["deaf", "deaf"])
    }

    /// Leaves the session; the second time, after [`Tree::deaf`], it has left it already.
    fn leave_session(&self) -> std::io::Result<&Self> {
        if std::env::var_os(IS_DEAF).is_none() {
            setsid()?;
        }
        Ok(self)
    }

    fn between(&self) -> Done {
        setsid()?;
        let between = Tree { number: std::process::id().into(), ..*self };
        let mut daemon = between.command("daemon-of")?;
        daemon.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its own directory is / from now on, so that it must be told the whole path.
        daemon.env("ZOO_FILE", std::path::absolute(self.file)?).spawn()?;
        Ok(ExitCode::SUCCESS)
    }

    fn daemon(&self) -> Done {
        let until = Instant::now() + LIFE;
        while getppid().map(|pid| u64::from(pid.as_raw_nonzero().get().unsigned_abs())) == Some(self.number) {
            if Instant::now() > until {
                return Ok(ExitCode::FAILURE);
            }
            std::thread::yield_now();
        }
        let file = std::env::var("ZOO_FILE").unwrap_or_default();
        Tree { file: &file, number: 0 }.wait()
    }

    /// Grows as fast as it can; those at the ends then fork and wait, over and over. It never gets larger than that.
    fn storm(&self) -> Done {
        self.register()?;
        if self.number > 0 {
            Tree { number: self.number - 1, ..*self }.start(&["storm", "storm"])?;
            sleep();
            return Ok(ExitCode::SUCCESS);
        }
        let until = Instant::now() + LIFE;
        while Instant::now() < until {
            self.command("brief")?.status()?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn brief(&self) -> Done {
        self.register()?;
        Ok(ExitCode::SUCCESS)
    }

    fn stop(&self) -> Done {
        self.register()?;
        kill_process(getpid(), Signal::STOP)?;
        sleep();
        Ok(ExitCode::SUCCESS)
    }

    fn chains(&self, how: &str) -> Done {
        self.register()?;
        for _ in 0..self.number.max(1) {
            python(CHAIN)?.args([self.file, how]).spawn()?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn traced(&self) -> Done {
        self.register()?;
        python(TRACER)?.arg(self.file).spawn()?;
        sleep();
        Ok(ExitCode::SUCCESS)
    }

    fn port(&self) -> Done {
        self.command("listens")?.process_group(0).spawn()?;
        self.wait()
    }

    fn listen(&self) -> Done {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        std::fs::write(self.beside("port"), listener.local_addr()?.port().to_string())?;
        self.wait()
    }

    /// What a development server with helpers and a badly written one are together.
    fn menagerie(&self) -> Done {
        self.start(&["wait"; 8])?;
        self.start(&["in-session", "in-session", "deaf-in-session"])?;
        self.start(&["between"; 3])?;
        self.start(&["deaf"; 2])?;
        let pair = Tree { number: 1, ..*self };
        pair.start(&["many"; 2])?;
        self.wait()
    }

    /// Takes a gigabyte at most: where nobody stops it, the machine is not to suffer. Then it waits, however late somebody does.
    fn eat(&self) -> Done {
        self.register()?;
        let mut eaten: Vec<Vec<u8>> = Vec::new();
        while eaten.len() < 1024 {
            // Written to, or the kernel would only promise it.
            eaten.push(vec![eaten.len() as u8 | 1; 1 << 20]);
        }
        println!("{} MiB eaten", eaten.len());
        sleep();
        Ok(ExitCode::from(9))
    }

    fn forks(&self) -> Done {
        self.register()?;
        let mut children = Vec::new();
        let mut refused = 0;
        for _ in 0..self.number {
            match self.command("wait")?.stdin(Stdio::null()).spawn() {
                Ok(child) => children.push(child),
                Err(_) => refused += 1,
            }
        }
        println!("{} started, {refused} refused", children.len());
        sleep();
        Ok(ExitCode::SUCCESS)
    }

    fn spin(&self) -> Done {
        self.register()?;
        let until = Instant::now() + LIFE;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        Ok(ExitCode::SUCCESS)
    }

    fn count(&self) -> Done {
        let file = File::create(self.beside("count"))?;
        self.register()?;
        let until = Instant::now() + LIFE;
        let mut number = 0u64;
        while Instant::now() < until {
            number += 1;
            file.write_all_at(format!("{number:020}").as_bytes(), 0)?;
            // A test only looks whether it goes on; the processor is for others.
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn open(&self) -> Done {
        self.register()?;
        let mut open = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            open.push(file);
            if open.len() > 100_000 {
                break;
            }
        }
        // The three that every program has count as well.
        println!("{} open", open.len() + 3);
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the system's Python with nothing but this program, without what a user may have put in its way.
fn python(program: &str) -> std::io::Result<Command> {
    let system = Path::new("/usr/bin/python3");
    let mut command = Command::new(if system.is_file() { system } else { Path::new("python3") });
    command.args(["-I", "-S", "-c", program]);
    Ok(command)
}

fn sleep() {
    let until = Instant::now() + LIFE;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::sleep(left);
    }
}
