//! `outlive on-exit`: runs the command and sends the notice that a job asked for at its end. A keeper becomes this when its
//! job is closed; it is not for people.
//!
//! Of a job that an engine placed it leaves the place, and exits with the job's own code: its guard, which is the process that the engine
//! has started, does the same then.

use std::process::ExitCode;
use std::time::Duration;

use outlive::{Config, JobId, LeftPlace, Nonce, Store};

use crate::args::{LastAct, OnExit};
use crate::failure::Failure;

/// How long a job that is kept on this node stays readable in its place after its end: the steps of those who follow it end with the place.
const FOLLOWED: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &LastAct) -> Result<ExitCode, Failure> {
    let (store, id, nonce) = take_up("on-exit", &arguments.of)?;
    let left = store.leave_place(&id, nonce);
    store.part(&id, nonce).map_err(|error| Failure::other("on-exit", &error))?;
    let Some(LeftPlace { code }) = left else { return Ok(ExitCode::SUCCESS) };
    if arguments.followed {
        std::thread::sleep(FOLLOWED);
    }
    Ok(ExitCode::from(code))
}

/// Opens the store for a verb that a keeper executes, and reads which job it is about.
pub(super) fn take_up(verb: &str, arguments: &OnExit) -> Result<(Store, JobId, Nonce), Failure> {
    outlive_sys::signal::unblock_all();
    let hint = "it is run by a job's keeper; outlive show JOB tells what became of it";
    let id = JobId::parse(&arguments.job).ok();
    let nonce = Nonce::try_from(arguments.nonce.clone()).ok();
    let (Some(id), Some(nonce)) = (id, nonce) else {
        return Err(Failure::usage(format!("{verb}: this names no job"), hint));
    };
    Ok((open(arguments)?.with_self_as_keeper().with_self_as_helper(), id, nonce))
}

/// Opens the job's own store: the environment is the job's, and may name another one.
fn open(arguments: &OnExit) -> Result<Store, Failure> {
    let Some(home) = &arguments.home else { return Ok(Store::open()?) };
    // A configuration that was broken since must not hold up the notice.
    match Store::open_configured(home, arguments.config.as_deref()) {
        Err(outlive::StoreError::Config(_)) => Ok(Store::open_at(home, Config::default())?),
        store => Ok(store?),
    }
}
