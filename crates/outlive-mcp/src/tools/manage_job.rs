//! `manage_job`: pause, resume, restart, clear, remove, rename, watch, unwatch.

use outlive::{Job, Kill, Request, Restarted};

use super::{Call, Hints, Kind, Parameter, Tool};
use crate::arguments::shown;
use crate::jobs::{self, BY, failed, summary};
use crate::reply::{Failure, Reply, quoted};

const ACTIONS: [&str; 8] = ["pause", "resume", "restart", "clear", "remove", "rename", "watch", "unwatch"];

pub(crate) static TOOL: Tool = Tool {
    name: "manage_job",
    title: "Manage a job",
    description: "pause or resume a job; restart: run it again, with a new id; clear: forget its output; remove: forget an ended job; rename; watch: be told of lines that match pattern. To end a job use kill.",
    parameters: &[
        Parameter::required("job", Kind::Text, "Id or name"),
        Parameter::required("action", Kind::Word(&ACTIONS), ""),
        Parameter::new("name", Kind::Text, "The new name"),
        Parameter::new("pattern", Kind::Text, "Regex"),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
    waits: false,
    call,
};

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let reference = call.arguments.required("job", "manage_job job=web action=pause")?;
    let action = call.arguments.word("action", &ACTIONS)?;
    let job = jobs::find_to_change(call, &reference)?;
    let id = job.id().clone();
    let done = match action {
        Some("pause") => {
            call.store.pause(&job).map_err(|error| failed(call, "not paused", error))?;
            "paused"
        }
        Some("resume") => {
            call.store.resume(&job).map_err(|error| failed(call, "not resumed", error))?;
            "resumed"
        }
        Some("restart") => return restart(call, &job),
        Some("clear") => {
            call.store.clear(&job).map_err(|error| failed(call, "not cleared", error))?;
            "output forgotten"
        }
        Some("remove") => {
            call.store.remove(&job).map_err(|error| failed(call, "not removed", error))?;
            return Ok(Reply::new(format!("{id} removed")));
        }
        Some("rename") => {
            let name =
                call.arguments.required("name", &format!("manage_job job={id} action=rename name=web"))?;
            call.store.rename(&job, &name).map_err(|error| failed(call, "not renamed", error))?;
            return Ok(Reply::new(format!("{id} is now called {}", shown(name.trim()))));
        }
        Some("watch") => {
            let pattern = call
                .arguments
                .required("pattern", &format!("manage_job job={id} action=watch pattern=\"ERROR\""))?;
            let watched = call.store.watch(&job, &call.scope.reader, &pattern);
            watched.map_err(|error| failed(call, "not watched", error))?;
            return Ok(Reply::new(format!("{id} is watched for {}", quoted(&pattern))).footer(
                "lines that match come with the results of any tool, five a minute and then one that counts",
            ));
        }
        Some("unwatch") => {
            let unwatched = call.store.unwatch(&job, &call.scope.reader);
            unwatched.map_err(|error| Failure::of("still watched", &error))?;
            return Ok(Reply::new(format!("{id} is not watched")));
        }
        _ => {
            return Err(Failure::new("manage_job needs action")
                .next(format!("call it again with action one of {}", ACTIONS.join(", "))));
        }
    };
    Ok(Reply::new(format!("{done}: {}", summary(&job, &job.state(call.store)))))
}

/// Ends a job and starts its next run, with the variables that this client's jobs start with.
fn restart(call: &Call<'_>, job: &Job) -> Result<Reply, Failure> {
    let request = Request::again(job).reader(call.scope.reader.clone());
    let request = match call.environment.base() {
        Some(variables) => request.environment_base(variables),
        None => request,
    };
    let kill = Kill { by: BY.to_owned(), ..Kill::default() };
    let restarted = call.store.replace(job, request, &kill);
    let next = match restarted.map_err(|error| failed(call, "not restarted", error))? {
        Restarted::Started(started) => started.job,
        Restarted::Already(next) => next,
    };
    // The caller knows of the end of the run before.
    job.mark_delivered(&call.scope.reader);
    Ok(Reply::new(format!("{} restarted as {}", job.id(), summary(&next, &next.state(call.store)))))
}
