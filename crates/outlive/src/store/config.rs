//! `config.toml`: limits, defaults and retention.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive_core::duration::{parse_duration, parse_size};
use outlive_core::id::QueueName;
use outlive_core::launch::SyncOrder;
use outlive_core::options::{JobChoices, JobOptions, OPTIONS};
use outlive_core::placement::{Engine, Placement};
use outlive_core::queue::MOST_PARALLEL;
use outlive_core::timestamp::Timestamp;
use outlive_sys::owner::Distrust;
use outlive_sys::{clock, durable};

use crate::store::config_file;
use crate::store::suggestion::{did_you_mean, with_suggestion};

/// Longest configuration file: far more than every key with a comment.
const LONGEST: u64 = 1 << 20;

/// The content of `config.toml`; see `docs/guide/configuration.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Limits on live jobs and output.
    pub limits: Limits,
    /// Defaults for jobs.
    pub job: JobDefaults,
    /// How long ended jobs are kept.
    pub retention: Retention,
    /// Leases and readers.
    pub session: SessionRules,
    /// How notices are sent to webhooks.
    pub webhook: WebhookRules,
    /// Settings of the MCP server.
    pub mcp: McpRules,
    /// How the store is written.
    pub store: StoreRules,
    /// Queues, by name.
    pub queues: BTreeMap<QueueName, QueueRules>,
    /// Other machines, by name.
    pub hosts: BTreeMap<String, HostRules>,
}

/// How a queue is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueRules {
    /// How many of its jobs run at once.
    pub parallel: u32,
}

/// Another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRules {
    /// Where it is: `ssh://…`, `unix://…` or `http://…`; empty: this machine, where an engine places jobs.
    pub address: String,
    /// The engine that places jobs there.
    pub engine: Option<Engine>,
    /// The directory of a store that each of the engine's nodes has for itself.
    pub node_store: Option<String>,
    /// outlive is copied there if it is not there.
    pub copies: bool,
    /// The file with the token for `http://…`.
    pub token_file: Option<PathBuf>,
}

impl HostRules {
    /// Returns what its engine is asked for where nothing else is said; none: it has none.
    pub fn placement(&self) -> Option<Placement> {
        let node_store = self.node_store.clone();
        self.engine.map(|engine| Placement { node_store, ..Placement::by(engine) })
    }
}

/// How the store is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreRules {
    /// When a job's outcome is synced.
    pub sync: SyncOrder,
}

/// Settings of the MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct McpRules {
    /// The base environment of its jobs.
    pub env: JobEnvironment,
    /// The longest that a call waits; none: as long as the client is known to take.
    pub longest_wait: Option<Duration>,
}

/// The base environment of jobs that the MCP server starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobEnvironment {
    /// The server's own, as the client set it.
    #[default]
    Inherit,
    /// The environment of the user's login shell.
    Login,
    /// Only the variables that programs cannot do without.
    Clean,
}

impl std::str::FromStr for JobEnvironment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "inherit" => Ok(Self::Inherit),
            "login" => Ok(Self::Login),
            "clean" => Ok(Self::Clean),
            _ => Err("write inherit, login or clean".to_owned()),
        }
    }
}

/// Leases and readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRules {
    /// How long a job that lives with its session goes on without a front end.
    pub lease: Duration,
    /// After so long without a sign of the reader that started a job, the session's next reader receives its end.
    pub absence: Duration,
}

/// How notices are sent to webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRules {
    /// The key of the signature; none: notices are not signed.
    pub secret: Option<String>,
    /// Longest time of one attempt.
    pub timeout: Duration,
    /// How long a notice is tried before it is given up.
    pub give_up: Duration,
    /// Pause after the first failed attempt; each further pause is twice as long.
    pub first_retry: Duration,
}

