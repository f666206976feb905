//! Jobs with a schedule: that each run comes at its time, once, whatever process is killed while it sleeps; that runs which overlap are
//! left out, follow or replace as the job says, and that this is told; and that a stop is the end of it. Whole weeks of calendars, with
//! clocks that are changed and set, are in `outlive-core` (`schedule::weeks`), and a machine that slept is in `tests/faults`.

use std::time::{SystemTime, UNIX_EPOCH};

use outlive_core::schedule::{TimeZone, Zone};
use outlive_tests::{Done, Home, finish, guard_of, kill_with_guard, lacks, pid, signal, until};
use serde_json::Value;

fn runs(home: &Home, name: &str) -> Vec<Value> {
    let jobs = home.json(["list"]);
    jobs.as_array().expect("a list").iter().filter(|job| job["name"] == name).cloned().collect()
}

fn newest(home: &Home, name: &str) -> Value {
    runs(home, name).pop().expect("there is a run")
}

fn count(home: &Home, name: &str, status: &str) -> usize {
    runs(home, name).iter().filter(|job| job["status"] == status).count()
}

/// Asserts that each run names the one before it: none was made twice, and none beside another.
fn assert_chain(home: &Home, name: &str) {
    let runs = runs(home, name);
    for (before, after) in runs.iter().zip(&runs[1..]) {
        assert_eq!(after["previous"], before["job"], "{runs:#?}");
    }
}

fn events(home: &Home) -> String {
    home.run(["events"]).ok().text()
}

/// A time zone in which the clocks show so many seconds before 18:00 now.
fn zone_before_six(seconds: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    let mut ahead = 18 * 3600 - seconds - now % 86_400;
    // A zone is at most a day ahead or behind.
    if ahead < -43_200 {
        ahead += 86_400;
    }
    let (sign, behind) = if ahead > 0 { ("-", ahead) } else { ("+", -ahead) };
    format!("ZZZ{sign}{:02}:{:02}:{:02}", behind / 3600, behind / 60 % 60, behind % 60)
}

#[test]
fn an_interval_is_run_again_and_again_until_it_is_stopped() {
    let home = Home::new();
    let mut command = home.outlive(["run", "--name", "tick", "--every", "1s", "echo \"tick $INHERITED\""]);
    command.env("INHERITED", "kept");
    finish(command, b"").ok();
    until("it has run three times", || count(&home, "tick", "completed") >= 3);
    assert_chain(&home, "tick");
    let text = home.run(["logs", "tick"]).ok().text();
    assert!(text.lines().count() >= 3 && text.lines().all(|line| line == "tick kept"), "{text}");
    home.run(["kill", "tick"]).ok();
    until("no process of it is left", || home.processes().is_empty());
    let last = newest(&home, "tick");
    assert_eq!(last["schedule"], "every 1s");
    assert_eq!(last["next_run_at"], Value::Null, "none follows");
    let ended = runs(&home, "tick").len();
    assert_eq!(count(&home, "tick", "queued"), 0);
    drop(home.run(["list"]).ok());
    assert_eq!(runs(&home, "tick").len(), ended);
}

#[test]
fn a_time_of_day_is_that_of_the_clock_on_the_wall() {
    let home = Home::new();
    // By a cron line, and by the time alone.
    for (name, options) in [("line", ["--schedule", "0 18 * * *"]), ("time", ["--at", "18:00"])] {
        let mut command = home.outlive(["run", "--name", name]);
        command.args(options).args(["date", "+%H:%M"]).env("TZ", zone_before_six(4));
        let job = finish(command, b"").ok().text().trim().to_owned();
        let shown = home.show(&job);
        if shown["status"] == "queued" {
            assert!(shown["starts_in_ms"].as_u64().is_some_and(|left| left <= 4000), "{shown}");
            assert!(home.run(["list"]).ok().text().contains("queued: starts in "));
        }
        until("it has run, and the next waits", || newest(&home, name)["previous"].is_string());
        assert_eq!(home.run(["logs", &job]).ok().text(), "18:00\n");
        let next = newest(&home, name);
        let left = next["starts_in_ms"].as_u64().expect("it waits");
        assert!((23 * 3_600_000..=86_400_000).contains(&left), "{next}");
        assert!(next["next_run_at"].is_string());
        assert!(home.run(["show", name]).ok().text().contains("next run"));
    }
}

