//! The keeper's last act: to become the program that tells others of the end.
//!
//! That program derives the notice, runs the command that was asked for, and sends what is to be sent; none of it is the
//! keeper's business. It was handed over when the job was started, so that replacing or deleting it meanwhile changes
//! nothing, and it gets the job's own environment.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use outlive_core::file;
use outlive_core::launch::Launch;
use outlive_sys::fault::Replacing;
use outlive_sys::spawn::Limits;
use outlive_sys::{durable, spawn};

/// What to become.
pub(crate) struct OnExit {
    program: OwnedFd,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    umask: u32,
    limits: Limits,
}

impl OnExit {
    /// Remembers it; `None` if there is nobody to tell.
    pub(crate) fn new(
        launch: &Launch<'_>,
        program: Option<OwnedFd>,
        umask: u32,
        limits: Limits,
    ) -> Option<Self> {
        let strings = |parts: &[&[u8]]| parts.iter().map(|part| CString::new(*part)).collect();
        let arguments: Result<Vec<CString>, _> = strings(&launch.parting);
        let environment: Result<Vec<CString>, _> = strings(&launch.environment);
        let arguments = arguments.ok().filter(|arguments| !arguments.is_empty())?;
        Some(Self { program: program?, arguments, environment: environment.ok()?, umask, limits })
    }

    /// Becomes it. Returns only if that is not possible, which is noted where its own result would be.
    pub(crate) fn exec(self, dir: &OwnedFd) {
        spawn::set_umask(self.umask);
        self.limits.restore();
        let error = spawn::become_program(&self.program, &self.arguments, &self.environment);
        let note = format!("{{\"error\":\"cannot execute outlive: {}\"}}\n", error.kind());
        durable::replace(Replacing::PARTING, dir, file::PARTING, note.as_bytes()).ok();
    }
}
