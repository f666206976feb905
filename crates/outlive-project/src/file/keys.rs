//! The keys of `[jobs.NAME]`, declared once: reading, the schema and "did you mean" are made from it.
//!
//! The options of a job are not listed here: they come from their own declaration, [`outlive::OPTIONS`].

use outlive::{JobOption, OPTIONS};

/// What may be the value of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// A line for the shell, or a program and its arguments.
    Command,
    /// A text.
    Text,
    /// One text or several.
    Texts,
    /// Texts by name.
    Named,
    /// A port, or `auto`.
    Port,
    /// A number, or text with a unit.
    Quantity,
    /// Options of a job, in a table of their own.
    Table(&'static str),
    /// An option of a job.
    Option(&'static JobOption),
}

/// A key, and what it is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    pub(crate) about: &'static str,
}

/// The keys that are no options of a job.
const OWN: &[Key] = &[
    Key {
        name: "run",
        form: Form::Command,
        about: "A line for the shell, or a list: a program and its arguments",
    },
    Key { name: "dir", form: Form::Text, about: "The directory to start in, relative to the file's" },
    Key { name: "env", form: Form::Named, about: "Variables to add to the environment" },
    Key { name: "env_file", form: Form::Texts, about: "Files with lines NAME=VALUE; `env` takes precedence" },
    Key {
        name: "after",
        form: Form::Texts,
        about: "Start it when this holds of other jobs: NAME@started, @ready, @healthy, @completed or @succeeded; NAME alone is @ready if it has `ready` or `port`, else @started",
    },
    Key {
        name: "port",
        form: Form::Port,
        about: "The port that it listens on: it gets $PORT, and is ready when it listens there",
    },
    Key { name: "stop", form: Form::Text, about: "The signal that asks it to end; without it TERM" },
    Key {
        name: "watch",
        form: Form::Texts,
        about: "Restart it when a file below its directory changes that matches one of these patterns; one that begins with ! leaves out, as .gitignore does",
    },
    Key {
        name: "stdin_from",
        form: Form::Text,
        about: "Let it read what this job prints to standard output, or with NAME:stderr to standard error; it is started after that job",
    },
    Key {
        name: "profile",
        form: Form::Texts,
        about: "Start it only when this profile is asked for with `up --profile`, or it by its name, or by a job that waits for it",
    },
    Key { name: "labels", form: Form::Named, about: "Labels, by which `outlive list` finds it" },
    Key { name: "ready", form: Form::Table("ready"), about: "When it counts as ready" },
    Key {
        name: "health",
        form: Form::Table("health"),
        about: "Whether it goes on working, from when it is ready; and what is done when it does not",
    },
    Key {
        name: "restart",
        form: Form::Table("restart"),
        about: "Start it again when it ends: no, on-failure or always; or a table with `when`, `tries`, `delay` and `window`",
    },
    Key {
        name: "schedule",
        form: Form::Table("schedule"),
        about: "Run it at these times: a cron line such as \"*/15 * * * *\"; or a table with `cron`, or `every` and `at`, and `missed` and `overlap`",
    },
    Key { name: "limits", form: Form::Table("limits"), about: "Upper limits of what it may use" },
    Key {
        name: "on",
        form: Form::Text,
        about: "The machine that it runs on: a name from [hosts] of config.toml; `dir` is then a directory there, relative to the home",
    },
    Key {
        name: "sync",
        form: Form::Text,
        about: "With `on`: copy this directory there before the start, and run in the copy",
    },
    Key { name: "engine", form: Form::Text, about: "Let this engine place it: slurm" },
    Key {
        name: "cpus",
        form: Form::Quantity,
        about: "With an engine: ask for so many processors; `limits.memory` asks it for memory",
    },
    Key { name: "gpus", form: Form::Quantity, about: "With an engine: ask for so many graphics processors" },
    Key { name: "partition", form: Form::Text, about: "With an engine: the part of the cluster" },
    Key { name: "time", form: Form::Quantity, about: "With an engine: it ends the job after so long" },
    Key {
        name: "cutoff",
        form: Form::Quantity,
        about: "With an engine: a node that cannot reach the engine for so long ends the job",
    },
];

/// Options that are no keys: the name of a job is that of its table, and `watch` means files here, not lines.
const NO_KEYS: [&str; 2] = ["name", "watch"];

/// Lists the keys of a job.
pub(crate) fn of_job() -> impl Iterator<Item = Key> {
    let options =
        OPTIONS.iter().filter(|option| !NO_KEYS.contains(&option.name) && table_of(option).is_none());
    let options =
        options.map(|option| Key { name: option.name, form: Form::Option(option), about: option.about });
    OWN.iter().copied().chain(options)
}

/// Tells whether the text of a key is a line for a shell; `table` is the one that the key is in.
pub(crate) fn is_line(table: Option<&str>, name: &str) -> bool {
    let is_line = |key: Key| {
        key.name == name && matches!(key.form, Form::Option(option) if option.placeholder == "LINE")
    };
    match table {
        None => name == "run" || of_job().any(is_line),
        Some("ready") => of_table("ready").any(is_line),
        Some("health") => of_table("health").any(is_line),
        Some(_) => false,
    }
}

/// Lists the keys of a table of options.
pub(crate) fn of_table(table: &'static str) -> impl Iterator<Item = Key> {
    let options = OPTIONS.iter().filter(move |option| table_of(option) == Some(table));
    options.map(|option| {
        let name = match option.name {
            "ready_on" => "line",
            "restart" => "when",
            "schedule" => "cron",
            name => {
                let name = name.strip_prefix("ready_").unwrap_or(name);
                let name = name.strip_prefix("health_").unwrap_or(name);
                name.strip_prefix("restart_").unwrap_or(name)
            }
        };
        Key { name, form: Form::Option(option), about: option.about }
    })
}

/// The groups of options that have a table of their own.
const TABLES: [&str; 5] = ["ready", "limits", "restart", "health", "schedule"];

fn table_of(option: &JobOption) -> Option<&'static str> {
    option.field.first().copied().filter(|table| TABLES.contains(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_one_key() {
        let mut keys: Vec<&str> = of_job().map(|key| key.name).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
        let offered = of_job().filter(|key| matches!(key.form, Form::Option(_))).count();
        let in_tables: usize = TABLES.into_iter().map(|table| of_table(table).count()).sum();
        assert_eq!(offered + in_tables + NO_KEYS.len(), OPTIONS.len());
        let ready: Vec<&str> = of_table("ready").map(|key| key.name).collect();
        assert_eq!(ready, ["line", "port", "http", "command", "notify", "timeout"]);
        let restart: Vec<&str> = of_table("restart").map(|key| key.name).collect();
        assert_eq!(restart, ["when", "tries", "delay", "window"]);
        let schedule: Vec<&str> = of_table("schedule").map(|key| key.name).collect();
        assert_eq!(schedule, ["cron", "every", "at", "missed", "overlap"]);
    }
}
