//! A real stack: PostgreSQL, a migration that runs once, an API that needs both, a worker and a web server.
//!
//! Proves that it comes up in order from nothing, that a second `up` starts nothing, that one service is changed alone, that a killed
//! database comes back, and that `down` leaves no process.

use std::io::{Read, Write};
use std::net::TcpStream;

use outlive_tests::{Home, User, finish, lacks, until};

use super::Project;
use crate::ready::postgresql;

/// Answers with what the database says.
const API: &str = r#"
import http.server, os, subprocess
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = subprocess.run(["psql", "-Atc", "select count(*) from things"], capture_output=True)
        self.send_response(200 if asked.returncode == 0 else 500)
        self.end_headers()
        self.wfile.write(os.environ["GREETING"].encode() + b" " + asked.stdout)
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;

fn get(port: &str) -> String {
    let mut answer = String::new();
    let Ok(mut stream) = TcpStream::connect(format!("127.0.0.1:{port}")) else { return answer };
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it takes a request");
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_real_stack_comes_up_is_changed_and_goes_down() {
    let Some(programs) = postgresql() else {
        lacks("PostgreSQL (package postgresql)");
        return;
    };
    // It refuses to run as root.
    let home = Home::of(User::all().pop().expect("there is one"));
    let mut init = home.command(programs.join("initdb"));
    init.args(["--auth", "trust", "--no-sync", "--username", "test", "--no-locale", "--pgdata"])
        .arg(home.path().join("data"));
    finish(init, b"").ok();
    let (bin, place) = (programs.display(), home.path().display());
    let client = "PGHOST = \"127.0.0.1\", PGUSER = \"test\", PGDATABASE = \"postgres\"";
    let toml = format!(
        r#"
[jobs.db]
run = "exec {bin}/postgres -D {place}/data -p $PORT -k {place} -h 127.0.0.1 -F"
port = "auto"
ready = {{ line = "ready to accept connections" }}
stop = "INT"

[jobs.migrate]
run = "export PGPORT=$DB_PORT; {bin}/psql -c 'create table if not exists things (id int)'"
env = {{ {client} }}
after = ["db"]

[jobs.api]
run = "export PGPORT=$DB_PORT PATH={bin}:$PATH; exec python3 api.py"
env = {{ {client}, GREETING = "hello" }}
port = "auto"
after = ["db@ready", "migrate@succeeded"]

[jobs.worker]
run = "export PGPORT=$DB_PORT; {bin}/psql -c 'insert into things values (1)'; exec sleep 300"
env = {{ {client} }}
after = ["db@ready", "migrate@succeeded"]

[jobs.web]
run = "exec python3 -m http.server $PORT"
port = "auto"
"#
    );
    let project = Project::new(&home, "shop", &toml);
    project.write("api.py", API);
    let names = ["api", "db", "web", "worker"];
    project.run(&["up", "--wait"]).ok();
    assert_eq!(
        (project.live(), project.state("migrate")),
        (names.map(str::to_owned).to_vec(), "completed".into())
    );
    let port = |name: &str| {
        let url = project.status(name)["job"]["ready_url"].as_str().expect("an address").to_owned();
        url.rsplit(':').next().expect("a port").to_owned()
    };
    until("the worker has done its work", || {
        get(&port("api")).contains("200 OK") && get(&port("api")).ends_with("hello 1\n")
    });

    let ids = |project: &Project<'_>| ["db", "migrate", "api", "worker", "web"].map(|name| project.id(name));
    let before = ids(&project);
    assert!(project.run(&["up", "--wait"]).ok().error().contains("nothing to do"));
    assert_eq!(ids(&project), before, "nothing is started");

    project.write("outlive.toml", &toml.replace("\"hello\"", "\"good day\""));
    let said = project.run(&["up", "--wait"]).ok().text();
    assert!(said.contains("environment changed"), "{said}");
    let changed: Vec<bool> = ids(&project).iter().zip(&before).map(|(id, before)| id != before).collect();
    assert_eq!(changed, [false, false, true, false, false]);
    assert!(get(&port("api")).ends_with("good day 1\n"));

    // The database is killed: the others go on, it comes back with its data, at the same port.
    home.run(["kill", "--force", &project.id("db")]).ok();
    assert!(get(&port("api")).contains("500"));
    let before = ids(&project);
    project.run(&["up", "--wait"]).ok();
    let changed: Vec<bool> = ids(&project).iter().zip(&before).map(|(id, before)| id != before).collect();
    assert_eq!(changed, [true, false, false, false, false]);
    assert!(get(&port("api")).ends_with("good day 1\n"));

    project.run(&["down"]).ok();
    assert!(project.live().is_empty());
    until("nothing is left", || home.processes().is_empty());
}
