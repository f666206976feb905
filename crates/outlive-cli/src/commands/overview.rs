//! `outlive` alone: the live jobs, and where to begin.

use std::process::ExitCode;

use crate::args::List;
use crate::commands::{Context, list};
use crate::failure::Failure;
use crate::render::print;

/// The commonest commands.
const COMMANDS: &str = "
  outlive run COMMAND    start a command in the background
  outlive list           show all jobs
  outlive logs -f JOB    follow what one prints
  outlive wait JOB       wait for its end
  outlive kill JOB       end it with everything it started

`outlive --help` has the other commands, `outlive run --help` the options of one.
";

pub(crate) fn run(context: &Context) -> Result<ExitCode, Failure> {
    let listed = list::run(context, &List { live: true, ..List::default() })?;
    if !context.is_json {
        print(COMMANDS);
    }
    Ok(listed)
}
