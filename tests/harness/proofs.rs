//! Which lines of the designs a test has shown, named where it shows them.
//!
//! `tests/coverage/` finds these names in the sources, and makes `docs/reference/coverage.md` of them; `./test` asks whether each of them
//! was reached.

use std::io::Write;

use serde_json::Value;

/// Names the lines of the designs that the assertion right before it has shown: `proves!("S1-29")`.
#[macro_export]
macro_rules! proves {
    ($($id:literal),+ $(,)?) => { $crate::shown(&[$($id),+]) };
}

/// Names the lines of the designs that are superseded or reversed, where the assertion right before it has shown what there is instead:
/// `instead!("S0-140")`.
#[macro_export]
macro_rules! instead {
    ($($id:literal),+ $(,)?) => { $crate::shown(&[$($id),+]) };
}

/// Notes that lines were shown, in the file of `OUTLIVE_TEST_SHOWN`.
pub fn shown(ids: &[&str]) {
    if let Some(path) = std::env::var_os("OUTLIVE_TEST_SHOWN") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        // In one write: other tests append to it, too.
        file.write_all(format!("{}\n", ids.join("\n")).as_bytes()).unwrap();
    }
}

/// Returns what the parts of a written dialogue prove and show instead: tools first, then steps, each with the names that it gives.
pub fn dialogue_names(dialogue: &Value, key: &str) -> Vec<Vec<String>> {
    let tools = dialogue["tools"].as_object().into_iter().flat_map(serde_json::Map::values);
    let steps = dialogue["steps"].as_array().into_iter().flatten();
    let names = tools.chain(steps).filter_map(|part| part[key].as_array());
    names.map(|names| names.iter().map(|name| name.as_str().unwrap_or("?").to_owned()).collect()).collect()
}
