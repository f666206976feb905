//! A project that is brought up, changed and taken down: whatever process is killed, stopped or fails, after another `up` each job runs once
//! and came after what it waits for, and after another `down` nothing is left.

use outlive_tests::Done;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

/// A service, what comes once after it, and what comes after that.
fn file(web: &str, order: &str) -> String {
    format!(
        "[jobs.db]\nrun = 'echo db >> {order}; echo up; exec sleep 300'\nready.line = 'up'\n\
         [jobs.migrate]\nrun = 'echo migrate >> {order}'\nafter = ['db']\n\
         [jobs.web]\nrun = 'echo {web} >> {order}; exec sleep 300'\nafter = ['migrate@succeeded']\n"
    )
}

pub(crate) fn play(run: &mut Scenario<'_>) {
    let dir = run.home.make_dir("shop");
    let (path, order) = (dir.join("outlive.toml"), run.ledger().display().to_string());
    let write = |web: &str| std::fs::write(&path, file(web, &order)).unwrap();
    write("web");
    twice(run, &path, &["up", "--wait"]);
    check(run, &["db", "migrate", "web"]);
    write("other");
    twice(run, &path, &["up", "--wait"]);
    check(run, &["db", "migrate", "web", "other"]);
    down(run, &path);
    // What came once comes again after `down`.
    twice(run, &path, &["up", "--wait"]);
    check(run, &["db", "migrate", "web", "other", "db", "migrate", "other"]);
    down(run, &path);
    world::check_store(run, None);
}

/// Lets a front end do it that the fault hits, and then one that it does not, which must succeed.
fn twice(run: &mut Scenario<'_>, file: &std::path::Path, words: &[&str]) -> Done {
    let file = file.display().to_string();
    let words = [words, &["-f", &file]].concat();
    // The process that starts the jobs has the fault from the front end that starts it.
    let actor = if run.fault.hits("starter") { "starter" } else { "project" };
    run.front_end(actor, &words);
    run.must(&words)
}

fn down(run: &mut Scenario<'_>, file: &std::path::Path) {
    twice(run, file, &["down"]);
    let jobs = jobs(run);
    if jobs.iter().any(is_live) {
        let listed = run.home.run(["list"]).text();
        run.violation(format!("something is left after down: {listed}"));
    }
    // Those that others wait for end last.
    let end = |is_it: &dyn Fn(&str) -> bool| {
        let of_it = jobs.iter().filter(|job| is_it(job["name"].as_str().unwrap_or_default()));
        of_it.filter_map(|job| job["ended_at"].as_str().map(str::to_owned)).max()
    };
    if end(&|name| name == "web") > end(&|name| name == "db") {
        run.violation(format!("what others wait for ended before them: {jobs:#?}"));
    }
    let sessions = std::fs::read_dir(run.home.store().join("sessions")).into_iter().flatten().flatten();
    for session in sessions {
        for name in ["project.json", "progress.json"] {
            if session.path().join(name).exists() {
                run.violation(format!("{name} is left after down"));
            }
        }
    }
}

fn jobs(run: &Scenario<'_>) -> Vec<Value> {
    serde_json::from_slice(&run.home.run(["--json", "list", "--all"]).stdout).unwrap_or_default()
}

fn is_live(job: &Value) -> bool {
    ["queued", "starting", "running"].iter().any(|word| job["status"] == *word) || job["lingering"] == true
}

/// Each command was executed so often and in this order, and each service runs once.
fn check(run: &mut Scenario<'_>, wanted: &[&str]) {
    let order = std::fs::read_to_string(run.ledger()).unwrap_or_default();
    if order.lines().ne(wanted.iter().copied()) {
        run.violation(format!("{wanted:?} were to come, and {order:?} came"));
    }
    let mut live: Vec<String> =
        jobs(run).iter().filter(|job| is_live(job)).map(|job| job["name"].to_string()).collect();
    live.sort();
    if live != ["\"db\"", "\"web\""] {
        run.violation(format!("these run: {live:?}"));
    }
}
