//! Other machines that the configuration of the server names, and their jobs.

use axum::Json;
use axum::extract::State;
use outlive::{Code, Failure};
use outlive_remote::{Client, Filter, HostLook};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// So many jobs of a machine are asked for.
const MOST: usize = 200;

/// Another machine.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HostObject {
    /// What the configuration calls it.
    host: String,
    /// Its jobs, the newest first. Where it cannot be reached, as they were: what had not ended may have by now.
    #[schema(value_type = Vec<Object>)]
    jobs: Vec<outlive_remote::Job>,
    /// Why it cannot be reached; none: all this is so now.
    unreachable: Option<String>,
    /// The age of what is known, where it cannot be reached and was before.
    unreachable_ms: Option<u64>,
}

/// Asks the machines of the server's configuration for their jobs. What was known of one that cannot be reached comes with its age.
#[utoipa::path(get, path = "/v1/hosts", tag = "hosts", security(("token" = ["view"])),
    responses((status = 200, description = "The machines", body = Vec<HostObject>)))]
pub(crate) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<HostObject>>, Problem> {
    let listed = work::long(&shared, move |store, _| {
        if let Some(own) = &caller.session {
            let message = format!("hosts: this token is for session {own} alone");
            return Err(Failure::new(Code::Forbidden, message).hint("use a token without a session"));
        }
        let filter = Filter { limit: Some(MOST), ..Filter::default() };
        let look = |name: &String, rules| {
            let client = Client::named(name, rules, |_| {})?.unasked();
            HostLook::now(store, name, &client, &filter)
        };
        // All at once: one that cannot be reached takes its time.
        Ok(std::thread::scope(|scope| {
            let machines = outlive_remote::machines(&store.config().hosts);
            let asked: Vec<_> =
                machines.map(|(name, rules)| (name, scope.spawn(move || look(name, rules)))).collect();
            asked.into_iter().map(|(name, asked)| object(name, asked.join().ok())).collect()
        }))
    });
    Ok(Json(listed.await?))
}

fn object(name: &str, look: Option<Result<HostLook, Failure>>) -> HostObject {
    let (jobs, unreachable, unreachable_ms) = match look {
        Some(Ok(look)) => (look.jobs, look.unreachable, look.unreachable_ms),
        Some(Err(failure)) => (Vec::new(), Some(failure.text()), None),
        None => (Vec::new(), Some("it was not asked".to_owned()), None),
    };
    let jobs = jobs.into_iter().rev().collect();
    HostObject { host: name.to_owned(), jobs, unreachable, unreachable_ms }
}
