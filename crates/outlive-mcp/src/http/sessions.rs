//! Sessions of the protocol, in the store: a client goes on where it was when the server was killed.
//!
//! Only clients of the handshake era have one. Its id is as good as a key to the answers of that session, so it counts only for the
//! caller that began it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use outlive::Store;
use outlive_sys::durable;
use rmcp::model::InitializeRequestParams;
use rmcp::transport::streamable_http_server::session::{SessionState, SessionStore, SessionStoreError};
use serde_json::{Value, json};

use super::ASKING;

/// One that was not used for so long is forgotten.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// So many are kept at most; those that were not used for longest go first.
const MOST: usize = 1000;

/// The version of the file.
const FORMAT: u64 = 1;

/// The sessions that are known.
#[derive(Debug, Clone)]
pub(super) struct Sessions {
    store: Arc<Store>,
    /// Who has begun those that this process has served.
    owners: Arc<Mutex<HashMap<String, String>>>,
}

impl Sessions {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, owners: Arc::default() }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether a session that this process has served belongs to another caller.
    pub(super) fn is_foreign(&self, id: &str, owner: &str) -> bool {
        self.owners().get(id).is_some_and(|begun_by| begun_by != owner)
    }

    fn dir(&self) -> io::Result<PathBuf> {
        let dir = self.store.serve_dir()?.join("mcp");
        match fs::create_dir(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(dir),
        }
    }

    fn file(&self, id: &str) -> io::Result<Option<PathBuf>> {
        // What a client sends is no path.
        let is_id = id.len() == 36 && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if is_id { Ok(Some(self.dir()?.join(format!("{id}.json")))) } else { Ok(None) }
    }

    fn read(&self, id: &str, owner: &str) -> io::Result<Option<InitializeRequestParams>> {
        let Some(file) = self.file(id)? else { return Ok(None) };
        let bytes = match durable::read(durable::CWD, &file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let Ok(mut record) = serde_json::from_slice::<Value>(&bytes) else { return Ok(None) };
        if record["format"] != FORMAT || record["owner"] != owner {
            return Ok(None);
        }
        // That it is used again is told by its time; if that cannot be set, it is forgotten sooner.
        fs::File::open(&file).and_then(|file| file.set_modified(SystemTime::now())).ok();
        Ok(serde_json::from_value(record["initialize"].take()).ok())
    }

    fn write(&self, id: &str, owner: &str, initialize: &InitializeRequestParams) -> io::Result<()> {
        self.forget_old();
        let Some(file) = self.file(id)? else { return Ok(()) };
        let record = json!({ "format": FORMAT, "owner": owner, "initialize": initialize });
        let temporary = file.with_file_name(durable::temporary_name("session"));
        fs::write(&temporary, record.to_string())?;
        fs::rename(temporary, file)
    }

    /// Removes what was not used for long, and makes room for one more.
    fn forget_old(&self) {
        let files = self.dir().and_then(fs::read_dir).into_iter().flatten().flatten();
        let used = |file: &fs::DirEntry| file.metadata().and_then(|meta| meta.modified()).ok();
        let mut files: Vec<_> = files.filter_map(|file| Some((used(&file)?, file.path()))).collect();
        files.sort();
        let excess = (files.len() + 1).saturating_sub(MOST);
        let mut kept = HashSet::new();
        for (place, (used, path)) in files.into_iter().enumerate() {
            if place < excess || used.elapsed().is_ok_and(|age| age > KEPT) {
                fs::remove_file(path).ok();
            } else {
                kept.extend(path.file_stem().map(|id| id.to_string_lossy().into_owned()));
            }
        }
        self.owners().retain(|id, _| kept.contains(id));
    }

    /// Does something with files in a thread of its own.
    async fn with_files<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SessionStoreError> {
        let sessions = self.clone();
        Ok(tokio::task::spawn_blocking(move || act(&sessions)).await??)
    }
}

#[async_trait::async_trait]
impl SessionStore for Sessions {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let (key, owner) = (id.to_owned(), ASKING.with(|asking| asking.asked.owner()));
        let begun_by = owner.clone();
        let read = self.with_files(move |sessions| sessions.read(&key, &begun_by)).await?;
        if read.is_some() {
            self.owners().insert(id.to_owned(), owner);
        }
        Ok(read.map(SessionState::new))
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let (key, owner) = (id.to_owned(), ASKING.with(|asking| asking.asked.owner()));
        let initialize = state.initialize_params.clone();
        self.with_files(move |sessions| {
            let written = sessions.write(&key, &owner, &initialize);
            sessions.owners().insert(key, owner);
            written
        })
        .await
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        let (key, owner) = (id.to_owned(), ASKING.with(|asking| asking.asked.owner()));
        self.owners().remove(id);
        self.with_files(move |sessions| match sessions.file(&key)? {
            // That of another caller stays.
            Some(file) if sessions.read(&key, &owner)?.is_some() => fs::remove_file(file),
            _ => Ok(()),
        })
        .await
    }
}