/// Limits on live jobs and on output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Live jobs in one session.
    pub session: usize,
    /// Live jobs in the store.
    pub total: usize,
    /// Jobs that wait to be started; they count for none of the others.
    pub queued: usize,
    /// The queue of a job that is over one of the limits on live jobs; none: it is refused.
    pub overflow: Option<QueueName>,
    /// Output in the store: the actual size for ended jobs, the cap for live ones.
    pub bytes: Option<u64>,
}

/// Defaults for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDefaults {
    /// The shell for a command line; none: bash, else sh.
    pub shell: Option<PathBuf>,
    /// The default of every option.
    pub options: JobOptions,
    /// Time limit of on-exit commands.
    pub on_exit_timeout: Duration,
}

/// How long ended jobs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Kept so long after the end, once the outcome was shown; none: as those that were not.
    pub keep: Option<Duration>,
    /// At most so long, shown or not; none: without limit.
    pub max_age: Option<Duration>,
    /// At most so many ended jobs.
    pub max_jobs: Option<usize>,
    /// At most so long after the last read.
    pub max_idle: Option<Duration>,
    /// At most so much output of ended jobs together.
    pub max_bytes: Option<u64>,
}

impl Retention {
    /// Returns how long anything that belongs to ended jobs is kept at most.
    pub fn longest(&self) -> Duration {
        self.max_age.unwrap_or(Duration::MAX)
    }
}

