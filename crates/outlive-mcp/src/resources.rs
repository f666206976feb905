//! Jobs and their output as resources, for clients that show them to people.

use outlive::JobObject;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

use crate::reading::{Room, Selection, show};
use crate::scope::Scope;
use crate::work::Work;

/// The list of jobs.
const JOBS: &str = "outlive://jobs";

/// Prefix of a job's resources.
const JOB: &str = "outlive://job/";

/// How many jobs are listed: the newest.
const LISTED: usize = 50;

/// How many bytes of output are shown, of its beginning and its end.
const ROOM: usize = 64 << 10;

pub(crate) fn list(work: &Work, scope: &Scope) -> Vec<Resource> {
    let mut resources = vec![
        Resource::new(JOBS, "jobs")
            .with_description("All jobs of this project")
            .with_mime_type("application/json"),
    ];
    let jobs = work.store.list(scope.seen()).map(|listing| listing.jobs).unwrap_or_default();
    for job in jobs.iter().rev().take(LISTED) {
        let id = job.id();
        resources.push(Resource::new(format!("{JOB}{id}"), id.as_str()).with_mime_type("application/json"));
        let output = Resource::new(format!("{JOB}{id}/output"), format!("output of {id}"));
        resources.push(output.with_mime_type("text/plain"));
    }
    resources
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let job = ResourceTemplate::new(format!("{JOB}{{id}}"), "job");
    let output = ResourceTemplate::new(format!("{JOB}{{id}}/output"), "output");
    vec![
        job.with_description("All that is known of a job").with_mime_type("application/json"),
        output.with_description("What a job printed").with_mime_type("text/plain"),
    ]
}

/// Reads a resource; `None` if it does not exist.
pub(crate) fn read(work: &Work, scope: &Scope, uri: &str) -> Option<ResourceContents> {
    let json = |text: String| ResourceContents::text(text, uri).with_mime_type("application/json");
    if uri == JOBS {
        let jobs = work.store.list(scope.seen()).ok()?.jobs;
        let objects: Vec<JobObject> =
            jobs.iter().map(|job| JobObject::new(job, &job.state(&work.store))).collect();
        return Some(json(serde_json::to_string(&objects).ok()?));
    }
    let rest = uri.strip_prefix(JOB)?;
    let (id, is_output) = match rest.strip_suffix("/output") {
        Some(id) => (id, true),
        None => (rest, false),
    };
    let job = work.store.find(id, scope.seen()).ok()?;
    if !is_output {
        let object = JobObject::new(&job, &job.state(&work.store));
        return Some(json(serde_json::to_string(&object).ok()?));
    }
    let selection = Selection::after(0, Room::of(ROOM), false);
    Some(ResourceContents::text(show(&job, &selection).ok()?.text, uri))
}

/// Lists ids of jobs with this beginning, the newest first.
pub(crate) fn complete(work: &Work, scope: &Scope, beginning: &str) -> Vec<String> {
    let jobs = work.store.list(scope.seen()).map(|listing| listing.jobs).unwrap_or_default();
    let ids = jobs.iter().rev().map(|job| job.id().to_string());
    ids.filter(|id| id.starts_with(beginning)).take(100).collect()
}
