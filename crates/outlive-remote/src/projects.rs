//! Jobs of a project on another machine: defined, started and ended there by that machine's outlive.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::client::{Client, encoded};
use crate::error::RemoteError;
use crate::objects::Job;

/// What became of a job that was to be up.
#[derive(Debug, Clone, Deserialize)]
pub struct ProjectStep {
    /// `started`, `restarted`, `kept`, `completed` or `failed`.
    pub state: String,
    /// Its id there.
    #[serde(default)]
    pub job: Option<String>,
    /// What changed, or why it failed.
    #[serde(default)]
    pub why: Option<String>,
}

/// How a job of a project is doing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProjectJobStatus {
    /// Its name in the project.
    pub name: String,
    /// How it is doing, for people.
    pub state: String,
    /// Its newest run.
    pub job: Option<Job>,
}

/// How the jobs of a project are doing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProjectStatus {
    /// One for each that was defined.
    pub jobs: Vec<ProjectJobStatus>,
}

/// A reason why a job is as it is.
#[derive(Debug, Clone, Deserialize)]
pub struct ProjectCause {
    /// How many reasons it is behind.
    pub depth: usize,
    /// The reason, in a sentence.
    pub text: String,
    /// The end of what the job printed.
    pub output: Vec<String>,
}

/// A job that was ended.
#[derive(Debug, Clone, Deserialize)]
pub struct ProjectDown {
    /// Its id there.
    pub job: String,
    /// Its name in the project.
    pub name: Option<String>,
    /// Nothing of it is left.
    pub is_ended: bool,
}

impl Client {
    /// Defines a job of a project there, and lets it be up as defined. `is_named`: it is started also if it has completed. To ask twice
    /// starts it once.
    ///
    /// # Errors
    ///
    /// If there is no answer, or the definition is refused.
    pub fn bring_up(
        &self,
        session: &str,
        project: &str,
        name: &str,
        definition: &Map<String, Value>,
        is_named: bool,
    ) -> Result<ProjectStep, RemoteError> {
        let body = json!({ "project": project, "named": is_named, "job": definition });
        self.ask("PUT", &format!("{}/jobs/{}", of(session), encoded(name)), Some(&body))
    }

    /// Tells how the jobs of a project are doing; none: that session has no project there.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub fn project(&self, session: &str) -> Result<Option<ProjectStatus>, RemoteError> {
        match self.get(&of(session), &[]) {
            Err(RemoteError::Refused(failure)) if failure.code == outlive::Code::NotFound => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Explains how a job of a project is doing.
    ///
    /// # Errors
    ///
    /// If there is no answer, or no such job.
    pub fn why(&self, session: &str, name: &str) -> Result<Vec<ProjectCause>, RemoteError> {
        self.get(&format!("{}/why/{}", of(session), encoded(name)), &[])
    }

    /// Ends jobs of a project; without names all of them, and what they started.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub fn down(&self, session: &str, names: &[String]) -> Result<Vec<ProjectDown>, RemoteError> {
        match self.post(&format!("{}/down", of(session)), &json!({ "jobs": names })) {
            Err(RemoteError::Refused(failure)) if failure.code == outlive::Code::NotFound => Ok(Vec::new()),
            answer => answer,
        }
    }
}

fn of(session: &str) -> String {
    format!("/v1/projects/{}", encoded(session))
}
