//! The scenario of a job in a terminal: a log that is long enough for a checkpoint, its screen, another size, keys, its end.

use std::time::{Duration, Instant};

use outlive_tests::LIMIT;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

/// The numbers that the command prints; together they are more than the output between two checkpoints.
const NUMBERS: usize = 170_000;

/// What asks for the cursor and prints the answer, which is in the last row of the screen.
const ASK: &str =
    "stty raw -echo; printf '\\033[6n'; IFS= read -r -d R answer; stty sane; echo \"at ${answer#*[}\"";

/// Forgetting what was typed.
const UNLINK: &str = "keeper.typed.unlink";

/// The size that the terminal is given after its start.
const SIZE: &str = "100x35";

/// Plays it, and looks what came of it.
pub(crate) fn play(run: &mut Scenario<'_>) {
    let id = start(run);
    if let Some(id) = &id {
        check_screen(run, id);
        if is_kept(run, id) {
            check_cursor(run, id);
        }
        if is_kept(run, id) && run.fault.hits(UNLINK) {
            check_cleared(run, id);
        }
        if is_kept(run, id) {
            check_size(run, id);
        }
        for _ in 0..4 {
            run.front_end("reader", &["send", id, "--keys", "\"end\" Enter"]);
            let waited = run.home.run(["wait", "--timeout", "2s", id]);
            if waited.code != 124 {
                break;
            }
        }
    }
    // A process that is still stopped goes on now.
    std::fs::write(run.released(), b"").unwrap();
    world::end_what_runs(run, id.as_deref());
    if let Some(id) = &id {
        check_output(run, id);
        check_typed(run, id);
    }
    world::check_store(run, None);
}

/// Starts the command, and waits until it has printed its numbers or its keeper is gone.
fn start(run: &mut Scenario<'_>) -> Option<String> {
    let script = format!(
        "seq {NUMBERS}; while read -r word; do case $word in size) stty size;; cursor) {ASK};; end) exit 6;; esac; done"
    );
    // With the small cap the keeper has the screen kept, but drops nothing of it yet; else its first screen process is for the cursor.
    // Every other fault of the start is met in the one, and the rest in the other.
    let is_kept = run.fault.hits("screen.kept")
        || run.fault.hits("keeper.screen.exec") && run.fault.name().len().is_multiple_of(2);
    let cap = if is_kept { "2M" } else { "100M" };
    let terminal = ["--json", "run", "--pty", "--size", "90x30", "--record-input"];
    let arguments = [&terminal[..], &["--output-cap", cap, "--name", "drawn", "--"]].concat();
    let id = run.start_named("drawn", "starter", &[&arguments[..], &["bash", "-c", &script]].concat())?;
    let last = format!("{NUMBERS}\r\n");
    until(run, &id, "its numbers", |log| log.ends_with(&last).then_some(()));
    Some(id)
}

