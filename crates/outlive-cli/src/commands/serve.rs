//! `outlive serve`: jobs over HTTP.

use std::path::Path;
use std::process::ExitCode;

use outlive::Store;
use outlive_http::{Address, Options, Running, Tls};
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

pub(crate) fn run(store: Store, arguments: &Serve, is_json: bool) -> Result<ExitCode, Failure> {
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
    let ssh = arguments.ssh.as_deref();
    outlive_http::serve(store, &options, |socket, running| tell(socket, running, ssh, is_json))?;
    Ok(ExitCode::SUCCESS)
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
        let listening = Listening { socket, url: url.as_deref(), pid: std::process::id(), tunnel };
        // A closed pipe keeps nobody from asking.
        print_json(&listening).ok();
        return;
    }
    print(&format!("socket  {socket}\n"));
    if let Some(running) = running.filter(|running| !running.address.ip().is_loopback()) {
        note(&format!(
            "outlive: other machines reach {}: whoever has a token of scope drive can run any command as you",
            running.address
        ));
    }
    if let Some(url) = url {
        print(&format!("page    {url}\n"));
        if let Some((tunnel, host)) = tunnel.zip(ssh) {
            print(&format!("tunnel  {tunnel}\nlink    ssh {host} outlive open --print\n"));
            note("outlive: type both on the other machine; the link opens there while the tunnel is up");
        }
        note(
            "outlive: `outlive open` makes a link that signs a browser in; Ctrl-C ends the server, and jobs go on",
        );
    }
}
