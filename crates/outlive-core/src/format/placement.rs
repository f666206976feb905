//! What an engine, such as Slurm, is asked to place: a part of `spec.json`; and where it placed it: the file `placed`.

use serde::{Deserialize, Serialize};

use crate::spec::{Host, Process};
use crate::timestamp::Timestamp;

words! {
    /// A program that decides where and when a job is started.
    pub enum Engine {
        /// Slurm, by its own commands.
        Slurm = "slurm",
    }
}

/// What an engine is asked for. What is not given is left to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The engine.
    pub engine: Engine,
    /// Processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// Memory of the node; the engine enforces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Graphics processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u64>,
    /// The part of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The engine ends it after so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// A node that does not reach the engine for so long ends the job itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutoff_ms: Option<u64>,
    /// The directory of a store that each node has for itself; none: the nodes share the store of the submitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_store: Option<String>,
}

impl Placement {
    /// Leaves all to the engine.
    pub fn by(engine: Engine) -> Self {
        Self {
            engine,
            cpus: None,
            memory_bytes: None,
            gpus: None,
            partition: None,
            time_ms: None,
            cutoff_ms: None,
            node_store: None,
        }
    }
}

/// Where a job was placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// [`crate::FORMAT`].
    pub format: u32,
    /// Where its pids are valid.
    pub host: Host,
    /// What the engine calls the machine.
    pub node: String,
    /// What the engine calls the job; it may be given out again.
    pub engine_job: String,
    /// The process that the engine started, and that waits for the end of the job.
    pub process: Process,
    /// When it began.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
}
