//! Background processes that outlive their starter.
//!
//! Start a command and get a handle at once; read its output; wait for its end; stop it with everything it started. The job
//! outlives the program that started it, and the next program finds it.
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
//! # // A store of its own, and no keeper program: this program is its own. Yours: `let store = Store::open()?;`
//! # let store = Store::open_at(home.path(), Default::default())?.with_self_as_keeper();
//! # /*
//! let store = Store::open()?;
//! # */
//! let started = store.start(&Request::shell("echo 12 passed; exit 3").name("tests"))?;
//! println!("{} runs as {:?}", started.job.id(), started.pid);
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
//! There is no daemon. Each job has a *keeper*, a tiny process that owns its pipes and records what happens; the *store*, a
//! directory, is the registry, and any program that opens it is an equal front end. A front end can be killed at any instant:
//! it holds no state that matters.
//!
//! The library is synchronous, and a wait needs no thread; only callbacks ([`Store::on_endings`]) and HTTP probes start one.

mod companion;
mod control;
mod delivery;
mod failure;
mod job;
mod launch;
mod notify;
mod output;
mod screen;
mod session;
mod store;
mod wait;

pub use control::awaits::AwaitedObject;
pub use control::tree::{Port, Process, Tree};
pub use control::upgrade::{InstalledKeeper, InstalledKeeperError, KeeperVersion, Upgraded};
pub use control::usage::{Source, Usage};
pub use control::viewer::Viewer;
pub use control::{ControlError, Kill, Killed};
pub use delivery::deliver::Delivered;
pub use delivery::on_exit::OnExitError;
pub use delivery::record::{OnExit, OnExitRun, OnExitState, Webhook, WebhookState};
pub use failure::{Code, Failure, FailureObject, chain, exit};
pub use job::details::JobDetails;
pub use job::find::{Damaged, FindError, Listing, NEWER, States};
pub use job::object::{JobObject, LimitObject, LimitsObject, OutputObject, reason, signal_name};
pub use job::state::{Custody, State};
pub use job::{DamageError, Job, RenameError};
pub use launch::after::AfterError;
pub use launch::engine::{EngineError, LeftPlace, PlaceError};
pub use launch::ensure::Ensured;
pub use launch::next_run::{NextRun, NextRunError};
pub use launch::pipe::end_of_pipe;
pub use launch::programs::SpareKeeper;
pub use launch::queue::{QueueChange, QueueError, QueueObject};
pub use launch::request::{Request, RequestError};
pub use launch::resolve::check_options;
pub use launch::restart::{RestartError, Restarted};
pub use launch::start::{StartError, Started};
pub use notify::changes::Changes;
pub use notify::events::{EventOrGap, Events, Numbered};
pub use notify::inbox::{Inbox, InboxError, Pending};
pub use notify::listener::Listener;
pub use notify::notice::{MatchedLine, Notice, one_line, quoted};
pub use notify::object::EventObject;
pub use notify::watch::WatchError;
pub use notify::watched::WatchedOutput;
pub use output::excerpt::{Excerpt, tail_text};
pub use output::follow::{Followed, Follower, Followers, Growth};
pub use output::nonblank::{Blank, Nonblank, Tally};
pub use output::object::LineObject;
pub use output::search::{PatternError, Search, pattern};
pub use output::steps::{Step, StepPlace};
pub use output::unread::{Place, Unread, UnreadLines};
pub use output::view::{Fit, Form, View, ViewItem};
pub use output::{Loss, Output, Piece};
pub use screen::JobScreen;
pub use screen::apart::{ScreenCursor, ScreenText};
pub use screen::export::{ExportForm, Exported};
pub use session::agent::{Agent, AgentError, AgentObject, AgentStatus};
pub use session::connection::{Connected, Connection};
pub use session::reader::{Presence, conversation_of_environment, reader_name, reader_of_environment};
pub use session::seat::{Seat, Seats};
pub use session::task::Task;
pub use session::{Lease, Running, Session, SessionError, SessionObject};
pub use store::config::{
    Config, ConfigError, HostRules, JobDefaults, JobEnvironment, Limits, McpRules, QueueRules, Retention,
    SessionRules, StoreRules, WebhookRules,
};
pub use store::doctor::{Examination, Finding};
pub use store::limits::LimitError;
pub use store::machine::{Allowances, BOOT_UNIT, Feature, Machine, Survival, Versions, levels};
pub use store::remove::{Collected, RemoveError};
pub use store::{Store, StoreError};
pub use wait::auto_background::{AutoBackground, Foreground};
pub use wait::conditions::{
    Conditions, EventScope, InputWanted, Until, WaitError, WaitFor, WaitReason, WaitResult,
};
pub use wait::http::HttpAddress;
pub use wait::ready::ReadyRecord;
pub use wait::shell_words::{ShellLine, read as read_shell_line};

pub use companion::files::CHANGE_OF;
pub use outlive_core::after::{After, Milestone};
pub use outlive_core::awaits::{Awaited, AwaitedKind, KnownBy};
pub use outlive_core::budget::{Budget, Fitted, Fitter, Omitted, Weight, looks_like_error, weigh};
pub use outlive_core::containment::{Containment, Enforcement, Kept, Level, Survivors};
pub use outlive_core::control::Survivor;
pub use outlive_core::cursor::Cursor;
pub use outlive_core::display::Display;
pub use outlive_core::duration;
pub use outlive_core::event::{Event, Kind as EventKind};
pub use outlive_core::health::HealthThen;
pub use outlive_core::id::{JobId, NameError, Nonce, QueueName, SessionName, hash};
pub use outlive_core::index::Stream;
pub use outlive_core::label::{LabelError, LabelFilter, Labels, OwnLabel};
pub use outlive_core::launch::SyncOrder;
pub use outlive_core::lines::Line;
pub use outlive_core::nearest::nearest;
pub use outlive_core::newer::OrNewer;
pub use outlive_core::options::kinds::{Form as OptionForm, Kind as OptionKind};
pub use outlive_core::options::{
    Completion, Health, JobChoices, JobLimits, JobOption, JobOptions, OPTIONS, Ready, Surfaces,
};
pub use outlive_core::outcome::{Cause, NeverStarted, Outcome, Totals, WaitStatus};
pub use outlive_core::placement::{Engine, Placed, Placement};
pub use outlive_core::plain::Plain;
pub use outlive_core::queue::MOST_PARALLEL;
pub use outlive_core::rawtext::RawText;
pub use outlive_core::restart::RestartWhen;
pub use outlive_core::session::Settings as SessionSettings;
pub use outlive_core::spec::{Lifetime, Mode, Spec, Stdin, StdinFrom, quote};
pub use outlive_core::status::Status;
pub use outlive_core::terminal::keys;
pub use outlive_core::terminal::size::{SizeError, Sizing, TerminalSize};
pub use outlive_core::timestamp::Timestamp;
pub use outlive_screen::{
    Color, CursorObject, ModesObject, Run, Screen, ScreenObject, SeenRows, export, styled,
};
pub use outlive_sys::cancel::Cancel;
pub use outlive_sys::owner::Distrust;
pub use outlive_sys::ports::Listeners;
pub use outlive_sys::signal::Signal;
