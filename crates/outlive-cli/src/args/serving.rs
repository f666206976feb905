//! Serving browsers and other programs.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use outlive::SessionName;
use outlive::duration::parse_duration;
use outlive_http::{Address, Scope};

fn scopes() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(Scope::ALL.map(|(_, word)| word))
        .map(|word| Scope::parse(&word).unwrap_or(Scope::View))
}

/// Serve jobs over HTTP: an API and events for programs, a page for people
///
/// Listens on the socket `serve/socket` in the store, which only this user can use. A server holds nothing: end it at any time, and jobs
/// do not notice. `outlive open` starts one where it is needed, and opens its page.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive serve                          # programs: curl --unix-socket ~/.local/state/outlive/serve/socket http://localhost/v1/jobs\n  \
outlive serve --tcp                    # browsers, too; every request needs a token\n  \
outlive serve --tcp=8080 --idle 30m    # on this port, until no request has come for half an hour\n  \
outlive serve --ssh me@build           # and what to type on another machine to see the page there\n  \
outlive serve --tcp=0.0.0.0:8443 --tls cert.pem key.pem    # for all who reach this machine and have a token")]
pub(crate) struct Serve {
    /// Listen on TCP, too: an address, a port, or without a value the port of last time; one that other machines reach only with --tls
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = Address::parse)]
    pub(crate) tcp: Option<Address>,

    /// End when no connection was open for this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) idle: Option<Duration>,

    /// Speak TLS on TCP, with a certificate and its key, two files in PEM: then other machines may reach it, too
    #[arg(long, value_names = ["CERT", "KEY"], num_args = 2, requires = "tcp", conflicts_with = "ssh")]
    pub(crate) tls: Vec<PathBuf>,

    /// Listen on TCP, unless a server does already, and print what to type on another machine that reaches this one by `ssh HOST`
    #[arg(long, value_name = "HOST", value_parser = ssh_host)]
    pub(crate) ssh: Option<String>,

    /// End the server that listens on TCP, such as the one that `outlive open` started; jobs go on
    #[arg(long, conflicts_with_all = ["tcp", "idle", "ssh"])]
    pub(crate) stop: bool,
}

/// Reads what `ssh` calls this machine; it goes into a command that people paste.
fn ssh_host(text: &str) -> Result<String, String> {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | ':' | '[' | ']');
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("a host is such as build.example or me@build".to_owned()),
    }
}

/// Open the page with all jobs in a browser
///
/// Starts the server if none runs, and prints a link that signs one browser in, once, within ten minutes. The server ends when it was
/// not used for half an hour.
#[derive(Debug, Args)]
pub(crate) struct Open {
    /// What the browser may do: look, or also start, answer and end jobs
    #[arg(long, value_name = "view|drive|admin", value_parser = scopes(), default_value = "drive", hide_possible_values = true)]
    pub(crate) scope: Scope,

    /// Only print the link
    #[arg(long)]
    pub(crate) print: bool,

    /// Draw the link for the camera of a phone, in place of opening it here
    #[arg(long, conflicts_with = "print")]
    pub(crate) qr: bool,
}

/// Make, list and revoke the tokens of programs that ask over TCP
///
/// A token is shown once, when it is made; the store has only its hash. With the global `--session NAME` it is for the jobs of that session
/// alone.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
outlive token create dashboard --scope view\n  \
outlive --session shop token create shop-ci --scope drive --for 7d\n  \
outlive token revoke dashboard")]
pub(crate) enum Token {
    /// Make a token and print it
    Create {
        /// What to call it
        #[arg(value_name = "NAME", value_parser = SessionName::parse)]
        name: SessionName,

        /// What it allows: view, to look; drive, to start and end jobs, too, and so to run any command; admin, all there is
        #[arg(long, value_name = "view|drive|admin", value_parser = scopes(), default_value = "view", hide_possible_values = true)]
        scope: Scope,

        /// It ends after this time; without it, when it is revoked
        #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
        life: Option<Duration>,
    },
    /// List the tokens, those of signed-in browsers too
    List,
    /// End tokens: the next request with them is refused
    Revoke {
        /// Their names
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}
