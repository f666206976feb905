//! The jobs of other machines in `outlive top`, and over HTTP for the page.
//!
//! Proves that a job there is shown while it runs, and as unreachable, with the age of what is known, after a cut.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use outlive_tests::{LIMIT, Terminal, end_within, signal, until};
use serde_json::Value;

use super::Machine;

/// Asks the server of the machine here for all others.
fn hosts(machine: &Machine) -> Value {
    let mut stream = UnixStream::connect(machine.here.store().join("serve/socket")).expect("it listens");
    let request = "GET /v1/hosts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let json = body.find('[').and_then(|start| Some(&body[start..=body.rfind(']')?])).unwrap_or_default();
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn the_jobs_of_all_machines_are_shown_and_none_as_ended_that_cannot_be_reached() {
    let Some(mut machine) = Machine::start() else { return };
    let run = |name: &str, line: &str| {
        machine.run(&["run", "--on", "gpu1", "--name", name, line]).ok().text().trim_end().to_owned()
    };
    let (live, ended) = (run("live", "sleep 300"), run("over", "exit 1"));
    machine.run(&["wait", &ended]).code(7);
    let mut server = machine.outlive(&["serve"]);
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    until("it listens", || UnixStream::connect(machine.here.store().join("serve/socket")).is_ok());
    let shown = hosts(&machine);
    assert_eq!((&shown[0]["host"], &shown[0]["unreachable"]), (&"gpu1".into(), &Value::Null), "{shown}");
    assert_eq!(shown[0]["jobs"][1]["status"], "running", "{shown}");

    let variables = machine.variables();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut terminal = Terminal::open(120);
    let program = machine.here.program("outlive");
    let mut top = terminal.start(&machine.here, &variables, [program.as_os_str(), "top".as_ref()]);
    terminal.read_until("1 live");
    terminal.read_until(&live);
    terminal.read_until("failed");
    machine.cut();
    terminal.read_until("unreachable; as it was");
    terminal.read_until("unreachable, running");
    let shown = hosts(&machine);
    assert!(shown[0]["unreachable"].is_string() && shown[0]["unreachable_ms"].is_u64(), "{shown}");
    assert_eq!(shown[0]["jobs"][1]["status"], "running", "what is known of it: {shown}");
    machine.listen();
    until("it is reached again", || hosts(&machine)[0]["unreachable"].is_null());
    terminal.write(b"q");
    assert_eq!(end_within(&mut top, LIMIT), Some(0));
    signal(server.id().cast_signed(), "TERM");
    end_within(&mut server, LIMIT);
}
