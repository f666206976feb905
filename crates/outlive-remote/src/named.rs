//! Machines that the configuration names.

use outlive::{Code, Failure, HostRules};

use crate::address::AddressError;
use crate::client::Client;
use crate::ssh::Ssh;

/// The variable with the token for a server on TCP.
const TOKEN: &str = "OUTLIVE_TOKEN";

/// Returns the token that the environment gives.
pub fn token_of_environment() -> Option<String> {
    std::env::var(TOKEN).ok().filter(|token| !token.is_empty())
}

impl Client {
    /// Makes the client of `[hosts.NAME]`; `tell` tells the user what is copied there.
    ///
    /// # Errors
    ///
    /// If its address makes no sense, or the file with its token cannot be read.
    pub fn named(name: &str, rules: &HostRules, tell: fn(&str)) -> Result<Self, Failure> {
        let address = rules.address.parse().map_err(|error: AddressError| {
            Failure::new(Code::Config, format!("hosts.{name}.address: {error}"))
                .hint("write it as address = \"ssh://HOST\" in config.toml")
        })?;
        let failed = |error| Failure::other(&format!("hosts.{name}.token_file"), &error);
        let token = match &rules.token_file {
            Some(file) => Some(std::fs::read_to_string(file).map_err(failed)?.trim().to_owned()),
            None => token_of_environment(),
        };
        let client = Self::new(address).with_ssh(Ssh { copies: rules.copies, tell, ..Ssh::default() });
        Ok(match token {
            Some(token) => client.with_token(token),
            None => client,
        })
    }
}