impl Default for Config {
    fn default() -> Self {
        let mut config = Self {
            limits: Limits { session: 50, total: 200, queued: 10_000, overflow: None, bytes: None },
            job: JobDefaults {
                shell: None,
                options: JobOptions::default(),
                on_exit_timeout: Duration::from_secs(600),
            },
            retention: Retention {
                keep: None,
                max_age: Some(Duration::from_secs(7 * 86_400)),
                max_jobs: None,
                max_idle: None,
                max_bytes: Some(20 << 30),
            },
            session: SessionRules { lease: Duration::from_secs(60), absence: Duration::from_secs(300) },
            webhook: WebhookRules {
                secret: None,
                timeout: Duration::from_secs(10),
                give_up: Duration::from_secs(86_400),
                first_retry: Duration::from_secs(1),
            },
            mcp: McpRules::default(),
            store: StoreRules::default(),
            queues: BTreeMap::new(),
            hosts: BTreeMap::new(),
        };
        config.limits.bytes = config.enough_bytes();
        config
    }
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file exists and cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    /// Another user can have written the file, or it is no regular file.
    #[error("{0} is not used")]
    Distrusted(PathBuf, #[source] Distrust),
    /// The file is not valid TOML, or has an invalid key or value: position and reason.
    #[error("{0}: {1}")]
    Parse(PathBuf, String),
}

impl Config {
    /// Reads a file; a missing file gives the defaults.
    ///
    /// # Errors
    ///
    /// If it cannot be read, another user than the effective one and root can have written it, or it has an unknown key or a
    /// meaningless value.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let failed = |error: io::Error| match Distrust::of(&error) {
            Some(distrust) => ConfigError::Distrusted(path.to_owned(), distrust),
            None => ConfigError::Read(path.to_owned(), error),
        };
        let text = match durable::read_linked(path, LONGEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(failed)?,
        };
        let text = String::from_utf8(text).map_err(|error| failed(io::Error::other(error)))?;
        Self::parse(&text).map_err(|message| ConfigError::Parse(path.to_owned(), message))
    }

    /// Returns a ceiling that the other limits imply: all output that ended jobs may keep, and the caps of the most live jobs.
    fn enough_bytes(&self) -> Option<u64> {
        let live = u64::try_from(self.limits.total).ok()?.checked_mul(self.job.options.output_cap_bytes?)?;
        self.retention.max_bytes?.checked_add(live)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: config_file::File =
            toml::from_str(text).map_err(|error| with_suggestion(error.to_string().trim_end()))?;
        let mut config = Self::default();
        config.limits.session = file.limits.session.unwrap_or(config.limits.session);
        config.limits.total = file.limits.total.unwrap_or(config.limits.total);
        config.limits.queued = file.limits.queued.unwrap_or(config.limits.queued);
        let overflow = optional(QueueName::parse);
        set(&mut config.limits.overflow, "limits.overflow", file.limits.overflow, overflow)?;
        config.queues = file.queue.into_iter().map(queue).collect::<Result<_, _>>()?;
        config.job.read(file.job)?;
        let (retention, session, webhook) = (&mut config.retention, &mut config.session, &mut config.webhook);
        set(&mut retention.keep, "retention.keep", file.retention.keep, optional(parse_duration))?;
        set(&mut retention.max_age, "retention.max_age", file.retention.max_age, optional(parse_duration))?;
        retention.max_jobs = file.retention.max_jobs;
        set(
            &mut retention.max_idle,
            "retention.max_idle",
            file.retention.max_idle,
            optional(parse_duration),
        )?;
        set(&mut retention.max_bytes, "retention.max_bytes", file.retention.max_bytes, optional(parse_size))?;
        set(&mut session.lease, "session.lease", file.session.lease, parse_duration)?;
        set(&mut session.absence, "session.absence", file.session.absence, parse_duration)?;
        webhook.secret = file.webhook.secret.filter(|secret| !secret.is_empty());
        set(&mut webhook.timeout, "webhook.timeout", file.webhook.timeout, parse_duration)?;
        set(&mut webhook.give_up, "webhook.give_up", file.webhook.give_up, parse_duration)?;
        set(&mut config.mcp.env, "mcp.env", file.mcp.env, str::parse)?;
        let longest_wait = |text: &str| parse_duration(text).map(Some);
        set(&mut config.mcp.longest_wait, "mcp.longest_wait", file.mcp.longest_wait, longest_wait)?;
        set(&mut config.store.sync, "store.sync", file.store.sync, sync_order)?;
        set(&mut webhook.first_retry, "webhook.first_retry", file.webhook.first_retry, parse_duration)?;
        for (name, host) in file.hosts {
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            if !is_name || name.is_empty() || matches!(name.as_str(), "all" | "local") {
                return Err(format!(
                    "hosts.{name}: a name has letters, digits, `.`, `_` and `-`, and is not all or local"
                ));
            }
            let config_file::Host { address, engine, node_store, copy, token_file } = host;
            let unknown =
                |word: String| format!("hosts.{name}.engine: there is no engine {word:?}; there is slurm");
            let engine = engine.map(|word| Engine::parse(&word).ok_or_else(|| unknown(word))).transpose()?;
            if address.is_empty() && engine.is_none() {
                return Err(format!(
                    "hosts.{name}: address is missing, such as \"ssh://{name}\"; or engine = \"slurm\""
                ));
            }
            if node_store.as_ref().is_some_and(|path| engine.is_none() || !path.starts_with('/')) {
                return Err(format!("hosts.{name}.node_store: an absolute path, with engine = \"slurm\""));
            }
            let copies = copy.unwrap_or(true);
            config.hosts.insert(name, HostRules { address, engine, node_store, copies, token_file });
        }
        config.limits.bytes = config.enough_bytes();
        set(&mut config.limits.bytes, "limits.bytes", file.limits.bytes, optional(parse_size))?;
        Ok(config)
    }
}

