//! Jobs that belong together: started once, started again, brought up and taken down as a project.
//!
//! A module for each capability; each drives the real programs.

mod converging;
mod down;
mod ensure;
mod file;
mod foreground;
mod formats;
mod kills;
mod names;
mod policies;
mod ports;
mod queues;
mod restart;
mod stack;
mod status;
mod templates;
mod up;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlive_tests::{Done, Home, finish};
use serde_json::Value;

/// A project in a directory of a home.
struct Project<'a> {
    home: &'a Home,
    dir: PathBuf,
}

impl<'a> Project<'a> {
    /// Makes the directory, with this `outlive.toml`.
    fn new(home: &'a Home, name: &str, toml: &str) -> Self {
        let project = Self { home, dir: home.make_dir(name) };
        project.write("outlive.toml", toml);
        project
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).expect("the directory is there");
    }

    /// Runs `outlive` in the directory.
    fn run(&self, arguments: &[&str]) -> Done {
        self.run_in(&self.dir, arguments)
    }

    fn run_in(&self, dir: &Path, arguments: &[&str]) -> Done {
        let mut command = self.home.outlive(arguments);
        command.current_dir(dir);
        finish(command, b"")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[&["--json"], arguments].concat()).ok().json()
    }

    /// Returns one job of `status`.
    fn status(&self, name: &str) -> Value {
        let mut status = self.json(&["status"]);
        let jobs = status["jobs"].as_array_mut().expect("a list");
        jobs.iter_mut().find(|job| job["name"] == name).expect("it is listed").take()
    }

    /// Returns how a job is doing, in words.
    fn state(&self, name: &str) -> String {
        self.status(name)["state"].as_str().expect("a text").to_owned()
    }

    /// Returns the id of a job's newest run.
    fn id(&self, name: &str) -> String {
        self.status(name)["job"]["job"].as_str().unwrap_or_default().to_owned()
    }

    fn session(&self) -> String {
        self.json(&["status"])["session"].as_str().expect("a name").to_owned()
    }

    /// Lists the live jobs of the project by name.
    fn live(&self) -> Vec<String> {
        let (session, listed) = (self.session(), self.home.json(["list", "--live"]));
        let own = listed.as_array().expect("a list").iter().filter(|job| job["session"] == *session);
        let mut names: Vec<String> = own.map(|job| job["name"].as_str().unwrap_or("?").to_owned()).collect();
        names.sort();
        names
    }

    /// Waits until a job is doing so.
    fn until(&self, name: &str, state: &str) {
        let began = Instant::now();
        while self.state(name) != state {
            let is_late = began.elapsed() > Duration::from_secs(50);
            assert!(
                !is_late,
                "{name} is {}, not {state}\n{}",
                self.state(name),
                self.run(&["why", name]).text()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
