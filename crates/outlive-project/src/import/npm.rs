//! `package.json`: its scripts that run all the time.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::error::ProjectError;
use crate::file::fault::Source;
use crate::import::draft::{Draft, DraftJob, job_name};
use crate::import::{foreign, json};

/// The program that runs scripts, by the file that it leaves in the directory.
const RUNNERS: [(&str, &str); 5] = [
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("deno.lock", "deno task"),
];

/// Scripts that serve for as long as they run, the most likely first: of these groups one is for developing, one for the finished thing.
const SERVING: [&[&str]; 2] =
    [&["dev", "develop", "watch", "worker", "storybook"], &["start", "serve", "server", "preview"]];

pub(super) fn read(dir: &Path, source: &Source) -> Result<Draft, ProjectError> {
    let package = json(source)?;
    let scripts = package.get("scripts").and_then(Value::as_object);
    let scripts =
        scripts.filter(|scripts| !scripts.is_empty()).ok_or_else(|| foreign(source, "it has no scripts"))?;
    let runner =
        RUNNERS.iter().find(|(file, _)| dir.join(file).is_file()).map_or("npm", |(_, runner)| runner);
    let mut draft =
        Draft { name: package.get("name").and_then(Value::as_str).map(str::to_owned), ..Draft::default() };
    let first = |name: &str| name.split([':', '-', '.']).next().unwrap_or_default().to_owned();
    let is_in = |name: &str, group: usize| SERVING[group].contains(&first(name).as_str());
    let is_for_developing = scripts.keys().any(|name| is_in(name, 0));
    let mut taken = BTreeSet::new();
    for (name, line) in scripts {
        let before = ["pre", "post"].iter().filter_map(|prefix| name.strip_prefix(prefix));
        if before.into_iter().any(|of| scripts.contains_key(of)) {
            // It runs with the script of that name.
            continue;
        }
        let mut job = DraftJob::new(job_name(name, &mut taken));
        let line = line.as_str().unwrap_or_default();
        job.left_out = match (is_in(name, 0), is_in(name, 1)) {
            (true, _) => None,
            (false, true) if !is_for_developing => None,
            (false, true) => {
                Some("Serves what was built; while developing, the one above is used instead.".to_owned())
            }
            (false, false) => Some(format!("Not a server, by its name: {line}")),
        };
        let words = runner
            .split(' ')
            .chain(["run"].into_iter().filter(|_| !runner.contains(' ')))
            .chain([name.as_str()]);
        job.texts("run", words);
        draft.jobs.push(job);
    }
    if draft.jobs.iter().all(|job| job.left_out.is_some()) {
        draft.warn("No script has the name of a server (dev, start, serve, …): take in what is to run.");
    }
    Ok(draft)
}
