//! `outlive agent`: keep note of background agents.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use crate::args::{Agent, AgentVerb};
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{note, one_line, print, print_json, table, width};

/// What an agent has written, for scripts.
#[derive(Serialize)]
struct Written {
    agent: String,
    status: outlive::AgentStatus,
    output: String,
}

pub(crate) fn run(context: &Context, arguments: &Agent) -> Result<ExitCode, Failure> {
    let (store, session) = (&context.store, context.session.as_ref());
    match &arguments.verb {
        AgentVerb::Register { id, kind, output } => register(context, id, kind, output),
        AgentVerb::List {} => list(context),
        AgentVerb::Status { id } => tell(context, &store.agent(id, session)?),
        AgentVerb::Output { id } => output(context, &store.agent(id, session)?),
        AgentVerb::Done { id, failed } => tell(context, &store.finish_agent(id, session, !failed)?),
        AgentVerb::Stop { id } => tell(context, &store.stop_agent(id, session)?),
    }
}

fn register(context: &Context, id: &str, kind: &str, output: &Path) -> Result<ExitCode, Failure> {
    let session = match &context.session {
        Some(session) => session.clone(),
        None => super::inherited_session()?,
    };
    let agent = context.store.register_agent(&session, id, kind, output)?;
    tell(context, &agent)
}

/// Prints how an agent is doing.
fn tell(context: &Context, agent: &outlive::Agent) -> Result<ExitCode, Failure> {
    if context.is_json {
        return print_json(&agent.object());
    }
    print(&format!("{} {}\n", one_line(&agent.id), agent.status.word()));
    Ok(ExitCode::SUCCESS)
}

fn output(context: &Context, agent: &outlive::Agent) -> Result<ExitCode, Failure> {
    let output = agent.output();
    if context.is_json {
        return print_json(&Written { agent: agent.id.clone(), status: agent.status, output });
    }
    print(&output);
    if !output.is_empty() && !output.ends_with('\n') {
        print("\n");
    }
    Ok(ExitCode::SUCCESS)
}

fn list(context: &Context) -> Result<ExitCode, Failure> {
    let agents = context.store.agents(context.session.as_ref())?;
    if context.is_json {
        return print_json(&agents.iter().map(outlive::Agent::object).collect::<Vec<_>>());
    }
    if agents.is_empty() {
        note("no agents; note one with: outlive agent register ID --type TYPE --output FILE");
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["AGENT", "STATUS", "TYPE", "SESSION", "OUTPUT"].map(str::to_owned).to_vec()];
    rows.extend(agents.iter().map(|agent| {
        let object = agent.object();
        vec![
            one_line(&object.agent),
            agent.status.word().to_owned(),
            one_line(&object.kind),
            object.session.to_string(),
            one_line(&object.output_file),
        ]
    }));
    print(&table(&rows, width(), |_, _, cell| cell.to_owned()));
    Ok(ExitCode::SUCCESS)
}
