//! What each tool answers.
//!
//! Proves that results are text within their budget, that nothing is lost or repeated between calls, and that every error names
//! the next call.

use outlive_tests::{Answer, ERAS, Era, Home, Mcp, is_running, pid};
use serde_json::json;

#[test]
fn a_command_that_ends_in_time_answers_with_code_and_output() {
    let home = Home::new();
    for era in ERAS {
        let mut client = Mcp::start(&home, era);
        let answer =
            client.call("run", json!({"command": "echo out; echo err >&2; exit 3", "name": "tests"})).ok();
        assert!(answer.header().contains("failed, exit 3"), "{}", answer.text);
        let mut body = answer.body();
        body.sort_unstable();
        assert_eq!(body, ["err", "out"]);
        assert_eq!(client.end(), 0);
    }
}

/// The lines of several answers; one answer may begin a line and the next end it.
#[derive(Default)]
struct Seen {
    lines: Vec<String>,
    is_unfinished: bool,
}

impl Seen {
    fn take(&mut self, answer: &Answer) {
        let mut lines = answer.body().into_iter();
        if self.is_unfinished
            && let (Some(last), Some(rest)) = (self.lines.last_mut(), lines.next())
        {
            last.push_str(rest);
        }
        if !answer.body().is_empty() {
            self.is_unfinished = answer.header().contains("the last unfinished");
        }
        self.lines.extend(lines.map(str::to_owned));
    }
}

/// What `run` has shown, `read_output` does not show again, and nothing between the two is lost.
#[test]
fn run_hands_over_to_read_output() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "seq 1 3; read x; seq 4 2000; read x; printf 'half'; read x; echo ' whole'";
    let started = client.call("run", json!({"command": line, "wait_ms": 300, "stdin": "open"})).ok();
    let job = started.job();
    assert!(started.header().contains("running"), "{}", started.text);
    let mut seen = Seen::default();
    seen.take(&started);
    let go = || drop(home.run(["send", &job, "go"]).ok());
    let mut read = |seen: &mut Seen, enough: &str| {
        // What has come when `run` returns depends on the machine; in the end all of it has.
        while seen.lines.last().map(String::as_str) != Some(enough) {
            let arguments = json!({"job": job, "wait_ms": 5000, "max_bytes": 100_000});
            seen.take(&client.call("read_output", arguments).ok());
        }
    };
    read(&mut seen, "3");
    go();
    read(&mut seen, "2000");
    go();
    read(&mut seen, "half");
    go();
    read(&mut seen, "half whole");
    let mut expected: Vec<String> = (1..=2000).map(|number| number.to_string()).collect();
    expected.push("half whole".to_owned());
    assert_eq!(seen.lines, expected);
    let nothing = client.call("read_output", json!({"job": job})).ok();
    assert!(nothing.header().contains("nothing new"), "{}", nothing.text);
}

/// Prints lines of which no two differ in numbers alone.
const UNLIKE: &str = "tr 0-9 a-j";

#[test]
fn long_output_is_cut_and_the_rest_can_be_asked_for() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    let line = format!("seq 1 6000 | sed '3001s/.*/error: no such thing/' | {UNLIKE}; echo '[outlive] fake'");
    let answer = client.call("run", json!({"command": line, "wait_ms": 45_000})).ok();
    let job = answer.job();
    assert!(answer.text.len() <= 3072, "{} bytes", answer.text.len());
    assert!(answer.text.contains("3001: error: no such thing"), "{}", answer.text);
    assert!(answer.body().contains(&" [outlive] fake"), "{}", answer.text);
    let omitted = answer.text.lines().find(|line| line.starts_with("[outlive] left out:")).unwrap();
    let number = |name: &str| -> u64 {
        let word = omitted.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap();
        word.parse().unwrap()
    };
    let (first, lines) = (number("from_line="), number("lines="));
    let rest = client
        .call("read_output", json!({"job": job, "from_line": first, "lines": lines, "max_bytes": 200_000}))
        .ok();
    // What was rescued from the middle has its number.
    let mut all: Vec<&str> = answer.body().into_iter().filter(|line| !line.contains(": ")).collect();
    let head = usize::try_from(first).unwrap() - 1;
    let rest = rest.body();
    all.splice(head..head, rest.iter().copied());
    let letters = |number: u32| -> String {
        number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
    };
    let expected: Vec<String> = (1..=6000)
        .map(|number| if number == 3001 { "error: no such thing".to_owned() } else { letters(number) })
        .chain([" [outlive] fake".to_owned()])
        .collect();
    assert_eq!(all, expected);
}

