//! A home whose jobs a cluster of its own places.
//!
//! Proves nothing by itself: it starts the daemons of a small Slurm, takes them down, and ends what it started.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::process::Command;

use outlive_tests::{Done, Home, Slurm, finish, until};

pub(super) use outlive_tests::NODES;

/// A home whose configuration has the cluster as `cluster`. The cluster ends before the home.
pub(super) struct Cluster {
    slurm: Slurm,
    pub(super) home: Home,
}

impl Deref for Cluster {
    type Target = Slurm;

    fn deref(&self) -> &Slurm {
        &self.slurm
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Slurm {
        &mut self.slurm
    }
}

impl Cluster {
    /// Starts one; `None`: the system lacks the packages, or this user the rights.
    pub(super) fn start() -> Option<Self> {
        let home = Home::new();
        home.configure("[hosts.cluster]\nengine = \"slurm\"\n");
        let slurm = Slurm::start(home.make_dir("slurm"))?;
        Some(Self { slurm, home })
    }

    #[must_use = "a test that does not look proves nothing"]
    pub(super) fn run(&self, arguments: &[&str]) -> Done {
        finish(self.outlive(arguments), b"")
    }

    pub(super) fn outlive(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.outlive(arguments);
        command.env("SLURM_CONF", self.conf());
        command
    }

    /// Submits a line with these options, and returns the id.
    pub(super) fn submit(&self, options: &[&str], line: &str) -> String {
        let arguments: Vec<&str> =
            ["run", "--on", "cluster"].iter().chain(options).chain([&line]).copied().collect();
        self.run(&arguments).ok().text().trim_end().to_owned()
    }

    pub(super) fn show(&self, job: &str) -> serde_json::Value {
        self.run(&["--json", "show", job]).ok().json()
    }

    /// Waits until a job runs on a node.
    pub(super) fn until_running(&self, job: &str) {
        until("it runs", || self.show(job)["status"] == "running");
    }

    /// Returns the engine's number of a job.
    pub(super) fn number(&self, job: &str) -> String {
        fs::read_to_string(self.home.job_dir(job).join("engine_job")).expect("it was submitted")
    }
}
