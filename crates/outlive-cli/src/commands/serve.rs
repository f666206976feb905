//! `outlive serve`: jobs over HTTP.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use outlive::Store;
use outlive_http::{Address, Options, Running, Tls};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::poll;
use outlive_sys::signal::Signal;
use serde::Serialize;

use crate::args::Serve;
use crate::failure::Failure;
use crate::render::{note, print, print_json};

#[derive(Serialize)]
struct Listening<'a> {
    socket: String,
    url: Option<&'a str>,
    pid: u32,
    /// What to type on the other machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    tunnel: Option<String>,
}

#[derive(Serialize)]
struct Stopped {
    /// The server that was ended; none: none ran.
    pid: Option<i32>,
}

/// A server answers its last requests within this time.
const STOP_LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn run(store: Store, arguments: &Serve, is_json: bool) -> Result<ExitCode, Failure> {
    if arguments.stop {
        return stop(&store, is_json);
    }
    let ssh = arguments.ssh.as_deref();
    // A tunnel leads to the server that runs, such as the one that `outlive open` started.
    if ssh.is_some()
        && arguments.tcp.is_none()
        && let Some(running) = outlive_http::running(&store).filter(|running| running.name.is_none())
    {
        let dir = store.serve_dir().map_err(|error| Failure::other("serve", &error))?;
        tell(&dir.join("socket"), Some(&running), ssh, is_json);
        return Ok(ExitCode::SUCCESS);
    }
    let tcp = match (arguments.tcp, &arguments.ssh) {
        (None, Some(_)) => {
            Some(Address::parse("").map_err(|words| Failure::usage(words, "outlive serve --help"))?)
        }
        (tcp, _) => tcp,
    };
    let tls = match arguments.tls.as_slice() {
        [certificate, key] => Some(Tls { certificate: certificate.clone(), key: key.clone() }),
        _ => None,
    };
    let options = Options { tcp, tls, idle: arguments.idle };
    outlive_http::serve(store, &options, |socket, running| tell(socket, running, ssh, is_json))?;
    Ok(ExitCode::SUCCESS)
}

/// Ends the server that has the page, and waits until it is gone.
fn stop(store: &Store, is_json: bool) -> Result<ExitCode, Failure> {
    let running = outlive_http::running(store);
    let pid = running.as_ref().and_then(|running| i32::try_from(running.pid).ok());
    // Opened before it is looked at again: what is still the server then is the process that was opened.
    let handle = pid.and_then(ProcessId::of).and_then(Handle::open);
    if let (Some(handle), Some(pid)) = (handle, pid.filter(|_| outlive_http::running(store).is_some())) {
        let failed = |error: io::Error| Failure::other("serve", &error);
        handle.signal(Signal::TERM).map_err(failed)?;
        if !poll::readable(handle.as_fd(), Some(STOP_LIMIT)).map_err(failed)? {
            let hint = format!("end it by force: kill -KILL {pid}");
            return Err(Failure::timed_out(format!("serve: the server, pid {pid}, does not end"), hint));
        }
        if !is_json {
            print(&format!("the server, pid {pid}, has ended; jobs go on\n"));
        }
    } else if !is_json {
        note("no server runs");
    }
    if is_json { print_json(&Stopped { pid }) } else { Ok(ExitCode::SUCCESS) }
}

fn tell(socket: &Path, running: Option<&Running>, ssh: Option<&str>, is_json: bool) {
    // The same port at both ends: the name of the server is checked.
    let tunnel = ssh.zip(running).map(|(host, running)| {
        let address = running.address;
        format!("ssh -N -L {}:{address} {host}", address.port())
    });
    let url = running.map(Running::url);
    let socket = socket.display().to_string();
    if is_json {
        let pid = running.map_or_else(std::process::id, |running| running.pid);
        let listening = Listening { socket, url: url.as_deref(), pid, tunnel };
        // A closed pipe keeps nobody from asking.
        print_json(&listening).ok();
        return;
    }
    print(&format!("socket  {socket}\n"));
    if let Some(running) = running.filter(|running| !running.address.ip().is_loopback()) {
        note(&format!(
            "outlive: other machines reach {}: a client with a token of scope drive can run any command as you",
            running.address
        ));
    }
    if let Some(url) = url {
        print(&format!("page    {url}\n"));
        if let Some((tunnel, host)) = tunnel.zip(ssh) {
            print(&format!("tunnel  {tunnel}\nlink    ssh {host} outlive open --print\n"));
            note("outlive: type both on the other machine; the link opens there while the tunnel is up");
        }
        let end = match running.is_some_and(|running| running.pid != std::process::id()) {
            true => "`outlive serve --stop`",
            false => "Ctrl-C",
        };
        note(&format!(
            "outlive: `outlive open` makes a link that signs a browser in; {end} ends the server, and jobs go on"
        ));
    }
}
