//! Endings ride on the next result of any tool.
//!
//! Proves that each reader hears of each ending of its own jobs, once, whatever it calls next, also after its server was killed.

use outlive_tests::{ERAS, Era, Home, Mcp, until};
use serde_json::json;

fn start(home: &Home, reader: &str, era: Era) -> Mcp {
    let mut command = home.outlive(["mcp"]);
    command.env("CLAUDE_CODE_SESSION_ID", reader);
    Mcp::of(command, era, json!({}), &[])
}

/// Starts a job that ends when it is told to, with this code.
fn start_job(client: &mut Mcp, name: &str, code: u8) -> String {
    let line = format!("echo working; read x; echo 'the last word'; exit {code}");
    client.call("run", json!({"command": line, "name": name, "stdin": "open", "background": true})).ok().job()
}

/// Ends such a job without a call of the client.
fn end_job(home: &Home, job: &str) {
    home.run(["send", job, "go"]).ok();
    // As another reader: this does not count as told to the client.
    let waited = home.run(["--reader", "somebody-else", "wait", "--timeout", "50s", job]);
    assert!([0, 7].contains(&waited.code), "{waited:?}");
}

#[test]
fn an_ending_comes_with_whatever_is_called_next_and_once() {
    let home = Home::new();
    for era in ERAS {
        for (tool, arguments) in [
            ("list_jobs", json!({"status": "live"})),
            ("run", json!({"command": "true"})),
            ("read_output", json!({"job": "nope"})),
            ("kill", json!({"group": "none"})),
            ("wait", json!({})),
        ] {
            let mut client = start(&home, &format!("{tool}-{era:?}"), era);
            let job = start_job(&mut client, "test", 1);
            end_job(&home, &job);
            let told = client.call(tool, arguments).text;
            let line = format!("[outlive] since your last call: {job} failed, exit 1, after ");
            assert_eq!(told.matches(&line).count(), 1, "{tool}: {told}");
            assert!(told.contains("\n  | the last word"), "{told}");
            let again = client.call("list_jobs", json!({"status": "live"})).ok();
            assert!(!again.text.contains("since your last call"), "{}", again.text);
            assert_eq!(client.end(), 0);
            let mut next = start(&home, &format!("{tool}-{era:?}"), era);
            let again = next.call("list_jobs", json!({"status": "live"})).ok();
            assert!(!again.text.contains("since your last call"), "{}", again.text);
        }
    }
}

/// What a result is about is not told a second time by the same result or the next.
#[test]
fn what_a_result_tells_is_no_news() {
    let home = Home::new();
    let mut client = start(&home, "one", Era::Handshake);
    for tool in ["read_output", "wait", "kill", "send_input"] {
        let job = start_job(&mut client, "test", 0);
        let arguments = match tool {
            "wait" => json!({"jobs": [job]}),
            "send_input" => json!({"job": job, "text": "go", "wait_ms": 20_000}),
            _ => json!({"job": job}),
        };
        if tool != "send_input" {
            end_job(&home, &job);
        }
        let mut answer = client.call(tool, arguments).ok();
        if tool == "send_input" && !answer.text.contains("completed") {
            answer = client.call("wait", json!({"jobs": [job]})).ok();
        }
        assert!(!answer.text.contains("since your last call"), "{tool}: {}", answer.text);
        let next = client.call("list_jobs", json!({"status": "live"})).ok();
        assert!(!next.text.contains("since your last call"), "{tool}: {}", next.text);
    }
    client.call("run", json!({"command": "exit 3"})).ok();
    let next = client.call("list_jobs", json!({"status": "live"})).ok();
    assert!(!next.text.contains("since your last call"), "{}", next.text);
}

#[test]
fn each_of_two_clients_hears_of_its_own_endings_also_after_a_kill() {
    let home = Home::new();
    let mut one = start(&home, "one", Era::Handshake);
    let mut two = start(&home, "two", Era::Stateless);
    let (first, second) = (start_job(&mut one, "first", 1), start_job(&mut two, "second", 2));
    one.kill();
    end_job(&home, &first);
    end_job(&home, &second);
    let told = two.call("list_jobs", json!({"status": "live"})).ok().text;
    assert!(told.contains(&format!("call: {second}")) && !told.contains(&format!("call: {first}")), "{told}");
    let mut one = start(&home, "one", Era::Stateless);
    let told = one.call("list_jobs", json!({"status": "live"})).ok().text;
    assert!(told.contains(&format!("call: {first}")) && !told.contains(&format!("call: {second}")), "{told}");
}

