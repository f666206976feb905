//! `.claude/launch.json`: the servers that Claude Code may start.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::error::ProjectError;
use crate::file::fault::Source;
use crate::import::draft::{Draft, DraftJob, job_name};
use crate::import::{foreign, json};

pub(super) fn read(_: &Path, source: &Source) -> Result<Draft, ProjectError> {
    let file = json(source)?;
    let configurations = file.get("configurations").and_then(Value::as_array);
    let configurations = configurations.ok_or_else(|| foreign(source, "it has no configurations"))?;
    let (mut draft, mut taken) = (Draft::default(), BTreeSet::new());
    for configuration in configurations {
        let name = configuration.get("name").and_then(Value::as_str).unwrap_or("server");
        let mut job = DraftJob::new(job_name(name, &mut taken));
        let list = |key: &str| {
            let values = configuration.get(key).and_then(Value::as_array).into_iter().flatten();
            values.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<String>>()
        };
        let one = |key: &str| configuration.get(key).and_then(Value::as_str).map(str::to_owned);
        // A program without one that runs it is one of Node.
        let runtime = one("runtimeExecutable").or_else(|| one("program").map(|_| "node".to_owned()));
        let runtime = runtime.ok_or_else(|| foreign(source, format!("{name:?} has no runtimeExecutable")))?;
        let words =
            [vec![runtime], list("runtimeArgs"), one("program").into_iter().collect(), list("args")].concat();
        job.texts("run", words.iter().map(String::as_str));
        let cwd = one("cwd").map(|cwd| cwd.replace("${workspaceFolder}", "."));
        if let Some(cwd) = cwd.filter(|cwd| cwd != ".") {
            job.text("dir", cwd.strip_prefix("./").unwrap_or(&cwd));
        }
        let is_auto = configuration.get("autoPort").and_then(Value::as_bool) == Some(true);
        match configuration.get("port").and_then(Value::as_u64) {
            _ if is_auto => job.text("port", "auto"),
            Some(port) => job.value("port", port.to_string()),
            None => {}
        }
        let env = configuration.get("env").and_then(Value::as_object).into_iter().flatten();
        job.table(
            "env",
            env.map(|(name, value)| (name.as_str(), value.as_str().map_or(value.to_string(), str::to_owned))),
        );
        let known =
            ["name", "runtimeExecutable", "runtimeArgs", "program", "args", "cwd", "port", "autoPort", "env"];
        for key in configuration.as_object().into_iter().flatten().map(|(key, _)| key) {
            if !known.contains(&key.as_str()) {
                draft.warn(format!("`{key}` of {name:?} is not taken over."));
            }
        }
        draft.jobs.push(job);
    }
    Ok(draft)
}
