//! What happens at a point, in a build with the feature `fault`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Point;

struct Plan {
    point: String,
    is_before: bool,
    action: String,
}

/// This program has had its turn.
static DONE: AtomicBool = AtomicBool::new(false);

fn plan() -> Option<&'static Plan> {
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    PLAN.get_or_init(|| {
        let text = std::env::var("OUTLIVE_FAULT").ok()?;
        let (place, action) = text.split_once('=')?;
        let (point, moment) = place.split_once('@')?;
        Some(Plan { point: point.to_owned(), is_before: moment == "before", action: action.to_owned() })
    })
    .as_ref()
}

fn log() -> Option<PathBuf> {
    std::env::var_os("OUTLIVE_FAULT_LOG").map(PathBuf::from)
}

/// Tells what is planned here and has not happened yet.
fn planned(point: Point, is_before: bool) -> Option<&'static str> {
    let plan = plan()?;
    let is_here = plan.point == point.name() && plan.is_before == is_before;
    (is_here && !DONE.load(Ordering::SeqCst)).then_some(plan.action.as_str())
}

pub(super) fn before(point: Point) -> io::Result<()> {
    if let Some(path) = log() {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(format!("{}\n", point.name()).as_bytes())).ok();
    }
    match planned(point, true) {
        // The write itself asks for that, with `is_short`.
        Some("short") | None => Ok(()),
        Some(action) if is_first() => act(action),
        Some(_) => Ok(()),
    }
}

pub(super) fn after(point: Point) {
    if let Some(action) = planned(point, false).filter(|_| is_first()) {
        act(action).ok();
    }
}

pub(super) fn is_short(point: Point) -> bool {
    let is_planned = plan().is_some_and(|plan| plan.point == point.name() && plan.action == "short");
    is_planned && is_first()
}

/// Tells whether it has not happened yet, in this program or another one, and that it happens now.
fn is_first() -> bool {
    let mark = log().map(|path| PathBuf::from(format!("{}.fired", path.display())));
    let made = mark.map(|mark| std::fs::OpenOptions::new().write(true).create_new(true).open(mark));
    !DONE.swap(true, Ordering::SeqCst) && made.is_none_or(|made| made.is_ok())
}

fn act(action: &str) -> io::Result<()> {
    match action {
        "kill" => {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
            Ok(())
        }
        "pause" => {
            if let Some(path) = log() {
                let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", path.display()));
                std::fs::write(beside("paused"), std::process::id().to_string()).ok();
                while !beside("release").exists() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Ok(())
        }
        number => match number.parse() {
            Ok(errno) => Err(io::Error::from_raw_os_error(errno)),
            Err(_) => Ok(()),
        },
    }
}
