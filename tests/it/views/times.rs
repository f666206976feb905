//! Times for people are those of the clock on their wall, to read and to write; scripts get RFC 3339.
//!
//! In a time zone that is half an hour off all others, so that nothing is right by chance.

use outlive_tests::{Done, Home, finish};

/// India: five and a half hours ahead of UTC, the whole year.
const ZONE: &str = "IST-5:30";

fn there(home: &Home, arguments: &[&str]) -> Done {
    let mut command = home.outlive(arguments);
    command.env("TZ", ZONE);
    finish(command, b"")
}

/// Returns the local time of the first line, as it is shown.
fn shown_time(home: &Home, job: &str) -> String {
    there(home, &["logs", "-t", job]).ok().text()[..23].to_owned()
}

#[test]
fn people_read_local_time_and_scripts_utc() {
    let home = Home::new();
    let job = home.start(["echo", "text"]);
    home.wait(&job);
    let minutes =
        |time: &str| time[11..13].parse::<u32>().unwrap() * 60 + time[14..16].parse::<u32>().unwrap();
    let is_local = |shown: &str, utc: &serde_json::Value| {
        let utc = utc.as_str().expect("a time");
        assert_eq!((minutes(utc) + 330) % 1440, minutes(shown), "{utc} is {shown}");
    };
    let shown = there(&home, &["show", &job]).ok().text();
    let started = shown.lines().find_map(|line| line.strip_prefix("started")).expect("it was started").trim();
    is_local(started, &there(&home, &["--json", "show", &job]).ok().json()["started_at"]);
    is_local(&shown_time(&home, &job), &crate::output::json_lines(&home, &[&job])[0]["time"]);
    let events = there(&home, &["events"]).ok().text();
    let object = there(&home, &["--json", "events"]).ok().text();
    let first =
        serde_json::from_str::<serde_json::Value>(object.lines().next().expect("an event")).expect("JSON");
    is_local(&events, &first["at"]);
}

#[test]
fn a_time_is_written_as_people_say_it() {
    let home = Home::new();
    let job = home.start(["echo", "text"]);
    home.wait(&job);
    let time = shown_time(&home, &job);
    let (date, clock) = time.split_once(' ').expect("a date and a time");
    for since in [
        &time,
        "yesterday 9am",
        "yesterday",
        &format!("{date} 00:00"),
        &date[..10],
        &clock[..5],
        "1h",
        "1h ago",
    ] {
        assert_eq!(there(&home, &["logs", "--since", since, &job]).ok().text(), "text\n", "{since}");
    }
    for until in ["yesterday 23:59", "2020-01-01", "2020-01-01T00:00:00Z"] {
        assert_eq!(there(&home, &["logs", "--until", until, &job]).ok().text(), "", "{until}");
    }
    for (text, hint) in [("20", "20m"), ("20", "-n 20"), ("soon", "18:22")] {
        let failed = there(&home, &["logs", "--since", text, &job]).code(2);
        assert!(failed.error().contains(hint), "{}", failed.error());
    }
}

/// The pager gets colours, and what it exits with is its own affair.
#[test]
fn a_log_is_shown_in_the_pager_on_a_terminal_only() {
    let home = Home::new();
    let job = home.start(["printf", r"\033[32mgreen\033[0m\n"]);
    home.wait(&job);
    let mut command = home.outlive(["logs", "--pager", &job]);
    command.env("PAGER", "false");
    assert_eq!(finish(command, b"").ok().text(), "\x1b[32mgreen\x1b[0m\n", "in a pipe there is no pager");
    let terminal = outlive_tests::Terminal::open(80);
    let program = outlive_tests::binary("outlive").display().to_string();
    let mut child =
        terminal.start(&home, &[("PAGER", "sed s/^/paged:/")], [&program, "logs", "--pager", &job]);
    assert_eq!(terminal.read_to_end(), "paged:\x1b[0;32mgreen\x1b[0m\r\n");
    assert_eq!(outlive_tests::end_within(&mut child, outlive_tests::LIMIT), Some(0));
}