#[test]
fn whatever_is_killed_during_the_sleep_the_next_run_comes_once() {
    let home = Home::new();
    let mut command = home.outlive(["run", "--name", "tick", "--every", "6s"]);
    command.arg("echo \"$INHERITED\"; if [ -e second ]; then touch third; exec sleep 300; fi; touch second");
    command.env("INHERITED", "kept");
    finish(command, b"").ok();
    until("the next run waits", || runs(&home, "tick").len() == 2);
    let job = newest(&home, "tick")["job"].as_str().expect("an id").to_owned();
    until("it has a keeper", || home.show(&job)["keeper_pid"].is_i64());
    let keeper = || pid(&home.show(&job), "keeper_pid");
    for _ in 0..3 {
        let first = keeper();
        signal(first, "KILL");
        until("another keeper waits", || keeper() != first);
        // On a busy machine its time may have come; then its guard is as that of any job.
        if home.show(&job)["status"] != "queued" {
            break;
        }
        let guard = guard_of(keeper()).expect("it has one");
        signal(guard, "KILL");
        until("it has another guard", || {
            let has_begun = home.show(&job)["status"] != "queued";
            has_begun || guard_of(keeper()).is_some_and(|other| other != guard)
        });
    }
    until("the next run runs", || home.path().join("third").exists());
    assert_eq!(runs(&home, "tick").len(), 2, "it came once");
    home.wait_for_output(&job, "kept");
    home.run(["kill", "tick"]).ok();
    until("no process of it is left", || home.processes().is_empty());
    assert_chain(&home, "tick");
}

