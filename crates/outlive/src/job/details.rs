//! All that is known of a job, for scripts and other programs.

use std::collections::BTreeMap;

use outlive_core::containment::Survivors;
use outlive_core::options::kinds::Kind as _;
use outlive_core::options::{JobOptions, OPTIONS};
use outlive_core::terminal::size::TerminalSize;
use outlive_sys::ports::Listeners;
use serde::Serialize;
use serde_json::Value;

use crate::control::tree::{Port, Process};
use crate::control::usage::Usage;
use crate::delivery::record::{OnExit, Webhook};
use crate::job::Job;
use crate::job::object::JobObject;
use crate::job::state::State;
use crate::store::Store;
use crate::store::machine::Survival;

/// The job object, and what is known of one job only when it is looked at closely.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobDetails {
    /// What a list has of it, too.
    #[serde(flatten)]
    pub job: JobObject,
    /// The command, word by word.
    pub argv: Vec<String>,
    /// Where its standard input comes from: `null`, `open`, or `terminal`, which it has with `pty`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub stdin: Value,
    /// The job whose output it reads: `producer-3f9c:stdout`.
    pub stdin_from: Option<String>,
    /// Patterns of files: when one changes, it is restarted.
    pub restart_on_change: Vec<String>,
    /// Why it was started in place of the run before it, where outlive decided that: `src/main.rs changed`.
    pub because: Option<String>,
    /// The time after which it is ended; none: never.
    pub timeout_ms: Option<u64>,
    /// The time between TERM and KILL.
    pub grace_ms: u64,
    /// How much of its output is kept; none: all.
    pub output_cap_bytes: Option<u64>,
    /// What becomes of processes that the main one leaves behind.
    pub survivors: String,
    /// The options that are shown as they were decided.
    #[serde(flatten)]
    pub options: BTreeMap<&'static str, Value>,
    /// Variables that were added; the values are `***` unless they were asked for.
    pub env_set: BTreeMap<String, String>,
    /// Variables that were taken out.
    pub env_unset: Vec<String>,
    /// The pid of its keeper, while that looks after it.
    pub keeper_pid: Option<i32>,
    /// The pid of the keeper's guard.
    pub guard_pid: Option<i32>,
    /// When its last process was gone.
    pub closed_at: Option<String>,
    /// What became of the command that is run at its end.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub on_exit: Option<OnExit>,
    /// What became of the notice that is sent at its end.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub webhook: Option<Webhook>,
    /// What jobs survive on this machine.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub survives: Survival,
    /// The directory with its files.
    pub directory: String,
    /// What all its processes use together.
    pub usage: Usage,
    /// Where its processes listen; none: not known.
    pub ports: Option<Vec<Port>>,
    /// Its live processes; none: not known.
    pub processes: Option<Vec<Process>>,
    /// Limits that are near, and whatever else a reader should know.
    pub warnings: Vec<String>,
}

impl JobDetails {
    /// Describes a job in the given state; `with_values` shows the values of variables, which may be secret.
    pub fn new(store: &Store, job: &Job, state: &State, with_values: bool) -> Self {
        let mut listeners = Listeners::new();
        let tree = job.tree(store, state);
        let usage = job.usage(state, tree.as_ref());
        let spec = job.spec();
        let options = &spec.options;
        let value = |value: &str| if with_values { value.to_owned() } else { "***".to_owned() };
        let is_kept = state.is_live() && !state.is_orphaned();
        let [keeper, guard] = state.meta.as_ref().map_or([None; 2], |meta| [meta.keeper, meta.guard]);
        // A terminal has a size, also where none was asked for.
        let size = options.size.or(options.pty.then(TerminalSize::default));
        let decided = JobOptions { size, ..options.clone() };
        let shown = OPTIONS.iter().filter(|option| option.surfaces.in_show);
        Self {
            job: JobObject::new(job, state),
            argv: spec.argv.iter().map(|argument| argument.to_lossy()).collect(),
            stdin: match spec.newer.get("stdin") {
                Some(newer) => newer.clone(),
                None if options.pty => "terminal".into(),
                None => options.stdin.word().into(),
            },
            stdin_from: spec.stdin_from.as_ref().map(ToString::to_string),
            restart_on_change: spec.restart_on_change.clone(),
            because: spec.because.clone(),
            timeout_ms: options.timeout_ms.filter(|_| !state.meta.as_ref().is_some_and(|meta| meta.untimed)),
            grace_ms: options.grace_ms,
            output_cap_bytes: options.output_cap_bytes,
            survivors: spec.newer_word("survivors").unwrap_or_else(|| Survivors::format(&options.survivors)),
            options: shown.map(|option| (option.name, option.json(&decided))).collect(),
            env_set: spec
                .env_set
                .iter()
                .map(|(name, text)| (name.clone(), value(&text.to_lossy())))
                .collect(),
            env_unset: spec.env_unset.clone(),
            keeper_pid: keeper.filter(|_| is_kept).map(|keeper| keeper.pid),
            guard_pid: guard.filter(|_| is_kept).map(|guard| guard.pid),
            closed_at: state.closed.map(|closed| closed.closed.to_string()),
            on_exit: job.on_exit(state),
            webhook: job.webhook(store, state),
            survives: Survival::of(options),
            directory: job.path().display().to_string(),
            ports: tree.as_ref().map(|tree| tree.ports(&mut listeners)),
            processes: tree.as_ref().map(|tree| tree.processes(&mut listeners)),
            warnings: job.warnings(state, &usage),
            usage,
        }
    }
}
