//! Tokens in the store: who may ask over TCP, and for what.
//!
//! A token is a file `serve/tokens/<SHA-256 of the secret>.json`: whoever reads the store learns no secret, and a guess is looked up
//! by its hash, so that no comparison can be timed. A one-time link is a file `serve/links/<SHA-256>.json`; the process that removes
//! the file has redeemed it, and no other can. `docs/on-disk-format.md` has the format.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive::{Code, Failure, SessionName, Store, Timestamp};
use outlive_sys::{clock, durable, lock, random};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::scope::Scope;

/// What a secret begins with, so that a search for leaked secrets finds it.
const PREFIX: &str = "outlive_";

/// How long a link can be used: it is opened by hand, or by a phone that is at hand.
const LINK_LIFE: Duration = Duration::from_secs(10 * 60);

/// How long a browser stays signed in.
const BROWSER_LIFE: Duration = Duration::from_secs(30 * 86_400);

/// How long to wait for another program that makes a token.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// A token's file. The secret is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    format: u32,
    /// What it is called: by people, and where it is revoked.
    pub name: String,
    /// What it allows.
    pub scope: Scope,
    /// The only session whose jobs it sees; none: all.
    pub session: Option<SessionName>,
    /// When it was made, in microseconds.
    created_us: u64,
    /// When it ends, in microseconds; none: when it is revoked.
    expires_us: Option<u64>,
}

/// A token as scripts see it.
#[derive(Debug, Serialize)]
pub struct TokenObject {
    /// Its name.
    pub name: String,
    /// What it allows.
    pub scope: Scope,
    /// The only session that it sees; none: all.
    pub session: Option<SessionName>,
    /// When it was made.
    pub created_at: String,
    /// When it ends by itself; none: never.
    pub expires_at: Option<String>,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name cannot be used.
    #[error("a token's name is 1 to 64 letters, digits, `.`, `_` and `-`, and begins with a letter or digit")]
    Name,
    /// Another token has the name.
    #[error("there is a token {0:?} already")]
    Exists(String),
    /// No token has the name.
    #[error("there is no token {0:?}")]
    Unknown(String),
    /// The store cannot be read or written.
    #[error("cannot use the tokens of the store")]
    Store(#[from] io::Error),
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        let (code, hint) = match &error {
            TokenError::Name => (Code::Usage, "such as: outlive token create laptop --scope view"),
            TokenError::Exists(_) => (Code::Exists, "take another name, or revoke that one first"),
            TokenError::Unknown(_) => (Code::NotFound, "`outlive token list` shows all tokens"),
            TokenError::Store(_) => (Code::Failed, "look at the directory `serve` of the store"),
        };
        Self::new(code, outlive::chain(&error)).during("token").hint(hint)
    }
}

impl Token {
    /// Describes it.
    pub fn object(&self) -> TokenObject {
        let time = |us: u64| Timestamp(us).to_string();
        TokenObject {
            name: self.name.clone(),
            scope: self.scope,
            session: self.session.clone(),
            created_at: time(self.created_us),
            expires_at: self.expires_us.map(time),
        }
    }

    fn is_over(&self) -> bool {
        self.expires_us.is_some_and(|expires| expires <= clock::wall_us())
    }
}

/// The tokens of a store.
#[derive(Debug, Clone)]
pub struct Tokens {
    root: PathBuf,
}

