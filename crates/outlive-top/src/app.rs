//! The view as a whole: what it shows, and the loop that waits for keys and changes.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive::{JobId, Store};
use outlive_sys::pipe::{self, Attempt};
use outlive_sys::poll;
use outlive_sys::signal::{Caught, Signal};
use outlive_sys::terminal;
use ratatui_core::layout::Rect;

use crate::actions::{Action, Actions};
use crate::canvas::Canvas;
use crate::draw;
use crate::jobs::{Jobs, Row};
use crate::keys::Keyboard;
use crate::log::Log;
use crate::machines::Machines;
use crate::theme::Theme;
use crate::{Attached, Host, Options};

/// How often live jobs in view are measured.
const MEASURE: Duration = Duration::from_secs(2);

/// So soon after the first measurement comes the second, which gives a share of the processor.
const SECOND_MEASURE: Duration = Duration::from_millis(500);

/// Ports take longer to find than all else, and change seldom: they are looked for at every third measurement.
const PORTS_EVERY: u64 = 3;

/// A flood of output is drawn so often, and one of events read.
const FRAME: Duration = Duration::from_millis(50);

/// Looking at changes takes no more than a twentieth of the time.
const SHARE: u32 = 20;

/// The rest of a key's sequence comes within this time.
const KEY_LIMIT: Duration = Duration::from_millis(50);

/// Pastes are marked, so that no key in them acts; the cursor is hidden.
const MODES: &str = "\x1b[?2004h\x1b[?25l";
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1000l\x1b[?1006l";

/// What fills the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// The list, and below it the output of the chosen job.
    List,
    /// The output of the chosen job.
    Job,
}

/// What the bottom line asks for.
#[derive(Debug)]
pub(crate) enum Prompt {
    Filter(String),
    Find(String),
    /// Whether to do something.
    Confirm(Action, String),
}

/// What the bottom line tells, until the next key.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) is_failure: bool,
}

/// What a key leads to beyond what is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Stay,
    Attach,
    Leave,
}

/// The view.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) store: Arc<Store>,
    pub(crate) options: Options,
    pub(crate) theme: Theme,
    pub(crate) jobs: Jobs,
    pub(crate) machines: Machines,
    /// The output of the chosen job, by its id.
    pub(crate) log: Option<(JobId, Log)>,
    pub(crate) page: Page,
    pub(crate) prompt: Option<Prompt>,
    pub(crate) is_help: bool,
    pub(crate) has_mouse: bool,
    /// What stands on the terminal is not what was drawn there.
    pub(crate) is_spoiled: bool,
    pub(crate) message: Option<Message>,
    pub(crate) actions: Actions,
    /// To be written to the terminal as it is: a mode, a text to copy.
    pub(crate) to_write: String,
    pub(crate) area: Rect,
    measured: u64,
}

/// Lets a source be looked at no more often than it may cost.
#[derive(Debug)]
struct Pace(Instant);

impl Pace {
    fn rest(&self) -> Option<Duration> {
        Some(self.0.saturating_duration_since(Instant::now())).filter(|rest| !rest.is_zero())
    }

    /// To look at it took so long.
    fn took(&mut self, time: Duration) {
        self.0 = Instant::now() + FRAME.max(time * SHARE);
    }
}

