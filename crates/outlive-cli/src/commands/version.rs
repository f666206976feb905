//! `outlive version`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::render::answer;

pub(crate) fn run(is_json: bool) -> Result<ExitCode, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    answer(is_json, &BTreeMap::from([("version", version)]), || format!("outlive {version}\n"))
}