/// Reading stops in the middle of a line: that line is not one more.
#[test]
fn the_number_of_all_lines_is_right_however_few_are_read() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    for (line, total) in [("seq 100000", 100_000), ("seq 100000; printf open; printf open >&2", 100_002)] {
        let job = client.call("run", json!({"command": line})).ok().job();
        for form in ["rendered", "plain", "raw"] {
            let read = client
                .call("read_output", json!({"job": job, "from_line": 2, "lines": 2, "form": form}))
                .ok();
            assert!(read.text.contains(&format!("lines 2-3 of {total}\n")), "{form}: {}", read.text);
        }
    }
}

#[test]
fn output_is_read_in_many_ways() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line =
        "for i in $(seq 1 50); do echo line $i; done; printf '10%%\\r50%%\\r100%%\\n\\033[31mred\\033[0m\\n'";
    let job = client.call("run", json!({"command": line})).ok().job();
    let mut read = |arguments: serde_json::Value| {
        let mut arguments = arguments;
        arguments["job"] = job.clone().into();
        client.call("read_output", arguments).ok()
    };
    assert_eq!(read(json!({"lines": 2})).body(), ["100%", "red"]);
    assert_eq!(read(json!({"from_line": "49", "lines": "2"})).body(), ["line 49", "line 50"]);
    assert_eq!(
        read(json!({"grep": "^line .7$"})).body(),
        ["17: line 17", "27: line 27", "37: line 37", "47: line 47"]
    );
    assert_eq!(read(json!({"grep": "line", "lines": 1})).body(), ["50: line 50"]);
    assert_eq!(read(json!({"from_line": 51, "form": "plain"})).body(), ["10%", "50%", "100%", "red"]);
    assert!(read(json!({"from_line": 52, "form": "raw"})).text.contains("\\u{1b}[31mred"));
    assert_eq!(read(json!({"since_ms": 60_000, "grep": "red"})).body(), ["52: red"]);
    assert_eq!(read(json!({"from_line": 999})).body(), Vec::<&str>::new());
    let job = client.call("run", json!({"command": "echo oops >&2; echo fine"})).ok().job();
    for (stream, line) in [("stderr", "oops"), ("stdout", "fine")] {
        let new = client.call("read_output", json!({"job": job, "stream": stream})).ok();
        assert_eq!(new.body(), [line], "each stream has a place of its own");
        assert!(client.call("read_output", json!({"job": job, "stream": stream})).ok().body().is_empty());
    }
}

#[test]
fn a_very_long_line_is_cut_and_leaves_room_for_others() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "echo first; head -c 300000 /dev/zero | tr '\\0' x; echo; echo last";
    let answer = client.call("run", json!({"command": line})).ok();
    let body = answer.body();
    assert_eq!((body.first(), body.last()), (Some(&"first"), Some(&"last")), "{}", answer.text);
    assert!(body[1].contains("more]"), "{}", answer.text);
    assert!(answer.text.len() <= 8192, "{}", answer.text.len());
}

#[test]
fn input_is_written_and_answered() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    let line = "while read x; do echo \"got $x\"; done; echo over";
    let job = client.call("run", json!({"command": line, "stdin": true, "background": true})).ok().job();
    let answer = client.call("send_input", json!({"job": job, "text": "one"})).ok();
    assert_eq!(answer.body(), ["got one"]);
    let answer =
        client.call("send_input", json!({"job": job, "text": "tw", "submit": "false", "wait_ms": 0})).ok();
    assert_eq!(answer.body(), Vec::<&str>::new());
    let answer =
        client.call("send_input", json!({"job": job, "text": "o", "eof": true, "wait_ms": 20_000})).ok();
    assert_eq!(answer.body(), ["got two", "over"]);
    let closed =
        client.call("run", json!({"command": "sleep 100", "background": true, "name": "closed"})).ok().job();
    let error = client.call("send_input", json!({"job": closed, "text": "x"})).error();
    assert!(error.contains("stdin=\"open\""), "{error}");
    let error = client.call("send_input", json!({"job": closed})).error();
    assert!(error.contains("nothing to send"), "{error}");
    let error = client.call("send_input", json!({"job": closed, "keys": "Enter"})).error();
    assert!(error.contains("keys and pastes are for a terminal"), "{error}");
}

