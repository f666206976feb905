//! Figures for Prometheus: by session and status, never by job, because jobs come and go without end.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use outlive::{Failure, JobObject, Status, Store};

use crate::access::Caller;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// What is known of a session's jobs.
#[derive(Default)]
struct Sums {
    by_status: BTreeMap<&'static str, u64>,
    live: u64,
    cpu_ms: u64,
    memory: u64,
    processes: u64,
    output: u64,
    restarts: u64,
    asking: u64,
}

/// Figures for Prometheus; those of processes are of whole trees.
#[utoipa::path(get, path = "/metrics", tag = "server", security(("token" = ["view"])),
    responses((status = 200, description = "In the text format of Prometheus", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(shared): State<Shared>, caller: Caller) -> Result<Response, Problem> {
    let connections = shared.connections.load(Ordering::Relaxed);
    let text = work::quick(&shared, move |store| Ok(text(&sums(store, &caller)?, connections))).await?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

fn sums(store: &Store, caller: &Caller) -> Result<BTreeMap<String, Sums>, Failure> {
    let listing = store.list(caller.session.as_ref()).map_err(|error| Failure::other("metrics", &error))?;
    let mut sessions: BTreeMap<String, Sums> = BTreeMap::new();
    for job in listing.jobs {
        let state = job.state(store);
        let sums = sessions.entry(job.session().to_string()).or_default();
        let object = JobObject::new(&job, &state);
        *sums.by_status.entry(state.status.word()).or_default() += 1;
        sums.output += object.output.bytes;
        sums.restarts += u64::from(object.previous.is_some());
        sums.asking += u64::from(object.awaits.is_some());
        if state.is_live() {
            let usage = job.usage(&state, job.tree(store, &state).as_ref());
            sums.live += 1;
            sums.cpu_ms += usage.cpu_ms.unwrap_or(0);
            sums.memory += usage.memory_bytes.unwrap_or(0);
            sums.processes += usage.processes.unwrap_or(0);
        }
    }
    Ok(sessions)
}

fn text(sessions: &BTreeMap<String, Sums>, connections: usize) -> String {
    let mut text = String::new();
    let mut add = |line: String| writeln!(text, "{line}").expect("writing to a string cannot fail");
    add("# HELP outlive_jobs Jobs in the store.\n# TYPE outlive_jobs gauge".to_owned());
    for (session, sums) in sessions {
        for word in Status::WORDS {
            let count = sums.by_status.get(word).copied().unwrap_or(0);
            add(format!("outlive_jobs{{session=\"{session}\",status=\"{word}\"}} {count}"));
        }
    }
    type Figure = fn(&Sums) -> String;
    let figures: [(&str, &str, Figure); 7] = [
        ("outlive_jobs_live", "Jobs of which something runs.", |sums| sums.live.to_string()),
        ("outlive_jobs_asking", "Jobs that wait for an answer.", |sums| sums.asking.to_string()),
        ("outlive_jobs_restarted", "Jobs in the store that are another run of an earlier one.", |sums| {
            sums.restarts.to_string()
        }),
        ("outlive_live_cpu_seconds", "Processor time of the live jobs, all their processes.", |sums| {
            format!("{}.{:03}", sums.cpu_ms / 1000, sums.cpu_ms % 1000)
        }),
        ("outlive_live_memory_bytes", "Memory of the live jobs, all their processes.", |sums| {
            sums.memory.to_string()
        }),
        ("outlive_live_processes", "Processes of the live jobs.", |sums| sums.processes.to_string()),
        ("outlive_output_bytes", "What the jobs in the store have printed.", |sums| sums.output.to_string()),
    ];
    for (name, help, figure) in figures {
        add(format!("# HELP {name} {help}\n# TYPE {name} gauge"));
        for (session, sums) in sessions {
            add(format!("{name}{{session=\"{session}\"}} {}", figure(sums)));
        }
    }
    add("# HELP outlive_server_connections Connections to this server.\n# TYPE outlive_server_connections gauge".to_owned());
    add(format!("outlive_server_connections {connections}"));
    text
}
