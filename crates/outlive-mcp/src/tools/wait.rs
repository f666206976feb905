//! `wait`: for what is needed next.

use std::time::{Duration, Instant};

use super::{Call, Hints, Kind, Parameter, Tool};
use crate::jobs::{self, summary};
use crate::reply::{Failure, Reply};

const FOR: [&str; 6] = ["exit", "ready", "match", "port", "idle", "event"];

pub(crate) static TOOL: Tool = Tool {
    name: "wait",
    title: "Wait for jobs",
    description: "Wait until jobs end (for=exit, default), get ready, print a line that matches pattern, listen on port, fall silent (idle), or until the next event of any job (no jobs). Use this instead of sleep or polling. When the time is over the jobs go on: call it again.",
    parameters: &[
        Parameter::new("jobs", Kind::Texts, "Ids or names; none: any event"),
        Parameter::new("group", Kind::Text, "All jobs of this group"),
        Parameter::new("all", Kind::Flag, "All of them, not the first"),
        Parameter::new("for", Kind::Word(&FOR), "What to wait for"),
        Parameter::new("pattern", Kind::Text, "Regex, for match"),
        Parameter::new("fail_pattern", Kind::Text, "Regex that ends the wait as failed"),
        Parameter::new("port", Kind::Number, "For port"),
        Parameter::new("idle_ms", Kind::Number, "For idle: silent so long"),
        Parameter::new("timeout_ms", Kind::Number, "Default 45000"),
    ],
    hints: Hints { read_only: true, destructive: false, idempotent: false, open_world: false },
    waits: true,
    call,
};

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let timeout = call.arguments.number("timeout_ms", 0..=86_400_000)?.unwrap_or(45_000);
    let references = call.arguments.texts("jobs")?;
    let deadline = Instant::now() + Duration::from_millis(timeout);
    let mut body = String::new();
    for reference in references {
        let job = jobs::find(call, &reference)?;
        jobs::wait_for_end(call, &job, deadline);
        crate::reply::push_line(&mut body, &summary(&job, &job.state(call.store)));
    }
    Ok(Reply::new("waited").body(body))
}
