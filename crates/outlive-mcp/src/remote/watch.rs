//! Endings on other machines, for the next answer of any tool.
//!
//! A thread for each machine on which the session has live jobs follows what happens there. When there is something, the next answer
//! looks into the reader's inbox there, and says there what the client has received. The thread ends when nothing is live there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::{SessionName, Store};
use outlive_remote::{Client, Filter, RemoteError};
use serde_json::Value;

use super::Host;
use crate::notices;
use crate::reply::{After, MARK};
use crate::scope::Scope;

/// Pauses before a machine is tried again; the last one repeats.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(15), Duration::from_secs(60)];

/// The machines that are watched.
#[derive(Debug, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<String, Watch>>>);

#[derive(Debug, Clone)]
struct Watch {
    client: Client,
    /// Something may be in the inbox there.
    has_news: Arc<AtomicBool>,
    /// A thread follows it.
    is_followed: bool,
    /// A call was made there since that thread looked: before it ends, it looks again.
    is_called: bool,
    /// Endings up to this sequence were in answers.
    told: u64,
}

impl Watches {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a machine, unless it is.
    pub(crate) fn watch(&self, store: &Arc<Store>, scope: &Scope, host: &Host) {
        let Ok(client) = host.client() else { return };
        let mut all = self.all();
        let new = || Watch {
            client: client.clone(),
            has_news: Arc::default(),
            is_followed: false,
            is_called: false,
            told: 0,
        };
        let watch = all.entry(host.name.clone()).or_insert_with(new);
        // A thread that has just ended has perhaps forgotten the machine. Where it cannot be noted, this process knows it all the same.
        store.note_host(&scope.session, &host.name).ok();
        if std::mem::replace(&mut watch.is_followed, true) {
            watch.is_called = true;
            return;
        }
        let (watch, name, all) = (watch.clone(), host.name.clone(), Arc::clone(&self.0));
        let (store, session, reader) = (Arc::clone(store), scope.session.clone(), scope.reader.clone());
        std::thread::spawn(move || {
            loop {
                follow(&watch, &session, &reader);
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(entry) = all.get_mut(&name) else { return };
                // What was started since is live, or has something to tell.
                if std::mem::take(&mut entry.is_called) {
                    continue;
                }
                entry.is_followed = false;
                if !watch.has_news.load(Ordering::SeqCst) {
                    store.forget_host(&session, &name);
                }
                return;
            }
        });
    }

    /// Watches the machines on which earlier servers have left jobs of the session.
    pub(crate) fn resume(&self, store: &Arc<Store>, scope: &Scope) {
        for name in store.hosts_of(&scope.session) {
            if let Some(rules) = store.config().hosts.get(&name).cloned() {
                self.watch(store, scope, &Host { name, rules });
            }
        }
    }

    /// Returns what the reader has not received from other machines, as lines, and what to do once the client has them. A machine
    /// whose own answer this is has said so already.
    pub(crate) fn tell(&self, scope: &Scope, except: Option<&str>) -> (String, Vec<After>) {
        let (mut text, mut after) = (String::new(), Vec::<After>::new());
        let news: Vec<(String, Watch)> = {
            let is_due = |name: &str, watch: &Watch| {
                Some(name) != except && watch.has_news.swap(false, Ordering::SeqCst)
            };
            let all = self.all();
            let due = all.iter().filter(|(name, watch)| is_due(name, watch));
            due.map(|(name, watch)| (name.clone(), watch.clone())).collect()
        };
        for (name, watch) in news {
            let (session, reader) = (scope.session.to_string(), scope.reader.to_string());
            let Ok(inbox) = watch.client.inbox(&session, &reader) else {
                // It is not lost: a later answer has it.
                watch.has_news.store(true, Ordering::SeqCst);
                continue;
            };
            let is_new = |notice: &&Value| notice["seq"].as_u64().is_none_or(|seq| seq > watch.told);
            let lines: String =
                inbox.notices.iter().filter(is_new).map(|notice| notices::lines_of(&name, notice)).collect();
            if lines.is_empty() {
                continue;
            }
            text += &lines;
            if inbox.left > 0 {
                text += &format!("{MARK} more endings on {name} come with the next result\n");
                watch.has_news.store(true, Ordering::SeqCst);
            }
            let (all, up_to) = (Arc::clone(&self.0), inbox.up_to);
            after.push(Box::new(move || {
                if let Some(watch) = all.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&name) {
                    watch.told = watch.told.max(up_to);
                }
                // The next call does not wait for the network. What is not acknowledged is told again by a later server.
                std::thread::spawn(move || watch.client.acknowledge(&session, &reader, up_to).ok());
            }));
        }
        (text, after)
    }
}

/// Notes whenever there is something in the reader's inbox, until nothing of the session is live there.
fn follow(watch: &Watch, session: &SessionName, reader: &SessionName) {
    let mut failures = 0;
    loop {
        match follow_once(watch, session.as_str(), reader.as_str(), &mut failures) {
            Ok(()) => return,
            Err(error) if error.is_passing() => {
                std::thread::sleep(PAUSES[failures.min(PAUSES.len() - 1)]);
                failures += 1;
            }
            // It does not speak as it should, or refuses: calls say so.
            Err(_) => return,
        }
    }
}

fn follow_once(watch: &Watch, session: &str, reader: &str, failures: &mut usize) -> Result<(), RemoteError> {
    // Before the look: what happens after it is among the events.
    let mut events = watch.client.events(None)?;
    loop {
        let filter =
            Filter { session: Some(session.to_owned()), is_live: true, limit: Some(1), ..Filter::default() };
        // In this order: what ends between the two looks is in the inbox, and no later look would find it.
        let is_over = watch.client.jobs(&filter)?.total == 0;
        let inbox = watch.client.inbox(session, reader)?;
        *failures = 0;
        if inbox.notices.iter().any(|notice| notice["seq"].as_u64() > Some(watch.told)) {
            watch.has_news.store(true, Ordering::SeqCst);
        }
        if is_over {
            return Ok(());
        }
        // Whatever happens to a job of the session may be something to tell.
        while events.receive()?.object["session"] != session {}
    }
}