pub(crate) fn run(store: Store, options: Options, host: &impl Host) -> io::Result<()> {
    let stdin = io::stdin();
    let store = Arc::new(store);
    let size = || terminal::size(io::stdout()).unwrap_or((80, 24));
    // Before any thread is started: none of them is to be ended by these.
    let signals = Caught::new(&[Signal::WINCH, Signal::TERM, Signal::HUP, Signal::CONT])?;
    let mut changes = store.changes();
    let mut app = App::new(Arc::clone(&store), options)?;
    app.reload()?;
    let mut window = Some(host.take_window()?);
    write(MODES)?;
    let mut canvas = Canvas::new(size());
    let (mut keyboard, mut typed_at) = (Keyboard::default(), Instant::now());
    let (mut list_pace, mut log_pace) = (Pace(Instant::now()), Pace(Instant::now()));
    let mut due = Instant::now();
    loop {
        if std::mem::take(&mut app.is_spoiled) {
            canvas = Canvas::new(size());
        }
        app.area = canvas.area();
        let began = Instant::now();
        if let Some(text) = canvas.draw(|buffer| draw::page(&mut app, buffer)) {
            write(&text)?;
        }
        write(&std::mem::take(&mut app.to_write))?;
        let drawing = began.elapsed();

        // What is due, and when.
        let now = Instant::now();
        let is_measuring = app.live_in_view().next().is_some();
        let measure_in = is_measuring.then(|| due.saturating_duration_since(now));
        let (list_rest, log_rest) = (list_pace.rest(), log_pace.rest());
        let log = app.log.as_ref().map(|(_, log)| log);
        let key_in = keyboard.is_pending().then(|| KEY_LIMIT.saturating_sub(typed_at.elapsed()));
        let limits = [measure_in, key_in, list_rest, log_rest, changes.nap(), log.and_then(Log::nap)];
        let fds = [stdin.as_fd(), signals.as_fd(), app.actions.as_fd(), app.machines.as_fd()]
            .into_iter()
            .chain(changes.fd().filter(|_| list_rest.is_none()))
            .chain(log.and_then(Log::fd).filter(|_| log_rest.is_none()));
        poll::any_readable(fds, limits.into_iter().flatten().min())?;
        if log_rest.is_none() && log.is_some_and(Log::has_changed) {
            log_pace.took(drawing);
        }

        let mut is_told = false;
        while let Some(signal) = signals.next() {
            is_told |= signal == Signal::TERM || signal == Signal::HUP;
            app.is_spoiled |= signal == Signal::WINCH || signal == Signal::CONT;
            if signal == Signal::CONT {
                // A shell that had the terminal meanwhile may have changed it.
                drop(window.take());
                window = Some(host.take_window()?);
                app.to_write = app.modes();
            }
        }
        let mut keys = Vec::new();
        if is_readable(stdin.as_fd()) {
            let mut buffer = [0; 4096];
            match pipe::try_read(&stdin, &mut buffer) {
                Attempt::Moved(count) => {
                    keys = keyboard.push(&buffer[..count]);
                    typed_at = Instant::now();
                }
                Attempt::WouldBlock => {}
                // The terminal is gone.
                Attempt::Closed | Attempt::Failed(_) => is_told = true,
            }
        } else if typed_at.elapsed() >= KEY_LIMIT {
            keys.extend(keyboard.give_up());
        }
        if is_told {
            break;
        }
        let mut next = Next::Stay;
        for key in keys {
            next = app.type_key(key);
            if next != Next::Stay {
                break;
            }
        }
        if next == Next::Attach {
            drop(window.take());
            let attached = app.attach(host);
            // Whatever the job's window left there goes.
            window = Some(host.take_window()?);
            (app.to_write, app.is_spoiled) = (app.modes(), true);
            next = if attached == Attached::Told { Next::Leave } else { Next::Stay };
            due = Instant::now();
        }
        if next == Next::Leave {
            break;
        }
        app.machines.take_changes();
        let mut is_stale = app.take_done();
        if list_pace.rest().is_none() && changes.take(&store) {
            is_stale = true;
        }
        if is_measuring && due <= Instant::now() {
            is_stale |= app.measure();
            due = Instant::now()
                + if app.live_in_view().any(|row| row.figures.is_first()) { SECOND_MEASURE } else { MEASURE };
        }
        if is_stale {
            let began = Instant::now();
            app.reload()?;
            list_pace.took(began.elapsed());
        }
    }
    drop(window);
    app.actions.finish();
    Ok(())
}

