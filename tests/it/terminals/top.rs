//! `outlive top` in a real window of tmux: what it shows, and how it is left. Its keys are in `top_keys`.
//!
//! Quitting it, closing its window or killing it ends no job, and the window is afterwards as it was before.

use std::fs;
use std::time::{Duration, Instant};

use outlive_tests::{Home, LIMIT, activity, until};

use super::attach::{ECHOES, Tmux};
use super::start;

/// Columns and rows.
pub(super) const SIZES: [(u16, u16); 2] = [(80, 24), (200, 60)];

/// The view in a window.
pub(super) struct Top<'a> {
    pub(super) tmux: Tmux<'a>,
    home: &'a Home,
}

impl<'a> Top<'a> {
    pub(super) fn open(home: &'a Home, size: (u16, u16), arguments: &str) -> Self {
        let tmux = Tmux::open(home, size.0, size.1);
        tmux.tell(&["set-option", "-g", "set-clipboard", "on"]);
        let top = Self { tmux, home };
        top.start(arguments);
        top
    }

    pub(super) fn start(&self, arguments: &str) {
        self.tmux.line("one", "stty -g > before");
        self.tmux.outlive("one", &format!("top {arguments}"));
        self.shows(" live");
    }

    /// Types keys, by the names that tmux has for them.
    pub(super) fn press(&self, keys: &[&str]) {
        self.tmux.tell(&[&["send-keys", "-t", "one"], keys].concat());
    }

    /// Types text as it is.
    pub(super) fn text(&self, text: &str) {
        self.tmux.tell(&["send-keys", "-t", "one", "-l", text]);
    }

    pub(super) fn screen(&self) -> String {
        self.tmux.screen("one")
    }

    /// Waits until what the window shows, as `capture` has it, is so.
    fn sees(&self, what: &str, capture: &[&str], is_so: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let screen = self.tmux.tell(&[&["capture-pane", "-p", "-t", "one"], capture].concat());
            if is_so(&screen) {
                return;
            }
            assert!(Instant::now() < deadline, "the window never showed {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn shows(&self, text: &str) {
        self.sees(&format!("{text:?}"), &[], |screen| screen.contains(text));
    }

    pub(super) fn shows_no(&self, text: &str) {
        self.sees(&format!("itself without {text:?}"), &[], |screen| !screen.contains(text));
    }

    /// Waits until the chosen row, which is the only one with a background, is of this job.
    pub(super) fn chooses(&self, job: &str) {
        self.sees(&format!("{job} as chosen"), &["-e"], |screen| {
            screen.lines().any(|line| line.contains("\x1b[46m") && line.contains(job))
        });
    }

    /// Waits until the row of a job has this text.
    pub(super) fn row_shows(&self, job: &str, text: &str) {
        self.sees(&format!("{text:?} in the row of {job}"), &[], |screen| {
            screen.lines().any(|line| line.contains(job) && line.contains(text))
        });
    }

    /// The process of the view, while there is one.
    fn process(&self) -> Option<i32> {
        let is_top = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
            words.len() > 1 && words[0].ends_with(b"outlive") && words[1] == b"top"
        };
        self.home.processes().into_iter().find(is_top)
    }

    fn pid(&self) -> i32 {
        self.process().expect("it runs")
    }

    /// Waits until the shell is back, with the settings that the terminal had.
    pub(super) fn is_restored(&self) {
        // What is typed before is typed at the view.
        until("the view is gone", || self.process().is_none());
        self.tmux.line("one", "stty -g | cmp - before && echo same ''settings");
        self.shows("same settings");
        let modes = self.tmux.modes("one");
        assert!(modes.starts_with("0 1 "), "the main screen, with a cursor: {modes}");
        assert_eq!(modes.split(' ').nth(5), Some("0"), "no mouse: {modes}");
    }
}

