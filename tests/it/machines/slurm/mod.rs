//! Jobs that Slurm places, with a cluster of the test's own.
//!
//! Proves: a job is queued with Slurm's reason, runs on a node, and ends by our own record, be that node this machine or one whose
//! processes cannot be seen from here. Whatever Slurm loses, starts again or gives out twice: one copy, no exit code that nobody saw, no
//! stranger cancelled.

mod cluster;
mod failures;
mod on_node;
mod script;
mod taken_back;

use std::fs;

use outlive_tests::until;

use self::cluster::Cluster;
use super::Machine;

#[test]
fn a_job_is_queued_runs_on_a_node_and_ends_by_our_record() {
    let Some(cluster) = Cluster::start() else { return };
    // All of a node, so that the next one waits.
    let first = cluster.submit(
        &["--cpus", "20", "--partition", "near", "--name", "first"],
        "echo on $SLURMD_NODENAME; sleep 300",
    );
    cluster.until_running(&first);
    let shown = cluster.show(&first);
    assert_eq!(shown["placed_by"], format!("slurm {} on n1", cluster.number(&first)));
    let line = "echo secret=$SECRET here=$HERE; pwd; exit 7";
    let mut command = cluster.outlive(&[
        "run",
        "--on",
        "cluster",
        "--cpus",
        "20",
        "--partition",
        "near",
        "--env",
        "HERE=1",
        "--cwd",
        "/",
        line,
    ]);
    command.env("SECRET", "s3cret");
    let second = outlive_tests::finish(command, b"").ok().text().trim_end().to_owned();
    until("Slurm says why it waits", || {
        let shown = cluster.show(&second);
        shown["status"] == "queued"
            && shown["waits_for"].as_str().is_some_and(|text| text.contains("Resources"))
    });
    let listed = cluster.run(&["list"]).ok().text();
    assert!(listed.contains("queued: slurm: Resources"), "{listed}");
    // One that waits is ended without having been started.
    let third = cluster.submit(&["--cpus", "20", "--partition", "near"], "echo never");
    cluster.run(&["kill", &third]).ok();
    let shown = cluster.show(&third);
    assert_eq!(
        (&shown["status"], &shown["exit_code"]),
        (&"killed".into(), &serde_json::Value::Null),
        "{shown}"
    );
    assert!(
        shown["reason"].as_str().is_some_and(|reason| reason.contains("before it was started")),
        "{shown}"
    );
    cluster.run(&["kill", &format!("cluster/{first}")]).ok();
    let waited = cluster.run(&["wait", &second]).code(7);
    assert!(waited.text().contains("exited with 7"), "{}", waited.text());
    assert_eq!(cluster.run(&["logs", &second]).ok().text(), "secret= here=1\n/\n");
    assert_eq!(cluster.run(&["logs", &first]).ok().text(), "on n1\n");
    until("Slurm has the same code", || {
        cluster.said(&["scontrol", "show", "job", &cluster.number(&second)]).contains("ExitCode=7:0")
    });
    assert!(!cluster.home.job_dir(&third).join("placed").exists());
    // What Slurm refuses is not left behind.
    let refused = cluster.run(&["run", "--on", "cluster", "--partition", "none", "true"]).code(126);
    assert!(refused.error().contains("sbatch"), "{}", refused.error());
    cluster.run(&["run", "--gpus", "1", "true"]).code(2);
    assert_eq!(fs::read_dir(cluster.home.store().join("jobs")).expect("it is there").count(), 3);
}

#[test]
fn a_job_on_a_node_that_cannot_be_seen_from_here_is_read_waited_for_and_ended() {
    let Some(cluster) = Cluster::start() else { return };
    let line = "trap 'echo bye; exit 9' TERM; echo there; read x; echo got $x; sleep 300 & wait";
    let job = cluster.submit(&["--partition", "far", "--stdin", "open"], line);
    until("it prints", || cluster.run(&["logs", &job]).ok().text() == "there\n");
    let shown = cluster.show(&job);
    assert_eq!((&shown["status"], &shown["elsewhere"]), (&"running".into(), &true.into()), "{shown}");
    assert!(shown["placed_by"].as_str().is_some_and(|text| text.ends_with("on far")), "{shown}");
    // What needs the node's own processes is done in a step beside the job.
    cluster.run(&["send", &job, "hello"]).ok();
    until("it has read that", || cluster.run(&["logs", &job]).ok().text().ends_with("got hello\n"));
    cluster.run(&["pause", &job]).ok();
    cluster.run(&["resume", &job]).ok();
    let mut waiting = cluster.outlive(&["--json", "wait", &job]).spawn().expect("it starts");
    cluster.run(&["kill", &job]).ok();
    assert_eq!(outlive_tests::end_within(&mut waiting, outlive_tests::LIMIT), Some(7));
    let shown = cluster.show(&job);
    assert_eq!((&shown["status"], &shown["exit_code"]), (&"killed".into(), &9.into()), "{shown}");
    assert_eq!(cluster.run(&["logs", &job]).ok().text(), "there\ngot hello\nbye\n");
}

