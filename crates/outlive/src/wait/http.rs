//! A minimal HTTP client that checks whether an address answers.
//!
//! It sends one request and reads the status line: no redirects, no body, no proxy. It runs in a thread of its own,
//! because a server may accept a connection and not answer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::tls::TlsConfig;

use crate::launch::request::RequestError;

/// Time limit of a connection attempt.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Time limit of an answer; then the request is repeated.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How much of an answer is read.
const MOST: usize = 8 << 10;

/// The first pause between two attempts, and the longest.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// Stack of the probe's thread; name resolution needs most of it.
const STACK: usize = 512 << 10;

/// A valid address: `http://HOST[:PORT][/PATH]`, or with `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAddress {
    url: String,
    /// The `Host` header: with the port, if one was given.
    authority: String,
    host: String,
    port: u16,
    target: String,
    is_encrypted: bool,
}

impl FromStr for HttpAddress {
    type Err = RequestError;

    fn from_str(url: &str) -> Result<Self, RequestError> {
        let wrong = || RequestError::Address(url.to_owned());
        // Only visible ASCII: anything else could end the request line.
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.len() > 2048 {
            return Err(wrong());
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let is_encrypted = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(wrong()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let path_at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(path_at);
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or_else(wrong)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
                (host, if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or_else(wrong)?) })
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        // A number may have a sign, a port has none.
        let port = port.unwrap_or(if is_encrypted { "443" } else { "80" });
        let port = port.parse::<u16>().ok().filter(|_| !port.starts_with('+')).ok_or_else(wrong)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || port == 0 || !host.bytes().all(is_name) {
            return Err(wrong());
        }
        let (host, authority) = (host.to_owned(), authority.to_owned());
        Ok(Self { url: url.to_owned(), authority, host, port, target, is_encrypted })
    }
}

impl HttpAddress {
    /// Returns the address as it was written.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// Sends one request; returns the status of the answer.
    pub(crate) fn ask(&self) -> io::Result<u16> {
        if self.is_encrypted {
            return self.ask_encrypted();
        }
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        // A name such as localhost may have several addresses, and the server listens on one of them.
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match self.ask_at(address) {
                Ok(status) => return Ok(status),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Asks a server that speaks TLS. Its certificate is not looked at: a server under development has one that it signed itself, and nothing
    /// is told to it.
    fn ask_encrypted(&self) -> io::Result<u16> {
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().disable_verification(true).build())
            .timeout_connect(Some(CONNECT_LIMIT))
            .timeout_global(Some(ANSWER_LIMIT))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(format!("outlive/{}", outlive_core::VERSION));
        let answer = Agent::from(config.build()).get(&self.url).call();
        answer.map(|answer| answer.status().as_u16()).map_err(io::Error::other)
    }

    fn ask_at(&self, address: SocketAddr) -> io::Result<u16> {
        let until = Instant::now() + ANSWER_LIMIT;
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
        // A connection to a port without a listener may be assigned that port, and connect to itself.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        stream.set_write_timeout(Some(CONNECT_LIMIT))?;
        let Self { target, authority, .. } = self;
        let version = outlive_core::VERSION;
        stream.write_all(
            format!(
                "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: outlive/{version}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
            )
            .as_bytes(),
        )?;
        let (mut answer, mut buffer) = (Vec::new(), [0; 1024]);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            let count = match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            answer.extend_from_slice(&buffer[..count]);
            match status(&answer)? {
                Some(status) => return Ok(status),
                None if count == 0 || answer.len() > MOST => return Err(io::ErrorKind::InvalidData.into()),
                None => {}
            }
        }
    }
}

