//! A network of a machine's own: a namespace that one link leads to, which the test can cut.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive_tests::lacks;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A namespace with a link to it.
pub(super) struct Link {
    /// The name of the namespace, and the beginning of the names of the link's ends.
    name: String,
    pub(super) there: Ipv4Addr,
}

fn ip(words: &str) -> bool {
    let done = Command::new("ip").args(words.split(' ')).output();
    done.is_ok_and(|done| done.status.success())
}

impl Link {
    /// Makes one; `None`: this user or kernel cannot.
    pub(super) fn make() -> Option<Self> {
        let (own, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let name = format!("ol{own:x}{count}");
        // Four addresses of its own for each link of each process.
        let base = u32::from(Ipv4Addr::new(10, 64, 0, 0)) + (own % 65_536) * 16 + count % 4 * 4;
        let (here, there) = (Ipv4Addr::from(base + 1), Ipv4Addr::from(base + 2));
        let link = Self { name: name.clone(), there };
        let is_made = ip(&format!("netns add {name}"))
            && ip(&format!("link add {name}h type veth peer name {name}t netns {name}"))
            && ip(&format!("addr add {here}/30 dev {name}h"))
            && ip(&format!("link set {name}h up"))
            && ip(&format!("-n {name} addr add {there}/30 dev {name}t"))
            && ip(&format!("-n {name} link set {name}t up"))
            && ip(&format!("-n {name} link set lo up"));
        if !is_made {
            lacks("network namespaces with links, and root to make them");
            return None;
        }
        Some(link)
    }

    /// Returns a command that runs a program in the namespace. It is not `ip netns exec`, which hides control groups.
    pub(super) fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg(program);
        command
    }

    /// Pulls the cable, or puts it back.
    pub(super) fn set(&self, word: &str) {
        assert!(ip(&format!("link set {}h {word}", self.name)), "the link is set {word}");
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The link goes with it.
        ip(&format!("link del {}h", self.name));
        ip(&format!("netns del {}", self.name));
    }
}
