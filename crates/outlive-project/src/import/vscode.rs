//! `.vscode/tasks.json`: its tasks that run in the background, and what they depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outlive::quote;
use serde_json::Value;

use crate::error::ProjectError;
use crate::file::fault::Source;
use crate::import::draft::{Draft, DraftJob, job_name};
use crate::import::{foreign, json};

/// What a matcher of VS Code itself takes for the end of a round of work.
const MATCHERS: [(&str, &str); 1] = [("$tsc-watch", r"Watching for file changes\.")];

/// A task, with what it says for Linux.
struct Task<'a> {
    label: &'a str,
    value: Value,
    depends_on: Vec<&'a str>,
    is_background: bool,
    /// The name of its job; none: it only groups others.
    job: Option<String>,
}

pub(super) fn read(_: &Path, source: &Source) -> Result<Draft, ProjectError> {
    let file = json(source)?;
    let tasks =
        file.get("tasks").and_then(Value::as_array).ok_or_else(|| foreign(source, "it has no tasks"))?;
    let (mut draft, mut taken) = (Draft::default(), BTreeSet::new());
    let tasks: Vec<Task<'_>> = tasks.iter().filter_map(|task| task_of(task, &mut taken)).collect();
    let wanted = wanted(&tasks);
    for task in &tasks {
        let Some(name) = &task.job else { continue };
        let mut job = DraftJob::new(name.clone());
        if let Err(reason) = fill(&mut job, task, &mut draft) {
            job.left_out = Some(reason);
        } else if !wanted.contains(task.label) {
            job.left_out = Some("Not in the background, and nothing that is depends on it.".to_owned());
        }
        let after = after(&tasks, task);
        if !after.is_empty() {
            job.texts("after", after.iter().map(String::as_str));
        }
        draft.jobs.push(job);
    }
    leave_out_dependents(&tasks, &mut draft);
    Ok(draft)
}

fn task_of<'a>(value: &'a Value, taken: &mut BTreeSet<String>) -> Option<Task<'a>> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let label =
        text("label").or_else(|| text("taskName")).or_else(|| text("script")).or_else(|| text("command"))?;
    let mut merged = value.clone();
    for (key, own) in value.get("linux").and_then(Value::as_object).into_iter().flatten() {
        merged[key] = own.clone();
    }
    let depends_on = match value.get("dependsOn") {
        Some(Value::String(other)) => vec![other.as_str()],
        Some(Value::Array(others)) => others.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let runs = merged.get("command").is_some() || merged.get("script").is_some();
    let job = runs.then(|| job_name(label, taken));
    let is_background = value.get("isBackground").and_then(Value::as_bool) == Some(true);
    Some(Task { label, value: merged, depends_on, is_background, job })
}

