//! The keeper's last act: to become the program that reports the end of the job.
//!
//! That program runs the `--on-exit` command and sends the webhook; the keeper does neither. It is handed over when the
//! job is started, so that replacing or deleting it meanwhile changes nothing, and it gets the job's own environment.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use outlive_core::file;
use outlive_core::launch::Launch;
use outlive_sys::fault::Replacing;
use outlive_sys::spawn::Limits;
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
        let arguments = strings(&launch.completion).ok().filter(|arguments| !arguments.is_empty())?;
        let environment = strings(&launch.environment).ok()?;
        Some(Self { program: program?, kept: Kept { arguments, environment, umask, limits } })
    }

    /// Takes over what the program had which this one was executed in place of.
    pub(crate) fn inherited(kept: Kept, program: OwnedFd) -> Self {
        Self { program, kept }
    }

    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Returns the number of the program's descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.program.as_raw_fd()
    }

    /// Becomes the program. Returns only if that is not possible, and notes it in the file of the program's own result.
    pub(crate) fn exec(self, dir: &OwnedFd) {
        let Kept { arguments, environment, umask, limits } = &self.kept;
        spawn::set_umask(*umask);
        limits.restore();
        let error = spawn::become_program(&self.program, arguments, environment);
        let note = format!("{{\"error\":\"cannot execute outlive: {}\"}}\n", error.kind());
        durable::replace(Replacing::PARTING, dir, file::COMPLETION, note.as_bytes()).ok();
    }
}
