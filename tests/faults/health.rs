//! A job whose health is lost and regained: whatever becomes of the process that checks it, both are told, and a look mends it.

use outlive_tests::signal;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

/// Says that it is ready and goes on working, as services of systemd do.
const READY: &str = "import os, socket, time
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.sendto(b'READY=1', os.environ['NOTIFY_SOCKET'])
while True:
    to.sendto(b'WATCHDOG=1', os.environ['NOTIFY_SOCKET'])
    time.sleep(0.02)";

pub(crate) fn play(run: &mut Scenario<'_>) {
    let file = run.home.path().join("well");
    let check = format!("test -e {}", file.display());
    let options = ["run", "--name", "ill", "--health-command", &check, "--health-interval", "100ms"];
    let more = ["--health-failures", "1", "--ready-notify", "--health-notify", "--", "python3", "-c", READY];
    // The process that checks has the fault from the front end that starts the job.
    let done = run.front_end("reader", &[&options[..], &more].concat());
    if done.code != 0 {
        return run.violation(format!("it is not started: {}", done.error()));
    }
    if run.fault.hits("keeper.prober.") && !is_seen_to(run) {
        return run.violation("the keeper does not see to the process that checks");
    }
    if !comes(run, Some(false), "unhealthy") {
        return run.violation("its ill health is not told");
    }
    std::fs::write(&file, b"").unwrap();
    if !comes(run, Some(true), "healthy") {
        return run.violation("its good health is not told");
    }
    run.must(&["kill", "ill"]);
    world::check_store(run, None);
}

/// Kills the process that checks, and waits until the keeper comes to start another; no front end looks meanwhile.
fn is_seen_to(run: &mut Scenario<'_>) -> bool {
    let words = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_prober = |pid: &i32| words(pid).split(|byte| *byte == 0).nth(1) == Some(b"probe");
    run.comes(|run| {
        run.home.processes().iter().filter(|pid| is_prober(pid)).for_each(|pid| signal(*pid, "KILL"));
        std::fs::read_to_string(run.log()).is_ok_and(|reached| reached.contains(run.fault.point.name()))
    })
}

/// Waits until its health is seen and told so.
fn comes(run: &mut Scenario<'_>, healthy: Option<bool>, event: &str) -> bool {
    let event = format!("\"{event}\"");
    run.comes(|run| {
        let jobs: Vec<Value> =
            serde_json::from_slice(&run.home.run(["--json", "list"]).stdout).unwrap_or_default();
        // A look starts another process that checks, if that was killed.
        drop(run.home.run(["show", "ill"]));
        let is_seen = jobs.iter().any(|job| job["healthy"].as_bool() == healthy);
        is_seen && run.home.run(["--json", "events"]).text().contains(&event)
    })
}
