//! Where another outlive is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where another outlive is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The socket of `outlive serve`, or the store that it is in: `unix:///home/me/.local/state/outlive`.
    Unix(PathBuf),
    /// `outlive serve --tcp`, as `HOST:PORT`; a token is needed: `http://127.0.0.1:8123`.
    Http(String),
    /// A machine that the system's `ssh` reaches, as its configuration names it: `ssh://me@gpu1:2222`.
    Ssh {
        /// `HOST` or `USER@HOST`.
        destination: String,
        /// The port; none: as the configuration of `ssh` says.
        port: Option<u16>,
    },
    /// What a command of this machine reaches, which runs `outlive rpc` at its other end; it is not written as a text.
    Command {
        /// What it is called in messages.
        name: String,
        /// The program and its arguments.
        words: Vec<String>,
    },
}

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It begins with none of the known words.
    #[error("{0:?} is no address: write unix:///…, http://127.0.0.1:8123 or ssh://HOST")]
    Unknown(String),
    /// TLS is not spoken.
    #[error("https is not spoken; over a network use ssh://HOST")]
    Https,
    /// A path must be absolute.
    #[error("{0:?} is no absolute path: write unix:///home/me/.local/state/outlive")]
    Relative(String),
    /// What stands behind `ssh://` or `http://` is no machine.
    #[error("{0:?} names no machine: write ssh://HOST, ssh://USER@HOST:PORT or http://127.0.0.1:8123")]
    Machine(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix://") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => Err(AddressError::Relative(path.to_owned())),
            };
        }
        let machine = || AddressError::Machine(text.to_owned());
        if let Some(rest) = text.strip_prefix("http://") {
            let host = rest.trim_end_matches('/');
            let (name, port) = host.rsplit_once(':').ok_or_else(machine)?;
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| is_plain(byte) || b"[]:".contains(&byte));
            return match is_name && port.parse::<u16>().is_ok_and(|port| port > 0) {
                true => Ok(Self::Http(host.to_owned())),
                false => Err(machine()),
            };
        }
        if text.starts_with("https://") {
            return Err(AddressError::Https);
        }
        let Some(rest) = text.strip_prefix("ssh://") else {
            return Err(AddressError::Unknown(text.to_owned()));
        };
        let rest = rest.trim_end_matches('/');
        let (destination, port) = match rest.rsplit_once(':') {
            Some((destination, port)) => (destination, Some(port.parse().map_err(|_| machine())?)),
            None => (rest, None),
        };
        // What begins with `-` would be an option of ssh, and other signs are for a shell.
        let is_destination = destination.bytes().all(|byte| is_plain(byte) || byte == b'@')
            && destination.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        match is_destination {
            true => Ok(Self::Ssh { destination: destination.to_owned(), port }),
            false => Err(machine()),
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix://{}", path.display()),
            Self::Http(host) => write!(formatter, "http://{host}"),
            Self::Ssh { destination, port: None } => write!(formatter, "ssh://{destination}"),
            Self::Ssh { destination, port: Some(port) } => write!(formatter, "ssh://{destination}:{port}"),
            Self::Command { name, .. } => formatter.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in [
            "unix:///run/x/socket",
            "http://127.0.0.1:8123",
            "http://[::1]:80",
            "ssh://gpu1",
            "ssh://me@gpu-1.example.org:2222",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("ssh://a/".parse::<Address>().unwrap().to_string(), "ssh://a");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "gpu1",
            "unix://x",
            "https://a",
            "http://a",
            "http://:1",
            "http://a:0",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://a b",
            "ssh://a:b",
            "ssh://$(x)",
            "tcp://a:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
