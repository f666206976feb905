//! Jobs on a node that an engine chose: what needs the node's own processes is done there, in a step beside the job (`srun --overlap`).

use outlive::Store;
use outlive_remote::{Address, Client};

use super::Machine;
use crate::args::{Arguments, Verb};

/// Returns the node of the job that a verb is about, if only a process there can do it.
pub(super) fn of(arguments: &mut Arguments) -> Option<Machine> {
    let verb = arguments.verb.as_ref()?;
    if !matches!(verb, Verb::Send(_) | Verb::Attach(_) | Verb::Resize(_) | Verb::Pause(_) | Verb::Resume(_)) {
        return None;
    }
    let session = arguments.common.session.clone();
    let references = arguments.references();
    let [reference] = references.as_slice() else { return None };
    let store = Store::open().ok()?;
    // A reference that is not understood is explained by the verb itself.
    let job = store.find(reference, session.as_ref()).ok()?;
    let placed = job.placed()?;
    let state = job.state(&store);
    // The engine's number may belong to another job by now.
    if !state.is_elsewhere() || !state.is_live() || !store.has_place(&job) {
        return None;
    }
    let home = format!("OUTLIVE_HOME={}", store.root().display());
    let program = std::env::current_exe().ok()?.display().to_string();
    let step = ["srun", "--quiet", "--overlap", "--unbuffered", "--ntasks=1", "--jobid"];
    let place = [&placed.engine_job, "--nodelist", &placed.node, "env", &home, &program, "rpc"];
    let words = step.into_iter().chain(place).map(str::to_owned).collect();
    let client = Client::new(Address::Command { name: placed.node.clone(), words });
    Some(Machine::of(&placed.node, true, client))
}
