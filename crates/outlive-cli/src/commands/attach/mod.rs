//! `outlive attach`: a job's terminal in a person's own.
//!
//! One thread draws what the job printed, as the emulator has it. Another reads what is typed, and what the kernel says about the
//! window. The job notices nothing but keys and, where the viewer may set it, its size; the viewer can go at any moment.

mod keys;
mod view;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use outlive::{
    Code, ControlError, Follower, Growth, Job, JobObject, JobScreen, OwnLabel, Sizing, Store, TerminalSize,
    Viewer,
};
use outlive_sys::pipe::{self, Attempt};
use outlive_sys::poll;
use outlive_sys::signal::{Caught, Signal};
use outlive_sys::terminal::{self, Changed};

pub(crate) use self::keys::Prefix;
use self::keys::Typed;
pub(crate) use self::view::View;
use self::view::{ENTER, LEAVE};
use crate::args::Attach;
use crate::commands::Context;
use crate::commands::screen::no_terminal;
use crate::failure::Failure;
use crate::render::{ending, note, one_line, print, print_bytes};
use crate::served;

/// The key after which the next one is for the viewer.
pub(crate) const PREFIX: &str = "C-\\";

/// A flood is drawn so often; the first change is drawn at once.
const FRAME: Duration = Duration::from_millis(8);

/// Sizes that other viewers set are noticed after this time at the latest.
const LOOK: Duration = Duration::from_secs(1);

/// The rest of a key's sequence comes within this time, or it was no sequence; a prefix that nothing follows for so long is explained.
const KEY_LIMIT: Duration = Duration::from_secs(1);

/// How long the last row says how to leave, unless a key is typed before: time enough to read it.
const GREETING: Duration = Duration::from_secs(4);

/// What the keys after the prefix do, for wide windows and for narrow ones.
const HELP: [&str; 2] = [
    " d: detach   r: redraw   f: fit to this window   prefix again: type it ",
    " d: detach  r: redraw  f: fit  prefix: itself ",
];

/// The settings of the terminal before, for a panic.
static BEFORE: Mutex<Option<Changed>> = Mutex::new(None);

/// What a viewer may do.
pub(crate) struct Manner {
    pub(crate) sizing: Sizing,
    /// It types nothing.
    pub(crate) is_view_only: bool,
    pub(crate) prefix: Prefix,
}

/// Why a viewer left.
pub(crate) enum Left {
    Detached,
    /// This program was told to end, or its window is gone.
    Told,
    /// The job has ended.
    Ended,
    /// The keeper cannot be reached any more.
    Cut(ControlError),
}

