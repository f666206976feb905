//! Which process listens on which TCP port.
//!
//! The kernel lists listening sockets by their inode, each network namespace apart; a process has an inode among its
//! descriptors. What cannot be read, because a process is gone or runs as another user, is left out: never an error.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The state of a listening socket in the kernel's tables.
const LISTEN: &str = "0A";

/// A port that a process listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listener {
    /// The port.
    pub port: u16,
    /// The address that it is bound to.
    pub address: IpAddr,
    /// The process that listens.
    pub pid: i32,
}

impl Listener {
    /// Returns the URL to try, should it speak HTTP: what is bound to every address or to this machine's own is
    /// `localhost`.
    pub fn url(&self) -> String {
        match self.address {
            address if address.is_unspecified() || address.is_loopback() => {
                format!("http://localhost:{}", self.port)
            }
            IpAddr::V4(address) => format!("http://{address}:{}", self.port),
            IpAddr::V6(address) => format!("http://[{address}]:{}", self.port),
        }
    }
}

/// The listening sockets of the network namespaces that were asked about, each read once.
#[derive(Debug, Default)]
pub struct Listeners {
    namespaces: HashSet<PathBuf>,
    by_inode: HashMap<u64, (IpAddr, u16)>,
}

impl Listeners {
    /// Makes one that has read nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists what a process listens on, by port; nothing if it is gone or its descriptors may not be read.
    pub fn of(&mut self, pid: i32) -> Vec<Listener> {
        self.load(&format!("/proc/{pid}"));
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let inodes = descriptors.filter_map(|entry| inode(&fs::read_link(entry.path()).ok()?));
        let mut found: Vec<Listener> = inodes
            .filter_map(|inode| self.by_inode.get(&inode))
            .map(|&(address, port)| Listener { port, address, pid })
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Reads the tables of a process's network namespace, unless that was done.
    fn load(&mut self, process: &str) {
        let Ok(namespace) = fs::read_link(format!("{process}/ns/net")) else { return };
        if self.namespaces.contains(&namespace) {
            return;
        }
        for table in ["tcp", "tcp6"] {
            let Ok(text) = fs::read_to_string(format!("{process}/net/{table}")) else { continue };
            self.by_inode.extend(text.lines().skip(1).filter_map(parse));
            // Of a process that ended before its tables could be read, nothing is learned; the next of its namespace has them.
            self.namespaces.insert(namespace.clone());
        }
    }
}

/// Tells whether a process in this program's own network namespace listens on a port.
pub fn is_taken(port: u16) -> bool {
    let mut own = Listeners::new();
    own.load("/proc/self");
    own.by_inode.values().any(|&(_, taken)| taken == port)
}

/// Returns the user whose socket is at this end of a connection within this program's own network namespace; `None` if no table has it.
pub fn user_at(end: SocketAddr, other: SocketAddr) -> Option<u32> {
    let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let wanted = (plain(end), plain(other));
    ["tcp", "tcp6"].iter().find_map(|table| {
        let text = fs::read_to_string(format!("/proc/self/net/{table}")).ok()?;
        let mut connections = text.lines().skip(1).filter_map(parse_connection);
        connections.find(|(ends, _)| *ends == wanted).map(|(_, user)| user)
    })
}

/// Reads a line of a table: both ends, and the user at the first.
fn parse_connection(line: &str) -> Option<((SocketAddr, SocketAddr), u32)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let mut end = || {
        let (address, port) = fields.next()?.split_once(':')?;
        Some(SocketAddr::new(parse_address(address)?, u16::from_str_radix(port, 16).ok()?))
    };
    let ends = (end()?, end()?);
    // Before the user lie state, queues, timer and retransmissions.
    Some((ends, fields.nth(4)?.parse().ok()?))
}

/// Reads the inode of `socket:[12345]`.
fn inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Reads a line of a table; `None` if it is not of a listening socket.
fn parse(line: &str) -> Option<(u64, (IpAddr, u16))> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    if fields.nth(1)? != LISTEN {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    // Between the state and the inode lie queues, timer, retransmissions, user and timeout.
    let inode = fields.nth(5)?.parse().ok()?;
    Some((inode, (parse_address(address)?, u16::from_str_radix(port, 16).ok()?)))
}

