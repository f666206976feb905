//! `outlive why`: what keeps a job of a project from running; how any other job is doing.

use std::process::ExitCode;

use outlive_project::ProjectError;

use crate::args::Why;
use crate::commands::Context;
use crate::commands::project::{is_outside, load};
use crate::failure::Failure;
use crate::render::{for_stdout, note, one_line, print, print_json};

pub(crate) fn run(context: &Context, arguments: &Why) -> Result<ExitCode, Failure> {
    let find = || context.find(&arguments.name);
    let causes = match is_outside(&arguments.project) {
        true => outlive_project::why_alone(&context.store, find()?),
        false => {
            let project = load(context, &arguments.project)?;
            match outlive_project::why(&context.store, &project, &arguments.name) {
                // A job that the file does not have may be one that was started otherwise.
                Err(unknown @ ProjectError::Unknown { .. }) => {
                    let job = find().map_err(|_| unknown)?;
                    outlive_project::why_alone(&context.store, job)
                }
                explained => explained?,
            }
        }
    };
    if context.is_json {
        return print_json(&causes);
    }
    let mut text = String::new();
    for cause in &causes {
        let indent = "  ".repeat(cause.depth);
        let line = format!("{indent}{}", one_line(&cause.text));
        text += &format!("{}\n", for_stdout(&line, &format!("{indent}  ")));
        for line in &cause.output {
            let line = format!("{indent}  | {line}");
            text += &format!("{}\n", for_stdout(&line, &format!("{indent}  | ")));
        }
    }
    print(&text);
    if let Some(quoted) = causes.iter().find_map(|cause| cause.quoted.as_ref()) {
        let name = &quoted.name;
        let errors = format!("; what went wrong: outlive logs -i --grep 'error|fail' {name}");
        let errors = if quoted.has_failed { errors } else { String::new() };
        note(&format!("more of it: outlive logs -n 40 {name}{errors}"));
    }
    Ok(ExitCode::SUCCESS)
}