impl App {
    fn new(store: Arc<Store>, options: Options) -> io::Result<Self> {
        let mut jobs = Jobs::default();
        jobs.set_filter(options.filter.clone());
        let machines = Machines::watch(&store, options.session.as_ref())?;
        Ok(Self {
            store,
            machines,
            theme: Theme { is_coloured: options.is_coloured },
            options,
            jobs,
            log: None,
            page: Page::List,
            prompt: None,
            is_help: false,
            has_mouse: false,
            is_spoiled: false,
            message: None,
            actions: Actions::new()?,
            to_write: String::new(),
            area: Rect::default(),
            measured: 0,
        })
    }

    /// Returns what asks the terminal for what the view needs of it.
    fn modes(&self) -> String {
        format!("{MODES}{}", self.mouse_mode())
    }

    pub(crate) fn mouse_mode(&self) -> &'static str {
        if self.has_mouse { MOUSE_ON } else { MOUSE_OFF }
    }

    pub(crate) fn tell(&mut self, text: impl Into<String>) {
        self.message = Some(Message { text: text.into(), is_failure: false });
    }

    pub(crate) fn fail(&mut self, text: impl Into<String>) {
        self.message = Some(Message { text: text.into(), is_failure: true });
    }

    /// Reads the list anew. The page of a job that was removed is left.
    fn reload(&mut self) -> io::Result<()> {
        self.jobs.reload(&self.store, self.options.session.as_ref())?;
        let is_chosen = |id: &JobId| self.jobs.chosen().is_some_and(|row| row.job.id() == id);
        if let Some((id, _)) = self.log.take_if(|(id, _)| !is_chosen(id))
            && self.page == Page::Job
            && !self.jobs.rows().iter().any(|row| *row.job.id() == id)
        {
            self.page = Page::List;
            self.tell(format!("{id} was removed"));
        }
        Ok(())
    }

    /// Opens the output of the chosen job, unless it is open.
    pub(crate) fn open_log(&mut self) -> Option<&mut Log> {
        let row = self.jobs.chosen();
        let is_open = row.is_some_and(|row| self.log.as_ref().is_some_and(|(id, _)| id == row.job.id()));
        if !is_open {
            // A job that was removed meanwhile has no output; the next look at the list takes it away.
            self.log = row.and_then(|row| Some((row.job.id().clone(), Log::open(&row.job).ok()?)));
        }
        self.log.as_mut().map(|(_, log)| log)
    }

    /// The places of the jobs in view, among those that the list shows.
    fn places_in_view(&self) -> std::ops::Range<usize> {
        match self.page {
            Page::Job => self.jobs.cursor()..self.jobs.cursor() + 1,
            Page::List => {
                let height = usize::from(draw::list_height(self.area, self.jobs.shown_count()));
                self.jobs.top()..self.jobs.top() + height
            }
        }
    }

    fn live_in_view(&self) -> impl Iterator<Item = &Row> {
        self.places_in_view().filter_map(|place| self.jobs.at(place)).filter(|row| row.state.is_live())
    }

    fn measure(&mut self) -> bool {
        let places = self.places_in_view();
        let has_ports = self.measured.is_multiple_of(PORTS_EVERY);
        self.measured += 1;
        let store = Arc::clone(&self.store);
        self.jobs.measure(&store, places, has_ports)
    }

    /// Tells of actions that are done; whether there was one.
    fn take_done(&mut self) -> bool {
        let done = self.actions.take_done();
        let is_any = !done.is_empty();
        for done in done {
            match done.told {
                Ok(text) => self.tell(text),
                Err(text) => self.fail(text),
            }
            if let Some((before, next)) = done.restarted {
                self.jobs.note_restart(before, next);
            }
        }
        is_any
    }

    /// Shows the chosen job's own terminal.
    fn attach(&mut self, host: &impl Host) -> Attached {
        let Some(row) = self.jobs.chosen() else { return Attached::Left };
        match host.attach(&self.store, &row.job) {
            Ok(attached) => attached,
            Err(failure) => {
                self.fail(failure.text());
                Attached::Left
            }
        }
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    poll::readable(fd, Some(Duration::ZERO)).unwrap_or(true)
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
}
