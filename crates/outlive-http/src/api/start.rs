//! Starting jobs.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive::{Failure, JobChoices, JobObject, OPTIONS, OptionForm, Request, Timestamp};
use outlive_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::session;
use crate::access::Caller;
use crate::extract::Body;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// What to start: a line for the shell, or a program with its arguments; and the options of `outlive run`.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct StartRequest {
    /// A line for the shell
    command: Option<String>,
    /// A program and its arguments, in place of a line
    argv: Option<Vec<String>>,
    /// The directory; else the session's, else the user's home
    cwd: Option<String>,
    /// Variables to set
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The session to start it in; else the token's, else `default`
    session: Option<String>,
    /// Names and values to attach
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// The options of a job, by their names
    #[serde(flatten)]
    #[schema(ignore)]
    options: Map<String, Value>,
}

/// A job that was started.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Started {
    #[serde(flatten)]
    job: JobObject,
    /// What a reader should know.
    warning: Option<String>,
}

/// Adds the options of a job, from their declarations, to the description of what can be started.
pub(super) fn describe(openapi: &mut Value) {
    let properties = &mut openapi["components"]["schemas"]["StartRequest"]["properties"];
    for option in OPTIONS {
        let mut schema = match option.form {
            OptionForm::Flag => json!({ "type": "boolean" }),
            OptionForm::Number { .. } => json!({ "type": ["integer", "string"] }),
            OptionForm::Words(words) => json!({ "type": "string", "enum": words }),
            OptionForm::Text => json!({ "type": "string" }),
        };
        schema["description"] = option.about.into();
        properties[option.name] = schema;
    }
    openapi["components"]["schemas"]["StartRequest"]["additionalProperties"] = false.into();
}

/// Reads the options of a job by their declarations.
fn choices(given: &Map<String, Value>) -> Result<JobChoices, Failure> {
    let mut choices = JobChoices::default();
    for (name, value) in given {
        let hint = "GET /openapi.json describes every option";
        let Some(option) = OPTIONS.iter().find(|option| option.name == name) else {
            return Err(Failure::usage(format!("there is no option {name:?}"), hint));
        };
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return Err(Failure::usage(format!("{name}: a text, number or boolean is needed"), hint)),
        };
        option
            .set(&mut choices, text.as_bytes(), Timestamp(clock::wall_us()))
            .map_err(|error| Failure::usage(format!("{name}: {error}"), hint))?;
    }
    Ok(choices)
}

/// Starts a job and answers at once.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", request_body = StartRequest, security(("token" = ["drive"])),
    responses((status = 201, description = "The job", body = Started)))]
pub(crate) async fn start(
    State(shared): State<Shared>,
    caller: Caller,
    Body(body): Body<StartRequest>,
) -> Result<(StatusCode, Json<Started>), Problem> {
    let started = work::quick(&shared, move |store| {
        let mut request = match (body.command, body.argv) {
            (Some(line), None) => Request::shell(line),
            (None, Some(argv)) if !argv.is_empty() => Request::argv(argv),
            _ => {
                return Err(Failure::usage(
                    "start: either `command` or `argv` is needed",
                    r#"such as {"command": "npm run dev", "name": "web"}"#,
                ));
            }
        };
        let session = caller.session(session(body.session.as_deref())?)?.unwrap_or_default();
        let of_session = store.session_settings(&session).is_some_and(|settings| settings.cwd.is_some());
        match body.cwd {
            Some(cwd) => request = request.cwd(cwd),
            // The server's own directory is `/`, which nobody means.
            None if !of_session => {
                request = request.cwd(std::env::var_os("HOME").unwrap_or_else(|| "/".into()))
            }
            None => {}
        }
        for (name, value) in body.env {
            request = request.env(name, value);
        }
        for (name, value) in body.labels {
            request = request.label(name, value);
        }
        let started = store.start(&request.session(session).options(choices(&body.options)?))?;
        let job = JobObject::new(&started.job, &started.job.state(store));
        Ok(Started { job, warning: started.warning.map(|warning| warning.to_string()) })
    });
    Ok((StatusCode::CREATED, Json(started.await?)))
}