impl Tokens {
    /// Finds the tokens of a store.
    ///
    /// # Errors
    ///
    /// If their directory cannot be made, or another user can write to it.
    pub fn of(store: &Store) -> io::Result<Self> {
        let root = store.serve_dir()?;
        for name in ["tokens", "links"] {
            match DirBuilder::new().mode(0o700).create(root.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(Self { root })
    }

    fn tokens(&self) -> PathBuf {
        self.root.join("tokens")
    }

    fn links(&self) -> PathBuf {
        self.root.join("links")
    }

    /// Makes a token and returns its secret, which is nowhere else; `life`: it ends by itself.
    ///
    /// # Errors
    ///
    /// If the name cannot be used or is taken, or the store cannot be written.
    pub fn create(
        &self,
        name: &str,
        scope: Scope,
        session: Option<SessionName>,
        life: Option<Duration>,
    ) -> Result<String, TokenError> {
        // The same words as for a session: both are typed, listed and never a path.
        SessionName::parse(name).map_err(|_| TokenError::Name)?;
        let held = durable::open_or_create(durable::CWD, self.root.join("tokens.lock"))?;
        lock::lock_within(&held, LOCK_LIMIT)?;
        if self.list()?.iter().any(|token| token.name == name) {
            return Err(TokenError::Exists(name.to_owned()));
        }
        Ok(write(&self.tokens(), &token(name, scope, session, life))?)
    }

    /// Makes a link's secret, which can be redeemed once.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn create_link(&self, scope: Scope, session: Option<SessionName>) -> io::Result<String> {
        sweep(&self.links());
        write(&self.links(), &token("link", scope, session, Some(LINK_LIFE)))
    }

    /// Exchanges the secret of a link for that of a token of its own; `None` if it was redeemed before, is too old, or was never made.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn redeem(&self, secret: &str) -> io::Result<Option<(String, Token)>> {
        let Some(link) = find(&self.links(), secret) else { return Ok(None) };
        // Exactly one process removes the file.
        match fs::remove_file(self.links().join(file_name(secret))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            removed => removed?,
        }
        sweep(&self.tokens());
        let name = format!("browser-{}", &hex(&random::bytes16())[..8]);
        let token = token(&name, link.scope, link.session, Some(BROWSER_LIFE));
        Ok(Some((write(&self.tokens(), &token)?, token)))
    }

    /// Finds the token of a secret.
    pub fn find(&self, secret: &str) -> Option<Token> {
        find(&self.tokens(), secret)
    }

    /// Lists the tokens that are valid, by name.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn list(&self) -> io::Result<Vec<Token>> {
        let mut tokens: Vec<Token> = files(&self.tokens())?.iter().filter_map(|path| read(path)).collect();
        tokens.retain(|token| !token.is_over());
        tokens.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tokens)
    }

    /// Ends a token: the next request with it is refused.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the store cannot be written.
    pub fn revoke(&self, name: &str) -> Result<(), TokenError> {
        let files = files(&self.tokens())?;
        let named = files.iter().find(|path| read(path).is_some_and(|token| token.name == name));
        fs::remove_file(named.ok_or_else(|| TokenError::Unknown(name.to_owned()))?)?;
        Ok(())
    }
}

fn token(name: &str, scope: Scope, session: Option<SessionName>, life: Option<Duration>) -> Token {
    let created_us = clock::wall_us();
    let end = |life: Duration| created_us.saturating_add(u64::try_from(life.as_micros()).unwrap_or(u64::MAX));
    let expires_us = life.map(end);
    Token { format: 1, name: name.to_owned(), scope, session, created_us, expires_us }
}

/// Writes a token under a new secret, which is returned.
fn write(dir: &Path, token: &Token) -> io::Result<String> {
    let secret = format!("{PREFIX}{}{}", hex(&random::bytes16()), hex(&random::bytes16()));
    let dir = durable::open_dir(dir)?;
    let mut file = durable::create_new(&dir, &file_name(&secret))?;
    // A file that is cut short is no token: its maker has told no one the secret.
    file.write_all(&serde_json::to_vec(token)?)?;
    Ok(secret)
}

/// Looks a secret up by its hash.
fn find(dir: &Path, secret: &str) -> Option<Token> {
    read(&dir.join(file_name(secret))).filter(|token| !token.is_over())
}

fn read(path: &Path) -> Option<Token> {
    let bytes = durable::read(durable::CWD, path).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|token: &Token| token.format == 1)
}

fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
}

/// Removes what has ended by itself.
fn sweep(dir: &Path) {
    for path in files(dir).unwrap_or_default() {
        if read(&path).is_some_and(|token| token.is_over()) {
            fs::remove_file(path).ok();
        }
    }
}

fn file_name(secret: &str) -> String {
    format!("{}.json", hex(&Sha256::digest(secret.as_bytes())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
