//! `kill_shell`: end a process with everything it started.

use std::time::Duration;

use outlive::{ControlError, Kill, Killed};

use super::{BY, delivers, done, exactly};
use crate::profiles::word_of_four;
use crate::reply::{Failure, Reply, chain};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

/// The time between the signals of a kill.
pub(super) const GRACE: Duration = Duration::from_secs(5);

pub(super) static TOOL: Tool = Tool {
    name: "kill_shell",
    title: "Stop a shell",
    description: "Terminate a running background shell process",
    parameters: &[Parameter::required("shell_id", Kind::Text, "The process ID to kill")],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: false },
    waits: true,
    call,
};

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let id = match call.arguments.text("shell_id")? {
        // Models also send the name of the parameter of `bash_output`.
        None => call.arguments.text("bash_id")?,
        given => given,
    };
    let id = id.ok_or_else(|| Failure::new("kill_shell needs shell_id"))?;
    let Some((job, state)) = exactly(call, &id) else {
        return Ok(done(false, format!("Process not found: {id}")));
    };
    if !state.is_live() {
        return Ok(done(false, format!("Process already {}", word_of_four(state.status))));
    }
    let kill = Kill { signal: None, grace: Some(GRACE), force: false, by: BY.to_owned() };
    let killed = call.store.kill(&job, &kill);
    let state = job.state(call.store);
    let reply = match killed {
        Ok(Killed { was_over: true, .. }) | Err(ControlError::Ended(_)) => {
            done(false, format!("Process already {}", word_of_four(state.status)))
        }
        Ok(killed) if killed.survivors.is_empty() => done(true, format!("Process {id} killed")),
        Ok(killed) => {
            let left: Vec<String> =
                killed.survivors.iter().map(|left| format!("{} ({})", left.pid, left.why)).collect();
            done(false, format!("Process {id} not wholly killed: {}", left.join(", ")))
        }
        Err(error) => done(false, format!("Process {id} not killed: {}", chain(&error))),
    };
    Ok(delivers(call, reply, job, &state))
}
