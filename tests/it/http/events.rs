//! What happens, as it happens.
//!
//! Proves: events are those of the command line; a client that comes back misses and repeats nothing, also at another server; what is gone
//! is told as a gap; a silent stream is kept alive.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use outlive_tests::{Home, LIMIT};
use serde_json::Value;

use super::Server;

/// A stream of events that is read.
struct Events {
    lines: BufReader<UnixStream>,
}

impl Events {
    fn open(server: &Server<'_>, query: &str, last: Option<&str>) -> Self {
        let mut stream = server.connect();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let head = format!("GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n");
        stream.write_all(head.as_bytes()).expect("it is sent");
        Self { lines: BufReader::new(stream) }
    }

    /// Returns the name, the id and the data of the next event.
    fn next(&mut self) -> (String, String, Value) {
        let (mut name, mut id) = (String::new(), String::new());
        let deadline = Instant::now() + LIMIT;
        loop {
            // Comments keep the connection alive, and say nothing.
            assert!(Instant::now() < deadline, "no event has come");
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).expect("it goes on") > 0, "the stream has ended");
            if let Some(value) = line.strip_prefix("event: ") {
                name = value.trim_end().to_owned();
            } else if let Some(value) = line.strip_prefix("id: ") {
                id = value.trim_end().to_owned();
            } else if let Some(value) = line.strip_prefix("data: ") {
                return (name, id, serde_json::from_str(value).expect("JSON"));
            }
        }
    }

    /// Returns the next event that is of this kind.
    fn next_of(&mut self, kind: &str) -> (String, Value) {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            let (name, id, data) = self.next();
            if name == "event" && data["event"] == kind {
                return (id, data);
            }
        }
        panic!("no event {kind} has come");
    }
}

#[test]
fn events_come_as_they_happen_and_are_those_of_the_command_line() {
    let home = Home::new();
    let server = Server::start(&home);
    let mut events = Events::open(&server, "", None);
    assert_eq!(events.next().0, "start");
    // A client that breaks off before the first event comes back to the beginning.
    home.run(["--session", "early", "run", "--wait", "true"]).ok();
    let (name, id, _) = Events::open(&server, "?after=0", None).next();
    assert_eq!((name.as_str(), id.as_str()), ("start", "early:0"));
    let job = home.start_line("echo bye; exit 2");
    assert_eq!(events.next_of("exited").1["session"], "early");
    let (_, started) = events.next_of("started");
    assert_eq!(started["job"], job.as_str());
    let (id, ended) = events.next_of("exited");
    assert_eq!((ended["exit_code"].as_i64(), ended["tail"].as_str()), (Some(2), Some("bye\n")));
    assert!(id.split(',').any(|place| place == format!("default:{}", ended["seq"])), "{id}");
    let told = home.run(["--json", "--session", "default", "events"]).ok().text();
    let last: Value = serde_json::from_str(told.lines().last().expect("an event")).expect("JSON");
    assert_eq!(ended, last);
}

#[test]
fn a_client_that_comes_back_goes_on_where_it_was_also_at_another_server() {
    let home = Home::new();
    let server = Server::start(&home);
    home.run(["--session", "shop", "run", "--wait", "true"]).ok();
    let mut events = Events::open(&server, "?after=0", None);
    let (id, _) = events.next_of("exited");
    assert!(id.contains("shop:"), "{id}");
    drop((events, server));
    // While nobody listens.
    let missed = home.start_line("true");
    home.wait(&missed);
    let server = Server::start(&home);
    for mut events in [
        Events::open(&server, "", Some(&id)),
        Events::open(&server, &format!("?after={id}"), None),
        Events::open(&server, "?after=0&session=default", None),
    ] {
        let (_, started) = events.next_of("started");
        assert_eq!(started["job"], missed.as_str());
        assert_eq!(events.next_of("exited").1["job"], missed.as_str());
    }
    let mut one = Events::open(&server, &format!("?after=0&job={missed}"), None);
    assert_eq!(one.next_of("started").1["job"], missed.as_str());
    // What has happened so far, and no more.
    let past = server.get("/v1/events?after=0&session=default&follow=false").text();
    assert!(past.contains("\"started\"") && past.contains("\"exited\""), "{past}");
    server.get("/v1/events?after=nonsense").refused(400, "usage");
}

#[test]
fn what_is_gone_is_told_as_a_gap_once() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let first = home.start(["true"]);
    home.wait(&first);
    let mut events = Events::open(&server, "?after=0", None);
    let (id, _) = events.next_of("exited");
    // As a loss of power leaves it.
    let log = home.store().join("sessions/default/events");
    let from = std::fs::metadata(&log).expect("it is there").len();
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).expect("it is ours");
    file.write_all(&[&[0; 5000][..], b"\n"].concat()).expect("it is written");
    let second = home.start(["true"]);
    home.wait(&second);
    // The stream that is open, one that comes back, and one that begins.
    let mut streams = [
        events,
        Events::open(&server, "", Some(&id)),
        Events::open(&server, "?after=0&session=default", None),
    ];
    for (number, events) in streams.iter_mut().enumerate() {
        let mut told = Vec::new();
        let at = loop {
            let (name, at, data) = events.next();
            match name.as_str() {
                "gap" => {
                    assert_eq!(data["session"], "default");
                    let bounds = ["from", "to"].map(|end| data[end].as_u64().unwrap_or_default());
                    assert!(
                        bounds[0].abs_diff(from) < 10 && bounds[1].abs_diff(from + 5001) < 10,
                        "{data} at {from}"
                    );
                    break at;
                }
                "event" => told.push(data["job"].clone()),
                _ => {}
            }
        };
        // It stands where it is: what was before it comes before it, and the rest after it.
        assert_eq!(told.len(), if number == 2 { 2 } else { 0 }, "{told:?}");
        assert!(told.iter().all(|job| *job == first.as_str()), "{told:?}");
        assert_eq!(events.next_of("exited").1["job"], second.as_str());
        // A client that has heard of it goes on behind it.
        let mut again = Events::open(&server, "", Some(&at));
        assert_eq!(again.next().0, "start");
        let (name, _, data) = again.next();
        assert_eq!((name.as_str(), data["job"].as_str()), ("event", Some(second.as_str())));
    }
}

#[test]
fn a_silent_stream_is_kept_alive() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let mut events = Events::open(&server, "", None);
    assert_eq!(events.next().0, "start");
    let begun = Instant::now();
    let mut line = String::new();
    while !line.starts_with(':') {
        line.clear();
        assert!(events.lines.read_line(&mut line).expect("it goes on") > 0, "the stream has ended");
        assert!(begun.elapsed() < LIMIT, "no comment has come");
    }
}
