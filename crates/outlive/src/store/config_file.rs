//! `config.toml` as it is written; what each key means is in `config`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// The file as it is written; every key is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    pub(super) limits: Limits,
    pub(super) job: toml::Table,
    pub(super) retention: Retention,
    pub(super) session: Session,
    pub(super) webhook: Webhook,
    pub(super) mcp: Mcp,
    pub(super) store: Store,
    pub(super) queue: BTreeMap<String, Queue>,
    pub(super) hosts: BTreeMap<String, Host>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    pub(super) parallel: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    #[serde(default)]
    pub(super) address: String,
    pub(super) engine: Option<String>,
    pub(super) node_store: Option<String>,
    pub(super) copy: Option<bool>,
    pub(super) token_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Store {
    pub(super) sync: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mcp {
    pub(super) env: Option<String>,
    pub(super) longest_wait: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Session {
    pub(super) lease: Option<String>,
    pub(super) absence: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Webhook {
    pub(super) secret: Option<String>,
    pub(super) timeout: Option<String>,
    pub(super) give_up: Option<String>,
    pub(super) first_retry: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) session: Option<usize>,
    pub(super) total: Option<usize>,
    pub(super) queued: Option<usize>,
    pub(super) overflow: Option<String>,
    pub(super) bytes: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Retention {
    pub(super) keep: Option<String>,
    pub(super) max_age: Option<String>,
    pub(super) max_jobs: Option<usize>,
    pub(super) max_idle: Option<String>,
    pub(super) max_bytes: Option<String>,
}
