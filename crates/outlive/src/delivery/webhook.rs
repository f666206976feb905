//! Sends one notice to one address.
//!
//! The client is made at the first notice: a front end that sends nothing sets up no TLS.

use std::net::IpAddr;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use outlive_core::VERSION;
use outlive_core::rawtext::hex;
use sha2::Sha256;
use ureq::Agent;
use ureq::http::Uri;

use crate::delivery::spool::Entry;

/// Longest address that is accepted.
const MAX_ADDRESS: usize = 8 << 10;

/// Tells whether an address is a valid URL for a webhook.
pub(crate) fn is_address(url: &str) -> bool {
    let is_http = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    let has_host = |uri: &Uri| uri.host().is_some_and(|host| !host.is_empty());
    // `Uri` ignores a port that is out of range, and the notice would go to the default port.
    let has_good_port = |uri: &Uri| {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let ends_with_host = uri.host().is_some_and(|host| authority.ends_with(host));
        ends_with_host || uri.port_u16().is_some_and(|port| port > 0)
    };
    url.len() <= MAX_ADDRESS
        && url.parse::<Uri>().is_ok_and(|uri| is_http(&uri) && has_host(&uri) && has_good_port(&uri))
}

/// Returns scheme, host and port: the rest of an address may hold a secret.
pub(crate) fn origin(url: &str) -> String {
    let Ok(uri) = url.parse::<Uri>() else { return "an address that cannot be read".to_owned() };
    let port = uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default())
}

/// Signs a body: `sha256=` and the HMAC in hexadecimal.
pub(crate) fn sign(secret: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length is taken");
    mac.update(body.as_bytes());
    let hex = hex(&mac.finalize().into_bytes());
    format!("sha256={hex}")
}

#[derive(Debug, Clone)]
pub(crate) struct Client {
    agent: Agent,
    /// Without a proxy, for addresses of this machine: a proxy cannot reach them.
    direct: Agent,
    timeout: Duration,
}

impl Client {
    pub(crate) fn new(timeout: Duration) -> Self {
        let config = || {
            Agent::config_builder()
                .timeout_global(Some(timeout))
                .http_status_as_error(false)
                // A redirect must not send the notice elsewhere.
                .max_redirects(0)
                .max_redirects_will_error(false)
                .max_idle_connections(0)
                .user_agent(format!("outlive/{VERSION}"))
        };
        let agent = config().build().into();
        let direct = config().proxy(None).build().into();
        Self { agent, direct, timeout }
    }

    /// Sends it once. An answer of 200 to 299 is success; the error is the reason for any other.
    pub(crate) fn send(&self, entry: &Entry, signature: Option<&str>) -> Result<u16, String> {
        let agent = if is_here(&entry.url) { &self.direct } else { &self.agent };
        let mut request = agent
            .post(&entry.url)
            .header("Content-Type", "application/json")
            .header("X-Outlive-Sequence", entry.seq.to_string())
            .header("X-Outlive-Session", entry.session.as_str())
            .header("X-Outlive-Job", entry.job.as_str());
        if let Some(signature) = signature {
            request = request.header("X-Outlive-Signature", signature);
        }
        match request.send(entry.body.as_bytes()) {
            Ok(answer) if answer.status().is_success() => Ok(answer.status().as_u16()),
            Ok(answer) => Err(format!("it answered {}", answer.status().as_u16())),
            Err(ureq::Error::Timeout(_)) => Err(format!("no answer within {:?}", self.timeout)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Tells whether an address is on this machine.
fn is_here(url: &str) -> bool {
    let Some(host) = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)) else {
        return false;
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => bare.eq_ignore_ascii_case("localhost") || bare.to_ascii_lowercase().ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_sent_to_is_an_address() {
        for good in
            ["http://h", "https://h.example/p?q=1", "http://127.0.0.1:80/x", "http://[::1]:9/", "HTTP://h/"]
        {
            assert!(is_address(good), "{good}");
        }
        let long = format!("http://h/{}", "x".repeat(MAX_ADDRESS));
        for bad in [
            "",
            "h",
            "ftp://h/",
            "file:///etc/passwd",
            "http://",
            "http:///p",
            "http://a b/",
            "http://h/\r\nX: y",
            "javascript:x",
            "//h/p",
            "http://h:99999/",
            "http://h:0/",
            "http://h:/",
            "http://h:x/",
            long.as_str(),
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn a_signature_is_the_one_of_the_books() {
        // RFC 4231, test case 2.
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(sign("Jefe", "what do ya want for nothing?"), expected);
    }

    #[test]
    fn what_may_be_shown_holds_no_secret() {
        assert_eq!(origin("https://user:pw@h.example:8443/T0/B0/key?token=x"), "https://h.example:8443");
    }

    #[test]
    fn this_machine_is_known() {
        for here in ["http://localhost/", "http://127.3.2.1:8/", "http://[::1]/", "http://a.localhost/"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in ["http://localhost.example/", "http://10.0.0.1/", "http://h/"] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
