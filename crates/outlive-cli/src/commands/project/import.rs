//! `outlive import`: make an `outlive.toml` from a file of another program.

use std::process::ExitCode;

use serde::Serialize;

use crate::args::Import;
use crate::commands::Context;
use crate::commands::project::here;
use crate::failure::Failure;
use crate::render::{note, print, print_json};

#[derive(Serialize)]
struct Answer<'a> {
    toml: &'a str,
    warnings: &'a [String],
    /// The file that was written.
    written: Option<String>,
}

pub(crate) fn run(context: &Context, arguments: &Import) -> Result<ExitCode, Failure> {
    let file = match &arguments.file {
        Some(file) => file.clone(),
        None => {
            let here = here()?;
            let mut found = outlive_project::importable(&here);
            match found.len() {
                1 => found.remove(0),
                0 => {
                    let hint =
                        "name a package.json, .vscode/tasks.json, .claude/launch.json or pitchfork.toml";
                    return Err(Failure::usage("import: there is nothing to import in this directory", hint));
                }
                _ => {
                    let names = found.iter().filter_map(|file| file.strip_prefix(&here).ok());
                    let names: Vec<String> = names.map(|name| name.display().to_string()).collect();
                    let message = format!("import: there are several files: {}", names.join(", "));
                    return Err(Failure::usage(message, format!("name one: outlive import {}", names[0])));
                }
            }
        }
    };
    let imported = outlive_project::import(&file)?;
    let written = arguments.write.then(|| imported.write()).transpose()?;
    if context.is_json {
        return print_json(&Answer {
            toml: &imported.toml,
            warnings: &imported.warnings,
            written: written.map(|path| path.display().to_string()),
        });
    }
    imported.warnings.iter().for_each(|warning| note(&format!("outlive: warning: {warning}")));
    match written {
        Some(path) => print(&format!("wrote {}; look it through, then: outlive up\n", path.display())),
        None => print(&imported.toml),
    }
    Ok(ExitCode::SUCCESS)
}
