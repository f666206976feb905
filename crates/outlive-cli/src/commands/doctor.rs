//! `outlive doctor`: examine the machine and the store, and on request put what is damaged out of the way.

use std::process::ExitCode;

use outlive::duration::format_size;
use outlive::{Allowances, Finding, Machine, Survival, Versions};
use serde::Serialize;

use crate::args::Doctor;
use crate::commands::Context;
use crate::failure::{FAILED, Failure};
use crate::progress::meanwhile;
use crate::render::{Rows, answer, one_line, survival};

#[derive(Serialize)]
struct Report {
    store: String,
    version: &'static str,
    keeper: Option<String>,
    jobs: usize,
    live: usize,
    /// Live jobs whose keeper has no guard.
    unguarded: Vec<outlive::JobId>,
    machine: Machine,
    /// What can hold a job together here, the best first.
    containment: Vec<outlive::Level>,
    allowances: Allowances,
    versions: Versions,
    survives: Survival,
    findings: Vec<FindingObject>,
}

#[derive(Serialize)]
struct FindingObject {
    path: String,
    problem: String,
    action: Option<String>,
    /// What `--fix` would do about it.
    fix: Option<String>,
}

pub(crate) fn run(context: &Context, arguments: &Doctor) -> Result<ExitCode, Failure> {
    let store = &context.store;
    let examine = || store.examine(arguments.fix);
    let examination = meanwhile(context.is_json, || "examining the store".to_owned(), examine);
    let examination = examination.map_err(|error| Failure::other("doctor", &error))?;
    let is_open = examination.findings.iter().any(|finding| !finding.is_handled);
    let report = Report {
        store: store.root().display().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        keeper: store.keeper_program().map(|path| path.display().to_string()),
        jobs: examination.jobs,
        live: examination.live,
        unguarded: examination.unguarded,
        machine: Machine::here(store.root()),
        containment: outlive::levels(),
        allowances: store.allowances(),
        versions: store.versions(),
        survives: Survival::here(),
        findings: examination.findings.into_iter().map(object).collect(),
    };
    answer(context.is_json, &report, || text(&report))?;
    Ok(if is_open { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn object(Finding { path, problem, action, fix, .. }: Finding) -> FindingObject {
    FindingObject { path: path.display().to_string(), problem, action, fix }
}

fn text(report: &Report) -> String {
    let mut rows = Rows::default();
    rows.add("store", Some(&report.store));
    rows.add("version", Some(report.version));
    let keeper = report.keeper.as_deref().unwrap_or("none found");
    let version = report.versions.keeper.as_deref().unwrap_or("of unknown version");
    let others = report.versions.live_jobs_of_others.iter();
    let others = others.map(|other| format!("{other} was started by another version"));
    rows.add("keeper", std::iter::once(format!("{keeper}, {version}")).chain(others));
    rows.add("jobs", Some(format!("{}, {} live", report.jobs, report.live)));
    let kept = match (report.live, report.unguarded.as_slice()) {
        (0, _) => vec![],
        (_, []) => vec!["each live job has a keeper, and a guard that goes on if that dies".to_owned()],
        (_, jobs) => jobs.iter().map(|job| format!("{job} has a keeper and no guard")).collect(),
    };
    rows.add("guards", kept);
    rows.add("kernel", Some(&report.machine.kernel));
    let there = report.machine.features.iter().filter(|feature| feature.available);
    rows.add("has", Some(there.map(|feature| feature.name).collect::<Vec<_>>().join(", ")));
    for feature in &report.machine.features {
        rows.add("lacks", feature.without.map(|without| format!("{}: {without}", feature.name)));
    }
    let levels: Vec<&str> = report.containment.iter().map(|level| level.word()).collect();
    rows.add("contains", Some(levels.join(", ")));
    rows.add("limits", allowances(&report.allowances));
    rows.add("survives", survival(&report.survives));
    let mut text = rows.text(|_, cell| cell.into());
    for finding in &report.findings {
        let action = match (&finding.action, &finding.fix) {
            (Some(action), _) => action.clone(),
            (None, Some(fix)) => format!("outlive doctor --fix {fix}"),
            (None, None) => "nothing was done about it".to_owned(),
        };
        let (path, problem) = (one_line(&finding.path), one_line(&finding.problem));
        text.push_str(&format!("\n{path}\n  {problem}\n  {}\n", one_line(&action)));
    }
    if report.findings.is_empty() {
        text.push_str("\nnothing is wrong\n");
    }
    text
}

fn allowances(allowances: &Allowances) -> [String; 4] {
    let size = |bytes: Option<u64>, other: &str| bytes.map_or_else(|| other.to_owned(), format_size);
    let count = |count: Option<u64>| count.map_or_else(|| "any number".to_owned(), |count| count.to_string());
    let Allowances { live_jobs, live_jobs_limit, session_jobs_limit, .. } = allowances;
    let reserved = size(allowances.reserved_bytes, "nothing");
    let room = size(allowances.bytes_limit, "any number of bytes");
    let (files, most) = (count(allowances.open_files), count(allowances.open_files_most));
    let (watchers, watches) = (count(allowances.watchers), count(allowances.watches));
    [
        format!("{live_jobs} of {live_jobs_limit} live jobs; {session_jobs_limit} in a session"),
        format!("{reserved} of {room} reserved for output"),
        format!("{files} open files, {most} at most"),
        format!("{watchers} watchers with {watches} watches together"),
    ]
}
