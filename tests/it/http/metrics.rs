//! Figures for Prometheus.
//!
//! Proves: they are of whole trees, by session and never by job; what is called a total only ever grows, also when jobs are removed.

use outlive_tests::{Home, until};
use serde_json::json;

use super::{Reply, Server};

/// Returns the figure of a metric with these labels; -1 where there is none.
fn figure(reply: &Reply, name: &str) -> f64 {
    let text = reply.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.and_then(|line| line.parse().ok()).unwrap_or(-1.0)
}

#[test]
fn metrics_count_jobs_and_what_whole_trees_use() {
    let home = Home::new();
    let server = Server::start(&home);
    server.run("sleep 300 & sleep 300");
    home.run(["--session", "shop", "run", "--wait", "exit 3"]).code(3);
    let all = || server.get("/metrics");
    assert_eq!(all().header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(figure(&all(), "outlive_jobs{session=\"default\",status=\"running\"}"), 1.0);
    assert_eq!(figure(&all(), "outlive_jobs{session=\"shop\",status=\"failed\"}"), 1.0);
    until("the tree is counted", || figure(&all(), "outlive_job_processes{session=\"default\"}") >= 3.0);
    assert!(figure(&all(), "outlive_job_memory_bytes{session=\"default\"}") > 0.0);
    assert!(figure(&all(), "outlive_store_bytes{session=\"shop\"}") > 0.0);
    assert_eq!(figure(&all(), "outlive_keepers{session=\"default\"}"), 1.0);
    assert_eq!(figure(&all(), "outlive_keepers{session=\"shop\"}"), 0.0);
    // A token for one session is told of that one alone.
    let token = server.token("one", &["--scope", "view", "--session", "shop"]);
    let reply = server.tcp("GET", "/metrics", &[&server.host(), &token], "");
    assert!(
        reply.text().contains("session=\"shop\"") && !reply.text().contains("default"),
        "{}",
        reply.text()
    );
}

#[test]
fn totals_only_ever_grow() {
    const TOTALS: [&str; 4] = [
        "outlive_job_cpu_seconds_total",
        "outlive_job_output_bytes_total",
        "outlive_job_restarts_total",
        "outlive_events_total",
    ];
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let now = || {
        let reply = server.get("/metrics");
        TOTALS.map(|name| figure(&reply, &format!("{name}{{session=\"default\"}}")))
    };
    let busy = "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done; echo done";
    let first = home.start(["sh", "-c", busy]);
    home.wait(&first);
    let one = now();
    assert!(one[0] > 0.0 && one[1] == 5.0 && one[2] == 0.0 && one[3] >= 2.0, "{one:?}");
    // Nothing is counted twice.
    assert_eq!(now(), one);
    home.run(["rm", &first]).ok();
    assert_eq!(now()[..3], one[..3]);
    let second = home.start(["sh", "-c", busy]);
    home.wait(&second);
    let third = server.post(&format!("/v1/jobs/{second}/restart"), json!({})).ok()["job"]
        .as_str()
        .expect("an id")
        .to_owned();
    home.wait(&third);
    let two = now();
    assert!(two[0] > one[0] && two[1] == 15.0 && two[2] == 1.0 && two[3] > one[3], "{two:?}");
}
