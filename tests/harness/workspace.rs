//! Files of the workspace other than the binaries.

use std::path::{Path, PathBuf};

use crate::{Home, lacks};

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

/// Gives a home the store of this name in `tests/fixtures`.
pub fn use_fixture(home: &Home, name: &str) {
    copy(&workspace().join("tests/fixtures").join(name), &home.store());
    // Directories without a file in them are not checked in.
    for name in ["live", "new", "quarantine"] {
        std::fs::create_dir_all(home.store().join(name)).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
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