#[test]
fn keepers_killed_at_the_end_of_a_run_make_no_second_one() {
    let home = Home::new();
    for round in 0..6u64 {
        let name = format!("job{round}");
        let line = "until [ -e end ]; do sleep 0.005; done; echo $0 >> ran";
        let job = home.start_with(&["--name", &name, "--every", "1h"], ["sh", "-c", line, &name]);
        until("it runs", || home.show(&job)["status"] == "running");
        let keeper = pid(&home.show(&job), "keeper_pid");
        std::fs::write(home.path().join("end"), "").expect("it can be written");
        let ran = || std::fs::read_to_string(home.path().join("ran")).unwrap_or_default();
        until("it has run", || ran().contains(&name));
        let began = std::time::Instant::now();
        // At another moment each time, while the run ends and the next is made.
        until("its moment has come", || began.elapsed().as_millis() >= u128::from(4 * round));
        signal(keeper, "KILL");
        until("one run waits, and there is no other", || {
            let mut made = runs(&home, &name);
            // One that was cut short while it was made is none.
            made.retain(|run| run["cause"] != "never_started");
            made.len() == 2 && made[1]["status"] == "queued"
        });
        assert_chain(&home, &name);
        std::fs::remove_file(home.path().join("end")).expect("it is there");
        home.run(["kill", &name]).ok();
    }
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn a_schedule_whose_processes_all_died_goes_on_with_the_next_look() {
    let home = Home::new();
    home.start_with(&["--name", "nightly", "--at", "03:00", "--missed", "skip"], ["true"]);
    let first = newest(&home, "nightly");
    until("it has a keeper", || home.show("nightly")["keeper_pid"].is_i64());
    let due = home.show("nightly")["next_run_at"].clone();
    kill_with_guard(pid(&home.show("nightly"), "keeper_pid"));
    until("it waits again", || {
        let newest = newest(&home, "nightly");
        newest["status"] == "queued" && newest["job"] != first["job"]
    });
    let minute = |time: &Value| time.as_str().expect("a time")[..16].to_owned();
    assert_eq!(minute(&newest(&home, "nightly")["next_run_at"]), minute(&due), "at the same time");
    drop(home.run(["list"]).ok());
    assert_eq!(runs(&home, "nightly").len(), 2, "once");
    home.run(["kill", "nightly"]).ok();
}

#[test]
fn a_run_that_lasts_too_long_is_left_alone_followed_or_ended() {
    let home = Home::new();
    let line = "while [ ! -e end ]; do sleep 0.05; done";
    for overlap in ["skip", "queue", "kill"] {
        let options = ["--name", overlap, "--every", "2s", "--overlap", overlap];
        home.start_with(&options, ["sh", "-c", line]);
    }
    // One that is to be ended for the next is.
    until("the next has taken its place", || runs(&home, "kill").len() >= 2);
    let ended = runs(&home, "kill").swap_remove(0);
    assert_eq!((ended["status"].as_str(), ended["cause"].as_str()), (Some("killed"), Some("overlap")));
    let reason = ended["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("ended for its next run"), "{ended}");
    home.run(["kill", "kill"]).ok();
    // The others run for more than their interval.
    let runtime = |name: &str| runs(&home, name)[0]["runtime_ms"].as_u64().unwrap_or(0);
    until("two intervals have passed", || runtime("skip") > 5000 && runtime("queue") > 5000);
    assert_eq!((runs(&home, "skip").len(), runs(&home, "queue").len()), (1, 1));
    std::fs::write(home.path().join("end"), "").expect("it can be written");
    until("both are told", || events(&home).matches("overlapped").count() >= 3);
    let told = events(&home);
    assert!(told.contains("came while it still ran") && told.contains("left out"), "{told}");
    assert!(told.contains("one is run now") || told.contains("made up for now"), "{told}");
    for name in ["skip", "queue"] {
        home.run(["kill", name]).ok();
        assert_chain(&home, name);
    }
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn what_cannot_be_executed_this_time_is_tried_the_next() {
    let home = Home::new();
    let program = home.path().join("later");
    let job = home.start_with(&["--name", "later", "--every", "1s"], [program.as_os_str()]);
    until("it could not be executed", || home.show(&job)["cause"] == "never_started");
    std::fs::write(&program, "#!/bin/sh\necho there\n").expect("it can be written");
    std::process::Command::new("chmod").arg("755").arg(&program).status().expect("chmod runs");
    until("it runs", || count(&home, "later", "completed") >= 1);
    home.run(["kill", "later"]).ok();
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_write() {
    let home = Home::new();
    for (options, part) in [
        (&["--schedule", "61 * * * *"][..], "\"61\" is no minute"),
        (&["--schedule", "0 0 30 2 *"], "never comes"),
        (&["--at", "6pm"], "such as 18:00"),
        (&["--every", "10ms"], "at least 1s"),
        (&["--every", "0s"], "this cannot be no time: write 10s or 5m"),
        (&["--health-port", "1", "--health-interval", "0s"], "this cannot be no time: write 10s or 5m"),
        (&["--schedule", "@daily", "--every", "1h"], "leave out --every and --at"),
        (&["--missed", "all"], "there is no schedule: write --schedule CRON"),
        (&["--every", "1h", "--restart", "always"], "leave out --restart"),
    ] {
        let done = home.run([&["run"], options, &["true"]].concat());
        assert_ne!(done.code, 0, "{options:?}");
        assert!(done.error().contains(part), "{options:?}: {}", done.error());
    }
    assert_eq!(home.json(["list"]), Value::Array(Vec::new()));
}

#[test]
fn a_kill_names_the_run_that_it_has_ended() {
    let home = Home::new();
    let first = home.start_with(&["--name", "tick", "--every", "1h"], ["true"]);
    until("the next run waits", || runs(&home, "tick").len() == 2 && count(&home, "tick", "completed") == 1);
    let next = newest(&home, "tick")["job"].as_str().expect("an id").to_owned();
    // As where the run has ended while it was looked for.
    let said = home.run(["kill", &first]).ok().text();
    assert_eq!(said, format!("{first} had already ended; its next run {next} ended, 0 processes\n"));
    assert_eq!(
        (home.show(&first)["status"].clone(), home.show(&next)["status"].clone()),
        ("completed".into(), "killed".into())
    );
    let again = &home.json(["kill", &first])[0];
    assert_eq!((&again["already_ended"], &again["next_run"]), (&Value::Bool(true), &Value::Null));
    until("no process is left", || home.processes().is_empty());
}

fn in_project(home: &Home, arguments: &[&str]) -> Done {
    let mut command = home.outlive(arguments);
    command.current_dir(home.path().join("shop"));
    finish(command, b"")
}

#[test]
fn a_project_has_schedules() {
    let home = Home::new();
    let dir = home.make_dir("shop");
    let write = |toml: &str| std::fs::write(dir.join("outlive.toml"), toml).expect("it can be written");
    write(
        "[jobs.report]\nrun = 'true'\nschedule = '0 3 * * mon-fri'\n\
         [jobs.tick]\nrun = 'echo tick'\nschedule = { every = '1h', overlap = 'queue' }\n",
    );
    in_project(&home, &["up", "--wait"]).ok();
    until("both wait", || in_project(&home, &["status"]).ok().text().matches("next run in").count() == 2);
    let why = in_project(&home, &["why", "report"]).ok().text();
    assert!(why.contains("report sleeps until its next run in") && why.contains("0 3 * * mon-fri"), "{why}");
    assert!(why.contains(" 03:00:00, as "), "by the clock on the wall: {why}");
    let why = in_project(&home, &["why", "tick"]).ok().text();
    assert!(why.contains("every 1h") && why.contains("tick"), "{why}");
    let again = in_project(&home, &["up"]).ok();
    assert!((again.text() + &again.error()).contains("nothing to do"), "{}", again.error());
    // Another time is another job.
    write(
        "[jobs.report]\nrun = 'true'\nschedule = '0 4 * * *'\n[jobs.tick]\nrun = 'echo tick'\nschedule = { every = '1h', overlap = 'queue' }\n",
    );
    let changed = in_project(&home, &["up"]).ok().text();
    assert!(changed.contains("report") && changed.contains("schedule changed"), "{changed}");
    in_project(&home, &["down"]).ok();
    until("no process is left", || home.processes().is_empty());
    for (schedule, place, part) in [
        ("'0 3 * *'", "3:12", "five fields"),
        ("{ cron = '@daily', at = '03:00' }", "1:7", "leave out every and at"),
        ("{ evry = '1h' }", "3:14", "did you mean `every`?"),
    ] {
        write(&format!("[jobs.report]\nrun = 'true'\nschedule = {schedule}\n"));
        let refused = in_project(&home, &["up"]).error();
        assert!(refused.contains(&format!("outlive.toml:{place}")) && refused.contains(part), "{refused}");
    }
}

/// Before this, the first run went by the zone of the program that started the job, and the later ones by that of the job.
#[test]
fn every_run_goes_by_the_time_zone_of_the_job() {
    let home = Home::new();
    for (zone, hour) in [("JST-9", "09"), (":Asia/Tokyo", "09"), ("America/Bogota", "23"), ("nowhere", "18")]
    {
        if zone.contains('/') && !zone_file("Asia/Tokyo").exists() {
            lacks("tzdata");
            continue;
        }
        let mut start =
            home.outlive(["--json", "run", "--env", &format!("TZ={zone}"), "--at", "18:00", "true"]);
        start.env("TZ", "XXX+5:30");
        let job = finish(start, b"").ok().json()["job"].as_str().expect("an id").to_owned();
        let next = home.show(&job)["next_run_at"].clone();
        assert!(next.as_str().is_some_and(|next| next.contains(&format!("T{hour}:00:00"))), "{zone}: {next}");
        home.run(["kill", &job]).ok();
    }
}

/// Finds a file of tzdata.
fn zone_file(name: &str) -> std::path::PathBuf {
    std::path::Path::new("/usr/share/zoneinfo").join(name)
}

#[test]
fn time_zones_are_as_the_c_library_has_them() {
    // Every five days and a bit, for 75 years.
    let moments: Vec<i64> = (0..5000).map(|step| step * 475_201).collect();
    let asked: String = moments.iter().map(|moment| format!("@{moment}\n")).collect();
    let zones = [
        "Europe/Berlin",
        "Europe/Dublin",
        "America/New_York",
        "America/Sao_Paulo",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Asia/Kathmandu",
        "Pacific/Apia",
        "UTC",
    ];
    for zone in zones {
        let Ok(file) = std::fs::read(zone_file(zone)) else { return lacks("tzdata") };
        let known = TimeZone::from_file(&file).unwrap_or_else(|| panic!("{zone} is read"));
        let mut date = std::process::Command::new("date");
        date.args(["-f", "-", "+%z"]).env("TZ", zone);
        let told = finish(date, asked.as_bytes()).ok().text();
        for (moment, told) in moments.iter().zip(told.lines()) {
            let minutes = known.offset(*moment) / 60;
            let sign = if minutes < 0 { '-' } else { '+' };
            let ours = format!("{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60);
            assert_eq!(ours, told, "{zone} at {moment}");
        }
    }
}
