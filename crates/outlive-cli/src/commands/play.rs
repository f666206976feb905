//! `outlive play`: a job's terminal as it was, in a person's own.
//!
//! Drawn is what was on the screen at each moment, as `outlive attach` draws it; going back begins at a checkpoint.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use outlive::duration::format_duration;
use outlive::{Job, JobObject, JobScreen, Timestamp};
use outlive_sys::pipe::{self, Attempt};
use outlive_sys::signal::{Caught, Signal};
use outlive_sys::{poll, terminal};

use crate::args::Play;
use crate::commands::Context;
use crate::commands::attach::{View, Window, is_possible};
use crate::commands::screen::no_terminal;
use crate::failure::Failure;
use crate::render::{ending, note, print};

/// How far an arrow key goes, in microseconds.
const SEEK: u64 = 5_000_000;

/// No pause of a program is waited for longer at once, so that any speed can divide it.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Pause,
    Back,
    Forward,
    Help,
    Leave,
}

pub(crate) fn run(context: &Context, arguments: &Play) -> Result<ExitCode, Failure> {
    let job = context.find(&arguments.job)?;
    if !job.spec().options.pty {
        let id = job.id();
        let hint =
            format!("`outlive logs {id}` shows what it printed, --timestamps with the time of each line");
        return Err(no_terminal(&job).hint(hint));
    }
    let size = terminal::size(io::stdout()).filter(|_| is_possible()).ok_or_else(|| {
        let hint = format!("`outlive export {} --cast` writes it for players", job.id());
        Failure::usage("play needs a terminal", hint)
    })?;
    let failed = |error: io::Error| Failure::other("play", &error);
    let state = job.state(&context.store);
    let now = || Timestamp(outlive_sys::clock::wall_us());
    let end = state.outcome.as_ref().map_or_else(now, |outcome| outcome.ended);
    let screen = JobScreen::at(&job, Timestamp(0)).map_err(failed)?;
    let Some(mut screen) = screen else { return Err(no_terminal(&job)) };
    let start = screen.next_time().map_err(failed)?.unwrap_or(end);
    let mut player = Player {
        job: &job,
        arguments,
        screen,
        view: View::of_recording(size.0, size.1),
        start,
        end,
        now: start,
        is_paused: false,
        is_helped: false,
    };
    if let Some(from) = arguments.from {
        // As in `screen --at`: all that was drawn within this millisecond.
        player.seek(Timestamp(from.0.saturating_add(999))).map_err(failed)?;
    }
    let signals = Caught::new(&[Signal::WINCH, Signal::TERM, Signal::HUP]).map_err(failed)?;
    let window = Window::take().map_err(failed)?;
    let played = player.play(&signals);
    drop(window);
    if played.map_err(failed)? {
        print(&player.screen.screen().styled_text());
        // A program that takes the whole window leaves none of it behind: without a word it looks as if nothing was played.
        note(&match state.outcome {
            Some(_) => ending(&JobObject::new(&job, &state)),
            None => format!("{0} goes on: outlive attach {0}", job.id()),
        });
    }
    Ok(ExitCode::SUCCESS)
}

struct Player<'a> {
    job: &'a Job,
    arguments: &'a Play,
    screen: JobScreen,
    view: View,
    /// The times of the first output and of the end.
    start: Timestamp,
    end: Timestamp,
    /// The time that is shown.
    now: Timestamp,
    is_paused: bool,
    /// The keys are shown.
    is_helped: bool,
}

