//! `kill_shell`: end a process with everything it started.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use outlive::{ControlError, Kill, Killed};

use super::{BY, delivers, done, exactly, forget_kill, is_being_killed, note_kill, word};
use crate::reply::{Failure, Reply, chain};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

/// How long a call waits for the effect of the first signal: most processes end by it at once.
const AT_ONCE: Duration = Duration::from_millis(300);

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
    if !state.is_live() || is_being_killed(&job) {
        return Ok(done(false, format!("Process already {}", word(&job, &state))));
    }
    note_kill(&job);
    let (sender, killed) = channel();
    let (store, job_id, nonce) = (Arc::clone(call.store), job.id().clone(), job.spec().nonce);
    std::thread::spawn(move || {
        let kill = Kill { signal: None, grace: Some(GRACE), force: false, by: BY.to_owned() };
        if let Some(job) = store.find_exactly(&job_id, nonce) {
            // The receiver is gone once the call is answered.
            sender.send(store.kill(&job, &kill)).ok();
        }
    });
    // What takes longer goes on; the keeper sends the second signal, whatever becomes of this server.
    let killed = killed.recv_timeout(AT_ONCE).unwrap_or(Ok(Killed::default()));
    if killed.is_err() {
        forget_kill(&job);
    }
    let state = job.state(call.store);
    let reply = match killed {
        Ok(Killed { was_over: true, .. }) | Err(ControlError::Ended(_)) => {
            done(false, format!("Process already {}", word(&job, &state)))
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
