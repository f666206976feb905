//! Jobs on another machine, and jobs that an engine places: whatever process is killed, stopped or fails, each is run once, and what is not
//! known is not claimed.
//!
//! `ssh` and the commands of Slurm are stand-ins, which do their work on this machine: what can go wrong between outlive's own steps is
//! here; what the real ones lose is in `tests/it/machines`.

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outlive_sys::socket;
use outlive_tests::{Done, finish};
use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

/// Runs the script in the background, unless `hold` is there: then when that is gone. What becomes of it is in `job.NUMBER`. With `deadly`,
/// the program that submits is killed instead.
const SBATCH: &str = r#"
[ ! -e "$dir/deadly" ] || { kill -KILL $PPID; exit 1; }
for word; do case $word in --job-name=*) name=${word#--job-name=};; esac; done
cat >"$dir/script.$$"
[ ! -e "$dir/hold" ] && word='RUNNING|None|n1' || word='PENDING|None|'
echo "$$|$name|$word" >"$dir/job.$$"
setsid sh -c '
  while [ -e "$1/hold" ]; do sleep 0.02; done
  echo "$2|$3|RUNNING|None|n1" >"$1/job.$2"
  sh "$1/script.$2" & echo $! >"$1/pid.$2"
  wait $! && word=COMPLETED || word=FAILED
  echo "$2|$3|$word|None|n1" >"$1/job.$2"' - "$dir" $$ "$name" </dev/null >/dev/null 2>&1 &
echo $$
"#;

const SQUEUE: &str = "cat \"$dir\"/job.* 2>/dev/null\nexit 0\n";

const SCANCEL: &str =
    "for number; do :; done\n[ -e \"$dir/pid.$number\" ] && kill \"$(cat \"$dir/pid.$number\")\"\nexit 0\n";

/// What is to be run is the last word. The other machine has another store and another home. Asked for its settings, it names a shared
/// connection; it is slow, so that the answer comes while it is at work.
const SSH: &str = "for line; do :; done\ncase \" $* \" in *' -G '*) echo \"controlpath $run/outlive/$shared\"; exit;; esac\n\
                   sleep 0.2; OUTLIVE_HOME=$dir/store HOME=$dir exec sh -c \"$line\"\n";

/// The name of the shared connection.
const SHARED: &str = "0123456789abcdef0123456789abcdef01234567";

/// What the job on the other machine prints.
const PRINTED: &str = "line 1\nline 2\nline 3\n";

/// The commands in place of the real ones.
struct StandIns {
    dir: PathBuf,
    path: String,
    run: PathBuf,
}

impl StandIns {
    fn new(run: &Scenario<'_>) -> Self {
        let (dir, bin, runtime) =
            (run.home.make_dir("there"), run.home.make_dir("bin"), run.home.make_dir("run"));
        for (name, text) in [("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL), ("ssh", SSH)] {
            let file = bin.join(name);
            let places = format!("dir={}\nrun={}\nshared={SHARED}", dir.display(), runtime.display());
            std::fs::write(&file, format!("#!/bin/sh\n{places}\n{text}")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        // Only where copying is the subject: the program with fault points is large.
        let copies = ["caller.copy.", "caller.hash."].iter().any(|point| run.fault.hits(point));
        let copy = if copies { "" } else { "copy = false\n" };
        run.home.configure(&format!("[hosts.gpu1]\naddress = \"ssh://gpu1\"\n{copy}"));
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
        // There, and on this machine, `outlive` is the one with fault points.
        let own = run.outlive("none", &[]);
        let own = Path::new(own.get_program()).parent().unwrap().display();
        let path = format!("{own}:{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        Self { dir, path, run: runtime }
    }

    /// Returns a command that finds them.
    fn outlive(&self, run: &Scenario<'_>, actor: &str, arguments: &[&str]) -> Command {
        let mut command = run.outlive(actor, arguments);
        command.env("PATH", &self.path).env("XDG_RUNTIME_DIR", &self.run);
        command
    }

    /// Runs one that no fault hits.
    fn fresh(&self, run: &Scenario<'_>, arguments: &[&str]) -> Done {
        let mut command = self.outlive(run, "none", arguments);
        command.env_remove("OUTLIVE_FAULT").env_remove("OUTLIVE_KEEPER_FAULT");
        finish(command, b"")
    }

    fn front_end(&self, run: &mut Scenario<'_>, actor: &str, arguments: &[&str]) -> Done {
        let command = self.outlive(run, actor, arguments);
        run.finish(command)
    }

    /// Returns the jobs of this machine or of another one with a name.
    fn jobs(&self, run: &Scenario<'_>, host: &str, name: &str) -> Vec<Value> {
        let listed = self.fresh(run, &["--host", host, "--json", "list", "--all"]);
        // What cannot be read is no list without jobs.
        let jobs: Vec<Value> = serde_json::from_slice(&listed.stdout)
            .unwrap_or_else(|error| panic!("{error}: {} {}", listed.text(), listed.error()));
        jobs.into_iter().filter(|job| job["name"] == name).collect()
    }

    /// Tells whether all that the engine has begun is over.
    fn is_idle(&self) -> bool {
        let files = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut jobs = files.filter(|file| file.file_name().to_string_lossy().starts_with("job."));
        jobs.all(|file| {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            text.contains("|COMPLETED|") || text.contains("|FAILED|")
        })
    }
}

pub(crate) fn play(run: &mut Scenario<'_>) {
    let stand_ins = StandIns::new(run);
    if run.fault.hits("caller") || run.fault.hits("served") {
        call(run, &stand_ins);
    } else if run.fault.hits("reader.node") || run.fault.hits("reader.home") {
        bring_home(run, &stand_ins);
    } else {
        place(run, &stand_ins);
    }
    std::fs::write(run.released(), b"").unwrap();
    world::check_store(run, None);
}

fn count(run: &Scenario<'_>, word: &str) -> usize {
    let text = std::fs::read_to_string(run.ledger()).unwrap_or_default();
    text.lines().filter(|line| *line == word).count()
}

/// Stands in for the process that has a shared connection: runs what it is asked to, with the ends that it is handed.
fn share(stand_ins: &StandIns) {
    let directory = stand_ins.run.join("outlive");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    let listener = UnixListener::bind(directory.join(SHARED)).unwrap();
    let (dir, path) = (stand_ins.dir.clone(), stand_ins.path.clone());
    std::thread::spawn(move || {
        for control in listener.incoming().flatten() {
            let (dir, path) = (dir.clone(), path.clone());
            // One that is cut off in the midst of its request is gone.
            std::thread::spawn(move || take_session(control, &dir, &path).ok());
        }
    });
}

fn take_session(mut control: UnixStream, dir: &Path, path: &str) -> io::Result<()> {
    let message = |kind: u32, numbers: [u32; 2]| {
        [12, kind, numbers[0], numbers[1]].iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>()
    };
    let read = |control: &mut UnixStream| {
        let mut length = [0; 4];
        control.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        control.read_exact(&mut body).map(|()| body)
    };
    // The greeting, which has one number.
    read(&mut control)?;
    control.write_all(&[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 4])?;
    let asked = read(&mut control)?;
    // Kind, request, nothing, four flags, the escape character, no kind of a terminal; then the line, with its length.
    let line = String::from_utf8(asked[40..].to_vec()).unwrap();
    let mut ends = Vec::new();
    for _ in 0..3 {
        ends.extend(socket::receive_with(&mut control, &mut [0])?);
    }
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("OUTLIVE_HOME", dir.join("store")).env("HOME", dir).env("PATH", path);
    let mut ends = ends.into_iter().map(Stdio::from);
    let mut next = || ends.next().unwrap();
    command.stdin(next()).stdout(next()).stderr(next());
    let mut child = command.spawn()?;
    drop(command);
    control.write_all(&message(0x8000_0006, [0, 1]))?;
    let status = child.wait()?.code().unwrap_or(255);
    control.write_all(&message(0x8000_0004, [1, status.cast_unsigned()]))
}

/// A start and a follow over `ssh`: a user who looks before trying again has one job, and all that it printed.
fn call(run: &mut Scenario<'_>, stand_ins: &StandIns) {
    let line = format!("echo ran >>{}; for i in 1 2 3; do echo line $i; done", run.ledger().display());
    let start = ["run", "--on", "gpu1", "--name", "there", &line];
    if run.fault.hits("caller.session.") {
        share(stand_ins);
        let is_known = |_: &Scenario<'_>| {
            let names = std::fs::read_dir(stand_ins.run.join("outlive")).unwrap().flatten();
            names.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("route-"))
        };
        stand_ins.fresh(run, &["--host", "gpu1", "list"]);
        if !run.comes(is_known) {
            return run.violation("it is not found out which connection leads there");
        }
    }
    let begun = stand_ins.front_end(run, "caller", &start);
    if begun.code != 0 && stand_ins.jobs(run, "gpu1", "there").is_empty() {
        let again = stand_ins.fresh(run, &start);
        if again.code != 0 {
            return run.violation(format!("a second try fails: {}", again.error()));
        }
    }
    let waited = stand_ins.fresh(run, &["wait", "gpu1/there"]);
    if waited.code != 0 {
        return run.violation(format!("the wait comes to {}: {}", waited.code, waited.error()));
    }
    let actor = if run.fault.hits("served") { "served" } else { "caller" };
    let follow = ["logs", "-f", "gpu1/there"];
    let mut followed = stand_ins.front_end(run, actor, &follow);
    if !PRINTED.starts_with(&followed.text()) {
        run.violation(format!("the job has not printed this: {:?}", followed.text()));
    }
    if followed.code != 0 {
        followed = stand_ins.fresh(run, &follow);
    }
    if followed.text() != PRINTED {
        run.violation(format!("what is followed: {:?} {}", followed.text(), followed.error()));
    }
    let (ran, known) = (count(run, "ran"), stand_ins.jobs(run, "gpu1", "there").len());
    if (ran, known) != (1, 1) {
        run.violation(format!("it ran {ran} times, as {known} jobs"));
    }
}

/// A job whose starter is killed while it submits it: the first front end that looks says so.
fn abandon(run: &mut Scenario<'_>, stand_ins: &StandIns) {
    let deadly = stand_ins.dir.join("deadly");
    std::fs::write(&deadly, "").unwrap();
    let line = format!("echo never >>{}", run.ledger().display());
    let begun = stand_ins.fresh(run, &["run", "--engine", "slurm", "--name", "abandoned", &line]);
    std::fs::remove_file(deadly).unwrap();
    if begun.code == 0 {
        run.violation(format!("its starter was to be killed: {}", begun.text()));
    }
    stand_ins.front_end(run, "reader", &["list"]);
    let jobs = stand_ins.jobs(run, "local", "abandoned");
    let is_told = |job: &Value| {
        job["cause"] == "never_started"
            && job["reason"].as_str().is_some_and(|text| text.contains("its starter was killed"))
    };
    if jobs.len() != 1 || !jobs.iter().all(is_told) {
        run.violation(format!("a job that was never submitted: {jobs:?}"));
    }
}

/// A job that is kept on its node: it is running until its record is here, and that is the node's.
fn bring_home(run: &mut Scenario<'_>, stand_ins: &StandIns) {
    let (there, go) = (stand_ins.dir.join("node"), stand_ins.dir.join("go"));
    let line = format!(
        "echo ran >>{}; while [ ! -e {} ]; do sleep 0.02; done; for i in 1 2 3; do echo line $i; done",
        run.ledger().display(),
        go.display()
    );
    let store = there.display().to_string();
    let start = ["run", "--engine", "slurm", "--node-store", &store, "--name", "kept", &line];
    let begun = stand_ins.fresh(run, &start);
    if begun.code != 0 || !run.comes(|run| count(run, "ran") == 1) {
        return run.violation(format!("it is not begun: {}", begun.error()));
    }
    stand_ins.front_end(run, "reader", &["list"]);
    let is_over = |job: &Value| !["queued", "starting", "running"].iter().any(|word| job["status"] == *word);
    if stand_ins.jobs(run, "local", "kept").iter().any(is_over) {
        run.violation("it counts as ended while it runs");
    }
    std::fs::write(go, "").unwrap();
    if !run.comes(|_| stand_ins.is_idle()) {
        return run.violation("the engine's processes do not end");
    }
    stand_ins.front_end(run, "reader", &["list"]);
    let mut jobs = Vec::new();
    let is_home = |run: &Scenario<'_>| {
        jobs = stand_ins.jobs(run, "local", "kept");
        jobs.iter().any(is_over)
    };
    if !run.comes(is_home) {
        return run.violation(format!("its record does not come home: {jobs:?}"));
    }
    if jobs.len() != 1 || jobs[0]["exit_code"] != 0 {
        run.violation(format!("it has not ended well: {jobs:?}"));
    }
    let printed = stand_ins.fresh(run, &["logs", "kept"]);
    if printed.text() != PRINTED {
        run.violation(format!("it has printed {:?} {}", printed.text(), printed.error()));
    }
    if count(run, "ran") != 1 {
        run.violation(format!("it ran {} times", count(run, "ran")));
    }
}

/// A job that an engine places, and one that is ended before it is.
fn place(run: &mut Scenario<'_>, stand_ins: &StandIns) {
    // What the engine starts hears of a fault from what submits.
    let actor = if run.fault.hits("placer") { "placer" } else { "starter" };
    let line = format!("echo ran >>{}", run.ledger().display());
    let start = ["run", "--engine", "slurm", "--name", "placed", &line];
    let begun = stand_ins.front_end(run, actor, &start);
    // One whose starter was killed before it knew that the engine has it is known as such by the first look, and is not begun later.
    let is_given_up = |job: &Value| job["cause"] == "never_started";
    let is_begun = |job: &Value| !is_given_up(job);
    if begun.code != 0 && !stand_ins.jobs(run, "local", "placed").iter().any(is_begun) {
        let again = stand_ins.fresh(run, &start);
        if again.code != 0 {
            return run.violation(format!("a second try fails: {}", again.error()));
        }
    }
    let is_live = |job: &Value| ["queued", "starting", "running"].iter().any(|word| job["status"] == *word);
    let mut told = Vec::new();
    let is_over = |run: &Scenario<'_>| {
        told = stand_ins.jobs(run, "local", "placed");
        !told.iter().any(is_live)
    };
    if !run.comes(is_over) {
        return run.violation(format!("it does not end: {told:?}"));
    }
    if !run.comes(|_| stand_ins.is_idle()) {
        return run.violation("the engine's processes do not end");
    }
    let jobs = stand_ins.jobs(run, "local", "placed");
    let ending = |job: &Value| (job["status"].clone(), job["exit_code"].clone());
    if !told.iter().map(ending).eq(jobs.iter().map(ending)) {
        run.violation(format!("an end that was told does not hold: {told:?}, then {jobs:?}"));
    }
    let (ran, ended) = (count(run, "ran"), jobs.iter().filter(|job| job["exit_code"] == 0).count());
    // Of one that is lost it is not known how far it came.
    let lost = jobs.iter().filter(|job| job["status"] == "lost").count();
    if ran < ended || ran > ended + lost {
        run.violation(format!("it ran {ran} times, {ended} have ended well, {lost} are lost: {jobs:?}"));
    }
    abandon(run, stand_ins);
    std::fs::write(stand_ins.dir.join("hold"), "").unwrap();
    let line = format!("echo never >>{}", run.ledger().display());
    let held = stand_ins.fresh(run, &["run", "--engine", "slurm", "--name", "held", &line]);
    if held.code != 0 {
        return run.violation(format!("it is not submitted: {}", held.error()));
    }
    let killed = stand_ins.front_end(run, "reader", &["kill", "held"]);
    let is_ended = |job: &Value| job["status"] == "killed";
    if killed.code != 0 && !stand_ins.jobs(run, "local", "held").iter().all(is_ended) {
        let again = stand_ins.fresh(run, &["kill", "held"]);
        if again.code != 0 {
            run.violation(format!("a second try to end it fails: {}", again.error()));
        }
    }
    std::fs::remove_file(stand_ins.dir.join("hold")).unwrap();
    if !run.comes(|_| stand_ins.is_idle()) {
        run.violation("the engine's processes do not end");
    }
    if count(run, "never") > 0 {
        run.violation("a job that was ended before it was begun has run");
    }
}
