//! What the keeper becomes when its job is closed: the process that runs the on-exit command and sends the notice.
//!
//! First the notice is put into the spool and a deliverer is started; then the command runs. So a command that hangs delays
//! nothing else. The result of both is in the job's directory, as long as there is one.

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outlive_core::FORMAT;
use outlive_core::id::{JobId, Nonce};
use outlive_core::spec::{Process, Spec};
use outlive_core::timestamp::Timestamp;
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::{clock, poll, signal};

use crate::delivery::pending::PendingMark;
use crate::delivery::record::{OnExitRecord, OnExitRun, WebhookRecord};
use crate::delivery::spool::Entry;
use crate::delivery::webhook;
use crate::job::Job;
use crate::job::object::signal_name;
use crate::job::state::State;
use crate::launch::resolve::find_shell;
use crate::notify::notice::Notice;
use crate::store::Store;

/// How much of the command's output is kept, from its end.
const OUTPUT_BYTES: usize = 4 << 10;

/// Longest value of an environment variable; the kernel accepts strings up to 128 KiB.
const VARIABLE_BYTES: usize = 32 << 10;

/// How long to wait for the last output of a command that has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// Shows a notification on the user's desktop, with what the environment of on-exit commands tells. Where the usual program is not
/// installed, the bus is asked directly.
const NOTIFY: &str = r#"title="${OUTLIVE_NAME:-$OUTLIVE_JOB} $(echo "$OUTLIVE_STATUS" | tr _ ' ')"
notify-send --app-name=outlive -- "$title" "$OUTLIVE_REASON" || busctl --user call org.freedesktop.Notifications \
/org/freedesktop/Notifications org.freedesktop.Notifications Notify 'susssasa{sv}i' \
outlive 0 '' "$title" "$OUTLIVE_REASON" 0 0 -1"#;

/// A desktop that is alive answers at once.
const NOTIFY_LIMIT: Duration = Duration::from_secs(10);

/// Why the on-exit work of a job could not be done.
#[derive(Debug, thiserror::Error)]
pub enum OnExitError {
    /// The store has no such job.
    #[error("there is no job {0} with this nonce")]
    NotFound(JobId),
    /// The job has not ended.
    #[error("job {0} has not ended")]
    Live(JobId),
    /// Another process has done it.
    #[error("what was to be done at the end of {0} was done already")]
    Told(JobId),
}

/// Names a job and its store: explicitly, because the job's environment may name another store, or none.
fn words_for(verb: &str, spec: &Spec, store: &[u8]) -> Vec<Vec<u8>> {
    let words = ["outlive", verb, spec.job.as_str(), &spec.nonce.to_string(), "--home"];
    words.iter().map(|word| word.as_bytes().to_vec()).chain([store.to_vec()]).collect()
}

impl Store {
    /// Returns the command line that a job's keeper executes at the end: with this verb of `outlive`.
    pub(crate) fn helper_arguments(&self, verb: &str, spec: &Spec) -> Vec<Vec<u8>> {
        let mut words = words_for(verb, spec, self.root().as_os_str().as_bytes());
        if let Some(path) = self.config_path.as_ref().filter(|path| path.is_file()) {
            words.extend([b"--config".to_vec(), path.as_os_str().as_bytes().to_vec()]);
        }
        words
    }

    /// Returns the command line that an engine starts on a node: with the store that the node has the job in.
    pub(crate) fn placed_arguments(&self, job: &Job) -> Vec<Vec<u8>> {
        match job.node_store() {
            Some(store) => words_for("placed", job.spec(), store.as_bytes()),
            None => self.helper_arguments("placed", job.spec()),
        }
    }

    /// Spools the notice of a job's end and runs its on-exit command; returns when that has ended. The keeper's last step.
    ///
    /// # Errors
    ///
    /// If there is no such job, it has not ended, or this was done before.
    pub fn part(&self, id: &JobId, nonce: Nonce) -> Result<(), OnExitError> {
        let job = self.find_exactly(id, nonce).ok_or_else(|| OnExitError::NotFound(id.clone()))?;
        let state = job.state(self);
        if state.outcome.is_none() {
            return Err(OnExitError::Live(id.clone()));
        }
        if job.completion_record().on_exit.is_some() {
            return Err(OnExitError::Told(id.clone()));
        }
        let seq = self.ending_seq(&job);
        let notice = Notice::of(&job, &state, seq);
        // On a full disk the command still runs; the mark stays, and the next front end tries.
        self.spool_notice(&job, &state).ok();
        if job.spec().options.completion.notify {
            // Where there is no desktop the line fails at once, and nothing depends on it.
            let shown = Running::start(self, &job, OsStr::new(NOTIFY), self.root(), &notice);
            shown.into_iter().for_each(|running| running.watch(NOTIFY_LIMIT, |_, _, _| {}));
        }
        if let Some(line) = &job.spec().options.completion.on_exit {
            self.run_on_exit(&job, OsStr::from_bytes(&line.0), &notice);
        }
        Ok(())
    }