/// Starts a job that prints lines and then what it is sent.
pub(super) fn echoing(home: &Home, name: &str) -> String {
    let line = "seq 1 200; while read line; do echo got $line; done";
    let job = home.run(["run", "--name", name, "--stdin", "open", line]).ok().text().trim_end().to_owned();
    home.wait_for_output(&job, "\n200\n");
    job
}

#[test]
fn a_terminal_is_shown_and_attached_to() {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let top = Top::open(&home, (80, 24), "");
    top.shows("screen");
    top.shows("40 120");
    top.press(&["a"]);
    top.shows("24 80");
    top.shows_no("COMMAND");
    top.tmux.line("one", "hello");
    top.shows("got hello");
    top.press(&["C-\\", "d"]);
    top.shows("COMMAND");
    top.shows("screen");
    top.press(&["Enter"]);
    top.shows("screen");
    top.press(&["Tab"]);
    top.shows("follow ──");
    top.press(&["Tab"]);
    top.shows_no("follow ──");
    top.press(&["q"]);
    // Attached, it is ended as a whole.
    top.press(&["a"]);
    top.shows("24 80");
    outlive_tests::signal(top.pid(), "TERM");
    top.is_restored();
    assert_eq!(home.show(&job)["status"], "running");
    home.run(["kill", &job]).ok();

    top.start("");
    top.press(&["a"]);
    top.shows("has ended");
    let pipes = home.start(["sleep", "1000"]);
    top.row_shows(&pipes, "running");
    top.press(&["g", "a"]);
    top.shows("has no terminal");
    top.press(&["q"]);
    top.is_restored();
    home.run(["kill", &pipes]).ok();
}

/// Makes ended jobs from one, as many as are wanted.
fn multiply(home: &Home, job: &str, count: u32) {
    let spec = fs::read_to_string(home.job_dir(job).join("spec.json")).expect("a spec");
    let value: serde_json::Value = serde_json::from_str(&spec).expect("JSON");
    let nonce = value["nonce"].as_str().expect("a nonce");
    for number in 0..count {
        let id = format!("copy-{number:04}");
        let directory = home.job_dir(&id);
        fs::create_dir(&directory).expect("a directory");
        for entry in fs::read_dir(home.job_dir(job)).expect("a job") {
            let entry = entry.expect("a file");
            if entry.file_type().expect("a kind").is_file() {
                fs::copy(entry.path(), directory.join(entry.file_name())).expect("a copy");
            }
        }
        let other = format!("{}{number:04}", &nonce[..nonce.len() - 4]);
        let spec = spec.replace(&format!("\"{job}\""), &format!("\"{id}\"")).replace(nonce, &other);
        fs::write(directory.join("spec.json"), spec).expect("a spec");
    }
}

#[test]
fn a_thousand_jobs_scroll_and_idle_costs_nothing() {
    let home = Home::new();
    let job = home.start(["echo", "printed"]);
    home.wait(&job);
    multiply(&home, &job, 999);
    for size in SIZES {
        let top = Top::open(&home, size, "");
        top.shows("1000 ended");
        // A key for each of half of them, in one go.
        top.text(&"j".repeat(500));
        top.press(&["G", "g", "C-d"]);
        top.press(&["G"]);
        // They ended at the same time, so their ids decide.
        top.chooses(&job);
        top.press(&["/"]);
        top.text("copy-0777");
        top.press(&["Enter"]);
        top.shows("filter \"copy-0777\": 1");
        top.chooses("copy-0777");
        top.shows("printed");
        // Nothing lives, so nothing wakes it.
        let pid = top.pid();
        until("it sleeps", || {
            let before = activity(pid);
            std::thread::sleep(Duration::from_secs(3));
            activity(pid) == before
        });
        top.press(&["Escape"]);
        top.shows("copy-0");
        top.press(&["q"]);
        top.is_restored();
    }
}

