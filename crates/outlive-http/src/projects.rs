//! Projects: jobs that belong together, as a file on the server's machine says. A project is named by its session.

use std::path::PathBuf;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use outlive::{Code, Failure, JobId, SessionName, Store};
use outlive_project::{Cause, JobStatus, Project, ProjectError, Record, StepState};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::access::Caller;
use crate::extract::Body;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// A project that is up.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProjectObject {
    #[schema(value_type = String)]
    session: SessionName,
    /// Its file.
    file: String,
    /// Names of the jobs that are wanted.
    wanted: Vec<String>,
}

/// How the jobs of a project are doing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProjectStatus {
    #[schema(value_type = String)]
    session: SessionName,
    /// Its name.
    project: String,
    /// In the order of the file: `name`, `state`, `waits_for`, `changed` and its newest `job`.
    #[schema(value_type = Vec<Object>)]
    jobs: Vec<JobStatus>,
    /// What each job waits for before it is started.
    after: Vec<Edge>,
}

/// A job of a project waits for another.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Edge {
    /// The name of the one that waits.
    job: String,
    /// The name of the one that is waited for.
    on: String,
    /// What that must have come to: `started`, `ready`, `completed` or `succeeded`.
    milestone: &'static str,
}

/// What to bring up.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpRequest {
    /// The project's file, or its directory, on the server's machine
    file: String,
    /// Only these jobs, and what they wait for; else all that belong to no profile
    #[serde(default)]
    jobs: Vec<String>,
    /// Also the jobs of these profiles
    #[serde(default)]
    profiles: Vec<String>,
}

/// A job of a project that is defined here by another machine.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefineRequest {
    /// The name of the project
    project: String,
    /// The keys of `[jobs.NAME]` in a project's file; a relative `dir` is one in the user's home
    #[schema(value_type = Object)]
    job: Map<String, Value>,
    /// It is started also if it has completed
    #[serde(default)]
    named: bool,
}

/// What became of a job that was to be up.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Brought {
    /// `started`, `restarted`, `kept`, `completed` or `failed`.
    #[schema(value_type = String)]
    state: StepState,
    /// Its id.
    #[schema(value_type = Option<String>)]
    job: Option<JobId>,
    /// What changed, or why it failed.
    why: Option<String>,
}

/// What to end.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DownRequest {
    /// Only these jobs; else all, and what they started
    jobs: Vec<String>,
}

/// A job of a project that was ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Downed {
    /// Its id; one on another machine begins with the machine's name.
    job: String,
    /// Its name in the project.
    name: Option<String>,
    /// Nothing of it is left.
    is_ended: bool,
}

/// Finds the project of a session that is up.
fn find(store: &Store, caller: &Caller, name: &str) -> Result<(SessionName, Project), Failure> {
    let session = SessionName::parse(name)
        .map_err(|error| Failure::usage(format!("project: {error}"), "GET /v1/projects lists them"))?;
    let session = caller.session(Some(session))?.unwrap_or_default();
    let project = Project::of_session(store, &session)?.ok_or_else(|| {
        Failure::new(Code::NotFound, format!("no project is up in session {session}"))
            .hint("GET /v1/projects lists those that are; POST /v1/projects brings one up")
    })?;
    Ok((session, project))
}

/// Lists the projects that are up.
#[utoipa::path(get, path = "/v1/projects", tag = "projects", security(("token" = ["view"])),
    responses((status = 200, description = "The projects", body = Vec<ProjectObject>)))]
pub(crate) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<ProjectObject>>, Problem> {
    let listed = work::quick(&shared, move |store| {
        let mut sessions = store.sessions().map_err(|error| Failure::other("project", &error))?;
        sessions.retain(|name| caller.session.as_ref().is_none_or(|own| own == name));
        let object = |session: SessionName| {
            let record = Record::read(store, &session).filter(|record| !record.wanted.is_empty())?;
            Some(ProjectObject { session, file: record.file.display().to_string(), wanted: record.wanted })
        };
        Ok(sessions.into_iter().filter_map(object).collect())
    });
    Ok(Json(listed.await?))
}

/// Tells how the jobs of a project are doing.
#[utoipa::path(get, path = "/v1/projects/{session}", tag = "projects", security(("token" = ["view"])),
    params(("session" = String, Path, description = "The session of the project")),
    responses((status = 200, description = "How they are doing", body = ProjectStatus)))]
