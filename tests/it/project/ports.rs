//! Ports of a project's jobs: given out, the same each time, and told when another process has one.
//!
//! Proves that `$PORT` is the port that a job is then found to listen on, or that the difference is told.

use std::net::TcpListener;

use outlive_tests::Home;
use serde_json::Value;

use super::Project;

/// Listens where it is told to, and prints it.
const SERVER: &str = "import http.server, os, sys\nport = int(sys.argv[1] if len(sys.argv) > 1 else os.environ['PORT'])\nhttp.server.HTTPServer(('127.0.0.1', port), http.server.SimpleHTTPRequestHandler).serve_forever()\n";

/// Returns the variables that a job was given.
fn added(home: &Home, job: &str) -> Value {
    let spec = std::fs::read(home.job_dir(job).join("spec.json")).expect("it is there");
    serde_json::from_slice::<Value>(&spec).expect("JSON")["env_set"].clone()
}

#[test]
fn a_port_is_the_same_each_time_and_others_learn_it() {
    // mulmoterminal#1367, aiwatch#852: two worktrees had the same port.
    let home = Home::new();
    let toml = "name = \"shop\"\n[jobs.my-api]\nrun = \"exec python3 server.py\"\nport = \"auto\"\n\
                [jobs.once]\nrun = \"true\"\nafter = [\"my-api\"]\n\
                [jobs.web]\nrun = \"sleep 300\"\nafter = [\"once@succeeded\"]\n";
    let (one, two) = (Project::new(&home, "one", toml), Project::new(&home, "two", toml));
    for project in [&one, &two] {
        project.write("server.py", SERVER);
        project.run(&["up", "--wait"]).ok();
        assert_eq!(project.state("my-api"), "running, ready");
    }
    let port = |project: &Project<'_>| added(&home, &project.id("my-api"))["PORT"].clone();
    let first = port(&one);
    assert_ne!(first, port(&two));
    // Directly, and through another.
    for name in ["once", "web"] {
        assert_eq!(added(&home, &one.id(name))["MY_API_PORT"], first, "{name}");
    }
    let url = one.status("my-api")["job"]["ready_url"].clone();
    assert!(url.as_str().expect("an address").contains(first.as_str().expect("a number")), "{url}");
    // A second `up` finds its own job there, and is not disturbed.
    assert!(one.run(&["up", "--wait"]).ok().error().contains("nothing to do"));
    one.run(&["down"]).ok();
    one.run(&["up", "--wait"]).ok();
    assert_eq!(port(&one), first);
    // Where another process has it, it is another.
    one.run(&["down"]).ok();
    let taken =
        TcpListener::bind(format!("127.0.0.1:{}", first.as_str().expect("a number"))).expect("it is free");
    one.run(&["up", "--wait"]).ok();
    assert_ne!(port(&one), first);
    drop(taken);
}

#[test]
fn a_port_that_is_taken_is_told_with_its_holder() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it is bound").port();
    let project = Project::new(&home, "shop", &format!("[jobs.web]\nrun = \"sleep 300\"\nport = {port}\n"));
    let said = project.run(&["up", "--wait"]).code(1).text();
    assert!(
        said.contains(&format!("not started: port {port} is taken by pid {}", std::process::id())),
        "{said}"
    );
    drop(taken);
    let script = project.dir.join("server.py");
    std::fs::write(&script, SERVER).expect("the directory is there");
    let job = home.start_with(
        &["--ready-port", &port.to_string()],
        ["python3", script.to_str().expect("UTF-8"), &port.to_string()],
    );
    home.run(["wait", &job, "--ready"]).ok();
    let said = project.run(&["up", "--wait"]).code(1).text();
    assert!(said.contains(&format!("port {port} is taken by job {job} of session default")), "{said}");
    assert!(project.live().is_empty());
}

#[test]
fn a_server_that_does_not_read_the_port_is_told() {
    // Castwright#2345: the assigned port was one that the server never read.
    let home = Home::new();
    let other = outlive_tests::free_port();
    let toml = format!("[jobs.web]\nrun = \"exec python3 server.py {other}\"\nport = \"auto\"\n");
    let project = Project::new(&home, "shop", &toml);
    project.write("server.py", SERVER);
    project.run(&["up"]).ok();
    let expected = format!("but on {other}: does it read $PORT?");
    outlive_tests::until("it listens", || project.run(&["why", "web"]).ok().text().contains(&expected));
}
