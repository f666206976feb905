//! `outlive serve`: jobs over HTTP.

use std::path::Path;
use std::process::ExitCode;

use outlive::Store;
use outlive_http::{Options, Running};
use serde::Serialize;

use crate::args::Serve;
use crate::failure::Failure;
use crate::render::{note, print, print_json};

#[derive(Serialize)]
struct Listening<'a> {
    socket: String,
    url: Option<&'a str>,
    pid: u32,
}

pub(crate) fn run(store: Store, arguments: &Serve, is_json: bool) -> Result<ExitCode, Failure> {
    let options = Options { tcp: arguments.tcp, idle: arguments.idle };
    outlive_http::serve(store, &options, |socket, running| tell(socket, running, is_json))?;
    Ok(ExitCode::SUCCESS)
}

fn tell(socket: &Path, running: Option<&Running>, is_json: bool) {
    let url = running.map(Running::url);
    let socket = socket.display().to_string();
    if is_json {
        let listening = Listening { socket, url: url.as_deref(), pid: std::process::id() };
        // A closed pipe keeps nobody from asking.
        print_json(&listening).ok();
        return;
    }
    print(&format!("socket  {socket}\n"));
    if let Some(url) = url {
        print(&format!("page    {url}\n"));
        note(
            "outlive: `outlive open` makes a link that signs a browser in; Ctrl-C ends the server, and jobs go on",
        );
    }
}
