//! `outlive why`: what keeps a job of a project from running.

use std::process::ExitCode;

use crate::args::Why;
use crate::commands::Context;
use crate::commands::project::load;
use crate::failure::Failure;
use crate::render::{one_line, print, print_json};

pub(crate) fn run(context: &Context, arguments: &Why) -> Result<ExitCode, Failure> {
    let project = load(&arguments.project)?;
    let causes = outlive_project::why(&context.store, &project, &arguments.name)?;
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