#[test]
fn jobs_are_ended_by_name_group_and_port() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let start = |client: &mut Mcp, name: &str, command: &str| {
        let arguments = json!({"command": command, "name": name, "group": "g", "background": true});
        client.call("run", arguments).ok().job()
    };
    let first = start(&mut client, "one", "sleep 100 & sleep 100");
    let _second = start(&mut client, "two", "sleep 100");
    let third = start(&mut client, "three", "trap '' TERM; while :; do sleep 1; done");
    let main = pid(&home.show(&first), "pid");
    assert!(client.call("kill", json!({"job": "one"})).ok().text.contains("ended, "));
    assert!(!is_running(main));
    assert!(client.call("kill", json!({"job": first})).ok().text.contains("had already ended"));
    let answer = client.call("kill", json!({"group": "g", "grace_ms": 100})).ok();
    assert!(answer.text.contains("2 of 2 jobs"), "{}", answer.text);
    assert_eq!(home.wait(&third)["status"], "killed");
    let server = "exec python3 -c 'import socket,time\ns=socket.socket();s.bind((\"127.0.0.1\",0));s.listen();print(s.getsockname()[1],flush=True);time.sleep(100)'";
    let answer = client.call("run", json!({"command": server, "background": true})).ok();
    let port = client.call("read_output", json!({"job": answer.job(), "wait_ms": 30_000})).ok();
    let port: u16 = port.body()[0].parse().unwrap();
    let listed = client.call("list_jobs", json!({"ports": true, "status": "live"})).ok();
    assert!(listed.text.contains(&format!("ports={port}")), "{}", listed.text);
    assert!(client.call("kill", json!({"port": port})).ok().text.contains(&answer.job()));
    let error = client.call("kill", json!({"port": port})).error();
    assert!(error.contains("no live job listens"), "{error}");
}

#[test]
fn what_changes_a_job_takes_no_beginning_of_its_id() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let arguments = json!({"command": "cat", "name": "s10", "stdin": "open", "background": true});
    let job = client.call("run", arguments).ok().job();
    for (tool, arguments) in [
        ("kill", json!({"job": "s1"})),
        ("send_input", json!({"job": "s1", "text": "x"})),
        ("manage_job", json!({"job": "s1", "action": "pause"})),
        ("manage_job", json!({"job": "s1", "action": "rename", "name": "x"})),
    ] {
        let error = client.call(tool, arguments).error();
        assert!(error.contains(&format!("did you mean {job}?")), "{error}");
    }
    client.call("read_output", json!({"job": "s1"})).ok();
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["name"]), (&"running".into(), &"s10".into()));
    let last_part = job.rsplit_once('-').unwrap().1;
    client.call("kill", json!({"job": last_part})).ok();
    assert_eq!(home.show(&job)["status"], "killed");
}

#[test]
fn a_kill_of_several_ends_those_that_exist_and_tells_of_each() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let start = |client: &mut Mcp, name: &str| {
        client.call("run", json!({"command": "sleep 300", "name": name, "background": true})).ok().job()
    };
    let (good, well) = (start(&mut client, "good"), start(&mut client, "well"));
    let answer = client.call("kill", json!({"jobs": ["good", "bad", "well", "worse"]}));
    let text = answer.clone().error();
    assert!(answer.header().contains("2 of 4 jobs"), "{text}");
    for told in [
        format!("{good} ended"),
        format!("{well} ended"),
        "there is no job \"bad\"".to_owned(),
        "there is no job \"worse\"".to_owned(),
    ] {
        assert!(text.contains(&told), "{told}: {text}");
    }
}

#[test]
fn signals_are_sent_without_ending_the_job() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "trap 'echo caught' USR1; echo up; while :; do sleep 0.05; done";
    let job = client.call("run", json!({"command": line, "background": true})).ok().job();
    // Mostly `run` has shown it already, and there is nothing new to wait for.
    home.wait_for_output(&job, "up");
    let answer = client.call("kill", json!({"job": job, "signal": "SIGUSR1"})).ok();
    assert!(answer.text.contains("SIGUSR1 sent"), "{}", answer.text);
    home.wait_for_output(&job, "caught");
    let error = client.call("kill", json!({"job": job, "signal": "NOPE"})).error();
    assert!(error.contains("no signal"), "{error}");
    client.call("kill", json!({"job": job, "signal": "KILL"})).ok();
    assert_eq!(home.show(&job)["status"], "killed");
}

