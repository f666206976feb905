//! Jobs on a node that an engine chose: what needs the node's own processes, or a store that is on the node alone, is done there, in a step
//! beside the job (`srun --overlap`). A job that is over is read here: what the node has recorded was brought home.

use std::cell::Cell;
use std::ffi::OsString;
use std::time::Duration;

use outlive::{Job, JobId, Nonce, State, Store};
use outlive_remote::{Address, Client, Connection, RemoteError};

use super::Machine;
use crate::args::{Arguments, Verb};
use crate::commands::project::job_named_here;

/// How often the engine is asked about a job that waits and is to be followed: it has many to answer.
const ASK: Duration = Duration::from_secs(5);

/// A job on a node.
pub(crate) struct Node {
    store: Store,
    job: JobId,
    nonce: Nonce,
    name: String,
    /// The word that names the job in the command line.
    reference: String,
    was_connected: Cell<bool>,
}

/// Returns the node of the job that a verb is about, if only a process there can do it.
pub(super) fn of(arguments: &mut Arguments) -> Option<Machine> {
    let verb = arguments.verb.as_ref()?;
    let needs_processes = match verb {
        Verb::Send(_) | Verb::Attach(_) | Verb::Resize(_) | Verb::Pause(_) | Verb::Resume(_) => true,
        // A signal alone; to end a job is also the engine's matter.
        Verb::Kill(kill) => kill.signal.is_some() && kill.grace.is_none(),
        Verb::Show(show) => show.tree,
        _ => false,
    };
    let reads = matches!(
        verb,
        Verb::Show(_) | Verb::Logs(_) | Verb::Screen(_) | Verb::Export(_) | Verb::Play(_) | Verb::Clear(_)
    );
    let follows = matches!(verb, Verb::Logs(logs) if logs.follow);
    if !(needs_processes || reads && Store::has_waiting()) {
        return None;
    }
    let session = arguments.common.session.clone();
    let references = arguments.references();
    let [reference] = references.as_slice() else { return None };
    let reference = reference.to_string();
    let store = Store::open().ok()?;
    // A reference that is not understood is explained by the verb itself.
    let named_here = || if session.is_some() { None } else { job_named_here(&store, &reference) };
    let job = named_here().or_else(|| store.find(&reference, session.as_ref()).ok())?;
    if !needs_processes && job.node_store().is_none() {
        return None;
    }
    let mut state = job.state(&store);
    if job.node_store().is_some() {
        state = asked(&store, &job);
        while follows && state.is_live() && !state.is_elsewhere() {
            std::thread::sleep(ASK);
            state = asked(&store, &job);
        }
    }
    let name = job.placed()?.node;
    // The engine's number may belong to another job by now.
    if !state.is_elsewhere() || !state.is_live() || !store.has_place(&job) {
        return None;
    }
    let (id, nonce) = (job.id().clone(), job.spec().nonce);
    let client = in_step(&store, &job)?;
    let was_connected = Cell::new(false);
    let node = Node { store, job: id, nonce, name: name.clone(), reference, was_connected };
    Some(Machine { node: Some(node), ..Machine::of(&name, true, client) })
}

/// Returns how a job is doing, also by its engine's word.
fn asked(store: &Store, job: &Job) -> State {
    let mut state = job.state(store);
    store.ask_engine(&mut [(job, &mut state)]);
    state
}

/// Returns what reaches the store of a job from a step beside it.
fn in_step(store: &Store, job: &Job) -> Option<Client> {
    let placed = job.placed()?;
    let home = job.node_store().map_or_else(|| store.root().display().to_string(), str::to_owned);
    let home = format!("OUTLIVE_HOME={home}");
    let program = std::env::current_exe().ok()?.display().to_string();
    let step = ["srun", "--quiet", "--overlap", "--unbuffered", "--ntasks=1", "--jobid"];
    let place = [&placed.engine_job, "--nodelist", &placed.node, "env", &home, &program, "rpc"];
    let words = step.into_iter().chain(place).map(str::to_owned).collect();
    Some(Client::new(Address::Command { name: placed.node.clone(), words }))
}

impl Node {
    /// Tells whether it was connected to before.
    pub(super) fn is_left(&self) -> bool {
        self.was_connected.replace(true)
    }

    /// Names the job as every store does that has it: a name, or one with the engine's before it, may be another one's there.
    pub(super) fn name_exactly(&self, words: &mut [OsString]) {
        let is_it = |word: &OsString| {
            let word = word.to_str().unwrap_or_default();
            word.strip_suffix(&self.reference).is_some_and(|host| host.is_empty() || host.ends_with('/'))
        };
        if let Some(word) = words.iter_mut().skip(1).find(|word| is_it(word)) {
            *word = self.job.as_str().into();
        }
    }

    /// Connects to the store that has the job: on the node, and here once it is over.
    pub(super) fn connect(&self) -> Result<Connection, RemoteError> {
        let away = |why: &str| RemoteError::Unreachable(self.name.clone(), std::io::Error::other(why));
        let job =
            self.store.find_exactly(&self.job, self.nonce).ok_or_else(|| away("the job was removed"))?;
        let state = asked(&self.store, &job);
        if !state.is_live() && job.node_store().is_some() {
            let program = std::env::current_exe().map_err(|error| away(&error.to_string()))?;
            let home = format!("OUTLIVE_HOME={}", self.store.root().display());
            let words = ["env".to_owned(), home, program.display().to_string(), "rpc".to_owned()];
            return Client::new(Address::Command { name: self.name.clone(), words: words.into() }).connect();
        }
        let client = in_step(&self.store, &job).filter(|_| self.store.has_place(&job));
        client.ok_or_else(|| away("slurm has no place for it there"))?.connect()
    }
}
