//! A real stack: PostgreSQL, a migration that runs once, an API that needs both, a worker, and a server for developing that asks the API.
//!
//! Proves that it comes up in order from nothing, that a second `up` starts nothing, that one service is changed alone, that the API loses its
//! health with the database and regains it, that a changed source restarts the server, and that `down` leaves no process.

use std::io::{Read, Write};
use std::net::TcpStream;

use outlive_tests::{Home, User, finish, free_port, lacks, pid, signal, until};

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

/// Passes on what the API says, behind a word of its own.
const WEB: &str = r#"
const http = require("http");
http.createServer((request, answer) => {
    http.get({ host: "127.0.0.1", port: process.env.API_PORT }, (api) => {
        answer.statusCode = api.statusCode;
        answer.write("page: ");
        api.pipe(answer);
    }).on("error", () => { answer.statusCode = 502; answer.end(); });
}).listen(process.env.PORT, "127.0.0.1", () => console.log("listening"));
"#;

fn get(port: &str) -> String {
    let mut answer = String::new();
    let Ok(mut stream) = TcpStream::connect(format!("127.0.0.1:{port}")) else { return answer };
    // A server that is restarted meanwhile answers nothing.
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok();
    stream.read_to_string(&mut answer).ok();
    answer
}

#[test]
fn a_real_stack_comes_up_is_changed_and_goes_down() {
    let Some(programs) = postgresql() else {
        lacks("PostgreSQL (package postgresql)");
        return;
    };
    if std::process::Command::new("node")
        .arg("--version")
        .stdout(std::process::Stdio::null())
        .status()
        .is_err()
    {
        return lacks("node");
    }
    // It refuses to run as root.
    let home = Home::of(User::all().pop().expect("there is one"));
    let mut init = home.command(programs.join("initdb"));
    init.args(["--auth", "trust", "--no-sync", "--username", "test", "--no-locale", "--pgdata"])
        .arg(home.path().join("data"));
    finish(init, b"").ok();
    let (bin, place) = (programs.display(), home.path().display());
    let api_port = free_port().to_string();
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
port = {api_port}
after = ["db@ready", "migrate@succeeded"]
health = {{ http = "http://127.0.0.1:{api_port}/", interval = "1s", failures = 2 }}

[jobs.worker]
run = "export PGPORT=$DB_PORT; {bin}/psql -c 'insert into things values (1)'; exec sleep 300"
env = {{ {client} }}
after = ["db@ready", "migrate@succeeded"]

[jobs.web]
run = "exec node web/server.js"
port = "auto"
after = ["api"]
watch = ["web/**"]
"#
    );
    let project = Project::new(&home, "shop", &toml);
    project.write("api.py", API);
    std::fs::create_dir(project.dir.join("web")).expect("a directory");
    project.write("web/server.js", WEB);
    let names = ["api", "db", "web", "worker"];
    project.run(&["up", "--wait"]).ok();
    assert_eq!(
        (project.live(), project.state("migrate")),
        (names.map(str::to_owned).to_vec(), "completed".into())
    );
    let web_port = project.status("web")["job"]["ready_url"].as_str().expect("an address").to_owned();
    let web_port = web_port.rsplit(':').next().expect("a port");
    until("the worker has done its work", || {
        get(&api_port).contains("200 OK") && get(&api_port).ends_with("hello 1\n")
    });
    until("the page shows it", || {
        let page = get(web_port);
        page.contains("page: ") && page.contains("hello 1")
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
    assert!(get(&api_port).ends_with("good day 1\n"));

    // The database is killed: the others go on, and the API says that it is ill.
    let healthy = |name: &str| project.status(name)["job"]["healthy"].as_bool();
    until("the API was found healthy", || healthy("api") == Some(true));
    let before = ids(&project);
    signal(pid(&project.status("db")["job"], "pid"), "KILL");
    until("the database has ended", || project.state("db").starts_with("failed"));
    assert!(get(&api_port).contains("500"));
    until("the API is ill", || healthy("api") == Some(false));
    assert_eq!(project.state("api"), "running, unhealthy, not ready");
    assert_eq!(ids(&project), before, "nothing but the database has ended");
    // It comes back with its data, at the same port.
    project.run(&["up", "--wait"]).ok();
    let changed: Vec<bool> = ids(&project).iter().zip(&before).map(|(id, before)| id != before).collect();
    assert_eq!(changed, [true, false, false, false, false]);
    until("the API is well again", || {
        healthy("api") == Some(true) && project.state("api") == "running, ready"
    });
    assert!(get(&api_port).ends_with("good day 1\n"));

    // A change of its source restarts the server alone.
    let before = ids(&project);
    project.write("web/server.js", &WEB.replace("page: ", "new page: "));
    until("the page is new", || get(web_port).contains("new page: "));
    let changed: Vec<bool> = ids(&project).iter().zip(&before).map(|(id, before)| id != before).collect();
    assert_eq!(changed, [false, false, false, false, true]);

    project.run(&["down"]).ok();
    assert!(project.live().is_empty());
    until("nothing is left", || home.processes().is_empty());
}