    /// Spools the notice of a job whose keeper died before the job's end. The command is not run: a front end has neither the
    /// job's environment nor its directory.
    pub(crate) fn part_for_dead_keeper(&self, job: &Job, state: &State) {
        let completion = &job.spec().options.completion;
        if completion.is_empty() {
            return;
        }
        if completion.on_exit.is_some() {
            let run = OnExitRun { error: Some("its keeper died".to_owned()), ..OnExitRun::default() };
            job.note_on_exit(&OnExitRecord { run, by: None });
        }
        // After a failure the mark stays.
        self.spool_notice(job, state).ok();
    }

    /// Puts a job's notice into the spool, once, if it has a webhook, and starts a deliverer.
    pub(crate) fn spool_notice(&self, job: &Job, state: &State) -> io::Result<()> {
        let mark = self.take_pending(job)?;
        if mark.is_none() && job.completion_record().webhook.is_some() {
            return Ok(());
        }
        if let Some(url) = &job.spec().options.completion.webhook {
            let seq = self.ending_seq(job);
            let now = Timestamp(clock::wall_us());
            let spooled = self.spool_entry(&self.entry(job, state, url, seq, now));
            let error = spooled.as_ref().err().map(|error| format!("it cannot be kept for sending: {error}"));
            let spooled_at = spooled.is_ok().then(|| now.to_string());
            job.note_completion(|record| record.webhook = Some(WebhookRecord { spooled_at, seq, error }));
            spooled?;
            self.start_deliverer();
        }
        mark.into_iter().for_each(PendingMark::clear);
        Ok(())
    }

    fn entry(&self, job: &Job, state: &State, url: &str, seq: u64, now: Timestamp) -> Entry {
        let notice = Notice::of(job, state, seq);
        let body = serde_json::to_string(&notice).unwrap_or_default();
        Entry {
            format: FORMAT,
            url: url.to_owned(),
            session: notice.session,
            seq,
            job: notice.job,
            nonce: notice.nonce,
            created: now,
            attempts: 0,
            next: now,
            error: None,
            signature: self.webhook_secret().map(|secret| webhook::sign(&secret, &body)),
            body,
        }
    }

    /// Returns the sequence of the job's ending among its session's events; appends the event if it is missing.
    fn ending_seq(&self, job: &Job) -> u64 {
        self.tell_ending(job);
        self.ending_in(job.session(), job.spec().nonce).unwrap_or(0)
    }

    /// Runs the on-exit command and records its result.
    fn run_on_exit(&self, job: &Job, line: &OsStr, notice: &Notice) {
        let cwd = PathBuf::from(OsStr::from_bytes(&job.spec().cwd.0));
        let (cwd, note) = match cwd.is_dir() {
            true => (cwd, None),
            false => {
                let note = format!("{} is gone; it was run in the store's directory", cwd.display());
                (self.root().to_owned(), Some(note))
            }
        };
        let by = ProcessId::current();
        let now = || Some(Timestamp(clock::wall_us()).to_string());
        let mut record = OnExitRecord {
            run: OnExitRun { started_at: now(), note, ..OnExitRun::default() },
            by: Some(Process { pid: by.pid, start_time: by.start_time }),
        };
        job.note_on_exit(&record);
        match Running::start(self, job, line, &cwd, notice) {
            Ok(running) => running.watch(self.config().job.on_exit_timeout, |status, error, output| {
                let run = &mut record.run;
                run.ended_at = run.ended_at.take().or_else(now);
                run.exit_code = status.and_then(|status| status.code());
                run.signal = status.and_then(|status| status.signal()).map(signal_name);
                (run.error, run.output) = (error, Some(output));
                job.note_on_exit(&record);
            }),
            Err(error) => {
                record.run.ended_at = now();
                record.run.error = Some(format!("it could not be run: {error}"));
                job.note_on_exit(&record);
            }
        }
    }

