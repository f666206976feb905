//! Which jobs a client sees, and which reader it is: by project, and by conversation.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use outlive::{SessionName, hash};

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
    /// The directory that the server was started in; it may be gone.
    pub(crate) here: PathBuf,
}

impl Scope {
    /// Returns the session whose jobs are seen; `None` for all.
    pub(crate) fn seen(&self) -> Option<&SessionName> {
        if self.sees_all { None } else { Some(&self.session) }
    }
}

/// Returns the reader of this connection: the conversation that the client names, else a new one.
pub(crate) fn reader() -> SessionName {
    if let Some(named) = outlive::conversation_of_environment() {
        return named;
    }
    outlive::reader_name(&format!("mcp-{}", crate::profiles::random_digits(12, 16)))
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
