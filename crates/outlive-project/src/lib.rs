//! Projects: jobs that belong together, as `outlive.toml` says.
//!
//! A front end like any other: it uses what the library `outlive` offers to every program, and no keeper knows of projects. The jobs
//! of a project are the jobs of one session. `up` may be killed at any time: what it began is carried on by a process of its own,
//! which ends when all jobs are started.

mod error;
mod file;
mod import;
mod ports;
mod project;
mod schema;
mod up;

pub use error::ProjectError;
pub use file::fault::Fault;
pub use file::templates::Template;
pub use import::{Imported, import, importable};
pub use project::{After, Asked, Command, FILE, LOCAL_FILE, Milestone, Port, Project, ProjectJob, There};
pub use schema::schema;
pub use up::converge::converge;
pub use up::define::define;
pub use up::down::{Down, down, left_up};
pub use up::record::{Progress, Record, Step, StepState};
pub use up::status::{
    Cause, JobStatus, NOT_STARTED, Quoted, is_stranger, run_of, status, unready, why, why_alone,
};
pub use up::status_there::JobRun;
pub use up::there::session_there;
pub use up::{Rising, bring_up, ready_there};
