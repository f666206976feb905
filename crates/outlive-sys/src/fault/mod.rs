//! Fault points: named places at which a test can end, stop or fail this program.
//!
//! There is no code behind them unless outlive is built with the feature `fault`, which no release has: then `OUTLIVE_FAULT` says
//! what is to happen where (see [`step`]).

#[cfg(feature = "fault")]
mod injected;
mod points;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use crate::pipe::Attempt;

pub use points::{Appending, Kind, Point, Replacing};

/// Does a step, or what a test wants to happen in its place.
///
/// `OUTLIVE_FAULT` is `POINT@before=ACTION` or `POINT@after=ACTION`, with the actions `kill` (SIGKILL to this program), `pause` (until
/// the file `$OUTLIVE_FAULT_LOG.release` is there) and, before, an error number. It happens once.
/// `OUTLIVE_FAULT_LOG` names a file to which every point is appended that is reached. A keeper hears of both from its starter, which has
/// them as `OUTLIVE_KEEPER_FAULT` and `OUTLIVE_FAULT_LOG`, and the process that derives a screen for the keeper has the first as
/// `OUTLIVE_SCREEN_FAULT`.
///
/// # Errors
///
/// What the step says, or what the test wants it to.
#[inline(always)]
pub fn step<T>(point: Point, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    #[cfg(feature = "fault")]
    injected::before(point)?;
    let result = call();
    #[cfg(feature = "fault")]
    injected::after(point);
    #[cfg(not(feature = "fault"))]
    let _ = point;
    result
}

/// Does a step that cannot fail.
#[inline(always)]
pub fn around<T>(point: Point, call: impl FnOnce() -> T) -> T {
    #[cfg(feature = "fault")]
    injected::before(point).ok();
    let result = call();
    #[cfg(feature = "fault")]
    injected::after(point);
    #[cfg(not(feature = "fault"))]
    let _ = point;
    result
}

/// Returns what is to be written: all of it, or half where a test wants a short write.
#[inline(always)]
pub fn shortened(point: Point, bytes: &[u8]) -> &[u8] {
    #[cfg(feature = "fault")]
    if injected::is_short(point) {
        return &bytes[..bytes.len() / 2];
    }
    let _ = point;
    bytes
}

/// Writes all of it by a call. A short write is half of it and then a full disk, as a full disk is met in life.
///
/// # Errors
///
/// If not all could be written.
#[inline(always)]
pub fn write(point: Point, bytes: &[u8], call: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
    step(point, || {
        let part = shortened(point, bytes);
        call(part)?;
        if part.len() < bytes.len() { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
    })
}

/// Writes all of it at an offset.
///
/// # Errors
///
/// If not all could be written.
#[inline(always)]
pub fn write_all_at(point: Point, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    write(point, bytes, |part| file.write_all_at(part, offset))
}

/// Writes all of it.
///
/// # Errors
///
/// If not all could be written.
#[inline(always)]
pub fn write_all(point: Point, to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write(point, bytes, |part| to.write_all(part))
}

/// Tries to read or write without blocking.
#[inline(always)]
pub fn attempt(point: Point, call: impl FnOnce() -> Attempt) -> Attempt {
    match step(point, || Ok(call())) {
        Ok(attempt) => attempt,
        Err(error) => match error.raw_os_error() {
            // An attempt never returns these two: the call is made again, or later.
            Some(libc::EINTR | libc::EAGAIN) => Attempt::WouldBlock,
            _ => Attempt::Failed(error),
        },
    }
}

/// Variables that a keeper is to have, which otherwise has none.
#[cfg(feature = "fault")]
pub(crate) fn keeper_environment() -> Vec<std::ffi::CString> {
    let pass = |from: &str, to: &str| {
        let value = std::env::var(from).ok()?;
        std::ffi::CString::new(format!("{to}={value}")).ok()
    };
    let fault = pass("OUTLIVE_KEEPER_FAULT", "OUTLIVE_FAULT");
    let same =
        ["OUTLIVE_SCREEN_FAULT", "OUTLIVE_FAULT_LOG", "OUTLIVE_TEST_CLOCK"].map(|name| pass(name, name));
    fault.into_iter().chain(same.into_iter().flatten()).collect()
}

/// Gives the process that derives a screen for a keeper the variables that it is to have, which otherwise has none.
#[inline(always)]
pub fn give_screen_process(command: &mut std::process::Command) {
    #[cfg(feature = "fault")]
    for (from, to) in [("OUTLIVE_SCREEN_FAULT", "OUTLIVE_FAULT"), ("OUTLIVE_FAULT_LOG", "OUTLIVE_FAULT_LOG")]
    {
        command.envs(std::env::var_os(from).map(|value| (to, value)));
    }
    #[cfg(not(feature = "fault"))]
    let _ = command;
}

/// Variables that a program is to have which a keeper executes in its own place.
#[cfg(feature = "fault")]
pub(crate) fn own_environment() -> Vec<std::ffi::CString> {
    let own = ["OUTLIVE_FAULT", "OUTLIVE_FAULT_LOG"];
    let pass = |name: &str| std::ffi::CString::new(format!("{name}={}", std::env::var(name).ok()?)).ok();
    own.into_iter().filter_map(pass).collect()
}