impl Player<'_> {
    /// Plays until the end is shown, which it tells, or the person leaves.
    fn play(&mut self, signals: &Caught) -> io::Result<bool> {
        let stdin = io::stdin();
        let mut clock = Instant::now();
        loop {
            self.draw()?;
            let next = self.screen.next_time()?;
            let wait = match next {
                _ if self.is_paused => None,
                None => return Ok(true),
                Some(next) => Some(self.pause_before(next)),
            };
            let is_any = poll::any_readable([stdin.as_fd(), signals.as_fd()], wait)?;
            let passed = clock.elapsed().mul_f64(self.arguments.speed);
            clock = Instant::now();
            if !self.is_paused {
                self.now.0 = self.now.0.saturating_add(passed.as_micros() as u64);
                if let (false, Some(next)) = (is_any, next) {
                    self.now = self.now.max(next);
                }
            }
            while let Some(signal) = signals.next() {
                if signal != Signal::WINCH {
                    return Ok(false);
                }
                if let Some((columns, rows)) = terminal::size(io::stdout()) {
                    self.view.resize(columns, rows);
                }
            }
            if poll::readable(stdin.as_fd(), Some(Duration::ZERO))? {
                let mut buffer = [0; 256];
                let typed = match pipe::try_read(&stdin, &mut buffer) {
                    Attempt::Moved(count) => keys(&buffer[..count]),
                    Attempt::WouldBlock => Vec::new(),
                    // The window is gone.
                    Attempt::Closed | Attempt::Failed(_) => return Ok(false),
                };
                for key in typed {
                    match key {
                        Key::Leave => return Ok(false),
                        Key::Pause => self.is_paused = !self.is_paused,
                        Key::Help => self.is_helped = !self.is_helped,
                        Key::Back => self.seek(Timestamp(self.now.0.saturating_sub(SEEK)))?,
                        Key::Forward => self.seek(Timestamp(self.now.0.saturating_add(SEEK)))?,
                    }
                }
            }
            self.screen.advance_to(self.now)?;
        }
    }

    /// Returns how long nothing happens from now on; what is longer than the limit is skipped.
    fn pause_before(&mut self, next: Timestamp) -> Duration {
        if let Some(limit) = self.arguments.idle_limit {
            let limit = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
            self.now.0 = self.now.0.max(next.0.saturating_sub(limit));
        }
        let pause = Duration::from_micros(next.0.saturating_sub(self.now.0)).min(LONGEST);
        pause.div_f64(self.arguments.speed)
    }

    /// Shows another time.
    fn seek(&mut self, time: Timestamp) -> io::Result<()> {
        let time = time.clamp(self.start, self.end.max(self.start));
        if time < self.now
            && let Some(screen) = JobScreen::at(self.job, time)?
        {
            self.screen = screen;
        }
        self.now = time;
        self.screen.advance_to(time)?;
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        let since = |time: Timestamp| format_duration(time.0.saturating_sub(self.start.0) / 1000);
        let keys = |space: &str| format!("q: leave   space: {space}   left, right: 5s ");
        let notice = if self.is_paused {
            let (now, all) = (since(self.now.min(self.end)), since(self.end));
            Some(format!(" paused at {now} of {all}   {}", keys("go on")))
        } else {
            self.is_helped.then(|| format!(" {}", keys("pause")))
        };
        self.view.set_notice(notice);
        let text = self.view.draw(self.screen.screen()).unwrap_or_default();
        let mut stdout = io::stdout();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
    }
}

/// Reads what was typed; other keys mean nothing.
fn keys(mut typed: &[u8]) -> Vec<Key> {
    let known: [(&[u8], Key); 9] = [
        (b" ", Key::Pause),
        (b"?", Key::Help),
        (b"\x1b[D", Key::Back),
        (b"\x1bOD", Key::Back),
        (b"\x1b[C", Key::Forward),
        (b"\x1bOC", Key::Forward),
        (b"q", Key::Leave),
        // Ctrl-C and Ctrl-D.
        (b"\x03", Key::Leave),
        (b"\x04", Key::Leave),
    ];
    let mut keys = Vec::new();
    while !typed.is_empty() {
        let found = known.iter().find(|(form, _)| typed.starts_with(form));
        keys.extend(found.map(|(_, key)| *key));
        typed = &typed[found.map_or(1, |(form, _)| form.len())..];
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_in_both_modes_of_the_cursor_keys() {
        assert_eq!(keys(b" ?\x1b[D\x1bOCxq"), [Key::Pause, Key::Help, Key::Back, Key::Forward, Key::Leave]);
        assert_eq!(keys(b"\x1b[A\x03"), [Key::Leave]);
    }
}
