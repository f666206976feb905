//! Library calls in threads: they block, and the runtime's one thread must not.

use std::sync::Arc;

use outlive::{Cancel, Code, Failure, Store};
use tokio::sync::Semaphore;

use crate::server::Shared;

/// Calls that answer at once may run at the same time: enough for two cores that wait for a disk.
pub(crate) const QUICK: usize = 8;

/// Waits may go on at the same time, a thread each.
pub(crate) const WAITS: usize = 120;

/// The permits of both pools.
#[derive(Debug)]
pub(crate) struct Pools {
    quick: Arc<Semaphore>,
    waits: Arc<Semaphore>,
}

impl Default for Pools {
    fn default() -> Self {
        Self { quick: Arc::new(Semaphore::new(QUICK)), waits: Arc::new(Semaphore::new(WAITS)) }
    }
}

/// Cancels a wait when the request that asked for it is gone.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs a call that answers at once.
pub(crate) async fn quick<T: Send + 'static>(
    shared: &Shared,
    call: impl FnOnce(&Store) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let permit = Arc::clone(&shared.pools.quick)
        .acquire_owned()
        .await
        .map_err(|error| Failure::other("serve", &error))?;
    let store = Arc::clone(&shared.store);
    let ran = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        call(&store)
    });
    ran.await.unwrap_or_else(|error| Err(Failure::other("serve", &error)))
}

/// Runs a call that may take long; it is cancelled when the client goes.
pub(crate) async fn long<T: Send + 'static>(
    shared: &Shared,
    call: impl FnOnce(&Store, &Cancel) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let permit = Arc::clone(&shared.pools.waits).try_acquire_owned().map_err(|_| too_many())?;
    let cancel = Cancel::new().map_err(|error| Failure::other("serve", &error))?;
    let _guard = CancelOnDrop(cancel.clone());
    let store = Arc::clone(&shared.store);
    let ran = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        call(&store, &cancel)
    });
    ran.await.unwrap_or_else(|error| Err(Failure::other("serve", &error)))
}

/// Runs a call in a thread of its own that hands its results on through a channel; it ends when the channel closes.
pub(crate) fn stream(shared: &Shared, call: impl FnOnce(&Store) + Send + 'static) -> Result<(), Failure> {
    let permit = Arc::clone(&shared.pools.waits).try_acquire_owned().map_err(|_| too_many())?;
    let store = Arc::clone(&shared.store);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        call(&store);
    });
    Ok(())
}

fn too_many() -> Failure {
    Failure::new(Code::LimitReached, format!("{WAITS} waits go on at this server already"))
        .hint("wait for several jobs in one request (GET /v1/wait), or for fewer at once")
}
