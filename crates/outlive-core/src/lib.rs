//! What outlive's parts have in common: words, formats, protocol, views of text.
//!
//! Nothing here opens a file, asks the clock or blocks: bytes and values in, values and bytes out. The formats are those
//! of `docs/on-disk-format.md`, and that page decides.

#[macro_use]
mod words;

pub mod duration;
pub mod health;
pub mod id;
pub mod label;
pub mod nearest;
pub mod options;
pub mod rawtext;
pub mod restart;
pub mod schedule;
pub mod status;
pub mod terminal;
pub mod timestamp;

// The folders are for reading the source; a name is used without its folder.
mod format;
mod protocol;
mod text;
pub use format::{
    after, awaits, cache, checksum, containment, event, index, meta, newer, outcome, placement, queue,
    segment, session, spec,
};
pub use protocol::{control, launch, wire};
pub use text::{budget, characters, context, cursor, display, lines, plain, rendered};

/// The format version of the store and of every file in it.
pub const FORMAT: u32 = 1;

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The directory of the store that has the queues.
pub const QUEUES: &str = "queues";

/// The directory of the store with a mark for each job that waits until its command may be executed.
pub const WAITING: &str = "waiting";

/// Names of the files in a job's directory.
pub mod file {
    /// What was asked for; never changes.
    pub const SPEC: &str = "spec.json";
    /// The snapshot for people and tools.
    pub const META: &str = "meta.json";
    /// The outcome and closed records.
    pub const OUTCOME: &str = "outcome";
    /// The index of the output.
    pub const INDEX: &str = "out.idx";
    /// What was typed, where that is recorded.
    pub const INPUT: &str = "input";
    /// Held by the keeper for as long as it lives.
    pub const LOCK: &str = "lock";
    /// Held by the keeper until the outcome is written.
    pub const DONE: &str = "done";
    /// The keeper's socket.
    pub const CONTROL: &str = "ctl";
    /// The socket on which the command says that it is ready.
    pub const NOTIFY: &str = "notify";
    /// There once a front end has shown the outcome; its time is the last look.
    pub const SEEN: &str = "seen";
    /// There once the event was written that the keeper died and the command goes on.
    pub const ORPHANED: &str = "orphaned";
    /// There once a front end was asked to end a job without a keeper: on whose behalf, and with which signal.
    pub const ASKED: &str = "asked";
    /// There once the job is ready: since when, and by which sign.
    pub const READY: &str = "ready";
    /// There once a check of the job's health has failed too often: why, or that it is healthy again.
    pub const HEALTH: &str = "health";
    /// Held by the process that checks in the background whether the job is ready.
    pub const PROBE: &str = "probe";
    /// Of a job with a schedule: when it is to begin.
    pub const PLANNED: &str = "planned";
    /// There once bash, asked for it, has written down the exit codes of the pipeline that its line ended with.
    pub const PIPE_CODES: &str = "pipe_codes";
    /// There once its standard input has had all that another job printed.
    pub const FED: &str = "fed";
    /// Of a job that an engine places: it was not begun. One process gives it the next name or the one after, and that decides.
    pub const SUBMITTED: &str = "submitted";
    /// A node begins it.
    pub const CLAIMED: &str = "claimed";
    /// It was ended before any node began it.
    pub const CANCELLED: &str = "cancelled";
    /// Where it was placed.
    pub const PLACED: &str = "placed";
    /// What the engine calls it.
    pub const ENGINE_JOB: &str = "engine_job";
    /// What the engine's side printed beside the job.
    pub const ENGINE_LOG: &str = "engine.log";
    /// Why the record of a job that is kept on its node could not be brought home, the last time that this was tried.
    pub const UNREACHED: &str = "unreached";
    /// There once the process beside the job has asked for another run in its place: why, and when that may start.
    pub const NEXT_RUN: &str = "next_run";
    /// There once it is decided that no run follows by itself any more: why.
    pub const GAVE_UP: &str = "gave_up";
    /// The name of a job that was renamed.
    pub const NAME: &str = "name";
    /// The session that the job was given to.
    pub const SESSION: &str = "session";
    /// What became of the command at its end, and of the notice that was to be sent.
    pub const COMPLETION: &str = "parting.json";
    /// What became of the notice that was to be sent.
    pub const WEBHOOK: &str = "webhook.json";
    /// In the directory of a queue: how many of its jobs run at once, and whether it is paused.
    pub const QUEUE_SETTINGS: &str = "settings";
    /// In the directory of a queue: a FIFO for each job that waits in it, named by its place and its id, and locked by its keeper.
    pub const TICKETS: &str = "tickets";
    /// In the directory of a queue: a FIFO for each job that may run at once, locked by the keeper of the job that does.
    pub const SLOTS: &str = "slots";
    /// In a session's directory: its settings.
    pub const SETTINGS: &str = "session.json";
    /// In a session's directory: held, shared, by each front end that is open for it.
    pub const LEASE: &str = "lease";
    /// In a session's directory: what happened to its jobs.
    pub const EVENTS: &str = "events";
    /// In a session's directory, followed by a hash of a name: held by the front end that starts or restarts the job of that name.
    pub const STARTING: &str = "starting.";
}
