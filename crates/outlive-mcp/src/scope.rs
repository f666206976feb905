//! Which jobs a client sees, and which reader it is: by project, and by conversation.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use outlive::{Seat, SessionName, Store, hash};

use crate::profiles::{Isolation, Profile};
use crate::reply::chain;

/// What the command that started the server, or the address that a client came by, has named.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) session: Option<SessionName>,
    pub(crate) reader: Option<SessionName>,
    /// Of a client that came over HTTP: what stays the same as long as it is the same client.
    pub(crate) connection: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// The session of new jobs.
    pub(crate) session: SessionName,
    /// Tools see the jobs of all sessions, not only of that one.
    pub(crate) sees_all: bool,
    /// What this reader has received is not repeated.
    pub(crate) reader: SessionName,
    /// The project's directory, where jobs start by default.
    pub(crate) directory: Option<PathBuf>,
    /// Where jobs start without a project: the directory that the server was started in, which may be gone, or the user's home.
    pub(crate) here: PathBuf,
    /// The client came over HTTP: the directory and the environment of this process are not its own.
    pub(crate) is_remote: bool,
    /// What the client's machine calls this one: ids of jobs begin with it.
    pub(crate) host: Option<String>,
}

impl Scope {
    /// Returns the session whose jobs are seen; `None` for all.
    pub(crate) fn seen(&self) -> Option<&SessionName> {
        if self.sees_all { None } else { Some(&self.session) }
    }
}

/// Who a client is: the session of its jobs, and the reader.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) session: SessionName,
    pub(crate) reader: SessionName,
    /// Held as long as the connection lives, if the connection is the conversation.
    pub(crate) seat: Option<Seat>,
}

/// Determines who a client is. Where it names no conversation, this connection is it, and goes on for those of the same profile and
/// project that are gone.
pub(crate) fn identify(store: &Store, options: &Named, profile: &Profile, project: SessionName) -> Identity {
    let is_private = profile.isolation == Isolation::Conversation && options.session.is_none();
    let place = options.session.clone().unwrap_or(project);
    let session_of = |reader: &SessionName| if is_private { reader.clone() } else { place.clone() };
    let mut named = match options.connection {
        None => options.reader.clone().or_else(outlive::conversation_of_environment),
        Some(_) => options.reader.clone(),
    };
    if profile.isolation == Isolation::Conversation && !is_private {
        // A session that was named is shared as it is, and so are its positions.
        named = named.or_else(|| Some(place.clone()));
    }
    if let Some(reader) = named {
        return Identity { session: session_of(&reader), reader, seat: None };
    }
    if let Some(connection) = &options.connection {
        // Known again by what it sends, at any later server too: it needs no seat.
        let digits = format!("{:012x}", hash(connection.as_bytes()) >> 16);
        let reader = connection_name(profile, &place, is_private, &digits);
        return Identity { session: session_of(&reader), reader, seat: None };
    }
    let new = connection_name(profile, &place, is_private, &crate::profiles::random_digits(12, 16));
    let seats = match store.take_seat(&place, profile.name(), new.clone()) {
        Ok(seats) => seats,
        Err(error) => {
            crate::log(&format!("this connection has no seat: {}", chain(&error)));
            return Identity { session: session_of(&new), reader: new, seat: None };
        }
    };
    let reader = seats.own.name().clone();
    for gone in seats.free {
        let name = gone.name();
        let (old, heir) = ((&session_of(name), name), (&session_of(&reader), &reader));
        match store.inherit(old, heir).and_then(|()| (profile.inherit)(store, name, &reader)) {
            Ok(()) => store.remove_seat(gone),
            // The next new connection tries again.
            Err(error) => crate::log(&format!("{name} is not inherited: {}", chain(&error))),
        }
    }
    Identity { session: session_of(&reader), reader, seat: Some(seats.own) }
}

/// Names a new connection. Where its jobs are its own, that is also the name of their session, which people see.
fn connection_name(profile: &Profile, place: &SessionName, is_private: bool, digits: &str) -> SessionName {
    if !is_private {
        return outlive::reader_name(&format!("mcp-{digits}"));
    }
    let place: String = place.as_str().chars().take(30).collect();
    outlive::reader_name(&format!("{place}-{}-{digits}", profile.name()))
}

/// Returns the session of the project that a directory is in: the same for every server in that project.
pub(crate) fn session_of(directory: &Path) -> SessionName {
    let root = directory.ancestors().find(|path| path.join(".git").exists()).unwrap_or(directory);
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let slug: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' })
        .take(40)
        .collect();
    let slug = slug.trim_matches(['-', '.', '_']);
    let slug = if slug.is_empty() { "project" } else { slug };
    SessionName::parse(&format!("{slug}-{:08x}", mark(root.as_os_str().as_bytes()))).unwrap_or_default()
}

/// Returns a 32-bit hash.
pub(crate) fn mark(bytes: impl AsRef<[u8]>) -> u32 {
    let hash = hash(bytes.as_ref());
    (hash ^ (hash >> 32)) as u32
}

/// Returns the path of a `file:` URI; `None` for any other.
pub(crate) fn path_of_uri(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.as_bytes();
    while let Some((&byte, rest)) = left.split_first() {
        let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (byte, rest) {
            (b'%', [high, low, after @ ..]) => {
                bytes.push(hex(*high)? << 4 | hex(*low)?);
                left = after;
            }
            _ => {
                bytes.push(byte);
                left = rest;
            }
        }
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_one_session_wherever_one_starts_in_it() {
        let home = std::env::temp_dir().join(format!("outlive-scope-{}", std::process::id()));
        let (inner, other) = (home.join("my app/src/deep"), home.join("other/my app"));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir_all(home.join("my app/.git")).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        assert_eq!(session_of(&inner), session_of(&home.join("my app")));
        assert_ne!(session_of(&inner), session_of(&other), "another project of the same name");
        assert!(session_of(&inner).as_str().starts_with("my-app-"));
        std::fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn any_directory_makes_a_session() {
        for path in ["/", "/...", "/\u{e9}\u{e9}", "/-", &format!("/{}", "x".repeat(255))] {
            assert_ne!(session_of(Path::new(path)), SessionName::default(), "{path}");
        }
    }

    #[test]
    fn uris_of_files_are_paths() {
        assert_eq!(path_of_uri("file:///a%20b/c"), Some(PathBuf::from("/a b/c")));
        assert_eq!(path_of_uri("file://localhost/x"), Some(PathBuf::from("/x")));
        for uri in ["http://x/", "file://host", "/x", "file:///a%2", ""] {
            assert!(path_of_uri(uri).is_none_or(|path| path == Path::new("/a%2")), "{uri}");
        }
    }
}