#[test]
fn a_flood_leaves_the_keys_in_charge() {
    let home = Home::new();
    for size in SIZES {
        let job = home
            .run(["run", "--name", "flood", "--output-cap", "4M", "yes flooding"])
            .ok()
            .text()
            .trim_end()
            .to_owned();
        home.wait_for_output(&job, "flooding");
        let top = Top::open(&home, size, "");
        top.shows("flooding");
        top.press(&["Enter"]);
        top.shows("follow ──");
        top.press(&["g"]);
        top.shows("lines ");
        top.press(&["/"]);
        top.text("flood");
        top.press(&["Enter"]);
        top.shows("found in line");
        top.press(&["w", "w", "G"]);
        top.shows("follow ──");
        top.press(&["x", "y"]);
        top.shows("killed");
        top.press(&["q", "q"]);
        top.is_restored();
    }
}

#[test]
fn a_window_may_be_resized_closed_and_the_view_killed() {
    let home = Home::new();
    let job = echoing(&home, "stays");
    let top = Top::open(&home, (80, 24), "");
    for (columns, rows) in [("200", "60"), ("40", "10"), ("10", "3"), ("80", "24")] {
        top.tmux.tell(&["resize-window", "-t", "one", "-x", columns, "-y", rows]);
        match columns {
            "10" => top.shows("too small"),
            "40" => top.shows_no("output"),
            _ => top.shows("output"),
        }
    }
    top.press(&["m"]);
    top.shows("mouse on");
    assert_eq!(top.tmux.modes("one").split(' ').nth(5), Some("1"));
    // A click in the third row chooses, the wheel scrolls.
    top.text("\x1b[<0;5;3M\x1b[<65;5;3M");
    top.chooses(&job);
    for signal in ["TERM", "HUP"] {
        outlive_tests::signal(top.pid(), signal);
        top.is_restored();
        top.tmux.line("one", "clear");
        top.start("");
    }
    // Stopped and brought back, it draws all again.
    let pid = top.pid();
    outlive_tests::signal(pid, "STOP");
    top.shows("Stopped");
    top.tmux.line("one", "fg");
    top.shows_no("Stopped");
    top.chooses(&job);
    outlive_tests::signal(pid, "KILL");
    top.shows("Killed");
    top.tmux.outlive("one", "attach --reset; echo it is ''back");
    top.shows("it is back");
    top.start("");
    let pid = top.pid();
    top.tmux.tell(&["kill-session", "-t", "one"]);
    until("it is gone with its window", || !outlive_tests::is_running(pid));
    assert_eq!(home.show(&job)["status"], "running");
    home.run(["kill", &job]).ok();
    top.tmux.tell(&["new-session", "-d", "-s", "one"]);
}

#[test]
fn without_colours_it_says_the_same() {
    let home = Home::new();
    let failed = home.start(["sh", "-c", "printf '\\033[31mred\\033[0m\\n'; exit 3"]);
    home.wait(&failed);
    let tmux = Tmux::open(&home, 80, 24);
    tmux.line("one", "export NO_COLOR=1");
    let top = Top { tmux, home: &home };
    top.start("");
    top.shows("red");
    let screen = top.tmux.tell(&["capture-pane", "-p", "-e", "-t", "one"]);
    let sequences = screen.split("\x1b[").skip(1).filter_map(|rest| rest.split_once('m'));
    let numbers: Vec<u8> = sequences
        .flat_map(|(numbers, _)| numbers.split(';'))
        .filter_map(|number| number.parse().ok())
        .collect();
    assert!(numbers.contains(&7), "the chosen row is reversed: {screen:?}");
    // 39 and 49 are the terminal's own.
    let is_color = |number: &u8| matches!(number, 30..=38 | 40..=48 | 90..=107);
    assert!(!numbers.iter().any(is_color), "{screen:?}");
    top.press(&["q"]);
    top.is_restored();
}

#[test]
fn without_a_terminal_top_is_refused() {
    let home = Home::new();
    let refused = home.run(["top"]).code(2).error();
    assert!(refused.contains("needs a terminal") && refused.contains("outlive list"), "{refused}");
    assert_eq!(home.run(["--json", "top"]).code(2).error_json()["error"]["code"], "usage");
}
