//! Sixty slips of models: names of other tools, filled-in fields, values of another shape.
//!
//! Proves that each does what was meant, without a note where nothing is lost, or costs one call whose error says how to write it;
//! and that nothing which would change where or what runs is ignored.

use std::time::{Duration, Instant};

use outlive_tests::{Era, Home, Mcp};
use serde_json::{Value, json};

/// What a model sends, and what must happen.
struct Slip {
    tool: &'static str,
    given: Value,
    /// Texts of the answer.
    shows: Vec<&'static str>,
    lacks: Vec<&'static str>,
    note: Option<&'static str>,
    is_refused: bool,
    /// How many seconds it may take.
    seconds: u64,
    /// Fields of the `spec.json` of the job that was started; null for one that is absent.
    spec: Value,
}

fn slip(tool: &'static str, given: Value) -> Slip {
    let (shows, lacks, note, is_refused) = (Vec::new(), Vec::new(), None, false);
    Slip { tool, given, shows, lacks, note, is_refused, seconds: 60, spec: json!({}) }
}

impl Slip {
    fn shows(mut self, texts: &[&'static str]) -> Self {
        self.shows.extend(texts);
        self
    }

    fn lacks(mut self, text: &'static str) -> Self {
        self.lacks.push(text);
        self
    }

    fn notes(mut self, text: &'static str) -> Self {
        self.note = Some(text);
        self
    }

    fn refused(mut self, text: &'static str) -> Self {
        self.is_refused = true;
        self.shows.push(text);
        self
    }

    fn within(mut self, seconds: u64) -> Self {
        self.seconds = seconds;
        self
    }

    fn spec(mut self, fields: Value) -> Self {
        self.spec = fields;
        self
    }
}

/// `DONE` is a job that printed sixty lines and ended, `CAT` one that prints what it is sent, `TERM` the same in a terminal, `SLEEP`
/// one that sleeps, `DEAF` one that does not listen to TERM, whose grace is five seconds; each slip has its own of the last four.
fn slips() -> Vec<Slip> {
    let hi = "echo hi; pwd";
    vec![
        // Zero and empty mean "not given".
        slip("run", json!({"command": hi, "timeout_ms": 0})).shows(&["exit 0", "hi"]).spec(json!({"timeout_ms": null})),
        slip("run", json!({"command": hi, "memory_mb": 0})).shows(&["exit 0"]).spec(json!({"limits": null})),
        slip("run", json!({"command": hi, "ready_port": 0})).shows(&["exit 0"]).spec(json!({"ready": null})),
        slip("run", json!({"command": hi, "cwd": "", "name": "", "env": {}, "ready_on": ""})).shows(&["exit 0"]),
        slip(
            "run",
            json!({"command": hi, "cwd": "", "env": {}, "wait_ms": 0, "background": false, "name": "", "group": "", "timeout_ms": 0,
                "stdin": "", "pty": false, "memory_mb": 0, "ready_on": "", "ready_port": 0, "ready_url": ""}),
        )
        .shows(&["exit 0", "hi"])
        .spec(json!({"timeout_ms": null, "limits": null, "ready": null})),
        slip("run", json!({"command": hi, "timeout_ms": "0", "memory_mb": "0"}))
            .shows(&["exit 0"])
            .spec(json!({"timeout_ms": null})),
        slip("read_output", json!({"job": "DONE", "lines": 0, "from_line": 0, "grep": "", "since_ms": 0, "max_bytes": 0}))
            .shows(&["nothing new"]),
        slip("read_output", json!({"job": "DONE", "lines": 2, "from_line": 0, "stream": "", "wait_ms": 0}))
            .shows(&["line 59", "line 60"])
            .lacks("line 58"),
        slip(
            "wait",
            json!({"jobs": ["DONE"], "group": "", "all": false, "for": "", "pattern": "", "fail_pattern": "", "port": 0, "idle_ms": 0,
                "timeout_ms": 0}),
        )
        .shows(&["completed, exit 0"]),
        slip("kill", json!({"job": "SLEEP", "jobs": [], "group": "", "signal": "", "port": 0})).shows(&["ended, 1 process"]),
        slip("kill", json!({"job": "DEAF", "grace_ms": 0})).shows(&["ended, "]).within(4),
        slip("send_input", json!({"job": "CAT", "text": ""})).shows(&["; 1 byte sent"]),
        slip("list_jobs", json!({"group": "", "status": "", "ports": false, "usage": false})).shows(&["jobs"]),
        // Where and what runs.
        slip("run", json!({"command": "pwd", "workdir": "sub"})).shows(&["/sub"]),
        slip("run", json!({"command": "pwd", "working_directory": "sub"})).shows(&["/sub"]),
        slip("run", json!({"command": "pwd", "workingDirectory": "sub"})).shows(&["/sub"]),
        slip("run", json!({"command": "pwd", "directory": "sub"})).shows(&["/sub"]),
        slip("run", json!({"command": "pwd", "cwd": "sub", "workdir": "elsewhere"})).refused("cwd and workdir differ"),
        slip("run", json!({"command": "pwd", "project_path": "/tmp"})).refused("no parameter project_path"),
        slip("run", json!({"command": "whoami", "user": "nobody"})).refused("no parameter user"),
        slip("run", json!({"command": "cat", "input": "hello"})).refused("stdin=\"open\", then send_input"),
        slip("run", json!({"cmd": "echo taken"})).shows(&["exit 0", "taken"]),
        slip("run", json!({"script": "echo one\necho two"})).shows(&["one\ntwo"]),
        slip("run", json!({"command": ["printf", "%s\\n", "a b"]})).shows(&["exit 0", "\na b"]),
        slip("run", json!({"command": ["bash", "-lc", "echo list"]})).shows(&["exit 0", "\nlist"]),
        slip("run", json!({"command": "[\"printf\", \"%s\\n\", \"c d\"]"})).shows(&["\nc d"]),
        slip("run", json!({"command": {"command": "echo inner"}})).shows(&["\ninner"]),
        slip("run", json!({"command": "printf", "args": ["%s\\n", "e f"]})).shows(&["\ne f"]),
        slip("run", json!({"command": "echo $0", "shell": "sh"})).shows(&["\nsh"]),
        slip("run", json!({"command": "echo $A", "environment": {"A": "set"}})).shows(&["\nset"]),
        slip("run", json!({"command": "echo $A", "env": ["A=listed"]})).shows(&["\nlisted"]),
        slip("run", json!({"comand": "echo hi"})).refused("run needs command"),
        // How long.
        slip("run", json!({"command": "sleep 300", "run_in_background": true})).shows(&["running"]),
        slip("run", json!({"command": "sleep 300", "is_background": "true"})).shows(&["running"]),
        slip("run", json!({"command": "sleep 300", "wait": false})).shows(&["running"]),
        slip("run", json!({"command": "sleep 300", "yield_ms": 50})).shows(&["running"]),
        slip("run", json!({"command": "sleep 300", "yield_time_ms": 50, "max_output_tokens": 2000})).shows(&["running"]),
        slip("run", json!({"command": "true", "timeout": 30})).notes("timeout 30 is taken as 30 s").spec(json!({"timeout_ms": 30000})),
        slip("run", json!({"command": "true", "timeout": 0})).spec(json!({"timeout_ms": null})),
        slip("run", json!({"command": "true", "timeout": 3600}))
            .notes("timeout 3600 is taken as 3600 s")
            .spec(json!({"timeout_ms": 3_600_000})),
        slip("run", json!({"command": "true", "timeout": 3601}))
            .notes("timeout 3601 is taken as 3601 ms")
            .spec(json!({"timeout_ms": 3601})),
        slip("run", json!({"command": "true", "timeout": 120000}))
            .notes("timeout 120000 is taken as 120000 ms")
            .spec(json!({"timeout_ms": 120000})),
        slip("run", json!({"command": "true", "timeout_seconds": 5})).spec(json!({"timeout_ms": 5000})),
        slip("run", json!({"command": "true", "description": "Does nothing"})).shows(&["exit 0"]),
        slip("run", json!({"command": "true", "colour": "red"})).notes("no parameter colour"),
        slip("run", json!({"command": "tty", "tty": true})).shows(&["/dev/pts/"]),
        slip("run", json!({"command": "cat", "stdin": "pipe", "wait_ms": 0})).shows(&["running"]).spec(json!({"stdin": "open"})),
        slip("wait", json!({"job": "SLEEP", "timeout": 0.05})).shows(&["not yet"]).notes("timeout 0.05 is taken as 0.05 s"),
        slip("wait", json!({"job_id": "DONE"})).shows(&["completed, exit 0"]),
        slip("wait", json!({"task_ids": ["DONE"], "wait_ms": 50})).shows(&["completed, exit 0"]),
        slip("wait", json!({"jobs": ["DONE"], "for": "done"})).shows(&["completed, exit 0"]),
        slip("wait", json!({"jobs": ["DONE"], "until": "output", "regex": "line 7$"})).shows(&["line 7 matches"]),
        // What was printed.
        slip("read_output", json!({"id": "DONE", "tail": 1})).shows(&["\nline 60"]).lacks("line 59"),
        slip("read_output", json!({"task_id": "DONE", "head": 1})).shows(&["\nline 1"]).lacks("line 2"),
        slip("read_output", json!({"job": "DONE", "offset": 0, "limit": 1})).shows(&["\nline 1"]).lacks("line 2"),
        slip("read_output", json!({"job": "DONE", "offset": 10, "limit": 1})).shows(&["\nline 11"]).lacks("line 12"),
        slip("read_output", json!({"job": "DONE", "limit": 1})).shows(&["\nline 60"]).lacks("line 59"),
        slip("read_output", json!({"job": "DONE", "lines": -1})).shows(&["\nline 60"]).lacks("line 59"),
        slip("read_output", json!({"job": "DONE", "lines": -50})).shows(&["\nline 11\n", "\nline 60"]).lacks("line 10\n"),
        slip("read_output", json!({"job": "DONE", "start_line": 4, "end_line": 5})).shows(&["line 4\nline 5"]).lacks("line 6"),
        slip("read_output", json!({"bash_id": "DONE", "filter": "line 3$"})).shows(&["line 3"]).lacks("line 4"),
        // What is sent.
        slip("send_input", json!({"job": "CAT", "input": "meant"})).shows(&["\nmeant"]),
        slip("send_input", json!({"session_id": "CAT", "chars": "typed\n"})).shows(&["\ntyped"]),
        slip("send_input", json!({"session_id": "CAT", "chars": ""})).refused("read_output wait_ms="),
        slip("send_input", json!({"job": "CAT", "text": "\u{3}"})).refused("signal=INT"),
        slip("send_input", json!({"job": "CAT", "text": "\u{4}"})).shows(&["input closed"]),
        slip("send_input", json!({"job": "TERM", "text": "\u{3}", "wait_ms": 20_000})).shows(&["ended by SIGINT", "; 1 byte sent"]),
        // What is ended and listed.
        slip("kill", json!({"id": "SLEEP", "force": true})).shows(&["ended, 1 process"]),
        slip("kill", json!({"job": "SLEEP", "id": "DONE"})).refused("job and id differ"),
        slip("kill", json!({"pid": 1})).refused("kill needs job"),
        slip("list_jobs", json!({"state": "finished"})).shows(&["exit 0"]).lacks("running"),
        slip("manage_job", json!({"id": "SLEEP", "action": "suspend"})).shows(&["paused"]),
        slip("manage_job", json!({"job": "SLEEP", "action": "stop"})).refused("pause, resume"),
    ]
}

#[test]
fn slips_do_what_was_meant_or_say_how() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("sub")).unwrap();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "for i in $(seq 60); do echo line $i; done";
    let done = client.call("run", json!({"command": line, "name": "done"})).ok().job();
    let slips = slips();
    assert!(slips.len() >= 60, "{}", slips.len());
    let mut wrong = Vec::new();
    for slip in slips {
        let mut given = slip.given.to_string().replace("DONE", &done);
        let mut started = None;
        for (word, arguments) in [
            ("CAT", json!({"command": "cat", "stdin": "open", "background": true})),
            ("TERM", json!({"command": "cat", "pty": true, "background": true})),
            ("SLEEP", json!({"command": "exec sleep 300", "background": true})),
            (
                "DEAF",
                json!({"command": "trap '' TERM; echo up; while :; do sleep 0.1; done", "ready_on": "up"}),
            ),
        ] {
            if given.contains(word) {
                let job = client.call("run", arguments).ok().job();
                given = given.replace(word, &job);
                started = Some(job);
            }
        }
        let began = Instant::now();
        let answer = client.call(slip.tool, serde_json::from_str(&given).unwrap());
        let mut problems = Vec::new();
        if began.elapsed() > Duration::from_secs(slip.seconds) {
            problems.push(format!("took {:?}", began.elapsed()));
        }
        let text = &answer.text;
        if answer.is_error != slip.is_refused || (slip.is_refused && !text.contains("[outlive] next: ")) {
            problems.push("refused or not, and what next".to_owned());
        }
        problems.extend(
            slip.shows.iter().filter(|part| !text.contains(**part)).map(|part| format!("no {part:?}")),
        );
        problems.extend(
            slip.lacks.iter().filter(|part| text.contains(**part)).map(|part| format!("has {part:?}")),
        );
        let notes: Vec<&str> = text.lines().filter(|line| line.starts_with("[outlive] note: ")).collect();
        match (slip.note, notes.as_slice()) {
            (None, []) => {}
            (Some(note), [line]) if line.contains(note) && line.len() <= 60 => {}
            (_, notes) if slip.is_refused && notes.len() == 1 => {}
            (note, notes) => problems.push(format!("notes {notes:?}, not {note:?}")),
        }
        if slip.tool == "run" && !answer.is_error {
            started = Some(answer.job());
        }
        if let Some(job) = started.filter(|_| slip.tool == "run") {
            let spec = std::fs::read(home.store().join("jobs").join(&job).join("spec.json")).unwrap();
            let spec: Value = serde_json::from_slice(&spec).unwrap();
            let fields = slip.spec.as_object().unwrap().iter();
            problems.extend(
                fields
                    .filter(|(name, value)| spec[name.as_str()] != **value)
                    .map(|(name, _)| format!("{name}: {}", spec[name])),
            );
        }
        if !problems.is_empty() {
            wrong.push(format!("{} {given}: {}\n{text}", slip.tool, problems.join("; ")));
        }
        // The limit on live jobs is not the subject.
        for job in home.json(["list", "--live"]).as_array().unwrap() {
            home.run(["kill", "--force", job["job"].as_str().unwrap()]).ok();
        }
        client.call("wait", json!({"timeout_ms": 0})).ok();
    }
    assert!(wrong.is_empty(), "{} slips:\n{}", wrong.len(), wrong.join("\n\n"));
}