    /// Returns the variables that the command gets beside the job's own; those of `None` are removed.
    fn on_exit_variables(&self, job: &Job, notice: &Notice) -> Vec<(&'static str, Option<String>)> {
        let known = |value: &Option<String>| Some(value.clone().unwrap_or_default());
        vec![
            ("OUTLIVE_JOB", Some(notice.job.to_string())),
            ("OUTLIVE_SESSION", Some(notice.session.to_string())),
            ("OUTLIVE_READER", job.spec().reader.as_ref().map(ToString::to_string)),
            ("OUTLIVE_NAME", known(&notice.name)),
            ("OUTLIVE_GROUP", known(&notice.group)),
            ("OUTLIVE_COMMAND", known(&notice.command.as_deref().map(cut))),
            ("OUTLIVE_STATUS", Some(notice.status.word().to_owned())),
            ("OUTLIVE_EXIT_CODE", known(&notice.exit_code.map(|code| code.to_string()))),
            ("OUTLIVE_SIGNAL", known(&notice.signal)),
            ("OUTLIVE_CAUSE", known(&notice.cause)),
            ("OUTLIVE_REASON", known(&notice.reason.as_deref().map(cut))),
            ("OUTLIVE_RUNTIME_MS", known(&notice.runtime_ms.map(|ms| ms.to_string()))),
            ("OUTLIVE_SEQUENCE", Some(notice.seq.to_string())),
        ]
    }
}

/// Cuts a text to the length of a variable, and replaces NUL bytes.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(VARIABLE_BYTES);
    text[..end].replace('\0', "\u{fffd}")
}

/// An on-exit command that runs.
struct Running {
    child: Child,
    handle: Option<Handle>,
    output: Arc<Mutex<Vec<u8>>>,
    /// Closed when no process has the command's output open any more.
    at_end: Receiver<()>,
}

impl Running {
    fn start(store: &Store, job: &Job, line: &OsStr, cwd: &Path, notice: &Notice) -> io::Result<Self> {
        let shell = match &store.config().job.shell {
            Some(shell) => shell.clone(),
            None => find_shell(std::env::var_os("PATH").as_deref()),
        };
        let (output, writer) = io::pipe()?;
        let mut command = Command::new(shell);
        command.arg("-c").arg(line).current_dir(cwd).env("OUTLIVE_HOME", store.root());
        for (name, value) in store.on_exit_variables(job, notice) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // A process group of its own, so that it can be killed as a whole.
        command
            .stdin(std::process::Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0);
        signal::end_at_file_limit();
        let mut child = command.spawn()?;
        // It holds the write end of the pipe.
        drop(command);
        if let Some(mut stdin) = child.stdin.take() {
            let text = notice.to_text();
            // A command that does not read its input must not delay this process.
            std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
        }
        let handle = i32::try_from(child.id()).ok().and_then(ProcessId::of).and_then(Handle::open);
        let (kept, at_end) = keep_end_of(output);
        Ok(Self { child, handle, output: kept, at_end })
    }

    /// Waits for the end, at most `limit`, and reports status, error and output; again if a leftover process held the output
    /// open and wrote more.
    fn watch(mut self, limit: Duration, mut report: impl FnMut(Option<ExitStatus>, Option<String>, String)) {
        let until = Instant::now().checked_add(limit);
        let left = || until.map_or(limit, |until| until.saturating_duration_since(Instant::now()));
        let error = match self.wait(left()) {
            true => None,
            false => {
                // Not reaped yet, so the pid is still the command's.
                if let Ok(pid) = i32::try_from(self.child.id()) {
                    signal::kill_group_of_child(pid).ok();
                }
                Some(format!("it was ended after {limit:?}"))
            }
        };
        let status = self.child.wait().ok();
        let is_at_end = self.at_end.recv_timeout(LAST_OUTPUT) == Err(RecvTimeoutError::Disconnected);
        report(status, error.clone(), self.text());
        if !is_at_end && error.is_none() {
            // Leftover processes may go on printing; until the limit they get no broken pipe.
            self.at_end.recv_timeout(left()).ok();
            report(status, error, self.text());
        }
    }

    /// Tells whether the command ended in time.
    fn wait(&mut self, limit: Duration) -> bool {
        match &self.handle {
            Some(handle) => poll::readable(handle.as_fd(), Some(limit)).unwrap_or(true),
            None => {
                let until = Instant::now() + limit;
                while Instant::now() < until {
                    if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                        return true;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                false
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Reads everything and keeps the end of it.
fn keep_end_of(mut from: PipeReader) -> (Arc<Mutex<Vec<u8>>>, Receiver<()>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (at_end, watched) = channel();
    let end = Arc::clone(&kept);
    std::thread::spawn(move || {
        let _at_end = at_end;
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
            end.extend_from_slice(&buffer[..count]);
            let surplus = end.len().saturating_sub(OUTPUT_BYTES);
            end.drain(..surplus);
        }
    });
    (kept, watched)
}
