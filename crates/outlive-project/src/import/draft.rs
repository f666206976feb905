//! An `outlive.toml` in the making.

use std::collections::BTreeSet;

/// The jobs that were found, and what could not be taken over.
#[derive(Default)]
pub(super) struct Draft {
    /// The name of the project, where the file says one.
    pub(super) name: Option<String>,
    pub(super) jobs: Vec<DraftJob>,
    pub(super) warnings: Vec<String>,
}

/// A job as it is to be written.
pub(super) struct DraftJob {
    pub(super) name: String,
    /// It is written as a comment, for this reason.
    pub(super) left_out: Option<String>,
    /// Its keys and their values in TOML.
    lines: Vec<(&'static str, String)>,
}

impl Draft {
    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Returns the text, and the warnings, which are in it, too.
    pub(super) fn written(self, from: &str) -> (String, Vec<String>) {
        let mut toml = format!("# Made from {from} by `outlive import`.\n");
        for warning in &self.warnings {
            toml += &format!("# {}\n", warning.replace('\n', " "));
        }
        if let Some(name) = &self.name {
            toml += &format!("name = {}\n", quoted(name));
        }
        for job in &self.jobs {
            let mark = if job.left_out.is_some() { "# " } else { "" };
            toml.push('\n');
            if let Some(reason) = &job.left_out {
                toml += &format!("# {}\n", reason.replace('\n', " "));
            }
            toml += &format!("{mark}[jobs.{}]\n", key(&job.name));
            for (key, value) in &job.lines {
                toml += &format!("{mark}{key} = {value}\n");
            }
        }
        (toml, self.warnings)
    }
}

impl DraftJob {
    pub(super) fn new(name: String) -> Self {
        Self { name, left_out: None, lines: Vec::new() }
    }

    /// Adds a key with text.
    pub(super) fn text(&mut self, key: &'static str, value: &str) {
        self.lines.push((key, quoted(value)));
    }

    /// Adds a key with a value as TOML has it.
    pub(super) fn value(&mut self, key: &'static str, value: String) {
        self.lines.push((key, value));
    }

    pub(super) fn texts<'a>(&mut self, key: &'static str, values: impl IntoIterator<Item = &'a str>) {
        let values: Vec<String> = values.into_iter().map(quoted).collect();
        self.lines.push((key, format!("[{}]", values.join(", "))));
    }

    pub(super) fn table<'a>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = (&'a str, String)>,
    ) {
        let pairs: Vec<String> =
            values.into_iter().map(|(name, value)| format!("{} = {}", key(name), quoted(&value))).collect();
        if !pairs.is_empty() {
            self.lines.push((name, format!("{{ {} }}", pairs.join(", "))));
        }
    }
}

/// Returns the name of a job that is like a name of another program, and not yet taken.
pub(super) fn job_name(wish: &str, taken: &mut BTreeSet<String>) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || "_.".contains(c) { c } else { '-' };
    let mut name: String = wish.chars().map(letter).take(60).collect();
    while name.contains("--") {
        name = name.replace("--", "-");
    }
    let name = match name.trim_matches('-') {
        "" => "job",
        name => name,
    };
    let mut free = name.to_owned();
    let mut number = 2;
    while !taken.insert(free.clone()) {
        free = format!("{name}-{number}");
        number += 1;
    }
    free
}

/// Returns a text as TOML has it.
pub(super) fn quoted(text: &str) -> String {
    // JSON's escapes are those of TOML, but for one character that JSON does not escape.
    serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\u007F")
}

fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if is_bare { name.to_owned() } else { quoted(name) }
}
