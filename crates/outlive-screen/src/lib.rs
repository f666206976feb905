//! The screen of a program that draws on a terminal, derived from what it printed.
//!
//! Pure: bytes and sizes in, values out. Output is hostile: sizes, strings, links and stacks are bounded, so that no program can
//! fill the memory of its readers. The emulator is `alacritty_terminal` without history; what has scrolled away is in the job's log.

mod ansi;
mod checkpoint;
mod emulator;
pub mod export;
mod grids;
mod handler;
mod links;
mod metadata;
mod object;
mod reflow;
mod screen;
mod view;

pub use ansi::styled;
pub use checkpoint::{Checkpoint, CheckpointError};
pub use metadata::Mark;
pub use object::{CursorObject, ModesObject, ScreenObject};
pub use screen::Screen;
pub use view::{Color, CursorShape, Run, SeenRows, Style, Underline};