#[test]
fn sixty_jobs_at_once_on_three_nodes_end_each_as_it_should() {
    let Some(cluster) = Cluster::start() else { return };
    let jobs: Vec<(i32, String)> = (0..60)
        .map(|number| {
            let code = number % 10;
            (code, cluster.submit(&[], &format!("echo $SLURMD_NODENAME; exit {code}")))
        })
        .collect();
    let ids: Vec<&str> = jobs.iter().map(|(_, id)| id.as_str()).collect();
    let arguments: Vec<&str> = ["wait"].iter().chain(&ids).copied().collect();
    drop(cluster.run(&arguments).code(7));
    let mut nodes = std::collections::BTreeSet::new();
    for (code, id) in &jobs {
        assert_eq!(cluster.show(id)["exit_code"], *code, "{id}");
        nodes.insert(cluster.run(&["logs", id]).ok().text());
    }
    assert_eq!(nodes.len(), cluster::NODES.len(), "{nodes:?}");
    let marks = || {
        ["live", "waiting"]
            .map(|name| fs::read_dir(cluster.home.store().join(name)).map_or(0, Iterator::count))
    };
    until("no mark is left", || marks() == [0, 0]);
}

#[test]
fn from_a_laptop_the_login_node_submits_and_the_rest_is_as_everywhere() {
    let Some(cluster) = Cluster::start() else { return };
    let Some(login) = Machine::start_with(&format!("SLURM_CONF={}", cluster.conf().display())) else {
        return;
    };
    login.here.configure("[hosts.cluster]\naddress = \"ssh://gpu1\"\nengine = \"slurm\"\n");
    let submit = |line: &str| {
        let options = ["run", "--on", "cluster", "--cpus", "2", "--time", "10m"];
        login.run(&[&options[..], &[line]].concat()).ok().text().trim_end().to_owned()
    };
    let job = submit("echo on $SLURMD_NODENAME; exit 3");
    let bare = job.strip_prefix("cluster/").expect("the cluster's name is in the id");
    assert!(login.run(&["logs", "-f", &job]).ok().text().starts_with("on "));
    assert!(login.run(&["wait", &job]).code(7).text().contains("exited with 3"));
    let shown = login.run(&["--json", "show", &job]).ok().json();
    assert_eq!((&shown["job"], &shown["exit_code"]), (&bare.into(), &3.into()), "{shown}");
    assert!(shown["placed_by"].as_str().is_some_and(|text| text.starts_with("slurm ")), "{shown}");
    assert!(login.run(&["list", "--host", "all"]).ok().text().contains(&job));
    let endless = submit("sleep 300");
    login.run(&["kill", &endless]).ok();
    assert_eq!(login.run(&["--json", "show", &endless]).ok().json()["status"], "killed");
    // What needs the processes of a node is passed on from the login node to that.
    let options = ["run", "--on", "cluster", "--partition", "far", "--stdin", "open"];
    let line = "echo there; read x; echo got $x; sleep 300";
    let far = login.run(&[&options[..], &[line]].concat()).ok().text().trim_end().to_owned();
    until("it prints", || login.run(&["logs", &far]).ok().text() == "there\n");
    login.run(&["send", &far, "hello"]).ok();
    until("it has read that", || login.run(&["logs", &far]).ok().text().ends_with("got hello\n"));
    login.run(&["pause", &far]).ok();
    assert_eq!(login.run(&["--json", "show", &far]).ok().json()["paused"], true);
    login.run(&["resume", &far]).ok();
    assert!(login.run(&["show", "--tree", &far]).ok().text().contains("sleep 300"));
    login.run(&["kill", &far]).ok();
}

#[test]
fn a_job_of_a_project_is_placed_by_slurm() {
    let Some(cluster) = Cluster::start() else { return };
    let dir = cluster.home.make_dir("shop");
    let toml = |word: &str| {
        format!(
            "[jobs.train]\non = \"cluster\"\npartition = \"far\"\ncpus = 2\nrun = \"echo {word} $SLURMD_NODENAME; sleep 300\"\n\
             [jobs.here]\nrun = \"sleep 300\"\nafter = [\"train@started\"]\n"
        )
    };
    let write = |word: &str| fs::write(dir.join("outlive.toml"), toml(word)).expect("written");
    let run = |arguments: &[&str]| {
        let mut command = cluster.outlive(arguments);
        command.current_dir(&dir);
        outlive_tests::finish(command, b"")
    };
    write("one");
    run(&["up", "--wait"]).ok();
    let status = |name: &str| {
        let jobs = run(&["--json", "status"]).ok().json()["jobs"].clone();
        jobs.as_array().expect("a list").iter().find(|job| job["name"] == name).expect("it is there").clone()
    };
    // It is on another node.
    assert_eq!(status("train")["state"], "running, elsewhere");
    assert_eq!(status("here")["state"], "running");
    let first = status("train")["job"]["job"].as_str().expect("an id").to_owned();
    assert!(status("train")["job"]["placed_by"].as_str().is_some_and(|text| text.ends_with("on far")));
    assert!(run(&["why", "train"]).ok().text().contains(&format!("train runs as {first}")));
    until("it prints", || run(&["logs", "train"]).ok().text() == "one far\n");
    assert!(run(&["up"]).ok().text().contains(&format!("train  runs as {first}")), "it is left alone");
    write("two");
    let again = run(&["up"]).ok().text();
    assert!(again.contains("train  restarted as") && again.contains("command changed"), "{again}");
    assert_eq!(cluster.show(&first)["status"], "killed");
    let down = run(&["down"]).ok().text();
    assert!(down.contains("train ended") && down.contains("here ended"), "{down}");
    assert_eq!(cluster.run(&["--json", "list", "--live"]).ok().json().as_array().map(Vec::len), Some(0));
}
