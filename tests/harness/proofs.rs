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

/// Returns where a written dialogue names lines, with `proves` or `instead` as the key: at which tool or step, and which.
pub fn dialogue_names(dialogue: &Value, key: &str) -> Vec<(String, Vec<String>)> {
    let tools = dialogue["tools"].as_object().into_iter().flatten();
    let tools = tools.map(|(name, tool)| (format!("tool {name}"), tool));
    let steps = dialogue["steps"].as_array().into_iter().flatten();
    let steps = steps.enumerate().map(|(at, step)| (format!("step {}", at + 1), step));
    let names = tools.chain(steps).filter_map(|(place, part)| Some((place, part[key].as_array()?)));
    let words =
        |names: &Vec<Value>| names.iter().map(|name| name.as_str().unwrap_or("?").to_owned()).collect();
    names.map(|(place, names)| (place, words(names))).collect()
}
