//! What a job uses, and of which processes it consists.
//!
//! Proves S0-126, S0-127 and S0-136 (memory and processor time), S0-106 (what a command leaves behind is listed) as far as
//! `show` names it, and what `list --usage` and `show --tree` promise: figures that are those of the job's own processes,
//! unknown ones never 0, and a warning before a limit is reached.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use outlive_tests::{Home, finish, pid, signal, until};
use serde_json::Value;

/// Uses 300 ms of a processor and 64 MiB of memory, says so, and stays.
const WORKS: &str = "import time
held = b'x' * (64 << 20)
while time.process_time() < 0.3: pass
print('ready', flush=True)
time.sleep(300)";

/// Counts by processes, whatever the machine has.
const SWEEP: [&str; 2] = ["--containment", "sweep"];

fn start_line(home: &Home, options: &[&str], line: &str) -> String {
    let mut command = home.outlive(["run"]);
    command.args(options).arg(line);
    let job = finish(command, b"").ok().text().trim_end().to_owned();
    home.wait_for_output(&job, "ready");
    job
}

/// Returns a process of a job by what it runs.
fn process<'a>(shown: &'a Value, command: &str) -> Option<&'a Value> {
    shown["processes"].as_array().unwrap().iter().find(|process| process["command"] == command)
}

fn assert_is_about(usage: &Value, cpu_ms: u64, memory_bytes: u64) {
    let (cpu, memory) = (usage["cpu_ms"].as_u64().unwrap(), usage["memory_bytes"].as_u64().unwrap());
    assert!((cpu_ms..cpu_ms + 20_000).contains(&cpu), "{usage}");
    assert!((memory_bytes..memory_bytes + (200 << 20)).contains(&memory), "{usage}");
}

#[test]
fn processes_are_counted_where_nobody_else_does() {
    let home = Home::new();
    let job = home.start_with(&SWEEP, ["/usr/bin/python3", "-c", WORKS]);
    home.wait_for_output(&job, "ready");
    let shown = home.show(&job);
    let usage = &shown["usage"];
    assert_is_about(usage, 270, 64 << 20);
    assert_eq!((&usage["processes"], &usage["source"]), (&1.into(), &"tree".into()), "{usage}");
    assert!(usage["memory_peak_bytes"].is_null() && usage["max_rss_bytes"].is_null(), "{usage}");
    let main = &shown["processes"][0];
    assert_eq!((&main["pid"], &main["parent"]), (&shown["pid"], &shown["keeper_pid"]));
    assert!(
        main["cpu_ms"].as_u64().unwrap() >= 270 && main["rss_bytes"].as_u64().unwrap() >= 64 << 20,
        "{main}"
    );
    let listed = home.json(["list", "--usage"]);
    assert_is_about(&listed[0]["usage"], 270, 64 << 20);
    assert!(home.run(["show", &job]).ok().text().contains("of processor time"));
}

#[test]
fn a_list_looks_at_no_processes_unless_asked_to() {
    let home = Home::new();
    home.start(["sleep", "300"]);
    let (plain, asked) = (home.json(["list"]), home.json(["list", "--usage", "--ports"]));
    for field in ["usage", "ports"] {
        assert!(plain[0].get(field).is_none(), "{plain}");
        assert!(asked[0].get(field).is_some(), "{asked}");
    }
    assert_eq!(asked[0]["ports"], Value::Array(Vec::new()));
}

#[test]
fn what_ended_children_used_counts() {
    let home = Home::new();
    let burn = "/usr/bin/python3 -c 'import time\nwhile time.process_time() < 0.3: pass'";
    // A process whose parent waits for it, and one that its parent leaves to the keeper.
    let job = start_line(
        &home,
        &SWEEP,
        &format!("{burn}; (({burn}; echo done) &); sleep 0; echo ready; sleep 300"),
    );
    home.wait_for_output(&job, "done");
    until("the keeper has waited for it", || home.show(&job)["usage"]["cpu_ms"].as_u64().unwrap() >= 550);
}

