//! Who this server is on TCP: its port, its scheme, and the names that it may be asked by.
//!
//! Without TLS these are the names of this machine for itself, exactly. With TLS they are those of the certificate: a browser has compared
//! them already, and a page that rebinds a name of its own has no certificate for it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem};
use webpki::EndEntityCert;

/// The port that browsers do not write into `Host`.
const USUAL: u16 = 443;

/// The files of a certificate and its key.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate, and those that it is signed by, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A file has something else.
    #[error("{} has no {} in PEM", .0.display(), .1)]
    Empty(PathBuf, &'static str),
    /// The key is not that of the certificate, or of a kind that is not known.
    #[error("{} and {} cannot be used together: {}", .0.certificate.display(), .0.key.display(), .1)]
    Pair(Tls, String),
    /// It is for no name that a browser could use.
    #[error("{} is for no name of a machine, and not for {}", .0.display(), .1.ip())]
    Nameless(PathBuf, SocketAddr),
}

/// A certificate that is shown to clients.
#[derive(Clone)]
pub(crate) struct Certificate {
    first: CertificateDer<'static>,
    /// The name that links have.
    name: String,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads a certificate for a server that listens there.
    pub(crate) fn read(files: &Tls, address: SocketAddr) -> Result<Self, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unread(&files.certificate, "certificate", error))?;
        let empty = || TlsError::Empty(files.certificate.clone(), "certificate");
        let first = chain.first().cloned().ok_or_else(empty)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| unread(&files.key, "private key", error))?;
        let pair = |error: &dyn fmt::Display| TlsError::Pair(files.clone(), error.to_string());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| pair(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let parsed = EndEntityCert::try_from(&first).map_err(|error| pair(&error))?;
        // One that stands for many names is none that could be typed.
        let name = parsed.valid_dns_names().find(|name| !name.contains('*')).map(str::to_owned);
        let is_for = |name: ServerName<'_>| parsed.verify_is_valid_for_subject_name(&name).is_ok();
        let ip = || is_for(address.ip().into()).then(|| bracketed(address));
        let name = name.or_else(ip).ok_or_else(|| TlsError::Nameless(files.certificate.clone(), address))?;
        Ok(Self { first, name, config: Arc::new(config) })
    }

    /// Returns the name that links have.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns what makes a connection a private one.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    fn is_for(&self, host: &str) -> bool {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let certificate = EndEntityCert::try_from(&self.first);
        ServerName::try_from(host).is_ok_and(|name| {
            certificate.is_ok_and(|known| known.verify_is_valid_for_subject_name(&name).is_ok())
        })
    }
}

fn unread(path: &Path, what: &'static str, error: pem::Error) -> TlsError {
    match error {
        pem::Error::Io(error) => TlsError::Read(path.to_owned(), error),
        _ => TlsError::Empty(path.to_owned(), what),
    }
}

/// Returns an address as it stands in a URL, without the port.
fn bracketed(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// Who this server is on TCP.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) port: u16,
    pub(crate) certificate: Option<Certificate>,
}

impl Site {
    /// Returns what an origin of our own begins with.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.certificate.is_some() { "https://" } else { "http://" }
    }

    /// Tells whether a `Host` is ours.
    pub(crate) fn is_ours(&self, host: &str) -> bool {
        let port = self.port;
        let Some(certificate) = &self.certificate else {
            return ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| format!("{name}:{port}") == host);
        };
        match host.strip_suffix(&format!(":{port}")) {
            Some(name) => certificate.is_for(name),
            None => port == USUAL && certificate.is_for(host),
        }
    }

    /// Returns an address at which it answers.
    pub(crate) fn url(&self) -> String {
        let name = self.certificate.as_ref().map_or("127.0.0.1", Certificate::name);
        format!("{}{name}:{}", self.scheme(), self.port)
    }

    /// Returns the name of our cookie: a browser sends the cookies of a host to all its ports. With TLS it is one that only this host
    /// could set.
    pub(crate) fn cookie(&self) -> String {
        let prefix = if self.certificate.is_some() { "__Host-" } else { "" };
        format!("{prefix}outlive-{}", self.port)
    }

    /// Returns what a cookie has besides.
    pub(crate) fn cookie_rules(&self) -> &'static str {
        match self.certificate {
            Some(_) => "Path=/; HttpOnly; SameSite=Strict; Secure",
            None => "Path=/; HttpOnly; SameSite=Strict",
        }
    }
}