#[test]
fn jobs_are_paused_renamed_cleared_and_removed() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    let job = client
        .call("run", json!({"command": "echo before; sleep 100", "name": "old name", "wait_ms": 0}))
        .ok()
        .job();
    home.wait_for_output(&job, "before");
    let mut manage =
        |action: &str| client.call("manage_job", json!({"job": job, "action": action, "name": "new name"}));
    assert!(manage("pause").ok().text.contains("paused"));
    assert_eq!(home.show(&job)["paused"], true);
    assert!(manage("resume").ok().text.contains("resumed"));
    assert!(manage("rename").ok().text.contains("new name"));
    assert_eq!(home.show("new name")["job"], job.as_str());
    home.run(["show", "old name"]).code(3);
    manage("clear").ok();
    assert_eq!(home.logs(&job), b"");
    let error = manage("remove").error();
    assert!(error.contains("kill job="), "{error}");
    assert!(manage("dance").error().contains("pause, resume, restart, clear, remove, rename"));
    client.call("kill", json!({"job": "new name"})).ok();
    let mut manage = |action: &str| client.call("manage_job", json!({"job": job, "action": action}));
    assert!(manage("rename").error().contains("needs name"));
    assert!(manage("remove").ok().text.contains("removed"));
    home.run(["show", &job]).code(3);
}

#[test]
fn a_job_is_restarted_as_another_run() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let run =
        json!({"command": "echo up $ADDED; sleep 100", "name": "web", "wait_ms": 0, "env": {"ADDED": "1"}});
    let first = client.call("run", run).ok().job();
    home.wait_for_output(&first, "up 1");
    let restarted = client.call("manage_job", json!({"job": "web", "action": "restart"})).ok();
    let shown = home.show("web");
    let second = shown["job"].as_str().unwrap();
    assert!(restarted.text.contains(&format!("{first} restarted as {second}")), "{}", restarted.text);
    assert_eq!((&shown["previous"], &shown["status"]), (&json!(first), &json!("running")));
    assert_eq!(home.show(&first)["status"], "killed");
    home.wait_for_output(second, "up 1");
    // The end of the run before is no news to the client that asked for it.
    let read = client.call("read_output", json!({"job": second})).ok().text;
    assert!(!read.contains(&first), "{read}");
    client.call("kill", json!({"job": "web"})).ok();
}

#[test]
fn jobs_are_listed_with_what_is_asked_for() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    assert!(client.call("list_jobs", json!({})).ok().text.contains("no jobs yet"));
    client.call("run", json!({"command": "exit 4", "group": "a"})).ok();
    client.call("run", json!({"command": "sleep 100", "name": "web", "background": true})).ok();
    let all = client.call("list_jobs", json!({"usage": "yes"})).ok();
    assert!(all.header().contains("2 jobs, 1 live"), "{}", all.text);
    let rows: Vec<&str> = all.text.lines().skip(1).collect();
    assert!(rows[0].contains("web-") && rows[0].contains("memory="), "{}", all.text);
    assert!(rows[1].contains("failed, exit 4"), "{}", all.text);
    let mut count =
        |filter: serde_json::Value| client.call("list_jobs", filter).ok().text.lines().count() - 1;
    assert_eq!(count(json!({"status": "live"})), 1);
    assert_eq!(count(json!({"status": "failed"})), 1);
    assert_eq!(count(json!({"group": "a"})), 1);
    assert_eq!(count(json!({"group": "b"})), 0);
}

/// Every error says what to call next, and the answer to an unknown id lists the ids that exist.
#[test]
fn errors_name_the_next_call() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let job = client.call("run", json!({"command": "sleep 100", "background": true})).ok().job();
    for (tool, arguments, expected) in [
        ("read_output", json!({"job": "nope"}), job.as_str()),
        ("read_output", json!({}), "read_output needs job"),
        ("read_output", json!({"job": job, "grep": "("}), "regular expression"),
        ("read_output", json!({"job": job, "lines": [1]}), "whole number"),
        ("kill", json!({}), job.as_str()),
        ("run", json!({"command": {"command": "make", "cwd": "/"}}), "one line for the shell"),
        ("run", json!({"command": "  "}), "command is empty"),
        ("run", json!({"command": "true", "cwd": "/nonexistent/x"}), "cwd that exists"),
        ("run", json!({"command": "true", "name": "a\nb"}), "name"),
        ("read_screen", json!({"job": job}), "read_output"),
    ] {
        let error = client.call(tool, arguments.clone()).error();
        assert!(error.contains(expected), "{tool} {arguments}: {error}");
        assert!(error.contains("[outlive] next: "), "{tool} {arguments}: {error}");
        assert!(error.len() < 1500, "{tool} {arguments}: {} bytes", error.len());
    }
}

