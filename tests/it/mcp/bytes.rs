//! How many bytes answers have.
//!
//! Proves that a running job is told in 1 KB and what must be cut in 3 KB, with the reasons of failures, that alike lines are folded,
//! and that searches, lists and notices are short and complete.

use outlive_tests::{Answer, Era, Home, Mcp};
use serde_json::json;

/// Prints 2,994 lines of which no two are alike, three failures with a reason after each, and a warning.
const TESTS: &str = r#"awk 'BEGIN {
    for (i = 1; i <= 2994; i++) {
        name = ""; for (n = i; n > 0; n = int(n / 10)) name = name sprintf("%c", 97 + n % 10)
        if (i == 700 || i == 1400 || i == 2100) { print "test " name " ... FAILED"; print "  because " name " was " i }
        else if (i == 1000) print "warning: " name " is slow"
        else print "test " name " ... ok"
    }
    print "3 of 2994 did not pass"; exit 1 }'"#;

fn number_after(text: &str, word: &str) -> u64 {
    let at = text.find(word).unwrap_or_else(|| panic!("no {word}: {text}")) + word.len();
    text[at..].split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn a_job_that_runs_is_told_in_a_kilobyte() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "seq -f 'step %g of 3000: compiling the next part' 3000; echo warning: one; echo all printed; sleep 300";
    let answer =
        client.call("run", json!({"command": line, "ready_on": "all printed", "wait_ms": 45_000})).ok();
    assert!(answer.text.len() <= 1024, "{} bytes: {}", answer.text.len(), answer.text);
    for part in [
        "running",
        "\nstep 1 of 3000",
        "[outlive] … 2,998 lines like this\n",
        "\nwarning: one\nall printed\n",
    ] {
        assert!(answer.text.contains(part), "no {part:?}: {}", answer.text);
    }
    let job = answer.job();
    let (first, lines) = (number_after(&answer.text, "from_line="), number_after(&answer.text, "lines="));
    assert_eq!((first, lines), (3, 2998), "{}", answer.text);
    let waited = client.call("wait", json!({"jobs": [job], "timeout_ms": 10})).ok();
    assert!(waited.text.len() <= 1024, "{}", waited.text);
}

#[test]
fn what_must_be_cut_has_three_kilobytes_and_the_reasons() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let check = |answer: &Answer, most: usize| {
        assert!(answer.text.len() <= most, "{} bytes: {}", answer.text.len(), answer.text);
        for part in [
            "because aah was 700",
            "because aaeb was 1400",
            "because aabc was 2100",
            "3 of 2994 did not pass",
        ] {
            assert!(answer.text.contains(part), "no {part:?}: {}", answer.text);
        }
    };
    let answer = client.call("run", json!({"command": TESTS, "wait_ms": 45_000})).ok();
    check(&answer, 3072);
    assert!(
        answer.header().contains("failed, exit 1") && answer.text.contains("with 3 errors:"),
        "{}",
        answer.text
    );
    assert!(answer.text.contains("1001: warning: aaab is slow"), "{}", answer.text);
    let job = answer.job();
    let read = client.call("read_output", json!({"job": job, "from_line": 1})).ok();
    check(&read, 3072);
    let large = client.call("read_output", json!({"job": job, "from_line": 1, "max_bytes": 100_000})).ok();
    assert_eq!(large.body().len(), 2998, "all of it fits");
    let small = client.call("run", json!({"command": TESTS, "wait_ms": 45_000, "max_bytes": 1500})).ok();
    assert!(small.text.len() <= 1500, "{} bytes: {}", small.text.len(), small.text);
    let job = client.call("run", json!({"command": TESTS, "background": true})).ok().job();
    let waited = client.call("wait", json!({"jobs": [job], "max_bytes": 1500})).ok();
    assert!(waited.text.len() <= 1500, "{} bytes: {}", waited.text.len(), waited.text);
}

#[test]
fn what_fits_is_whole_and_unchanged() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let answer = client.call("run", json!({"command": "seq 1000", "wait_ms": 45_000})).ok();
    assert_eq!(answer.body().len(), 1000, "{}", answer.text);
    let answer = client.call("run", json!({"command": "seq 5000", "wait_ms": 45_000})).ok();
    assert_eq!(answer.body(), ["1", "2", "5000"], "{}", answer.text);
    assert!(answer.text.contains("[outlive] … 4,997 lines like this\n"), "{}", answer.text);
}

#[test]
fn a_search_has_numbers_counts_and_context() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "seq -f 'line %g' 204; echo Error: none";
    let job = client.call("run", json!({"command": line})).ok().job();
    let mut read = |arguments: serde_json::Value| {
        let mut arguments = arguments;
        arguments["job"] = job.clone().into();
        client.call("read_output", arguments).ok()
    };
    let found = read(json!({"grep": "^line .7$"}));
    assert!(found.header().ends_with("; 9 matches in 205 lines"), "{}", found.text);
    assert_eq!(&found.body()[..2], ["17: line 17", "27: line 27"]);
    let found = read(json!({"grep": "line 100", "context": 1}));
    assert_eq!(found.body(), ["99- line 99", "100: line 100", "101- line 101"]);
    assert_eq!(read(json!({"grep": "error"})).body(), ["205: Error: none"]);
    assert_eq!(read(json!({"grep": r"^error\S"})).body(), ["205: Error: none"]);
    let none = read(json!({"grep": "ERROR"}));
    assert!(none.header().ends_with("; no match in 205 lines"), "{}", none.text);
}

#[test]
fn eighty_jobs_are_listed_in_a_kilobyte_and_a_half() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    for number in 0..3 {
        client
            .call("run", json!({"command": "sleep 300", "name": format!("live{number}"), "background": true}))
            .ok();
    }
    for number in 0..77 {
        client.call("run", json!({"command": format!("exit {}", number % 3), "wait_ms": 45_000})).ok();
    }
    let list = client.call("list_jobs", json!({})).ok();
    assert!(list.text.len() <= 1536, "{} bytes: {}", list.text.len(), list.text);
    let lines: Vec<&str> = list.text.lines().collect();
    assert!(lines[0].contains("80 jobs, 3 live"), "{}", list.text);
    assert!(lines[1..4].iter().all(|line| line.contains(" running, ")), "{}", list.text);
    assert_eq!(lines[4..].iter().filter(|line| line.contains(" ago  $ exit ")).count(), 10, "{}", list.text);
    assert!(lines.iter().all(|line| line.starts_with("[outlive] ")), "{}", list.text);
    assert!(list.text.ends_with("67 more: list_jobs with status or group"), "{}", list.text);
    assert!(client.call("list_jobs", json!({"status": "failed"})).ok().text.len() <= 3072);
}

#[test]
fn a_success_is_noticed_in_200_bytes() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "read x; for i in 1 2 3 4 5 6; do echo a line of a build that is rather long, number $i; done; echo done";
    let job = client
        .call("run", json!({"command": line, "name": "build", "stdin": "open", "background": true}))
        .ok()
        .job();
    home.run(["send", &job, "go"]).ok();
    home.run(["--reader", "another", "wait", "--timeout", "50s", &job]).ok();
    let told = client.call("list_jobs", json!({"status": "live"})).ok().text;
    let at = told.find("[outlive] since your last call: ").unwrap_or_else(|| panic!("{told}"));
    assert!(told[at..].len() <= 200 && told.ends_with("\n  | done"), "{} bytes: {told}", told[at..].len());
}