pub(crate) async fn status(
    State(shared): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<ProjectStatus>, Problem> {
    let told = work::quick(&shared, move |store| {
        let (session, project) = find(store, &caller, &name)?;
        let jobs = outlive_project::status(store, &project)?;
        let edges = project.jobs.iter().flat_map(|job| {
            let edge = |after: &outlive_project::After| Edge {
                job: job.name.clone(),
                on: after.job.clone(),
                milestone: after.milestone.word(),
            };
            job.after.iter().map(edge).collect::<Vec<_>>()
        });
        let after = edges.collect();
        Ok(ProjectStatus { session, project: project.name, jobs, after })
    });
    Ok(Json(told.await?))
}

/// Explains how a job of a project is doing: what it waits for, what that waits for, and what waits for it.
#[utoipa::path(get, path = "/v1/projects/{session}/why/{job}", tag = "projects", security(("token" = ["view"])),
    params(("session" = String, Path, description = "The session of the project"),
        ("job" = String, Path, description = "The job's name in the project")),
    responses((status = 200, description = "Reasons, each with its `depth`, `text` and `output`", body = Vec<Object>)))]
pub(crate) async fn why(
    State(shared): State<Shared>,
    caller: Caller,
    Path((name, job)): Path<(String, String)>,
) -> Result<Json<Vec<Cause>>, Problem> {
    let told = work::quick(&shared, move |store| {
        let (_, project) = find(store, &caller, &name)?;
        Ok(outlive_project::why(store, &project, &job)?)
    });
    Ok(Json(told.await?))
}

/// Brings a project up: a process of its own starts its jobs in their order. The answer does not wait for them.
#[utoipa::path(post, path = "/v1/projects", tag = "projects", request_body = UpRequest, security(("token" = ["drive"])),
    responses((status = 202, description = "It is on its way", body = ProjectObject)))]
pub(crate) async fn up(
    State(shared): State<Shared>,
    caller: Caller,
    Body(body): Body<UpRequest>,
) -> Result<(StatusCode, Json<ProjectObject>), Problem> {
    let brought = work::long(&shared, move |store, _| {
        let path = PathBuf::from(&body.file);
        if !path.is_absolute() {
            let hint = "give the absolute path of its file or directory on the server's machine";
            return Err(Failure::usage(format!("project: {:?} is relative", body.file), hint));
        }
        let file = if path.is_dir() { Project::find(&path)? } else { path };
        let project = Project::load(&file, &store.config().hosts).map_err(given)?;
        let session = caller.session(Some(project.session()))?.unwrap_or_default();
        let asked = outlive_project::Asked { names: &body.jobs, profiles: &body.profiles };
        outlive_project::bring_up(store, &project, &asked)?;
        let wanted = Record::read(store, &session).map(|record| record.wanted).unwrap_or_default();
        Ok(ProjectObject { session, file: file.display().to_string(), wanted })
    });
    Ok((StatusCode::ACCEPTED, Json(brought.await?)))
}

/// Defines a job of a project in a session, and lets it be up as defined. The answer tells what became of it.
#[utoipa::path(put, path = "/v1/projects/{session}/jobs/{job}", tag = "projects", request_body = DefineRequest,
    security(("token" = ["drive"])),
    params(("session" = String, Path, description = "The session of the project"),
        ("job" = String, Path, description = "The job's name in the project")),
    responses((status = 200, description = "What became of it", body = Brought)))]
pub(crate) async fn define(
    State(shared): State<Shared>,
    caller: Caller,
    Path((name, job)): Path<(String, String)>,
    Body(body): Body<DefineRequest>,
) -> Result<Json<Brought>, Problem> {
    let brought = work::long(&shared, move |store, _| {
        let session = SessionName::parse(&name)
            .map_err(|error| Failure::usage(format!("project: {error}"), "name it by its session"))?;
        let session = caller.session(Some(session))?.unwrap_or_default();
        let of = (body.project.as_str(), job.as_str());
        let step = outlive_project::define(store, &session, of, body.job, body.named).map_err(given)?;
        Ok(Brought { state: step.state, job: step.job, why: step.why })
    });
    Ok(Json(brought.await?))
}

/// Counts what is wrong with a file or a definition as the caller's mistake, who gave it: this server is in order.
fn given(error: ProjectError) -> Failure {
    let mut failure = Failure::from(error);
    if failure.code == Code::Config {
        failure.code = Code::Usage;
    }
    failure
}

/// Ends the jobs of a project, in reverse order.
#[utoipa::path(post, path = "/v1/projects/{session}/down", tag = "projects", request_body = DownRequest,
    security(("token" = ["drive"])),
    params(("session" = String, Path, description = "The session of the project")),
    responses((status = 200, description = "The jobs that were ended", body = Vec<Downed>)))]
pub(crate) async fn down(
    State(shared): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<DownRequest>,
) -> Result<Json<Vec<Downed>>, Problem> {
    let ended = work::long(&shared, move |store, _| {
        let (_, project) = find(store, &caller, &name)?;
        let ended = outlive_project::down(store, &project, &body.jobs)?;
        let object = |down: outlive_project::Down| Downed {
            job: down.id,
            name: down.name,
            is_ended: down.left.is_ok_and(|left| left.is_empty()),
        };
        Ok(ended.into_iter().map(object).collect())
    });
    Ok(Json(ended.await?))
}
