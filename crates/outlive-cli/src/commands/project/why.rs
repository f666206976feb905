//! `outlive why`: what keeps a job of a project from running; outside a project, how any job is doing.

use std::process::ExitCode;

use crate::args::Why;
use crate::commands::Context;
use crate::commands::project::{is_outside, load};
use crate::failure::Failure;
use crate::render::{one_line, print, print_json};

pub(crate) fn run(context: &Context, arguments: &Why) -> Result<ExitCode, Failure> {
    let causes = match is_outside(&arguments.project) {
        true => {
            let job = context.store.find(&arguments.name, context.session.as_ref())?;
            outlive_project::why_alone(&context.store, job)
        }
        false => {
            let project = load(context, &arguments.project)?;
            outlive_project::why(&context.store, &project, &arguments.name)?
        }
    };
    if context.is_json {
        return print_json(&causes);
    }
    let mut text = String::new();
    for cause in &causes {
        let indent = "  ".repeat(cause.depth);
        text += &format!("{indent}{}\n", one_line(&cause.text));
        cause.output.iter().for_each(|line| text += &format!("{indent}  | {line}\n"));
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}
