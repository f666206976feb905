//! `outlive rows`: the screen of a job's terminal as it changes, for the HTTP server, which lets this process run the emulator.
//!
//! Each line that is printed is a JSON object: the state of the terminal, and the rows that have changed since the line before. Where
//! the reader is slow, the next line is written when it reads again, and has the newest state; nothing piles up.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use outlive::{CursorObject, Follower, Growth, JobScreen, ModesObject, Run, SeenRows};
use serde::Serialize;

use crate::args::Rows;
use crate::commands::Context;
use crate::commands::screen::no_terminal;
use crate::failure::Failure;

/// What is printed within this time is one change: a page draws no more than some 40 pictures a second.
const FRAME: Duration = Duration::from_millis(25);

#[derive(Serialize, PartialEq, Clone)]
struct Head {
    columns: u16,
    rows: u16,
    cursor: CursorObject,
    title: Option<String>,
    alternate: bool,
    modes: ModesObject,
}

#[derive(Serialize)]
struct Update<'a> {
    #[serde(flatten)]
    head: &'a Head,
    offset: u64,
    /// Numbers from 0, and what stands there.
    changed: Vec<(usize, Vec<Run>)>,
    /// No more will come.
    ended: bool,
}

pub(crate) fn run(context: &Context, arguments: &Rows) -> Result<ExitCode, Failure> {
    let job = context.store.find(arguments.job.as_str(), None)?;
    let failed = |error: io::Error| Failure::other("rows", &error);
    let Some(mut shown) = JobScreen::of(&job).map_err(failed)? else { return Err(no_terminal(&job)) };
    let stdin = io::stdin();
    // The reader closes our standard input when it goes: a job that prints nothing must not keep this process.
    let mut follower =
        Follower::new(&context.store, &job, shown.offset()).map_err(failed)?.stopped_by(Some(stdin.as_fd()));
    let (mut seen, mut last, mut has_ended) = (SeenRows::default(), None, false);
    loop {
        let screen = shown.screen();
        let object = screen.object(false);
        let size = screen.size();
        let head = Head {
            columns: size.columns(),
            rows: size.rows(),
            cursor: object.cursor,
            title: object.title,
            alternate: object.alternate,
            modes: object.modes,
        };
        let changed: Vec<_> =
            screen.unseen_rows(&mut seen).into_iter().map(|row| (row, screen.row(row))).collect();
        if !changed.is_empty() || last.as_ref() != Some(&head) || has_ended {
            let update = Update { head: &head, offset: shown.offset(), changed, ended: has_ended };
            let mut line = serde_json::to_vec(&update).map_err(|error| failed(error.into()))?;
            line.push(b'\n');
            if io::stdout().lock().write_all(&line).and_then(|()| io::stdout().lock().flush()).is_err() {
                return Ok(ExitCode::SUCCESS);
            }
            last = Some(head);
        }
        if has_ended {
            return Ok(ExitCode::SUCCESS);
        }
        match follower.wait_beyond(shown.offset(), None).map_err(failed)? {
            Growth::More => std::thread::sleep(FRAME),
            Growth::End => has_ended = true,
            Growth::Nothing => return Ok(ExitCode::SUCCESS),
        }
        shown.advance().map_err(failed)?;
    }
}
