//! Figures for Prometheus: by session and status, never by job, because jobs come and go without end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use outlive::{Failure, JobId, JobObject, SessionName, Status, Store};

use crate::access::Caller;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// What is so now of a session's jobs.
#[derive(Default)]
struct Sums {
    by_status: BTreeMap<&'static str, u64>,
    live: u64,
    keepers: u64,
    memory: u64,
    processes: u64,
    asking: u64,
    disk: u64,
    totals: Totals,
}

/// What was counted of a session since this server was started, jobs that were removed since included: a total must not become less.
/// With another server it begins anew, as Prometheus expects.
#[derive(Debug, Default, Clone, Copy)]
struct Totals {
    cpu_ms: u64,
    output: u64,
    restarts: u64,
    events: u64,
}

/// The totals, and up to where they were counted.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    totals: BTreeMap<String, Totals>,
    jobs: HashMap<JobId, Job>,
    /// The position in each session's events.
    events: HashMap<SessionName, u64>,
}

/// What was counted of a job.
#[derive(Debug)]
struct Job {
    session: String,
    cpu_ms: u64,
    output: u64,
}

impl Counts {
    fn count_job(&mut self, object: &JobObject, cpu_ms: u64) {
        let totals = self.totals.entry(object.session.clone()).or_default();
        let counted = self.jobs.entry(object.job.clone()).or_insert_with(|| {
            totals.restarts += u64::from(object.previous.is_some());
            Job { session: String::new(), cpu_ms: 0, output: 0 }
        });
        counted.session.clone_from(&object.session);
        // Processes that have ended unobserved are missing from a later sum.
        totals.cpu_ms += cpu_ms.saturating_sub(counted.cpu_ms);
        totals.output += object.output.bytes.saturating_sub(counted.output);
        counted.cpu_ms = counted.cpu_ms.max(cpu_ms);
        counted.output = counted.output.max(object.output.bytes);
    }

    fn count_events(&mut self, store: &Store, session: &SessionName) {
        let counted = self.events.entry(session.clone()).or_default();
        let length = store.events_length(session);
        // It was started over.
        if length < *counted {
            *counted = 0;
        }
        if length > *counted {
            let mut events = store.events(session, *counted);
            let count = events.read().map_or(0, |events| events.len() as u64);
            *counted = events.position();
            self.totals.entry(session.to_string()).or_default().events += count;
        }
    }
}

/// Figures for Prometheus; those of processes are of whole trees.
#[utoipa::path(get, path = "/metrics", tag = "server", security(("token" = ["view"])),
    responses((status = 200, description = "In the text format of Prometheus", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(shared): State<Shared>, caller: Caller) -> Result<Response, Problem> {
    let connections = shared.connections.load(Ordering::Relaxed);
    let counted = shared.clone();
    let text = work::quick(&shared, move |store| {
        let sums =
            sums(store, &caller, &counted.counted).map_err(|error| Failure::other("metrics", &error))?;
        Ok(text(&sums, connections))
    });
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.await?).into_response())
}

fn sums(store: &Store, caller: &Caller, counted: &Counted) -> std::io::Result<BTreeMap<String, Sums>> {
    let is_seen = |session: &str| caller.session.as_ref().is_none_or(|own| own.as_str() == session);
    let mut counts = counted.0.lock().unwrap_or_else(PoisonError::into_inner);
    let listing = store.list(caller.session.as_ref())?;
    let mut sessions: BTreeMap<String, Sums> = BTreeMap::new();
    let known: HashSet<JobId> = listing.jobs.iter().map(|job| job.id().clone()).collect();
    // What was moved to a session that this caller does not see is not counted once more there.
    let is_there = |id: &JobId| store.find(id.as_str(), None).is_ok();
    counts.jobs.retain(|id, job| known.contains(id) || !is_seen(&job.session) || is_there(id));
    for job in listing.jobs {
        let state = job.state(store);
        let sums = sessions.entry(job.session().to_string()).or_default();
        let object = JobObject::new(&job, &state);
        let tree = state.is_live().then(|| job.tree(store, &state)).flatten();
        let usage = job.usage(&state, tree.as_ref());
        *sums.by_status.entry(state.status.word()).or_default() += 1;
        sums.asking += u64::from(object.awaits.is_some());
        sums.disk += job.disk_bytes();
        if state.is_live() {
            sums.live += 1;
            sums.keepers += u64::from(!object.orphaned && !object.elsewhere);
            sums.memory += usage.memory_bytes.unwrap_or(0);
            sums.processes += usage.processes.unwrap_or(0);
        }
        counts.count_job(&object, usage.cpu_ms.unwrap_or(0));
    }
    for session in store.sessions()?.iter().filter(|session| is_seen(session.as_str())) {
        counts.count_events(store, session);
    }
    for (session, &totals) in counts.totals.iter().filter(|(session, _)| is_seen(session)) {
        sessions.entry(session.clone()).or_default().totals = totals;
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
    let figures: [(&str, &str, Figure); 10] = [
        ("outlive_jobs_live", "Jobs of which something runs.", |sums| sums.live.to_string()),
        ("outlive_jobs_asking", "Jobs that wait for an answer.", |sums| sums.asking.to_string()),
        ("outlive_job_cpu_seconds_total", "Processor time of jobs, all their processes.", |sums| {
            format!("{}.{:03}", sums.totals.cpu_ms / 1000, sums.totals.cpu_ms % 1000)
        }),
        ("outlive_job_memory_bytes", "Memory of the live jobs, all their processes.", |sums| {
            sums.memory.to_string()
        }),
        ("outlive_job_processes", "Processes of the live jobs.", |sums| sums.processes.to_string()),
        ("outlive_job_output_bytes_total", "What jobs have printed.", |sums| sums.totals.output.to_string()),
        ("outlive_job_restarts_total", "Jobs that are another run of an earlier one.", |sums| {
            sums.totals.restarts.to_string()
        }),
        ("outlive_events_total", "Events of jobs.", |sums| sums.totals.events.to_string()),
        ("outlive_store_bytes", "Size of the files of the jobs in the store.", |sums| sums.disk.to_string()),
        ("outlive_keepers", "Keepers of the live jobs.", |sums| sums.keepers.to_string()),
    ];
    for (name, help, figure) in figures {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        add(format!("# HELP {name} {help}\n# TYPE {name} {kind}"));
        for (session, sums) in sessions {
            add(format!("{name}{{session=\"{session}\"}} {}", figure(sums)));
        }
    }
    add("# HELP outlive_server_connections Connections to this server.\n# TYPE outlive_server_connections gauge".to_owned());
    add(format!("outlive_server_connections {connections}"));
    text
}