pub(crate) fn run(context: &Context, arguments: &Attach) -> Result<ExitCode, Failure> {
    if arguments.reset {
        return reset();
    }
    let reference = arguments.job.as_deref().unwrap_or_default();
    let job = context.find_to_change(reference)?;
    if !job.spec().options.pty {
        return Err(no_terminal(&job));
    }
    if arguments.tmux {
        return open_in_tmux(&context.store, &job, arguments);
    }
    let prefix = Prefix::parse(&arguments.prefix)
        .map_err(|message| Failure::usage(message, "write --prefix 'C-a', or --prefix none"))?;
    let usual = usual_manner(&job);
    let manner = Manner {
        sizing: if arguments.view { Sizing::Fixed } else { arguments.size.unwrap_or(usual.sizing) },
        is_view_only: arguments.view,
        prefix,
    };
    match show(&context.store, &job, manner)? {
        Left::Detached | Left::Told => note(&format!("detached; {0} goes on: outlive attach {0}", job.id())),
        Left::Ended => {
            print_last(&job)?;
            note(&ending(&JobObject::new(&job, &job.state(&context.store))));
        }
        Left::Cut(error) => return Err(Failure::from(error).during("attach")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what a viewer does where nothing else is asked for. The size of a job that an agent started is left alone.
pub(crate) fn usual_manner(job: &Job) -> Manner {
    let labels = [OwnLabel::Profile, OwnLabel::Conversation];
    let is_agents = labels.iter().any(|label| job.spec().own_label(*label).is_some());
    let sizing = if is_agents { Sizing::Fixed } else { Sizing::Latest };
    Manner { sizing, is_view_only: false, prefix: Prefix::parse(PREFIX).unwrap_or_default() }
}

/// Opens a window of tmux with a viewer in it. Tmux shows the job and no more: its output and exit status stay where they are.
fn open_in_tmux(store: &Store, job: &Job, arguments: &Attach) -> Result<ExitCode, Failure> {
    let failed = |message: String| {
        let hint = "start tmux and try again, or attach here: outlive attach without --tmux";
        Failure::new(Code::Failed, message).during("attach").hint(hint)
    };
    let program = std::env::current_exe().map_err(|error| Failure::other("attach", &error))?;
    let mut command = std::process::Command::new("tmux");
    let name = job.name().unwrap_or(job.id().as_str());
    command.args(["new-window", "-P", "-F", "#{session_name}:#{window_index}", "-n", name, "-e"]);
    let mut home = OsString::from("OUTLIVE_HOME=");
    home.push(store.root());
    command.arg(home).arg("--").arg(program).args([
        "attach",
        job.id().as_str(),
        "--prefix",
        &arguments.prefix,
    ]);
    command.args(arguments.view.then_some("--view"));
    if let Some(sizing) = arguments.size {
        command.args(["--size", sizing.word()]);
    }
    let done = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => failed("tmux is not installed".to_owned()),
        _ => failed(format!("tmux cannot be run: {error}")),
    })?;
    if !done.status.success() {
        return Err(failed(format!("tmux says: {}", one_line(&String::from_utf8_lossy(&done.stderr)))));
    }
    print(&format!(
        "{} is in the tmux window {}\n",
        job.id(),
        String::from_utf8_lossy(&done.stdout).trim_end()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Tells whether a person can see and type here.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Prints what stands on the screen of a job that has ended.
pub(crate) fn print_last(job: &Job) -> Result<(), Failure> {
    let screen = JobScreen::of(job).map_err(|error| Failure::other("attach", &error))?;
    if let Some(screen) = screen {
        print(&screen.screen().styled_text());
    }
    Ok(())
}

/// Brings a terminal back that a viewer could not leave in order.
fn reset() -> Result<ExitCode, Failure> {
    print_bytes(LEAVE.as_bytes());
    terminal::make_usable(io::stdin()).map_err(|error| Failure::other("attach", &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows a job's terminal in this one until the person leaves, or the job ends.
pub(crate) fn show(store: &Store, job: &Job, manner: Manner) -> Result<Left, Failure> {
    let failed = |error: io::Error| Failure::other("attach", &error);
    let size = terminal::size(io::stdout()).filter(|_| is_possible()).ok_or_else(|| {
        let hint = match job.state(store).is_live() {
            true => format!("`outlive screen {0}` shows it, `outlive send {0}` types into it", job.id()),
            false => format!("it has ended; `outlive screen {}` shows its last screen", job.id()),
        };
        Failure::usage("attach needs a terminal", hint)
    })?;
    let viewer = match store.view(job, TerminalSize::new(size.0, size.1), manner.sizing) {
        Err(ControlError::Ended(_)) => return Ok(Left::Ended),
        viewer => viewer.map_err(|error| Failure::from(error).during("attach"))?,
    };
    // Before any other thread: none of them is to be ended by these.
    let signals = Caught::new(&[Signal::WINCH, Signal::TERM, Signal::HUP]).map_err(failed)?;
    let (woken, wake) = pipe::new().map_err(failed)?;
    pipe::set_nonblocking(&woken).map_err(failed)?;
    let (told, tell) = pipe::new().map_err(failed)?;
    pipe::set_nonblocking(&told).map_err(failed)?;
    let tell = File::from(tell);
    let greeting = manner.prefix.leaving();
    let shared = Shared {
        is_detached: AtomicBool::new(false),
        is_told: AtomicBool::new(false),
        size: Mutex::new(size),
        notice: Mutex::new(served::notice().or_else(|| greeting.clone())),
        greeting,
        clipboard: Mutex::new(None),
        is_to_redraw: AtomicBool::new(false),
        wake: File::from(wake),
    };
    let window = Window::take().map_err(failed)?;
    let left = std::thread::scope(|scope| {
        let typing = scope.spawn(|| type_on(viewer, manner, &signals, &shared, told));
        let drawn = draw_on(store, job, &shared, woken, &tell);
        // The other thread ends when this is closed.
        drop(tell);
        let typed = typing.join().unwrap_or(Ok(()));
        match (shared.is_detached.load(Ordering::SeqCst), typed) {
            (true, _) if shared.is_told.load(Ordering::SeqCst) => Ok(Left::Told),
            (true, _) => drawn.map(|()| Left::Detached),
            (false, Err(error)) => drawn.map(|()| Left::Cut(error)),
            (false, Ok(())) => drawn.map(|()| Left::Ended),
        }
    });
    drop(window);
    left.map_err(failed)
}

/// What the thread that types and the one that draws tell each other.
struct Shared {
    is_detached: AtomicBool,
    is_told: AtomicBool,
    size: Mutex<(u16, u16)>,
    notice: Mutex<Option<String>>,
    /// How to leave, which is shown first.
    greeting: Option<String>,
    /// What the job wrote to the clipboard, for the thread that types: it can ask whether this viewer leads.
    clipboard: Mutex<Option<String>>,
    is_to_redraw: AtomicBool,
    wake: File,
}

impl Shared {
    fn wake(&self) {
        // A full pipe is readable, which is all.
        (&self.wake).write_all(b".").ok();
    }
}

/// The person's terminal, for as long as the job is shown there.
pub(crate) struct Window;

impl Window {
    pub(crate) fn take() -> io::Result<Self> {
        if terminal::is_raw(io::stdin()) {
            // A viewer that was killed has left it so.
            terminal::make_usable(io::stdin())?;
        }
        let changed = Changed::raw(io::stdin())?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(changed);
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |what| {
            give_back();
            usual(what);
        }));
        let mut stdout = io::stdout();
        stdout.write_all(ENTER.as_bytes()).and_then(|()| stdout.flush())?;
        Ok(Self)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    let mut stdout = io::stdout();
    // A terminal that is gone needs nothing.
    stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush()).ok();
    // Settings come back when it is dropped. A panic within a panic must not wait for itself.
    if let Ok(mut before) = BEFORE.try_lock() {
        before.take();
    }
}

/// Draws what the job prints, until it has ended or the person leaves.
fn draw_on(store: &Store, job: &Job, shared: &Shared, woken: OwnedFd, mut tell: &File) -> io::Result<()> {
    let Some(mut screen) = JobScreen::of(job)? else { return Ok(()) };
    // What was copied before is not copied again.
    screen.take_clipboard();
    let mut follower = Follower::new(store, job, screen.offset())?.stopped_by(Some(woken.as_fd()));
    let mut size = *shared.size.lock().unwrap_or_else(PoisonError::into_inner);
    let mut view = View::new(size.0, size.1);
    let (mut stdout, mut drawn, began) = (io::stdout(), Instant::now(), Instant::now());
    loop {
        if began.elapsed() >= GREETING {
            let mut notice = shared.notice.lock().unwrap_or_else(PoisonError::into_inner);
            drop(notice.take_if(|notice| shared.greeting.as_ref() == Some(notice)));
        }
        let new = *shared.size.lock().unwrap_or_else(PoisonError::into_inner);
        if size != new || shared.is_to_redraw.swap(false, Ordering::SeqCst) {
            size = new;
            view.resize(size.0, size.1);
        }
        view.set_notice(shared.notice.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if let Some(text) = view.draw(screen.screen()) {
            drawn = Instant::now();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())?;
        }
        let growth = follower.wait_for_screen(&mut screen, Some(LOOK))?;
        // While there is output, a call by the other thread is answered with it, and taken when there is none.
        let mut buffer = [0; 64];
        while growth != Growth::More && matches!(pipe::try_read(&woken, &mut buffer), Attempt::Moved(_)) {}
        if shared.is_detached.load(Ordering::SeqCst) {
            return Ok(());
        }
        let early = FRAME.saturating_sub(drawn.elapsed());
        if growth == Growth::More && !early.is_zero() {
            std::thread::sleep(early);
            screen.advance()?;
        } else {
            screen.catch_up()?;
        }
        if let Some(text) = screen.take_clipboard() {
            *shared.clipboard.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
            tell.write_all(b".")?;
        }
        if growth == Growth::End {
            return Ok(());
        }
    }
}

/// Passes on what is typed and how large the window is, and to the window what the job copies, until the person leaves or `told` is
/// closed at its other end.
fn type_on(
    mut viewer: Viewer<'_>,
    mut manner: Manner,
    signals: &Caught,
    shared: &Shared,
    told: OwnedFd,
) -> Result<(), ControlError> {
    let stdin = io::stdin();
    let detach = || {
        shared.is_detached.store(true, Ordering::SeqCst);
        shared.wake();
    };
    // What the keys after the prefix do stands in the window.
    let mut is_explained = false;
    let mut is_kept = true;
    loop {
        let is_unsure = manner.prefix.is_pending() && !is_explained;
        let limit = (manner.prefix.is_partial() || is_unsure).then_some(KEY_LIMIT);
        // A connection that the keeper of an ended job has closed is always readable.
        let keeper = if is_kept { viewer.as_fd() } else { told.as_fd() };
        let fds = [stdin.as_fd(), signals.as_fd(), told.as_fd(), keeper];
        let ready = poll::which_readable(fds, limit).unwrap_or([true; 4]);
        let [has_typed, is_signalled, is_told, is_answered] = ready;
        let mut buffer = [0; 4096];
        if is_told && matches!(pipe::try_read(&told, &mut buffer), Attempt::Closed | Attempt::Failed(_)) {
            return Ok(());
        }
        if is_kept && is_answered {
            is_kept = viewer.reconnect()?;
        }
        let copied = shared.clipboard.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(copied) = copied.filter(|_| is_kept && !manner.is_view_only)
            && viewer.leads()?
        {
            print_bytes(format!("\x1b]52;{copied}\x1b\\").as_bytes());
        }
        let mut typed = Vec::new();
        while is_signalled && let Some(signal) = signals.next() {
            if signal != Signal::WINCH {
                shared.is_told.store(true, Ordering::SeqCst);
                detach();
                return Ok(());
            }
            if let Some(size) = terminal::size(io::stdout()) {
                *shared.size.lock().unwrap_or_else(PoisonError::into_inner) = size;
                viewer.resize(TerminalSize::new(size.0, size.1))?;
                shared.wake();
            }
        }
        if ready == [false; 4] {
            typed.extend(manner.prefix.give_up());
            if is_unsure {
                manner.prefix.explain();
                typed.push(Typed::Help);
            }
        } else if has_typed {
            match pipe::try_read(&stdin, &mut buffer) {
                Attempt::Moved(count) => typed = manner.prefix.push(&buffer[..count]),
                Attempt::WouldBlock => {}
                // The window is gone.
                Attempt::Closed | Attempt::Failed(_) => {
                    shared.is_told.store(true, Ordering::SeqCst);
                    detach();
                    return Ok(());
                }
            }
        }
        for typed in typed {
            let is_menu = matches!(typed, Typed::Help | Typed::Unknown);
            // Where the mouse is moved, the menu stays.
            let is_left = !matches!(typed, Typed::Report(_)) || !manner.prefix.is_pending();
            is_explained = is_menu || (is_explained && !is_left);
            let notice = &mut *shared.notice.lock().unwrap_or_else(PoisonError::into_inner);
            if is_left && notice.take().is_some() {
                shared.wake();
            }
            match typed {
                Typed::Keys(bytes) if !manner.is_view_only => viewer.keys(&bytes)?,
                Typed::Report(bytes) if !manner.is_view_only => viewer.report(&bytes)?,
                Typed::Keys(_) | Typed::Report(_) | Typed::Dismiss => {}
                Typed::Detach => {
                    detach();
                    return Ok(());
                }
                Typed::Redraw => {
                    shared.is_to_redraw.store(true, Ordering::SeqCst);
                    shared.wake();
                }
                Typed::Fit if !manner.is_view_only => {
                    if let Some((columns, rows)) = terminal::size(io::stdout()) {
                        viewer.fit(TerminalSize::new(columns, rows))?;
                    }
                }
                Typed::Fit => {}
                Typed::Help | Typed::Unknown => {
                    let columns = shared.size.lock().unwrap_or_else(PoisonError::into_inner).0;
                    let fits = |help: &&&str| help.len() <= usize::from(columns);
                    *notice = Some((*HELP.iter().find(fits).unwrap_or(&HELP[HELP.len() - 1])).to_owned());
                    shared.wake();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set in the program that panics, which is this one in a terminal of its own.
    const PANICS: &str = "OUTLIVE_TEST_PANICS";

    /// As in a release, where a panic aborts: nothing is dropped, so the hook gives the terminal back, or nothing does.
    #[test]
    fn a_panic_gives_the_terminal_back() {
        if std::env::var_os(PANICS).is_some() {
            std::panic::set_hook(Box::new(|_| std::process::abort()));
            let _window = Window::take().expect("it is in a terminal");
            panic!("as a bug would");
        }
        let this = std::env::current_exe().expect("this program");
        let name = std::thread::current().name().expect("tests have names").to_owned();
        let line = format!(
            "stty -g; {PANICS}=1 {} --exact {name} --nocapture; echo it ended with $?; stty -g",
            this.display()
        );
        let done = Command::new("script").args(["-qec", &line, "/dev/null"]).output().expect("script runs");
        let shown = String::from_utf8_lossy(&done.stdout);
        assert!(shown.contains("it ended with 134"), "{shown}");
        let entered = shown.find(ENTER).unwrap_or_else(|| panic!("the window was taken: {shown:?}"));
        assert!(shown[entered..].contains(LEAVE), "its modes are given back: {shown:?}");
        let settings: Vec<&str> =
            shown.lines().map(str::trim).filter(|line| line.matches(':').count() > 20).collect();
        assert!(matches!(settings[..], [before, after] if before == after), "{settings:?}");
    }
}