/// Lists the tasks that run in the background, and all that they depend on.
fn wanted<'a>(tasks: &'a [Task<'a>]) -> BTreeSet<&'a str> {
    let mut wanted = BTreeSet::new();
    let mut open: Vec<&Task<'_>> = tasks.iter().filter(|task| task.is_background).collect();
    while let Some(task) = open.pop() {
        if wanted.insert(task.label) {
            open.extend(tasks.iter().filter(|other| task.depends_on.contains(&other.label)));
        }
    }
    wanted
}

/// Lists what a task is to come after: what it depends on, and what stands before it where a group is done in sequence.
fn after(tasks: &[Task<'_>], task: &Task<'_>) -> Vec<String> {
    let mut labels = task.depends_on.clone();
    for group in tasks {
        let is_sequence = group.value.get("dependsOrder").and_then(Value::as_str) == Some("sequence");
        let place = group.depends_on.iter().position(|label| *label == task.label);
        labels.extend(place.filter(|&at| is_sequence && at > 0).map(|at| group.depends_on[at - 1]));
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some(label) = labels.pop() {
        let Some(other) = tasks.iter().find(|other| other.label == label).filter(|_| seen.insert(label))
        else {
            continue;
        };
        match &other.job {
            Some(job) if other.is_background => found.push(job.clone()),
            Some(job) => found.push(format!("{job}@succeeded")),
            None => labels.extend(&other.depends_on),
        }
    }
    found.sort();
    found
}

/// Writes what a task runs; the error is why it cannot be a job.
fn fill(job: &mut DraftJob, task: &Task<'_>, draft: &mut Draft) -> Result<(), String> {
    let text = |key: &str| task.value.get(key).and_then(Value::as_str);
    let options = task.value.get("options");
    let cwd = options.and_then(|options| options.get("cwd")).and_then(Value::as_str);
    let cwd = cwd.or_else(|| text("path").filter(|_| text("type") == Some("npm")));
    let dir = cwd.map(|cwd| in_workspace(cwd, ".")).transpose()?;
    let dir = dir.as_deref().map_or(".", |dir| dir.trim_start_matches("./").trim_end_matches('/'));
    let dir = if dir.is_empty() { "." } else { dir };
    // From there, the directory of the project.
    let up = vec![".."; if dir == "." { 0 } else { dir.split('/').count() }].join("/");
    let root = if up.is_empty() { "." } else { &up };
    if let Some(script) = text("script").filter(|_| text("type") == Some("npm")) {
        job.texts("run", ["npm", "run", script]);
    } else {
        let command = task.value.get("command").map(word).unwrap_or_default();
        let command = in_workspace(&command.0, root)?;
        let arguments = task.value.get("args").and_then(Value::as_array).into_iter().flatten();
        let arguments = arguments.map(|argument| {
            let (text, is_quoted) = word(argument);
            Ok((in_workspace(&text, root)?, is_quoted))
        });
        let arguments: Vec<(String, bool)> = arguments.collect::<Result<_, String>>()?;
        if text("type") == Some("process") {
            job.texts(
                "run",
                [command.as_str()].into_iter().chain(arguments.iter().map(|(text, _)| text.as_str())),
            );
        } else {
            // What has a blank in it is quoted there, too.
            let shown = |(text, is_quoted): &(String, bool)| {
                if *is_quoted || text.contains(' ') { quote(text) } else { text.clone() }
            };
            let words: Vec<String> = std::iter::once(command).chain(arguments.iter().map(shown)).collect();
            job.text("run", &words.join(" "));
        }
    }
    if dir != "." {
        job.text("dir", dir);
    }
    let env = options.and_then(|options| options.get("env")).and_then(Value::as_object).into_iter().flatten();
    let env: BTreeMap<&str, String> = env.map(|(name, value)| (name.as_str(), word(value).0)).collect();
    job.table("env", env);
    if task.is_background {
        ready(job, task, draft);
    }
    Ok(())
}

/// Writes when a task in the background counts as ready: when a round of its work has ended.
fn ready(job: &mut DraftJob, task: &Task<'_>, draft: &mut Draft) {
    let matchers = match task.value.get("problemMatcher") {
        Some(Value::Array(several)) => several.iter().collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    };
    for matcher in matchers {
        let known = matcher.as_str().and_then(|name| MATCHERS.iter().find(|(known, _)| *known == name));
        let own = matcher.get("background").and_then(|background| background.get("endsPattern"));
        let own = own.and_then(|own| own.as_str().or_else(|| own.get("regexp")?.as_str()));
        if let Some(pattern) = known.map(|(_, pattern)| *pattern).or(own) {
            if outlive::pattern(pattern, false).is_ok() {
                job.table("ready", [("line", pattern.to_owned())]);
                return;
            }
            draft.warn(format!("the endsPattern of {:?} is not understood here.", task.label));
        } else if let Some(name) = matcher.as_str() {
            draft.warn(format!(
                "when {name} of {:?} is at its end is not known: it is never ready.",
                task.label
            ));
        }
    }
}

/// A job that comes after one that is left out is left out as well.
fn leave_out_dependents(tasks: &[Task<'_>], draft: &mut Draft) {
    loop {
        let off: Vec<String> =
            draft.jobs.iter().filter(|job| job.left_out.is_some()).map(|job| job.name.clone()).collect();
        let needs_off = |name: &str| {
            let task = tasks.iter().find(|task| task.job.as_deref() == Some(name));
            task.map(|task| after(tasks, task)).into_iter().flatten().find_map(|after| {
                let other = after.split('@').next().unwrap_or_default().to_owned();
                off.contains(&other).then_some(other)
            })
        };
        let next = draft.jobs.iter_mut().filter(|job| job.left_out.is_none());
        let Some((job, other)) = next.filter_map(|job| needs_off(&job.name).map(|other| (job, other))).next()
        else {
            return;
        };
        job.left_out = Some(format!("It comes after {other}, which is left out."));
    }
}

/// Returns a word of a command, and whether it is to be quoted.
fn word(value: &Value) -> (String, bool) {
    match value {
        Value::Object(table) => {
            let text = match table.get("value") {
                Some(Value::Array(parts)) => parts.iter().filter_map(Value::as_str).collect(),
                Some(value) => word(value).0,
                None => String::new(),
            };
            (text, true)
        }
        Value::String(text) => (text.clone(), false),
        other => (other.to_string(), false),
    }
}

/// Replaces what VS Code calls the directory of the project, and variables of the environment; the error names what only it knows.
fn in_workspace(text: &str, root: &str) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        filled.push_str(before);
        match name.strip_prefix("env:") {
            Some(variable) => filled += &format!("${{{variable}}}"),
            None if name == "workspaceFolder" || name == "workspaceRoot" => filled.push_str(root),
            None => return Err(format!("Only VS Code knows what ${{{name}}} is.")),
        }
        rest = after;
    }
    Ok(filled + rest)
}
