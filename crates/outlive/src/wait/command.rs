//! A line for a shell that tells by its exit code how a job is doing.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use outlive_core::rawtext::RawText;
use outlive_sys::signal;

use crate::job::Job;
use crate::launch::resolve::find_shell;

/// How often to look whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// A check that is run again and again.
#[derive(Debug, Clone)]
pub(crate) struct CommandCheck {
    line: RawText,
    directory: RawText,
    set: Vec<(String, RawText)>,
    unset: Vec<String>,
}

impl CommandCheck {
    /// Prepares it: it runs in the job's directory, with the variables that the job was given on top of the caller's.
    pub(crate) fn new(job: &Job, line: &RawText) -> Self {
        let spec = job.spec();
        Self {
            line: line.clone(),
            directory: spec.cwd.clone(),
            set: spec.env_set.clone().into_iter().collect(),
            unset: spec.env_unset.clone(),
        }
    }

    /// Runs it once, at most so long. The error says why it does not hold.
    pub(crate) fn run(&self, limit: Duration) -> Result<(), String> {
        let text = |text: &RawText| std::ffi::OsStr::from_bytes(&text.0).to_owned();
        let mut command = Command::new(find_shell(std::env::var_os("PATH").as_deref()));
        command.arg("-c").arg(text(&self.line)).current_dir(text(&self.directory));
        command.envs(self.set.iter().map(|(name, value)| (name, text(value))));
        for name in &self.unset {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A process group of its own, so that it can be ended as a whole.
        command.process_group(0);
        let failed = |error: io::Error| format!("{} cannot be run: {error}", self.line.to_lossy());
        let mut child = command.spawn().map_err(failed)?;
        let until = Instant::now() + limit;
        loop {
            match child.try_wait().map_err(failed)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("{}: {status}", self.line.to_lossy())),
                None if Instant::now() >= until => {
                    signal::kill_group_of_child(child.id().cast_signed()).ok();
                    child.wait().ok();
                    return Err(format!("{} has not ended in time", self.line.to_lossy()));
                }
                None => std::thread::sleep(LOOK),
            }
        }
    }
}