/// A call that is cancelled tells nothing; the next one does.
#[test]
fn an_ending_in_an_answer_that_is_never_given_is_told_again() {
    let home = Home::new();
    let mut client = start(&home, "one", Era::Handshake);
    let (ends, stays) = (start_job(&mut client, "ends", 1), start_job(&mut client, "stays", 0));
    let waiting = client.send_call("wait", json!({"jobs": [stays]}));
    end_job(&home, &ends);
    client.cancel(waiting);
    let told = client.call("list_jobs", json!({"status": "live"})).ok().text;
    assert!(told.contains(&format!("call: {ends} ")), "{told}");
    end_job(&home, &stays);
    let told = client.call("list_jobs", json!({"status": "live"})).ok().text;
    assert!(told.contains(&format!("call: {stays} ")), "{told}");
}

/// Many endings do not push the answer over its size, and all are told in the end.
#[test]
fn many_endings_come_in_pieces() {
    let home = Home::new();
    let mut client = start(&home, "one", Era::Handshake);
    let mut left: Vec<String> =
        (0..12).map(|number| start_job(&mut client, &format!("job{number}"), 1)).collect();
    left.iter().for_each(|job| end_job(&home, job));
    while !left.is_empty() {
        let told = client.call("list_jobs", json!({})).ok().text;
        assert!(told.len() <= 8192, "{} bytes", told.len());
        let before = left.len();
        left.retain(|job| !told.contains(&format!("call: {job} ")));
        assert!(left.len() < before, "{told}");
    }
}

/// Calls that are answered at the same time tell each ending once: a call that waits for a job tells its end.
#[test]
fn calls_at_the_same_time_tell_each_ending_once() {
    let home = Home::new();
    let mut client = start(&home, "one", Era::Handshake);
    let run =
        |number: usize| json!({"command": format!("exit {number}"), "background": number.is_multiple_of(2)});
    let asked: Vec<u64> = (1..=16).map(|number| client.send_call("run", run(number))).collect();
    let (mut jobs, mut texts) = (Vec::new(), Vec::new());
    for asked in asked {
        let answer = client.tool_answer(asked);
        jobs.push(answer.job());
        texts.push(answer.text);
    }
    let told = |texts: &[String], job: &str| {
        let words = format!(" {job} failed, exit ");
        texts.iter().map(|text| text.matches(&words).count()).sum::<usize>()
    };
    for job in &jobs {
        // As another reader: this does not count as told to the client.
        let waited = home.run(["--reader", "somebody-else", "wait", "--timeout", "50s", job]);
        assert!([0, 7].contains(&waited.code), "{waited:?}");
    }
    while jobs.iter().any(|job| told(&texts, job) == 0) {
        let more = client.call("list_jobs", json!({"status": "live"})).ok().text;
        assert!(more.contains("since your last call"), "{jobs:?} {texts:?}");
        texts.push(more);
    }
    texts.push(client.call("list_jobs", json!({"status": "live"})).ok().text);
    for job in &jobs {
        assert_eq!(told(&texts, job), 1, "{job}: {texts:?}");
    }
}

/// What a server reads for an answer does not grow with what happened before in its session.
#[test]
fn an_answer_costs_what_is_new_and_not_all_that_ever_happened() {
    let home = Home::new();
    let mut client = start(&home, "one", Era::Handshake);
    let job = start_job(&mut client, "test", 1);
    let session = home.show(&job)["session"].as_str().expect("it has one").to_owned();
    let log = home.store().join("sessions").join(session).join("events");
    let other = |number: u32| {
        format!(
            "\n{{\"event\":\"limit_near\",\"job\":\"a-1\",\"nonce\":\"{number:032x}\",\"at_us\":1,\"limit\":\"l\"}}\n"
        )
    };
    let filling: String = (0..10_000).map(other).collect();
    let mut file = std::fs::OpenOptions::new().append(true).open(log).expect("it is there");
    std::io::Write::write_all(&mut file, filling.as_bytes()).expect("it is written");
    client.call("list_jobs", json!({"status": "live"})).ok();
    let account = format!("/proc/{}/io", client.pid());
    let read = || -> usize {
        let text = std::fs::read_to_string(&account).expect("the server lives");
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("it is counted");
        line.parse().expect("a number")
    };
    end_job(&home, &job);
    // Until its keeper has removed the mark of a live job, every look at the events makes sure that the ending is among them.
    let marks = || std::fs::read_dir(home.store().join("live")).expect("it is there").count();
    until("its mark is gone", || marks() == 0);
    let before = read();
    let told = client.call("list_jobs", json!({"status": "live"})).ok().text;
    assert!(told.contains(&format!("call: {job} ")), "{told}");
    client.call("list_jobs", json!({"status": "live"})).ok();
    let cost = read() - before;
    assert!(cost < filling.len() / 4, "{cost} bytes were read, and there are {} of events", filling.len());
}
