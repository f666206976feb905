//! `--host`: the verbs of another machine. Which machine is meant is decided here; `call` runs the verb there.

mod all;
mod call;
mod marks;
mod node;
mod project;
mod window;

use std::ffi::OsString;
use std::process::ExitCode;

use outlive::{Code, HostRules, SessionName, Store};
use outlive_remote::{Address, Client, Connection, RemoteError, Ssh};

use crate::args::{Arguments, Reach, Verb};
use crate::failure::Failure;
use crate::render::note;
use crate::served;

/// The variable that names a machine where no option does.
pub(crate) const HOST: &str = "OUTLIVE_HOST";

/// Every machine that the configuration names, and this one.
const ALL: &str = "all";

/// This machine, whatever the environment says.
const LOCAL: &str = "local";

/// Another machine, or several.
pub(crate) enum Host {
    One(Box<Machine>),
    All(Vec<Machine>),
}

/// Another machine.
pub(crate) struct Machine {
    /// What the user calls it.
    pub(crate) name: String,
    /// The user's own commands name it by a variable, so that hints need not.
    pub(crate) is_understood: bool,
    pub(crate) address: Address,
    pub(crate) client: Client,
    /// The session of the jobs that are meant there, where their names alone were given.
    pub(crate) session: Option<SessionName>,
    /// It is a node that an engine chose for one job.
    node: Option<node::Node>,
}

/// Returns the machine that is meant, where it is not this one.
pub(crate) fn host(arguments: &mut Arguments) -> Result<Option<Host>, Failure> {
    if matches!(arguments.reach(), Reach::Own) {
        return Ok(None);
    }
    if served::is_called() {
        return Ok(node::of(arguments).map(|machine| Host::One(Box::new(machine))));
    }
    let on = match &arguments.verb {
        Some(Verb::Run(run)) => run.on.clone(),
        _ => None,
    };
    if let (Some(host), Some(on)) = (&arguments.common.host, &on)
        && host != on
    {
        return Err(Failure::usage(
            format!("--host {host} and --on {on} are two machines"),
            "give one of them",
        ));
    }
    let mut session = None;
    let named = match arguments.common.host.clone().or(on) {
        Some(named) => Some(named),
        None => match prefix(arguments)? {
            Some(named) => Some(named),
            None => project::of(arguments).map(|(host, there)| {
                session = Some(there);
                host
            }),
        },
    };
    let inherited = || std::env::var(HOST).ok().filter(|host| !host.is_empty());
    let is_understood = named.is_none();
    let Some(name) = named.or_else(inherited).filter(|name| name != LOCAL) else {
        return Ok(node::of(arguments).map(|machine| Host::One(Box::new(machine))));
    };
    let rules = Store::open().ok().and_then(|store| store.config().hosts.get(&name).cloned());
    if let Some(placement) = rules.as_ref().and_then(HostRules::placement) {
        let is_here = rules.is_some_and(|rules| rules.address.is_empty());
        if is_here {
            // Its jobs are in this store; the engine alone is elsewhere.
            arguments.leave_host(Some(&name));
            arguments.common.host = None;
        }
        if let Some(Verb::Run(run)) = &mut arguments.verb {
            run.engine = Some(placement.engine);
            run.node_store = run.node_store.take().or(placement.node_store);
        }
        if is_here {
            return Ok(node::of(arguments).map(|machine| Host::One(Box::new(machine))));
        }
    }
    if name == ALL {
        return match arguments.verb {
            Some(Verb::List(_)) => Ok(Some(Host::All(machines()?))),
            _ => Err(Failure::usage("--host all is for `list`", "name one machine")),
        };
    }
    machine(&name, is_understood).map(|machine| Some(Host::One(Box::new(Machine { session, ..machine }))))
}

/// Returns the machine that all references begin with: `gpu1` of `gpu1/train-3f9c`.
fn prefix(arguments: &mut Arguments) -> Result<Option<String>, Failure> {
    let references = arguments.references();
    if !references.iter().any(|reference| reference.contains('/')) {
        return Ok(None);
    }
    let store = Store::open()?;
    let hosts = &store.config().hosts;
    let mut named = references.iter().map(|reference| {
        let host = reference.split_once('/').map(|(host, _)| host).filter(|host| hosts.contains_key(*host));
        host.map(str::to_owned)
    });
    let first = named.next().flatten();
    match named.all(|other| other == first) {
        true => Ok(first),
        false => Err(Failure::usage(
            "these jobs are on several machines",
            "do it for the jobs of one machine at a time",
        )),
    }
}

fn machine(name: &str, is_understood: bool) -> Result<Machine, Failure> {
    if name.contains("://") {
        let address = name.parse().map_err(|error: outlive_remote::AddressError| {
            Failure::usage(format!("--host: {error}"), "`outlive help hosts` has examples")
        })?;
        let client = Client::new(address).with_ssh(Ssh { tell: note, ..Ssh::default() });
        let client = match outlive_remote::token_of_environment() {
            Some(token) => client.with_token(token),
            None => client,
        };
        return Ok(Machine::of(name, is_understood, client));
    }
    let store = Store::open()?;
    match store.config().hosts.get(name) {
        Some(rules) => configured(name, is_understood, rules),
        None => {
            let known: Vec<&str> = store.config().hosts.keys().map(String::as_str).collect();
            let hint = match known.as_slice() {
                [] => {
                    format!("add it to config.toml: [hosts.{name}] and below it address = \"ssh://{name}\"")
                }
                known => format!("there are: {}; or write ssh://{name}", known.join(", ")),
            };
            Err(Failure::new(Code::NotFound, format!("there is no machine {name:?}")).hint(hint))
        }
    }
}

/// Returns all machines of the configuration.
fn machines() -> Result<Vec<Machine>, Failure> {
    let store = Store::open()?;
    outlive_remote::machines(&store.config().hosts)
        .map(|(name, rules)| configured(name, false, rules))
        .collect()
}

fn configured(name: &str, is_understood: bool, rules: &HostRules) -> Result<Machine, Failure> {
    Ok(Machine::of(name, is_understood, Client::named(name, rules, note)?))
}

impl Machine {
    fn of(name: &str, is_understood: bool, client: Client) -> Self {
        Self {
            name: name.to_owned(),
            is_understood,
            address: client.address().clone(),
            client,
            session: None,
            node: None,
        }
    }

    /// Connects; where it is a node and was connected to before, to wherever the job is now.
    fn connect(&self) -> Result<Connection, RemoteError> {
        match self.node.as_ref().filter(|node| node.is_left()) {
            Some(node) => node.connect(),
            None => self.client.connect(),
        }
    }
}

/// Does there what was asked.
pub(crate) fn run(host: &Host, arguments: &Arguments, words: &[OsString]) -> Result<ExitCode, Failure> {
    match (host, arguments.reach()) {
        (Host::All(machines), _) => all::run(machines, arguments, words),
        (Host::One(machine), Reach::There(there)) => call::run(machine, there, arguments, words),
        (Host::One(machine), Reach::Here(hint)) => {
            let message = format!("{}: not on {}, but where you are", arguments.verb_name(), machine.name);
            Err(Failure::usage(message, hint))
        }
        (Host::One(_), Reach::Own) => Ok(ExitCode::SUCCESS),
    }
}
