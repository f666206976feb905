//! The keeper's last act: to become the program that reports the end of the job.
//!
//! That program runs the `--on-exit` command and sends the webhook; the keeper does neither. It is handed over when the
//! job is started, so that replacing or deleting it meanwhile changes nothing, and it gets the job's own environment.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

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
    kept: Kept,
}

/// What the program needs.
pub(crate) struct Kept {
    pub(crate) arguments: Vec<CString>,
    /// The arguments with which it makes the next run; see `next_run`.
    pub(crate) next_run: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) umask: u32,
    pub(crate) limits: Limits,
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
        Some(Self { program: program?, kept: Kept { arguments, next_run, environment, umask, limits } })
    }

    /// Takes over what the program had which this one was executed in place of.
    pub(crate) fn inherited(kept: Kept, program: OwnedFd) -> Self {
        Self { program, kept }
    }

    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Returns the program.
    pub(crate) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Returns the number of the program's descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.program.as_raw_fd()
    }

    /// Tells whether it can make the next run of the job.
    pub(crate) fn can_run_again(&self) -> bool {
        !self.kept.next_run.is_empty()
    }

    /// Starts the program beside the keeper, to make the next run of the job. It has the job's environment, which is nowhere else.
    pub(crate) fn start_next_run(&self) -> Option<ProcessId> {
        let null = File::options().read(true).write(true).open("/dev/null").ok()?;
        let program = CString::new(format!("/proc/self/fd/{}", self.program.as_raw_fd())).ok()?;
        let command = Command {
            candidates: &[program],
            argv: &self.kept.next_run,
            environment: &self.kept.environment,
            directory: &c"/".to_owned(),
            stdio: [null.as_fd(), null.as_fd(), null.as_fd()],
            has_terminal: false,
            umask: self.kept.umask,
            limits: &self.kept.limits,
            group: None,
            cgroup_procs: &[],
            open_files: None,
            nice: None,
        };
        spawn::start(&command).ok().map(|child| child.id)
    }

    /// Becomes the program, if there is something for it to do. Returns only if that is not possible, and notes it in the file of the program's own result.
    pub(crate) fn exec(self, dir: &OwnedFd) {
        let Kept { arguments, environment, umask, limits, .. } = &self.kept;
        if arguments.is_empty() {
            return;
        }
        spawn::set_umask(*umask);
        limits.restore();
        let error = spawn::become_program(&self.program, arguments, environment);
        let note = format!("{{\"error\":\"cannot execute outlive: {}\"}}\n", error.kind());
        durable::replace(Replacing::PARTING, dir, file::COMPLETION, note.as_bytes()).ok();
    }
}
