//! `outlive cursor`: where the cursor was at an offset of a job's log, as a terminal reports it. A keeper runs it when its command
//! asks, and to keep the screen before its output is dropped; it is not for people.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use outlive::{Config, JobScreen, Store};
use outlive_sys::fault::{self, Point};

use crate::args::Cursor;
use crate::failure::Failure;

/// Output is hostile: this process ends, whatever it met. A long log that was never looked at takes seconds.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn run(arguments: &Cursor) -> Result<ExitCode, Failure> {
    std::thread::spawn(|| {
        std::thread::sleep(LIMIT);
        std::process::exit(1);
    });
    let directory = &arguments.directory;
    let (home, id) = (directory.ancestors().nth(2), directory.file_name().and_then(|name| name.to_str()));
    let (Some(home), Some(id)) = (home, id) else {
        return Err(Failure::usage("cursor: this is no job's directory", "it is run by a job's keeper"));
    };
    let job = Store::open_at(home, Config::default())?.find(id, None)?;
    let screen = JobScreen::at_offset(&job, arguments.offset);
    let Some(mut screen) = screen.map_err(|error| Failure::other("cursor", &error))? else {
        return Err(super::screen::no_terminal(&job));
    };
    if arguments.keep {
        screen.keep();
        return Ok(ExitCode::SUCCESS);
    }
    let report = screen.screen().cursor_report(arguments.extended);
    fault::write_all(Point::CursorPrint, &mut std::io::stdout(), report.as_bytes())
        .and_then(|()| std::io::stdout().flush())
        .map_err(|error| Failure::other("cursor", &error))?;
    Ok(ExitCode::SUCCESS)
}
