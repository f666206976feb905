//! `outlive open`: the page with all jobs, in a browser.

use std::io::{self, IsTerminal};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive_http::{Running, TokenError, Tokens};
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use serde::Serialize;

use crate::args::Open;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{note, print, print_json};

/// A server that was started listens by then; it takes a few milliseconds unless the machine is very busy.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How often to look whether it does.
const LOOK: Duration = Duration::from_millis(10);

/// Colours of the 256 that no theme changes.
const DARK_ON_LIGHT: &str = "\x1b[38;5;16;48;5;231m";
const PLAIN: &str = "\x1b[0m";

#[derive(Serialize)]
struct Opened {
    link: String,
    url: String,
    pid: u32,
}

pub(crate) fn run(context: &Context, arguments: &Open) -> Result<ExitCode, Failure> {
    let running = match outlive_http::running(&context.store) {
        Some(running) => running,
        None => start(context)?,
    };
    let tokens = Tokens::of(&context.store).map_err(TokenError::from)?;
    let secret = tokens.create_link(arguments.scope, context.session.clone()).map_err(TokenError::from)?;
    let link = format!("{}#t={secret}", running.url());
    if context.is_json {
        return print_json(&Opened { link, url: running.url(), pid: running.pid });
    }
    if arguments.qr {
        print(&drawn(&link)?);
        note(match running.address.ip().is_loopback() {
            true => {
                "outlive: the link is for this machine alone, and for those with a tunnel to it; \
                      for a phone: outlive serve --tcp=ADDR:PORT --tls CERT KEY"
            }
            false => "outlive: the link signs one browser in, once, within ten minutes",
        });
        return Ok(ExitCode::SUCCESS);
    }
    let has_browser = !arguments.print && io::stdout().is_terminal() && browse(&link);
    print(&format!("{link}\n"));
    note(match has_browser {
        true => "outlive: opened in your browser; the link is used up with that",
        false => "outlive: the link signs one browser in, once, within ten minutes",
    });
    Ok(ExitCode::SUCCESS)
}

/// Draws a link for a camera, and writes it below. Dark on light whatever the colours of the terminal are: many cameras read nothing else.
fn drawn(link: &str) -> Result<String, Failure> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L)
        .map_err(|error| Failure::other("open", &io::Error::other(error.to_string())))?;
    let image = code.render::<Dense1x2>().build();
    let (on, off) = if io::stdout().is_terminal() { (DARK_ON_LIGHT, PLAIN) } else { ("", "") };
    let lines: String = image.lines().map(|line| format!("{on}{line}{off}\n")).collect();
    Ok(format!("{lines}{link}\n"))
}

/// Starts a server in the background, and waits until it listens.
fn start(context: &Context) -> Result<Running, Failure> {
    let failed = |error: io::Error| Failure::other("open", &error);
    context.store.start_helper(&["serve", "--tcp", "--idle", "30m"]).map_err(failed)?;
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if let Some(running) = outlive_http::running(&context.store) {
            return Ok(running);
        }
        if Instant::now() >= deadline {
            return Err(Failure::timed_out(
                "open: the server does not listen",
                "`outlive serve --tcp` says why",
            ));
        }
        std::thread::sleep(LOOK);
    }
}

/// Opens a link in the user's browser, where there is a desktop.
fn browse(link: &str) -> bool {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let mut command = Command::new("xdg-open");
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    has_desktop && command.status().is_ok_and(|status| status.success())
}
