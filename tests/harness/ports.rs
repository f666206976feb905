//! Ports of loopback that no other test is given.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::Random;

/// Below what Linux gives to connections (32768 and above) and outlive to `port = "auto"` (20000 and above): no connection of another
/// test can have a port of these in the moment before this test's server listens there.
const FIRST: u64 = 10_000;
const COUNT: u64 = 9_000;

/// Returns a port of loopback on which nothing listens, and which no other test gets while this process lives.
pub fn free_port() -> u16 {
    let mut random = Random::new(Random::seed());
    loop {
        let port = u16::try_from(FIRST + random.below(COUNT)).expect("below 65536");
        // A socket without a file, in the same network namespace as the port, is the claim to it.
        let name = SocketAddr::from_abstract_name(format!("outlive-test-port-{port}")).expect("short enough");
        let Ok(claim) = UnixListener::bind_addr(&name) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            // The kernel ends the claim with this process.
            std::mem::forget(claim);
            return port;
        }
    }
}
