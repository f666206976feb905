//! `outlive agent`: keep note of background agents.

use std::process::ExitCode;

use serde::Serialize;

use crate::args::Agent;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{answer, note, one_line, print, print_json, table, width};

/// What an agent has written, for scripts.
#[derive(Serialize)]
struct Written<'a> {
    agent: &'a str,
    status: outlive::AgentStatus,
    output: &'a str,
}

pub(crate) fn run(context: &Context, arguments: &Agent) -> Result<ExitCode, Failure> {
    let (store, session) = (&context.store, context.session.as_ref());
    let agent = match arguments {
        Agent::List => return list(context),
        Agent::Output(agent) => return output(context, &store.agent(&agent.id, session)?),
        Agent::Register { id, kind, output } => {
            store.register_agent(&context.own_session()?, id, kind, output)?
        }
        Agent::Status(agent) => store.agent(&agent.id, session)?,
        Agent::Done { agent, failed } => store.finish_agent(&agent.id, session, !failed)?,
        Agent::Stop(agent) => store.stop_agent(&agent.id, session)?,
    };
    answer(context.is_json, &agent.object(), || format!("{} {}\n", one_line(&agent.id), agent.status.word()))
}

fn output(context: &Context, agent: &outlive::Agent) -> Result<ExitCode, Failure> {
    let output = agent.output();
    let end = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
    let written = Written { agent: &agent.id, status: agent.status, output: &output };
    answer(context.is_json, &written, || format!("{output}{end}"))
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
    print(&table(&rows, width(), |_, _, cell| cell.into()));
    Ok(ExitCode::SUCCESS)
}
