//! `outlive top`: all jobs in a terminal, live, with their output and what can be done to them.
//!
//! A front end as any other: it reads through the library and holds nothing that is not in the store, so leaving it, closing its
//! window or killing it ends no job. It sleeps until the kernel tells of a change or a key; only while live jobs are in view it
//! wakes by itself, to measure them.

mod actions;
mod app;
mod canvas;
mod clipboard;
mod draw;
mod figures;
mod input;
mod jobs;
mod keys;
mod log;
mod machines;
mod text;
mod theme;

use std::io;

use outlive::{Failure, Job, SessionName, Store};

/// What to show.
#[derive(Debug, Default)]
pub struct Options {
    /// Whose jobs; none: all.
    pub session: Option<SessionName>,
    /// Only jobs in whose id, name, command, status, group or session this occurs, to begin with.
    pub filter: String,
    /// Whether there are colours.
    pub is_coloured: bool,
}

/// How an attached window was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attached {
    /// The person left it, or the job ended.
    Left,
    /// This program was told to end.
    Told,
}

/// What the program around the view gives it.
pub trait Host {
    /// The terminal; dropped to give it back as it was. A panic gives it back, too.
    type Window;

    /// Takes the whole window, with every key as it is typed.
    ///
    /// # Errors
    ///
    /// If standard input is no terminal.
    fn take_window(&self) -> io::Result<Self::Window>;

    /// Shows a job's own terminal in the window, which is given back, until the person leaves it.
    ///
    /// # Errors
    ///
    /// If the job cannot be reached.
    fn attach(&self, store: &Store, job: &Job) -> Result<Attached, Failure>;
}

/// Shows jobs until the person leaves, the terminal is gone, or this program is told to end.
///
/// # Errors
///
/// If there is no terminal, or the store cannot be read.
pub fn run(store: Store, options: Options, host: &impl Host) -> io::Result<()> {
    app::run(store, options, host)
}
