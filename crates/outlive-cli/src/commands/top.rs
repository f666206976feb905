//! `outlive top`: all jobs in this window. What it shows is in the crate `outlive-top`; here are its terminal and `attach`.

use std::io;
use std::process::ExitCode;

use outlive::{Job, SessionName, Store};
use outlive_top::{Attached, Host, Options};

use crate::args::Top;
use crate::commands::attach::{self, Left, Window};
use crate::failure::Failure;
use crate::render::is_coloured;

/// This program's own terminal.
struct Here;

impl Host for Here {
    type Window = Window;

    fn take_window(&self) -> io::Result<Window> {
        Window::take()
    }

    fn attach(&self, store: &Store, job: &Job) -> Result<Attached, Failure> {
        match attach::show(store, job, attach::usual_manner(job))? {
            Left::Detached | Left::Ended => Ok(Attached::Left),
            Left::Told => Ok(Attached::Told),
            Left::Cut(error) => Err(Failure::from(error).during("attach")),
        }
    }
}

pub(crate) fn run(store: Store, arguments: Top, session: Option<SessionName>) -> Result<ExitCode, Failure> {
    if !attach::is_possible() {
        return Err(Failure::usage(
            "top needs a terminal",
            "`outlive list` prints the jobs, `outlive --json list` for scripts",
        ));
    }
    let filter = arguments.filter.unwrap_or_default();
    let options = Options { session, filter, is_coloured: is_coloured() };
    outlive_top::run(store, options, &Here).map_err(|error| Failure::other("top", &error))?;
    Ok(ExitCode::SUCCESS)
}
