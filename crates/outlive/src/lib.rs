//! Background processes that outlive their starter.
//!
//! Start a command and get a handle at once; read what it prints; wait for its end; stop it with everything it started.
//! The job goes on whatever becomes of the program that started it, and the next program finds it.
//!
//! ```standalone_crate
//! use std::time::Duration;
//! use outlive::{Request, Store, Until};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # if std::env::args_os().next().is_some_and(|name| name == outlive_keeper::PROGRAM) {
//! #     outlive_keeper::run();
//! #     return Ok(());
//! # }
//! # let home = tempfile::tempdir()?;
//! # // A store of its own, and no keeper beside this program: it is its own. Yours: `let store = Store::open()?;`
//! # let store = Store::open_at(home.path(), Default::default())?.with_self_as_keeper();
//! # /*
//! let store = Store::open()?;
//! # */
//! let started = store.start(&Request::shell("echo 12 passed; exit 3").name("tests"))?;
//! println!("{} runs as {}", started.job.id(), started.pid);
//!
//! // Later, in this program or in any other:
//! let job = store.find("tests", None)?;
//! let waited = store.wait(std::slice::from_ref(&job), Until::All, Some(Duration::from_secs(60)));
//! assert_eq!(waited.states[0].status.word(), "failed");
//! let lines = outlive::Output::open(&job)?.tail(20, None)?;
//! assert_eq!(lines[0].text, b"12 passed");
//! store.remove(&job)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Theory of operation
//!
//! There is no daemon. Each job has a *keeper*, a tiny process that owns its pipes and writes down what happens; the
//! *store*, a directory, is the registry, and any program that opens it is an equal front end. Nothing that a front end
//! holds in memory matters: it can be killed at any instant.
//!
//! The library is synchronous and keeps no state but threads that wait on behalf of [`Store::wait`].

mod agent;
mod auto_background;
mod characters;
mod clear;
mod collect;
mod config;
mod containment;
mod control;
mod cursor;
mod deliver;
mod dense;
mod doctor;
mod events;
mod excerpt;
mod files;
mod find;
mod follow;
mod frame;
mod fresh;
mod helper;
mod http;
mod inbox;
mod job;
mod keeper;
mod lift_timeout;
mod limits;
mod listener;
mod machine;
mod notice;
mod object;
mod orphan;
mod output;
mod owed;
mod parting;
mod presence;
mod probe;
mod reader;
mod ready;
mod remove;
mod rename;
mod request;
mod reserve;
mod scan;
mod search;
mod session;
mod settle;
mod spool;
mod start;
mod state;
mod store;
mod survival;
mod tail;
mod told;
mod tree;
mod usage;
mod view;
mod wait;
mod wait_for;
mod webhook;

pub use agent::{Agent, AgentError, AgentObject, AgentStatus};
pub use auto_background::{AutoBackground, Foreground};
pub use collect::Collected;
pub use config::{
    Config, ConfigError, JobDefaults, JobEnvironment, Limits, McpRules, Retention, SessionRules, WebhookRules,
};
pub use containment::levels;
pub use control::{ControlError, Kill, Killed};
pub use deliver::Delivered;
pub use dense::{Blank, Dense, Tally};
pub use doctor::{Examination, Finding};
pub use events::{Events, Numbered};
pub use excerpt::Excerpt;
pub use find::{Damaged, FindError, Listing};
pub use follow::{Followed, Follower};
pub use fresh::{Fresh, FreshLines, Place};
pub use http::HttpAddress;
pub use inbox::{Inbox, InboxError, Pending};
pub use job::{DamageError, Job};
pub use keeper::SpareKeeper;
pub use limits::LimitError;
pub use listener::Listener;
pub use machine::{Allowances, Feature, Machine, Versions};
pub use notice::{Completion, Notice, completion_message, one_line, quoted};
pub use object::{JobObject, LimitObject, LimitsObject, OutputObject, reason, signal_name};
pub use output::{Output, Piece};
pub use parting::{OnExit, OnExitState, PartingError, Webhook, WebhookState};
pub use presence::Presence;
pub use reader::{reader_name, reader_of_environment};
pub use ready::ReadyRecord;
pub use remove::RemoveError;
pub use rename::RenameError;
pub use request::{Request, RequestError};
pub use search::{Search, pattern};
pub use session::{Lease, Running, Session, SessionError, SessionObject};
pub use start::{StartError, Started};
pub use state::State;
pub use store::{Store, StoreError};
pub use survival::Survival;
pub use tail::tail_text;
pub use tree::{Port, Process, Tree};
pub use usage::{Source, Usage};
pub use view::{Fit, Form, TextLine, View, ViewItem};
pub use wait::{Until, Waited};
pub use wait_for::{Arrival, Came, Conditions, EventScope, WaitError, WaitFor};

pub use outlive_core::budget::{Budget, Fitted, Fitter, Omitted, looks_like_error};
pub use outlive_core::containment::{Containment, Enforcement, JobLimits, Kept, Level, Survivors};
pub use outlive_core::control::Survivor;
pub use outlive_core::cursor::Cursor;
pub use outlive_core::duration;
pub use outlive_core::event::{Event, Kind as EventKind};
pub use outlive_core::id::{JobId, NameError, Nonce, SessionName, hash};
pub use outlive_core::index::Stream;
pub use outlive_core::lines::Line;
pub use outlive_core::outcome::{Cause, NeverStarted, Outcome, Totals, WaitStatus};
pub use outlive_core::plain::Plain;
pub use outlive_core::rawtext::RawText;
pub use outlive_core::session::Settings as SessionSettings;
pub use outlive_core::shell_words::{ShellLine, read as read_shell_line};
pub use outlive_core::spec::{Lifetime, Mode, Parting, Ready, Spec, Stdin, quote};
pub use outlive_core::status::Status;
pub use outlive_core::timestamp::Timestamp;
pub use outlive_sys::ports::Listeners;
pub use outlive_sys::signal::Signal;