impl JobDefaults {
    /// Reads `[job]`: a key for each option that declares one, and two that are no job options.
    fn read(&mut self, table: toml::Table) -> Result<(), String> {
        let mut choices = JobChoices::default();
        for (key, value) in table {
            // Options are parsed from text, here as everywhere else.
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(is_true) => is_true.to_string(),
                _ => return Err(format!("job.{key} must be text, a number, true or false")),
            };
            let option = OPTIONS.iter().find(|option| option.surfaces.in_config && option.name == key);
            match (key.as_str(), option) {
                ("shell", _) => self.shell = Some(text.into()),
                ("on_exit_timeout", _) => {
                    set(&mut self.on_exit_timeout, "job.on_exit_timeout", Some(text), parse_duration)?
                }
                (_, Some(option)) => option
                    .set(&mut choices, text.as_bytes(), Timestamp(clock::wall_us()))
                    .map_err(|error| format!("job.{key} = {text:?}: {error}"))?,
                (_, None) => {
                    let known = OPTIONS.iter().filter(|option| option.surfaces.in_config);
                    let meant = did_you_mean(&key, known.map(|option| option.name));
                    return Err(format!("job.{key} is not known{meant}"));
                }
            }
        }
        self.options.apply(&choices);
        Ok(())
    }
}

fn queue((name, queue): (String, config_file::Queue)) -> Result<(QueueName, QueueRules), String> {
    let known = QueueName::parse(&name).map_err(|error| format!("queue.{name}: {error}"))?;
    match queue.parallel {
        parallel @ 1..=MOST_PARALLEL => Ok((known, QueueRules { parallel })),
        parallel => {
            Err(format!("queue.{name}.parallel = {parallel}: write a number from 1 to {MOST_PARALLEL}"))
        }
    }
}

fn sync_order(text: &str) -> Result<SyncOrder, &'static str> {
    match text {
        "after" => Ok(SyncOrder::After),
        "before" => Ok(SyncOrder::Before),
        _ => Err("write after or before"),
    }
}

fn set<T, E: Display>(
    field: &mut T,
    key: &str,
    text: Option<String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<(), String> {
    if let Some(text) = text {
        *field = parse(&text).map_err(|error| format!("{key} = {text:?}: {error}"))?;
    }
    Ok(())
}

/// For settings that can be switched off.
fn optional<T, E>(parse: impl Fn(&str) -> Result<T, E>) -> impl Fn(&str) -> Result<Option<T>, E> {
    move |text| if matches!(text, "off" | "none") { Ok(None) } else { parse(text).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_stays_as_it_is() {
        assert_eq!(Config::parse(""), Ok(Config::default()));
        let config =
            Config::parse("[limits]\nsession = 7\n[job]\noutput_cap = \"off\"\ntimeout = \"10m\"").unwrap();
        assert_eq!((config.limits.session, config.limits.total), (7, 200));
        assert_eq!(config.limits.bytes, None, "without a cap there is nothing to reserve");
        assert_eq!(config.job.options.output_cap_bytes, None);
        assert_eq!(config.job.options.timeout_ms, Some(600_000));
        assert_eq!(config.retention, Config::default().retention);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("[limits]\nsesion = 7", "sesion"),
            ("[job]\ngrace = \"soon\"", "job.grace"),
            ("[job]\npids = 0", "job.pids"),
            ("[job]\npid = 1", "job.pid"),
            ("[job]\nname = \"a\"", "job.name"),
            ("[job]\nmemory = \"0\"", "job.memory"),
            ("[retention]\nmax_bytes = \"-1\"", "retention.max_bytes"),
            ("[mcp]\nenv = \"all\"", "mcp.env"),
            ("[mcp]\nlongest_wait = \"soon\"", "mcp.longest_wait"),
            ("[store]\nsync = \"never\"", "store.sync"),
            ("[hosts.\"a/b\"]\naddress = \"ssh://a\"", "hosts.a/b"),
            ("[hosts.all]\naddress = \"ssh://a\"", "hosts.all"),
            ("[hosts.a]\ncopy = false", "address"),
            ("limits = 3", "limits"),
            ("[queue.build]\nparallel = 0", "queue.build.parallel"),
            ("[queue.build]\nparalel = 2", "paralel"),
            ("[queue.'a b']\nparallel = 2", "queue.a b"),
            ("[limits]\noverflow = 'a b'", "limits.overflow"),
        ] {
            let message = Config::parse(text).unwrap_err();
            assert!(message.contains(named), "{message}");
        }
    }
}