#[test]
fn what_is_out_of_range_is_clamped_and_told() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let answer = client
        .call("run", json!({"command": "true", "wait_ms": 1e9, "memory_mb": "512", "colour": "red"}))
        .ok();
    assert!(answer.text.contains("wait_ms 1000000000 was taken as 45000"), "{}", answer.text);
    assert!(answer.text.contains("note: no parameter colour"), "{}", answer.text);
    let answer = client.call("read_output", json!({"job": answer.job(), "max_bytes": 1})).ok();
    assert!(answer.text.contains("was taken as 1000"), "{}", answer.text);
}

#[test]
fn jobs_and_output_are_resources() {
    let home = Home::new();
    for era in ERAS {
        let mut client = Mcp::start(&home, era);
        let job = client.call("run", json!({"command": "echo hello", "name": "res"})).ok().job();
        let listed = client.result("resources/list", json!({}));
        let uris: Vec<&str> =
            listed["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
        assert!(
            uris.contains(&"outlive://jobs")
                && uris.contains(&format!("outlive://job/{job}/output").as_str())
        );
        let templates = client.result("resources/templates/list", json!({}));
        assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 2);
        let mut read = |uri: String| {
            let read = client.result("resources/read", json!({"uri": uri}));
            read["contents"][0]["text"].as_str().unwrap().to_owned()
        };
        assert_eq!(read(format!("outlive://job/{job}/output")), "hello\n");
        let object: serde_json::Value = serde_json::from_str(&read(format!("outlive://job/{job}"))).unwrap();
        assert_eq!(object["exit_code"], 0);
        assert!(read("outlive://jobs".to_owned()).contains(&job));
        let error = client.error("resources/read", json!({"uri": "outlive://job/nope"}));
        assert_eq!(error["code"], if era == Era::Stateless { -32602 } else { -32002 });
        let completed = client.result(
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "outlive://job/{id}"}, "argument": {"name": "id", "value": &job[..3]}}),
        );
        let values = completed["completion"]["values"].as_array().unwrap();
        assert!(values.contains(&json!(job)), "{completed}");
    }
}

#[test]
fn an_agent_asks_how_the_jobs_of_a_project_are_and_why() {
    let home = Home::new();
    let dir = home.make_dir("shop");
    let toml = "[jobs.db]\nrun = \"echo booting; cat\"\nstdin = \"open\"\nready.line = \"accepting\"\n\
        [jobs.api]\nrun = \"sleep 300\"\nafter = [\"db\"]\n";
    let file = dir.join("outlive.toml");
    let mut client = Mcp::start_with(&home, Era::Handshake, &[], &dir);
    let error = client.call("list_jobs", json!({"why": "*"})).error();
    assert!(error.contains("there is no outlive.toml"), "{error}");
    std::fs::write(&file, toml).expect("a file");
    home.run(["up", "-f", file.to_str().expect("text")]).ok();
    let all = client.call("list_jobs", json!({"why": "*"})).ok();
    assert!(all.header().contains("project shop, 2 jobs"), "{}", all.text);
    assert!(
        all.text.contains("db: running, not ready") && all.text.contains("api: waits for db@ready"),
        "{}",
        all.text
    );
    let why = client.call("list_jobs", json!({"why": "api"})).ok();
    assert!(why.text.contains("api is not started: it waits for db@ready"), "{}", why.text);
    assert!(why.text.contains("and is not ready: no line that matches /accepting/"), "{}", why.text);
    let error = client.call("list_jobs", json!({"why": "apy"})).error();
    assert!(error.contains("why=* lists its jobs"), "{error}");
    assert_eq!(client.end(), 0);
    home.run(["down", "-f", file.to_str().expect("text")]).ok();
}
