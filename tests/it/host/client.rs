//! The client for programs.
//!
//! Proves: the API as functions works over a socket, over killed servers, and over a pair of pipes.

use std::process::Stdio;

use outlive_remote::{Call, Channel, Client, Connection, End, Filter, Followed, RemoteError, Said, Start};
use outlive_tests::{Home, LIMIT, end_within, until};
use serde_json::json;

use super::Served;

#[test]
fn a_program_starts_follows_waits_and_ends() {
    let home = Home::new();
    let mut server = Served::start(&home);
    let client = Client::new(server.address().parse().expect("an address"));
    let mut start =
        Start::line("i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; sleep 0.002; done; exit 3");
    start.cwd = Some(home.path().display().to_string());
    start.options.insert("name".to_owned(), json!("counts"));
    let job = client.start(&start).expect("it starts");
    assert_eq!((job.name.as_deref(), job.status.as_str()), (Some("counts"), "running"));
    assert_eq!(client.jobs(&Filter { is_live: true, ..Filter::default() }).expect("a list").total, 1);
    let mut events = client.events(Some("0")).expect("a stream");
    assert_eq!(events.receive().expect("the beginning").kind, "start");
    assert_eq!(events.receive().expect("an event").object["job"], job.job.as_str());
    let (mut follow, mut bytes, mut kills) = (client.follow(&job.job, 0), Vec::new(), 0);
    loop {
        match follow.receive() {
            Ok(Followed::Bytes(offset, more)) => {
                assert_eq!(offset, bytes.len() as u64);
                bytes.extend(more);
            }
            Ok(Followed::Gone(..)) => panic!("all is kept"),
            Ok(Followed::End) => break,
            Err(error) => assert!(error.is_passing(), "{error}"),
        }
        if bytes.len() > 2000 * (kills + 1) && kills < 3 {
            kills += 1;
            server.restart();
        } else if kills == 3 && bytes.len() > 8000 {
            std::fs::write(home.path().join("stop"), "").expect("written");
        }
    }
    assert!(bytes == home.logs(&job.job), "{} bytes", bytes.len());
    let waited = client.wait(&job.job, None).expect("an answer");
    assert_eq!((waited.outcome.as_str(), waited.job.exit_code), ("exit", Some(3)));
    let inbox = client.inbox("default", "me").expect("an inbox");
    client.acknowledge("default", "me", inbox.up_to).expect("acknowledged");
    assert!(client.kill(&job.job).expect("an answer").already_ended);
    client.remove(&job.job).expect("removed");
    match client.job(&job.job) {
        Err(RemoteError::Refused(failure)) => assert_eq!(failure.code, outlive::Code::NotFound),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.sessions().expect("a list").len(), 0);
}

#[test]
fn a_pair_of_pipes_is_enough() {
    let home = Home::new();
    let job = home.start(["sh", "-c", "echo hi; exit 2"]);
    home.wait(&job);
    let mut command = home.outlive(["rpc"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let (reader, writer) = (child.stdout.take().expect("piped"), child.stdin.take().expect("piped"));
    let call = Call {
        arguments: ["logs", &job].iter().map(|word| outlive::RawText::from(word.as_bytes())).collect(),
        stdout: End::Pipe,
        stderr: End::Pipe,
        ..Call::default()
    };
    let mut channel = Channel::open(Connection::over(reader, writer, "pipes"), &call).expect("a channel");
    let mut printed = Vec::new();
    loop {
        match channel.receive().expect("it goes on") {
            Said::Stdout(bytes) => printed.extend(bytes),
            Said::Exit(code) => {
                assert_eq!(code, 0);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(printed, b"hi\n");
    drop(channel);
    assert_eq!(end_within(&mut child, LIMIT), Some(0), "it ends with its connection");
    // A client that goes in the middle leaves nothing.
    let mut command = home.outlive(["rpc"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let (reader, writer) = (child.stdout.take().expect("piped"), child.stdin.take().expect("piped"));
    let words = ["events", "-f"].iter().map(|word| outlive::RawText::from(word.as_bytes())).collect();
    let call = Call { arguments: words, stdout: End::Pipe, ..Call::default() };
    let mut channel = Channel::open(Connection::over(reader, writer, "pipes"), &call).expect("a channel");
    assert!(matches!(channel.receive(), Ok(Said::Stdout(_))));
    drop(channel);
    assert_eq!(end_within(&mut child, LIMIT), Some(0));
    until("nothing is left of the verb", || home.processes().is_empty());
}
