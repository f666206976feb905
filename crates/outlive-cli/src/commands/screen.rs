//! `outlive screen`: what stands on the screen of a job's terminal.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use outlive::{AwaitedObject, Code, Followed, Follower, Job, JobScreen, ScreenObject, Timestamp};
use serde::Serialize;

use crate::args::Screen;
use crate::commands::Context;
use crate::failure::Failure;
use crate::local_time;
use crate::render::{note, print, print_json};

/// How long to wait for a screen that is drawn all the time.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Shown {
    job: outlive::JobId,
    /// The time of the last output.
    time: Option<String>,
    /// The offset from which it is derived: 0, unless earlier output was dropped.
    derived_from: u64,
    /// The offset up to which it is derived.
    offset: u64,
    /// The rows, from 1, that are others than they were at the offset that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_rows: Option<Vec<usize>>,
    /// What the job waits for now.
    awaits: Option<AwaitedObject>,
    #[serde(flatten)]
    screen: ScreenObject,
}

pub(crate) fn run(context: &Context, arguments: &Screen) -> Result<ExitCode, Failure> {
    let job = context.find(&arguments.job)?;
    let failed = |error: std::io::Error| Failure::other("screen", &error);
    if let Some(quiet) = arguments.wait_stable {
        wait_stable(context, &job, quiet).map_err(failed)?;
    }
    let derived = match (arguments.at, arguments.changes_since) {
        // Times are written in milliseconds: that of a screen means all that was drawn within it.
        (Some(time), _) => JobScreen::at(&job, Timestamp(time.0.saturating_add(999))),
        (None, Some(offset)) => JobScreen::at_offset(&job, offset),
        (None, None) => JobScreen::of(&job),
    };
    let Some(mut shown) = derived.map_err(failed)? else { return Err(no_terminal(&job)) };
    let changed_rows = match arguments.changes_since {
        Some(_) => Some(advance(&mut shown).map_err(failed)?),
        None => None,
    };
    if context.is_json {
        let mut state = job.state(&context.store);
        context.store.look_for_input_wait(&job, &mut state);
        return print_json(&Shown {
            job: job.id().clone(),
            time: shown.time().map(|time| time.to_string()),
            derived_from: shown.derived_from(),
            offset: shown.offset(),
            changed_rows,
            awaits: state.awaits().map(|awaited| AwaitedObject::new(&job, awaited)),
            screen: shown.screen().object(arguments.ansi),
        });
    }
    if shown.derived_from() > 0 {
        note(&format!(
            "outlive: of what was drawn before offset {} only the last is known",
            shown.derived_from()
        ));
    }
    let text = if arguments.ansi { shown.screen().styled_text() } else { shown.screen().text() };
    if text.is_empty() {
        note(&why_blank(&mut shown, job.id()).map_err(failed)?);
    }
    print(&text);
    if arguments.cursor {
        let cursor = shown.screen().object(false).cursor;
        let hidden = if cursor.visible { "" } else { ", hidden" };
        print(&format!("cursor: row {}, column {}{hidden}\n", cursor.row, cursor.column));
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells why nothing is shown, which looks like a mistake.
fn why_blank(screen: &mut JobScreen, job: &outlive::JobId) -> std::io::Result<String> {
    Ok(match (screen.offset(), screen.next_time()?) {
        (0, Some(next)) => {
            // The next whole second: what is drawn in this one has come by then.
            let next = Timestamp(next.0.div_ceil(1_000_000) * 1_000_000);
            let next = local_time::shown(next);
            format!("outlive: nothing was on its screen yet; look at '{next}' or later")
        }
        (0, None) => "outlive: it has printed nothing yet".to_owned(),
        (_, _) => format!(
            "outlive: its screen is blank; `outlive play {job}` shows what was on it, `outlive screen {job} --at TIME` one moment"
        ),
    })
}

/// Reads what was printed since, and returns the rows that have become others; of a screen of another size all.
fn advance(screen: &mut JobScreen) -> std::io::Result<Vec<usize>> {
    let (before, size) = (screen.screen().lines(), screen.screen().size());
    screen.advance()?;
    let is_resized = screen.screen().size() != size;
    let rows = screen.screen().lines().into_iter().zip(before).zip(1..);
    Ok(rows.filter(|((row, before), _)| is_resized || row != before).map(|(_, number)| number).collect())
}

/// Waits until something was printed and then nothing for a time, the job is over, or it has taken too long.
fn wait_stable(context: &Context, job: &Job, quiet: Duration) -> std::io::Result<()> {
    let deadline = Instant::now() + LONGEST.max(quiet);
    let end = outlive::Output::open(job)?.end();
    let mut follower = Follower::new(&context.store, job, end)?;
    while Instant::now() < deadline {
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = if follower.position() == 0 { left } else { quiet.min(left) };
        if !matches!(follower.next(Some(patience))?, Followed::Piece(_)) {
            break;
        }
    }
    Ok(())
}

/// A job on pipes has no screen.
pub(crate) fn no_terminal(job: &Job) -> Failure {
    let id = job.id();
    Failure::new(Code::NoTerminal, format!("{id} runs on pipes, not in a terminal")).hint(format!(
        "`outlive logs -f {id}` follows what it prints; outlive run -t starts one in a terminal"
    ))
}
