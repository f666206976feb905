//! `outlive doctor`: examine the machine and the store, and on request put what is damaged out of the way.

use std::process::ExitCode;

use outlive::duration::format_size;
use outlive::{Allowances, Machine, Survival, Versions};
use serde::Serialize;

use crate::args::Doctor;
use crate::commands::Context;
use crate::failure::{FAILED, Failure};
use crate::render::{one_line, print, print_json};

#[derive(Serialize)]
struct Report {
    store: String,
    version: &'static str,
    keeper: Option<String>,
    jobs: usize,
    live: usize,
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
    let examination = store.examine(arguments.fix).map_err(|error| Failure::other("doctor", &error))?;
    let is_open = examination.findings.iter().any(|finding| !finding.is_handled);
    let report = Report {
        store: store.root().display().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        keeper: store.keeper_program().map(|path| path.display().to_string()),
        jobs: examination.jobs,
        live: examination.live,
        machine: Machine::here(store.root()),
        containment: outlive::levels(),
        allowances: store.allowances(),
        versions: store.versions(),
        survives: Survival::here(),
        findings: examination
            .findings
            .into_iter()
            .map(|finding| FindingObject {
                path: finding.path.display().to_string(),
                problem: finding.problem,
                action: finding.action,
                fix: finding.fix,
            })
            .collect(),
    };
    if context.is_json {
        print_json(&report)?;
    } else {
        print(&text(&report));
    }
    Ok(if is_open { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| text.push_str(&format!("{name:<9} {}\n", one_line(value)));
    row("store", &report.store);
    row("version", report.version);
    let keeper = report.keeper.as_deref().unwrap_or("none found");
    let version = report.versions.keeper.as_deref().unwrap_or("of unknown version");
    row("keeper", &format!("{keeper}, {version}"));
    for other in &report.versions.live_jobs_of_others {
        row("", &format!("{other} was started by another version"));
    }
    row("jobs", &format!("{}, {} live", report.jobs, report.live));
    row("kernel", &report.machine.kernel);
    let there = report.machine.features.iter().filter(|feature| feature.available);
    row("has", &there.map(|feature| feature.name).collect::<Vec<_>>().join(", "));
    for feature in &report.machine.features {
        if let Some(without) = feature.without {
            row("lacks", &format!("{}: {without}", feature.name));
        }
    }
    row("contains", &report.containment.iter().map(|level| level.word()).collect::<Vec<_>>().join(", "));
    allowances(&report.allowances).iter().for_each(|(name, value)| row(name, value));
    row("survives", &format!("its starter: {}", report.survives.starter));
    row("", &format!("logout: {}", report.survives.logout));
    row("", &format!("the service or container: {}", report.survives.surroundings));
    row("", &format!("a restart: {}", report.survives.restart));
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

fn allowances(allowances: &Allowances) -> [(&'static str, String); 4] {
    let size = |bytes: Option<u64>, other: &str| bytes.map_or_else(|| other.to_owned(), format_size);
    let count = |count: Option<u64>| count.map_or_else(|| "any number".to_owned(), |count| count.to_string());
    let Allowances { live_jobs, live_jobs_limit, session_jobs_limit, .. } = allowances;
    [
        ("limits", format!("{live_jobs} of {live_jobs_limit} live jobs; {session_jobs_limit} in a session")),
        (
            "",
            format!(
                "{} of {} reserved for output",
                size(allowances.reserved_bytes, "nothing"),
                size(allowances.bytes_limit, "any number of bytes")
            ),
        ),
        (
            "",
            format!(
                "{} open files, {} at most",
                count(allowances.open_files),
                count(allowances.open_files_most)
            ),
        ),
        (
            "",
            format!(
                "{} watchers with {} watches together",
                count(allowances.watchers),
                count(allowances.watches)
            ),
        ),
    ]
}