#[test]
fn an_ended_job_has_its_last_figures() {
    let home = Home::new();
    let job = home.start_line("/usr/bin/python3 -c 'import time\nwhile time.process_time() < 0.2: pass'");
    home.wait(&job);
    let shown = home.show(&job);
    let usage = &shown["usage"];
    assert_eq!((&usage["source"], &usage["processes"]), (&"outcome".into(), &0.into()), "{usage}");
    assert!(usage["cpu_ms"].as_u64().unwrap() >= 170, "{usage}");
    assert!(usage["max_rss_bytes"].as_u64().unwrap() > 1 << 20, "{usage}");
    assert_eq!((&shown["processes"], &shown["ports"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    assert!(home.run(["show", "--tree", &job]).ok().error().contains("nothing of"));
}

#[test]
fn the_tree_shows_children_below_their_parents() {
    let home = Home::new();
    let job = start_line(&home, &[], "(sleep 301 & setsid sleep 302 & wait) & sleep 303 & echo ready; wait");
    until("all are there", || home.show(&job)["processes"].as_array().unwrap().len() == 5);
    let shown = home.show(&job);
    let [inner, left, outer] = ["sleep 301", "sleep 302", "sleep 303"]
        .map(|command| process(&shown, command).unwrap_or_else(|| panic!("{command} is not in {shown}")));
    assert_eq!(inner["parent"], left["parent"]);
    assert_eq!((&outer["parent"], &shown["processes"][0]["pid"]), (&shown["pid"], &shown["pid"]));
    assert_ne!(inner["parent"], shown["pid"]);
    let text = home.run(["show", "--tree", &job]).ok().text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(
        ["PID", "CPU", "MEMORY", "PORTS", "COMMAND"].iter().all(|word| lines[0].contains(word)),
        "{text}"
    );
    let line_of = |command: &str| lines.iter().find(|line| line.ends_with(command)).unwrap();
    assert!(line_of("─ sleep 301").contains("│  ├─ ") || line_of("─ sleep 301").contains("   ├─ "), "{text}");
    assert!(line_of("─ sleep 303").contains("─ sleep") && !line_of("sleep 303").contains("   ├"), "{text}");
}

#[test]
fn the_processes_of_a_job_inside_it_are_not_its_own() {
    let home = Home::new();
    let job = start_line(&home, &[], "outlive run --name inner -- sleep 304; echo ready; sleep 305");
    until("it sleeps", || process(&home.show(&job), "sleep 305").is_some());
    assert!(process(&home.show(&job), "sleep 304").is_none());
    assert!(process(&home.show("inner"), "sleep 304").is_some());
}

#[test]
fn survivors_are_named() {
    let home = Home::new();
    let job = home.start_line("setsid sleep 306 & echo gone");
    assert_eq!(home.wait(&job)["lingering"], true);
    until("it sleeps", || process(&home.show(&job), "sleep 306").is_some());
    let shown = home.show(&job);
    let left = process(&shown, "sleep 306").unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(shown["processes"].as_array().unwrap().len(), 1);
    let text = home.run(["show", &job]).ok().text();
    assert!(text.contains(&format!("pid {}: sleep 306", left["pid"])), "{text}");
}

#[test]
fn an_orphaned_job_still_shows_its_processes() {
    let home = Home::new();
    let job = start_line(&home, &SWEEP, "sleep 307 & echo ready; wait");
    until("it sleeps", || process(&home.show(&job), "sleep 307").is_some());
    let before = home.show(&job);
    outlive_tests::kill_with_guard(pid(&before, "keeper_pid"));
    until("it is orphaned", || home.show(&job)["orphaned"] == true);
    let shown = home.show(&job);
    assert_eq!(shown["processes"][0]["pid"], before["pid"]);
    let child = process(&shown, "sleep 307").unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(shown["usage"]["processes"], 2);
    // No other front end can end it now.
    for process in [pid(&shown, "pid"), pid(child, "pid")] {
        signal(process, "KILL");
    }
}

#[test]
fn who_comes_near_a_limit_is_told() {
    let home = Home::new();
    let job = start_line(&home, &["--pids", "5"], "for n in 1 2; do sleep 300 & done; echo ready; wait");
    until("all are there", || home.show(&job)["usage"]["processes"] == 3);
    assert_eq!(home.show(&job)["warnings"], Value::Array(Vec::new()), "three of five is not near");
    let near = start_line(&home, &["--pids", "5"], "for n in 1 2 3; do sleep 300 & done; echo ready; wait");
    until("all are there", || home.show(&near)["usage"]["processes"] == 4);
    let sentence = format!("{near} has 4 processes, and its limit is 5");
    assert_eq!(home.show(&near)["warnings"][0], *sentence);
    for arguments in [["show", &near], ["list", "--usage"]] {
        let told = home.run(arguments).ok().error();
        assert!(told.contains(&format!("outlive: warning: {sentence}\n")), "{told}");
    }
    let limits = home.json(["list"])[0]["limits"].take();
    assert_eq!(limits["pids"]["value"], 5);
    assert!(limits.get("cpu").is_none(), "what was not asked for is absent: {limits}");
    assert!(home.run(["show", &near]).ok().text().contains("processes 5: "));
}

#[test]
fn a_job_without_limits_has_none() {
    let home = Home::new();
    let job = home.start_with(&["--cpu", "1.5", "--memory", "2G"], ["sleep", "300"]);
    let limits = home.show(&job)["limits"].take();
    assert_eq!(
        (&limits["cpu"]["value"], &limits["memory_bytes"]["value"]),
        (&1.5.into(), &(2u64 << 30).into())
    );
    let free = home.start(["sleep", "300"]);
    let shown = home.show(&free);
    assert_eq!((&shown["limits"], &shown["paused"]), (&Value::Null, &false.into()));
    assert_eq!(shown["survivors"], "keep");
}

#[test]
fn sessions_have_sums() {
    let home = Home::new();
    for session in ["a", "a", "b"] {
        home.start_with(&["--session", session], ["sleep", "300"]);
    }
    let text = home.run(["list", "--usage"]).ok().text();
    let sum = |session: &str| {
        let line = text.lines().rfind(|line| line.starts_with(session)).unwrap();
        line.split_ascii_whitespace().last().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!((sum("a "), sum("b ")), (2, 1), "{text}");
    let one = home.run(["--session", "b", "list", "--usage"]).ok().text();
    assert!(!one.contains("SESSION") && one.lines().count() == 2, "{one}");
}

#[test]
fn of_a_job_elsewhere_nothing_is_claimed() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let path = home.job_dir(&job).join("spec.json");
    let spec = std::fs::read_to_string(&path).unwrap();
    let mut moved: Value = serde_json::from_str(&spec).unwrap();
    moved["host"]["pid_namespace"] = "pid:[1]".into();
    std::fs::write(&path, moved.to_string()).unwrap();
    let shown = home.show(&job);
    let all = home.run(["kill", "--all"]).ok().error();
    std::fs::write(&path, spec).unwrap();
    assert_eq!(shown["elsewhere"], true);
    assert_eq!((&shown["processes"], &shown["ports"]), (&Value::Null, &Value::Null));
    let usage = shown["usage"].as_object().unwrap();
    assert!(usage.values().all(Value::is_null), "{usage:?}");
    assert!(all.contains(&format!("{job} is left: ")), "{all}");
    assert_eq!(home.show(&job)["status"], "running");
}