/// Reads an address. The kernel prints each four bytes of it as one number of the machine's own byte order.
fn parse_address(text: &str) -> Option<IpAddr> {
    let mut bytes = [0; 16];
    let words = text.len() / 8;
    if !text.is_ascii() || !text.len().is_multiple_of(8) || !matches!(words, 1 | 4) {
        return None;
    }
    for (word, bytes) in bytes.chunks_exact_mut(4).take(words).enumerate() {
        let number = u32::from_str_radix(&text[word * 8..word * 8 + 8], 16).ok()?;
        bytes.copy_from_slice(&number.to_ne_bytes());
    }
    Some(match words {
        1 => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
        // A version 4 address inside a version 6 one means the former.
        _ => IpAddr::from(Ipv6Addr::from(bytes)).to_canonical(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn own() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    #[test]
    fn a_listener_is_found_and_a_connection_is_not_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let found = Listeners::new().of(own());
        let expected = Listener { port: address.port(), address: address.ip(), pid: own() };
        assert!(found.contains(&expected), "{found:?}");
        let other_end = client.local_addr().unwrap().port();
        assert!(!found.iter().any(|found| found.port == other_end), "{found:?}");
        assert!(is_taken(address.port()));
        drop(listener);
        assert!(!Listeners::new().of(own()).contains(&expected));
    }

    #[test]
    fn both_ends_of_a_connection_have_a_user() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (end, other) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            assert_eq!(user_at(end, other), Some(crate::socket::own_uid()), "{address}");
            let (served, _) = listener.accept().unwrap();
            assert_eq!(user_at(other, end), Some(crate::socket::own_uid()), "{address}");
            assert_eq!(user_at(other, other), None);
            drop(served);
        }
    }

    #[test]
    fn version_6_is_found_where_there_is_one() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
        let port = listener.local_addr().unwrap().port();
        let found = Listeners::new().of(own());
        let found = found.iter().find(|found| found.port == port).expect("it is listed");
        assert_eq!(found.address, IpAddr::V6(Ipv6Addr::LOCALHOST));
        assert_eq!(found.url(), format!("http://localhost:{port}"));
    }

    #[test]
    fn who_is_not_there_listens_on_nothing() {
        assert!(Listeners::new().of(0).is_empty());
        assert!(Listeners::new().of(i32::MAX).is_empty());
    }

    #[test]
    fn lines_are_read_as_the_kernel_writes_them() {
        let number = u32::from_ne_bytes([192, 168, 0, 7]);
        let line = format!(
            "   2: {number:08X}:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 100 0"
        );
        let address = IpAddr::from([192, 168, 0, 7]);
        assert_eq!(parse(&line), Some((4242, (address, 8080))));
        assert_eq!(parse(&line.replace(" 0A ", " 01 ")), None);
        for damaged in ["", "0: x", "0: 0100:1 2 0A 4 5 6 7 8 9", "0: ÄÄÄÄ:1 2 0A 4 5 6 7 8 9"] {
            assert_eq!(parse(damaged), None, "{damaged}");
        }
        let words = [0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), u32::from_ne_bytes([10, 0, 0, 1])];
        let mapped: String = words.iter().map(|word| format!("{word:08X}")).collect();
        assert_eq!(parse_address(&mapped), Some(IpAddr::from([10, 0, 0, 1])));
    }

    #[test]
    fn urls_name_what_can_be_reached() {
        for (address, url) in [
            ("0.0.0.0", "http://localhost:80"),
            ("127.0.0.1", "http://localhost:80"),
            ("::", "http://localhost:80"),
            ("10.1.2.3", "http://10.1.2.3:80"),
            ("fd00::1", "http://[fd00::1]:80"),
        ] {
            let listener = Listener { port: 80, address: address.parse().unwrap(), pid: 1 };
            assert_eq!(listener.url(), url);
        }
    }
}
