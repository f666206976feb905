//! Room in the store: what jobs may print is reserved when they start, and ended ones make way.
//!
//! Proves S0-101 (the memory that buffers take is watched over) as `limits.bytes`: the store cannot overrun its ceiling.

use outlive_tests::{Home, binary, proves};

#[test]
fn what_live_jobs_may_print_is_reserved_and_one_more_is_refused() {
    let home = Home::new();
    home.configure("[limits]\nbytes = \"10M\"\n");
    let start = |cap: &str| home.run(["--json", "run", "--output-cap", cap, "--", "sleep", "300"]);
    let first = start("4M").ok().json()["job"].as_str().unwrap_or_default().to_owned();
    start("4M").ok();
    let refused = start("4M").code(5);
    let error = &refused.error_json()["error"];
    let message = error["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("8.0 MiB of 10 MiB") && message.contains("4.0 MiB more would be reserved"),
        "{message}"
    );
    assert_eq!(
        home.json(["list"]).as_array().map(Vec::len),
        Some(2),
        "nothing is left of the one that was refused"
    );
    // A smaller one has room; a larger one has, once a live one is gone.
    start("1M").ok();
    home.run(["kill", "--force", &first]).ok();
    home.wait(&first);
    start("4M").ok();
    start("4M").code(5);
}

#[test]
fn people_are_told_what_takes_the_room() {
    let home = Home::new();
    home.configure("[limits]\nbytes = \"1M\"\n");
    let refused = home.run(["run", "--output-cap", "2M", "--", "true"]).code(5);
    assert_eq!(refused.text(), "");
    assert!(refused.error().contains("2.0 MiB more would be reserved"), "{}", refused.error());
    assert!(refused.error().contains("hint: "), "{}", refused.error());
}

#[test]
fn a_start_warns_when_live_jobs_may_take_most_of_the_room() {
    let home = Home::new();
    home.configure("[limits]\nbytes = \"10M\"\n");
    let start = || home.run(["run", "--output-cap", "3M", "--", "sleep", "300"]).ok().error();
    assert_eq!((start(), start()), (String::new(), String::new()));
    let warned = start();
    assert!(warned.contains("the output of live jobs may take 9.0 MiB of 10 MiB"), "{warned}");
    proves!("S0-102");
}

#[test]
fn the_oldest_ended_jobs_go_first_and_live_ones_never() {
    let home = Home::new();
    home.configure("[limits]\nbytes = \"8M\"\n");
    let floods = binary("floods").display().to_string();
    let live = home.start_with(&["--output-cap", "2M"], ["sh", "-c", "echo here; sleep 300"]);
    let print = || {
        let job = home.start_with(&["--output-cap", "2M"], [&floods, "lines", "30000"]);
        home.wait(&job);
        job
    };
    let ended: Vec<String> = (0..3).map(|_| print()).collect();
    let is_there = |job: &str| home.run(["show", job]).code == 0;
    let before: Vec<bool> = ended.iter().map(|job| is_there(job)).collect();
    assert_eq!(before.last(), Some(&true), "the newest goes last");
    // Those that are gone are the oldest.
    assert!(before.is_sorted(), "{before:?}");
    let newest = print();
    let after: Vec<bool> = ended.iter().map(|job| is_there(job)).collect();
    assert!(after.is_sorted() && !after[0], "{after:?}");
    assert!(is_there(&newest) && home.show(&live)["status"] == "running");
    assert_eq!(home.logs(&live), b"here\n");
}

#[test]
fn nothing_goes_while_there_is_room() {
    let home = Home::new();
    home.configure("[limits]\nbytes = \"100M\"\n");
    // The sum of what was reserved passes the ceiling many times; what is used never does.
    let jobs: Vec<String> = (0..12)
        .map(|_| {
            let job = home.start_with(&["--output-cap", "30M"], ["echo", "little"]);
            home.wait(&job);
            job
        })
        .collect();
    for job in &jobs {
        assert_eq!(home.logs(job), b"little\n");
    }
}

#[test]
fn a_job_without_a_cap_and_a_store_without_a_ceiling_need_no_reservation() {
    let home = Home::new();
    home.configure("[limits]\nbytes = \"1M\"\n");
    let job = home.start_with(&["--output-cap", "off"], ["echo", "x"]);
    home.wait(&job);
    home.configure("[limits]\nbytes = \"off\"\n");
    let job = home.start_with(&["--output-cap", "1000G"], ["echo", "y"]);
    assert_eq!(home.wait(&job)["status"], "completed");
}

#[test]
fn a_damaged_count_is_measured_anew() {
    let home = Home::new();
    home.configure("[limits]\nbytes = \"10M\"\n");
    let start = || home.run(["run", "--output-cap", "4M", "--", "sleep", "300"]);
    start().ok();
    for damaged in ["", "nonsense", "99999999999999999999999", "-1"] {
        std::fs::write(home.store().join("reserved"), damaged).unwrap();
        let job = start().ok().text().trim_end().to_owned();
        start().code(5);
        home.run(["kill", "--force", &job]).ok();
        home.wait(&job);
    }
}
