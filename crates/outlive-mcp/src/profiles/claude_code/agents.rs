//! Background agents: other programs run them; the store keeps notes of them.

use outlive::{Agent, AgentError};
use serde_json::{Value, json};

use super::done;
use crate::profiles::epoch_ms;
use crate::reply::{Failure, Reply};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

const READS: Hints = Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
const NOTES: Hints = Hints { read_only: false, destructive: false, idempotent: true, open_world: false };

const ID: Parameter = Parameter::required("id", Kind::Text, "The agent's ID");

pub(super) static REGISTER: Tool = Tool {
    name: "register_agent",
    title: "Register a background agent",
    description: "Register a background agent as running, with the file that it writes its output to",
    parameters: &[
        ID,
        Parameter::required("type", Kind::Text, "What kind of agent it is"),
        Parameter::required("output_file", Kind::Text, "The file that it writes its output to"),
    ],
    hints: NOTES,
    waits: false,
    call: register,
};

pub(super) static STATUS: Tool = Tool {
    name: "agent_status",
    title: "Status of a background agent",
    description: "Get a background agent with its status (running, completed or failed), or null",
    parameters: &[ID],
    hints: READS,
    waits: false,
    call: |call| answer(call.store.agent(&id(call)?, call.scope.seen())),
};

pub(super) static OUTPUT: Tool = Tool {
    name: "agent_output",
    title: "Output of a background agent",
    description: "Read what a background agent has written to its output file, with its status, or null",
    parameters: &[ID],
    hints: READS,
    waits: false,
    call: output,
};

pub(super) static DONE: Tool = Tool {
    name: "mark_agent_done",
    title: "Mark a background agent as done",
    description: "Mark a background agent as completed or failed",
    parameters: &[ID, Parameter::required("success", Kind::Flag, "Whether it did what it should")],
    hints: NOTES,
    waits: false,
    call: mark_done,
};

pub(super) static LIST: Tool = Tool {
    name: "list_agents",
    title: "List background agents",
    description: "List all background agents",
    parameters: &[],
    hints: READS,
    waits: false,
    call: list,
};

pub(super) static STOP: Tool = Tool {
    name: "stop_agent",
    title: "Stop a background agent",
    description: "Mark a running background agent as stopped, so that nobody waits for it. The agent itself is not killed.",
    parameters: &[ID],
    hints: NOTES,
    waits: false,
    call: stop,
};

fn id(call: &Call<'_>) -> Result<String, Failure> {
    call.arguments.required("id", "id=\"agent-1\"")
}

/// An agent in the design's own fields.
fn object(agent: &Agent) -> Value {
    json!({
        "id": agent.id,
        "type": agent.kind,
        "outputFile": agent.output_file.to_lossy(),
        "startTime": epoch_ms(agent.started),
        "status": agent.status.word(),
    })
}

/// Answers with an agent, or with null where there is none.
fn answer(found: Result<Agent, AgentError>) -> Result<Reply, Failure> {
    match found {
        Ok(agent) => Ok(Reply::json(&object(&agent))),
        Err(AgentError::Unknown(_)) => Ok(Reply::json(&Value::Null)),
        Err(error) => Err(Failure::new(crate::reply::chain(&error))),
    }
}

fn register(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let id = id(call)?;
    let kind = call.arguments.required("type", "type=\"explore\"")?;
    let file = call.arguments.required("output_file", "output_file=\"/tmp/agent-1.output\"")?;
    let file =
        call.scope.directory.as_ref().map_or_else(|| file.clone().into(), |project| project.join(&file));
    answer(call.store.register_agent(&call.scope.session, &id, &kind, &file))
}

fn output(call: &mut Call<'_>) -> Result<Reply, Failure> {
    match call.store.agent(&id(call)?, call.scope.seen()) {
        Ok(agent) => Ok(Reply::json(&json!({"status": agent.status.word(), "output": agent.output()}))),
        found => answer(found),
    }
}

fn mark_done(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let id = id(call)?;
    let success = call.arguments.choice_of_two("success")?;
    let success = success.ok_or_else(|| Failure::new("mark_agent_done needs success"))?;
    answer(call.store.finish_agent(&id, call.scope.seen(), success))
}

fn list(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let agents =
        call.store.agents(call.scope.seen()).map_err(|error| Failure::new(crate::reply::chain(&error)))?;
    Ok(Reply::json(&agents.iter().map(object).collect::<Vec<_>>().into()))
}

fn stop(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let id = id(call)?;
    match call.store.stop_agent(&id, call.scope.seen()) {
        Ok(_) => Ok(done(true, format!("Agent {id} marked as stopped"))),
        Err(error @ (AgentError::Unknown(_) | AgentError::Over(_))) => Ok(done(false, error.to_string())),
        Err(error) => Err(Failure::new(crate::reply::chain(&error))),
    }
}