/// Parses the status of an answer; `None` if it is incomplete.
fn status(mut answer: &[u8]) -> io::Result<Option<u16>> {
    loop {
        let Some(end) = memchr::memchr(b'\n', answer) else {
            let start = &b"HTTP/1."[..answer.len().min(7)];
            // Fails early: this cannot become a status line.
            return if answer.starts_with(start) { Ok(None) } else { Err(io::ErrorKind::InvalidData.into()) };
        };
        let line = std::str::from_utf8(&answer[..end]).unwrap_or_default().trim_end();
        let mut words = line.split(' ');
        let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
        let code = words.next().filter(|code| code.len() == 3).and_then(|code| code.parse::<u16>().ok());
        match code.filter(|code| is_http && (100..600).contains(code)) {
            // The final answer follows.
            Some(100..200) => match memchr::memmem::find(answer, b"\r\n\r\n") {
                Some(at) => answer = &answer[at + 4..],
                None => return Ok(None),
            },
            Some(code) => return Ok(Some(code)),
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
        if answer.is_empty() {
            return Ok(None);
        }
    }
}

/// Repeats a request until the status is below 400, or another attempt until it succeeds.
#[derive(Debug)]
pub(crate) struct HttpProbe {
    /// Readable after the answer.
    answered: UnixStream,
    status: Arc<OnceLock<u16>>,
    /// What the last request came to that was no success, as `answers with 404`.
    seen: Arc<Mutex<Option<String>>>,
}

impl HttpProbe {
    /// Starts the thread.
    pub(crate) fn start(address: &HttpAddress) -> io::Result<Self> {
        let (address, seen) = (address.clone(), Arc::default());
        let last: Arc<Mutex<Option<String>>> = Arc::clone(&seen);
        let probe = Self::repeat(move || {
            let answer = address.ask();
            if let Ok(status @ ..400) = answer {
                return Some(status);
            }
            let what = match answer {
                Ok(status) => format!("answers with {status}"),
                Err(error) => format!("does not answer: {error}"),
            };
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
            None
        })?;
        Ok(Self { seen, ..probe })
    }

    /// Starts a thread that makes another attempt of something until it comes to a status.
    pub(crate) fn repeat(mut attempt: impl FnMut() -> Option<u16> + Send + 'static) -> io::Result<Self> {
        let (answered, sender) = UnixStream::pair()?;
        let status = Arc::new(OnceLock::new());
        let answer = Arc::clone(&status);
        let thread = std::thread::Builder::new().name("probe".to_owned()).stack_size(STACK);
        thread.spawn(move || {
            let mut pause = PAUSES.0;
            loop {
                if let Some(status) = attempt() {
                    answer.get_or_init(|| status);
                    // Closes `sender`, which wakes the wait.
                    return;
                }
                // The other end is closed when the wait is over.
                match outlive_sys::poll::readable(sender.as_fd(), Some(pause)) {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(_) => std::thread::sleep(pause),
                }
                pause = (pause * 3 / 2).min(PAUSES.1);
            }
        })?;
        Ok(Self { answered, status, seen: Arc::default() })
    }

    /// Returns what the last request came to that was no success.
    pub(crate) fn seen(&self) -> Option<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.status.get().copied()
    }

    /// Returns the descriptor to poll.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.answered.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn addresses_are_taken_apart() {
        for (url, host, port, target, authority) in [
            ("http://localhost", "localhost", 80, "/", "localhost"),
            ("HTTP://127.0.0.1:8080/a?b#c", "127.0.0.1", 8080, "/a?b", "127.0.0.1:8080"),
            ("http://[::1]:81", "::1", 81, "/", "[::1]:81"),
            ("http://a.b?q", "a.b", 80, "/?q", "a.b"),
            ("https://a.b/c", "a.b", 443, "/c", "a.b"),
        ] {
            let address: HttpAddress = url.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port, address.target.as_str()), (host, port, target));
            assert_eq!((address.authority.as_str(), address.as_str()), (authority, url));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in [
            "",
            "localhost",
            "http://",
            "http:///x",
            "ftp://a",
            "http://a:0",
            "http://a:65536",
            "http://a:+1",
            "http://a:b",
            "http://u@a",
            "http://[::1",
            "http://[a]",
            "http://[::1]x",
            "http://a/\r\nX: y",
            "http://a b",
            "http://ä",
            "http://a:",
        ] {
            assert_eq!(url.parse::<HttpAddress>(), Err(RequestError::Address(url.to_owned())), "{url}");
        }
        let huge = format!("http://a/{}", "x".repeat(3000));
        assert!(matches!(huge.parse::<HttpAddress>(), Err(RequestError::Address(_))));
    }

    #[test]
    fn status_lines_are_read_and_nonsense_is_not() {
        assert_eq!(status(b"HTTP/1.1 204 No Content\r\n").unwrap(), Some(204));
        assert_eq!(status(b"HTTP/1.0 500\n").unwrap(), Some(500));
        assert_eq!(status(b"HTTP/1.1 20").unwrap(), None);
        assert_eq!(status(b"HT").unwrap(), None);
        assert_eq!(status(b"").unwrap(), None);
        assert_eq!(
            status(b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 302 Found\r\n").unwrap(),
            Some(302)
        );
        assert_eq!(status(b"HTTP/1.1 103 Early\r\nLink").unwrap(), None);
        assert_eq!(status(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap(), None);
        for nonsense in
            [&b"SSH-2.0-x\r\n"[..], b"SSH", b"HTTP/1.1 2000\r\n", b"HTTP/1.1 abc\n", b"\xff\xff\n", b"\n"]
        {
            assert!(status(nonsense).is_err(), "{nonsense:?}");
        }
    }

    #[test]
    fn a_server_is_asked_until_it_is_well() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://localhost:{}/health", server.local_addr().unwrap().port());
        let probe = HttpProbe::start(&url.parse().unwrap()).unwrap();
        for answer in ["nonsense", "HTTP/1.1 503 Not yet\r\n\r\n", "HTTP/1.1 302 Found\r\n\r\n"] {
            assert_eq!(probe.status(), None);
            let (mut client, _) = server.accept().unwrap();
            let mut asked = [0; 17];
            client.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"GET /health HTTP/");
            client.write_all(answer.as_bytes()).unwrap();
        }
        outlive_sys::poll::readable(probe.fd(), None).unwrap();
        assert_eq!(probe.status(), Some(302));
    }
}
