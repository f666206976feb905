//! The keeper's last act: to become the program that reports the end of the job.
//!
//! That program runs the `--on-exit` command and sends the webhook; the keeper does neither. It is handed over when the
//! job is started, so that replacing or deleting it meanwhile changes nothing, and it gets the job's own environment.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use outlive_core::file;
use outlive_core::launch::Launch;
use outlive_sys::fault::Replacing;
use outlive_sys::identity::ProcessId;
use outlive_sys::spawn::{Command, Limits};
use outlive_sys::{durable, spawn};

use crate::start::strings;

/// The program to become, with all that it needs.
pub(crate) struct OnExit {
    program: OwnedFd,
    arguments: Vec<CString>,
    /// The arguments with which it makes the next run; see `next_run`.
    pub(crate) next_run: Vec<CString>,
    environment: Vec<CString>,
    umask: u32,
    limits: Limits,
}

impl OnExit {
    /// Keeps what the launch request asks for; `None` if it asks for nothing.
    pub(crate) fn new(
        launch: &Launch<'_>,
        program: Option<OwnedFd>,
        umask: u32,
        limits: Limits,
    ) -> Option<Self> {
        if launch.completion.is_empty() && launch.next_run.is_empty() {
            return None;
        }
        let (arguments, next_run) = (strings(&launch.completion).ok()?, strings(&launch.next_run).ok()?);
        let environment = strings(&launch.environment).ok()?;
        Some(Self { program: program?, arguments, next_run, environment, umask, limits })
    }

    /// Returns the number of the program's descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.program.as_raw_fd()
    }

    /// Starts the program beside the keeper, to make the next run of the job. It has the job's environment, which is nowhere else.
    pub(crate) fn start_next_run(&self) -> Option<ProcessId> {
        let null = File::options().read(true).write(true).open("/dev/null").ok()?;
        let program = CString::new(format!("/proc/self/fd/{}", self.program.as_raw_fd())).ok()?;
        let command = Command {
            candidates: &[program],
            argv: &self.next_run,
            environment: &self.environment,
            directory: &c"/".to_owned(),
            stdio: [null.as_fd(), null.as_fd(), null.as_fd()],
            has_terminal: false,
            umask: self.umask,
            limits: &self.limits,
            group: None,
            cgroup_procs: &[],
            open_files: None,
            nice: None,
        };
        spawn::start(&command).ok().map(|child| child.id)
    }

    /// Becomes the program, if there is something for it to do. Returns only if that is not possible, and notes it in the file of the program's own result.
    pub(crate) fn exec(self, dir: &OwnedFd) {
        if self.arguments.is_empty() {
            return;
        }
        spawn::set_umask(self.umask);
        self.limits.restore();
        let error = spawn::become_program(&self.program, &self.arguments, &self.environment);
        let note = format!("{{\"error\":\"cannot execute outlive: {}\"}}\n", error.kind());
        durable::replace(Replacing::PARTING, dir, file::COMPLETION, note.as_bytes()).ok();
    }
}