/// The screen is shown whatever becomes of the checkpoint, and is the same with it, without it, and derived again.
fn check_screen(run: &mut Scenario<'_>, id: &str) {
    let shown = run.front_end("reader", &["screen", id]);
    let again = run.must(&["screen", id]);
    let is_killed = run.fault.action == "kill" && run.fault.hits("reader");
    if !is_killed && (shown.code != 0 || shown.stdout != again.stdout) {
        run.violation(format!("its screen depends on the checkpoint: {} {}", shown.code, shown.error()));
    }
    for file in std::fs::read_dir(run.home.job_dir(id)).into_iter().flatten().flatten() {
        if file.path().extension().is_some_and(|end| end == "checkpoint") {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    let derived = run.must(&["screen", id]);
    if derived.stdout != again.stdout || !again.text().contains(&format!("{NUMBERS}\n")) {
        run.violation(format!("its screen is not what was printed: {}", again.text()));
    }
}

/// A command that asks for the cursor is told, whatever became of the process that worked it out.
fn check_cursor(run: &mut Scenario<'_>, id: &str) {
    // The first input, at which a keeper may be stopped.
    let sent = run.front_end("typist", &["send", id, "--keys", "\"cursor\" Enter"]);
    if sent.code != 0 {
        run.violation(format!("nothing can be typed: {}", sent.error()));
    }
    until(run, id, "the cursor", |log| log.ends_with("at 30;1\r\n").then_some(()));
}

/// Once a clear has succeeded, nothing is left of what was typed.
fn check_cleared(run: &mut Scenario<'_>, id: &str) {
    run.front_end("reader", &["clear", id]);
    run.must(&["clear", id]);
    if run.home.job_dir(id).join("input").exists() {
        run.violation("what was typed is still there".to_owned());
    }
}

/// The size that is recorded is the one that the command sees, also where the change failed; the next change succeeds.
fn check_size(run: &mut Scenario<'_>, id: &str) {
    let resized = run.front_end("reader", &["resize", id, SIZE]);
    for attempt in 0..2 {
        if !is_kept(run, id) {
            return;
        }
        let Some(seen) = seen_size(run, id) else { return };
        let recorded = run.must(&["--json", "screen", id]).json()["size"].clone();
        if recorded != seen.as_str() {
            run.violation(format!("the command sees {seen}, and {recorded} is recorded"));
        }
        if (resized.code == 0 || attempt == 1) && seen != SIZE {
            run.violation(format!("it was given {SIZE}, and sees {seen}"));
        }
        run.must(&["resize", id, SIZE]);
    }
}

/// Asks the command for the size that it sees; none if its keeper is gone.
fn seen_size(run: &mut Scenario<'_>, id: &str) -> Option<String> {
    let answers = |log: &str| -> Vec<String> {
        let size = |line: &str| {
            let (rows, columns) = line.strip_suffix('\r')?.split_once(' ')?;
            Some(format!("{columns}x{rows}"))
        };
        log.split('\n').filter_map(size).collect()
    };
    let before = answers(&run.home.run(["logs", "--raw", id]).text()).len();
    run.must(&["send", id, "--keys", "\"size\" Enter"]);
    until(run, id, "the size", |log| answers(log).get(before).cloned())
}

/// Waits for something in the log; gives up when the keeper is gone.
fn until<T>(run: &mut Scenario<'_>, id: &str, what: &str, find: impl Fn(&str) -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if run.paused().exists() && !run.released().exists() {
            run.look_while_paused();
            std::fs::write(run.released(), b"").unwrap();
        }
        let is_kept = is_kept(run, id);
        let found = find(&run.home.run(["logs", "--raw", id]).text());
        if found.is_some() || !is_kept {
            return found;
        }
        if Instant::now() > deadline {
            run.violation(format!("the log does not come to {what}"));
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Tells whether it runs, and its keeper too.
fn is_kept(run: &Scenario<'_>, id: &str) -> bool {
    let shown = run.home.run(["--json", "show", id]);
    let job: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    job["status"] == "running" && job["orphaned"] != true
}

/// What it printed is there after its end, and so is the screen.
fn check_output(run: &mut Scenario<'_>, id: &str) {
    run.must(&["screen", id]);
    if run.fault.hits(UNLINK) {
        return;
    }
    let log = run.must(&["logs", "--raw", id]).text();
    let numbers: String = (1..=NUMBERS).map(|number| format!("{number}\r\n")).collect();
    let is_complete = run.home.show(id)["cause"] == "natural";
    if !(log.starts_with(&numbers) || !is_complete && numbers.starts_with(&log)) {
        run.violation(format!("the log is not what was printed: {} bytes", log.len()));
    }
}

/// What was typed is in the recording, but for the piece that was hit; a recording that fails is nothing to the job.
fn check_typed(run: &mut Scenario<'_>, id: &str) {
    let cast = run.must(&["export", id, "--cast"]).text();
    let events = cast.lines().skip(1).filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let typed: Vec<String> = events
        .filter(|event| event[1] == "i")
        .filter_map(|event| Some(event[2].as_str()?.to_owned()))
        .collect();
    if let Some(strange) = typed.iter().find(|word| !["cursor\r", "size\r", "end\r"].contains(&word.as_str()))
    {
        run.violation(format!("the recording has {strange:?}, which nobody typed"));
    }
    if !run.fault.hits("keeper.typed.") {
        return;
    }
    let job = run.home.show(id);
    if job["exit_code"] != 6 {
        run.violation(format!("what is recorded of the input disturbed the job: {}", job["reason"]));
    }
    // It happens at the first piece. Killed after the write, or stopped, the keeper has recorded that one too. A clear forgets it.
    let is_kept = run.fault.action == "pause" || run.fault.name().ends_with("write@after=kill");
    let missing = usize::from(!is_kept || run.fault.hits(UNLINK));
    let all = ["cursor\r", "size\r", "size\r", "end\r"];
    if !typed.iter().eq(&all[missing..]) {
        run.violation(format!("the recording has {typed:?} of {all:?}"));
    }
}
