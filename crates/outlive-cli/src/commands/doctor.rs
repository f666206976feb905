//! `outlive doctor`: examine the store, and put what is damaged out of the way.

use std::process::ExitCode;

use outlive::Survival;
use serde::Serialize;

use crate::commands::Context;
use crate::failure::{FAILED, Failure};
use crate::render::{print, print_json};

#[derive(Serialize)]
struct Report {
    store: String,
    version: &'static str,
    keeper: Option<String>,
    jobs: usize,
    live: usize,
    /// What can hold a job together here, the best first.
    containment: Vec<outlive::Level>,
    survives: Survival,
    findings: Vec<FindingObject>,
}

#[derive(Serialize)]
struct FindingObject {
    path: String,
    problem: String,
    action: Option<String>,
}

pub(crate) fn run(context: &Context) -> Result<ExitCode, Failure> {
    let examination = context.store.examine().map_err(|error| Failure::other("doctor", &error))?;
    let is_open = examination.findings.iter().any(|finding| !finding.is_handled);
    let report = Report {
        store: context.store.root().display().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        keeper: context.store.keeper_program().map(|path| path.display().to_string()),
        jobs: examination.jobs,
        live: examination.live,
        containment: outlive::levels(),
        survives: Survival::here(),
        findings: examination
            .findings
            .into_iter()
            .map(|finding| FindingObject {
                path: finding.path.display().to_string(),
                problem: finding.problem,
                action: finding.action,
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
    let mut text = format!(
        "store     {}\nversion   {}\nkeeper    {}\njobs      {}, {} live\ncontains  {}\nsurvives  its starter: {}\n          logout: {}\n          the service or container: {}\n          a restart: {}\n",
        report.store,
        report.version,
        report.keeper.as_deref().unwrap_or("none found"),
        report.jobs,
        report.live,
        report.containment.iter().map(|level| level.word()).collect::<Vec<_>>().join(", "),
        report.survives.starter,
        report.survives.logout,
        report.survives.surroundings,
        report.survives.restart,
    );
    for finding in &report.findings {
        let action = finding.action.as_deref().unwrap_or("nothing was done about it");
        let line = crate::render::one_line;
        text.push_str(&format!(
            "\n{}\n  {}\n  {}\n",
            line(&finding.path),
            line(&finding.problem),
            line(action)
        ));
    }
    if report.findings.is_empty() {
        text.push_str("\nnothing is wrong\n");
    }
    text
}
