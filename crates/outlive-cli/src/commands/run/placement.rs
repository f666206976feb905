//! What an engine is asked for: the options of `run` that are about placing.

use outlive::{Engine, Placement};

use crate::args::Run;
use crate::failure::Failure;

/// Takes the options about placing; none: the job is started here. The limit of memory is then the engine's.
pub(super) fn take(arguments: &mut Run) -> Result<Option<Placement>, Failure> {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let asked = Placement {
        cpus: arguments.cpus,
        gpus: arguments.gpus,
        partition: arguments.partition.take(),
        time_ms: arguments.time.map(millis),
        cutoff_ms: arguments.cutoff.map(millis),
        node_store: arguments.node_store.take(),
        ..Placement::by(arguments.engine.unwrap_or(Engine::Slurm))
    };
    if arguments.engine.is_none() {
        let is_asked = asked != Placement::by(asked.engine);
        let hint = "say which engine: --engine slurm, or --on NAME of one in [hosts] of config.toml";
        return match is_asked {
            true => Err(Failure::usage(
                "run: --cpus, --gpus, --partition, --time, --cutoff and --node-store are for an engine",
                hint,
            )),
            false => Ok(None),
        };
    }
    for (is_given, option) in [
        (!arguments.after.is_empty(), "--after"),
        (arguments.stdin_from.is_some(), "--stdin-from"),
        (arguments.ensure, "--ensure"),
        (arguments.options.0.queue.is_some(), "--queue"),
    ] {
        if is_given {
            let hint = "wait for the other job first, or leave it to the engine's own options";
            return Err(Failure::usage(format!("run: {option} does not go with an engine"), hint));
        }
    }
    let choices = &mut arguments.options.0;
    let memory_bytes = choices.memory.take().flatten();
    Ok(Some(Placement { memory_bytes, ..asked }))
}
