//! What is in the workspace beside the binaries.

use std::path::{Path, PathBuf};

use crate::lacks;

/// Returns the directory of the workspace.
pub fn workspace() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests)
}

/// Lists the Rust files below a directory.
pub fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the Python that has the official client of MCP; where `./test` could not install it, that is named as lacking.
pub fn python_client() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), Into::into);
    let python = target.join("venv/bin/python");
    if !python.is_file() {
        lacks("the Python client of MCP: it could not be installed into target/venv");
        return None;
    }
    Some(python)
}
