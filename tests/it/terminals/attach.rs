//! A job's terminal in a person's own: two real windows of tmux, of different sizes.
//!
//! What a person sees, types and leaves; the window is afterwards as it was before.

use std::process::Command;

use outlive_tests::{Home, binary, until};

use super::start;

/// A tmux of the test's own, ended with it.
pub(crate) struct Tmux<'a> {
    home: &'a Home,
}

impl<'a> Tmux<'a> {
    /// Opens a window of this size with a shell in it.
    pub(crate) fn open(home: &'a Home, columns: u16, rows: u16) -> Self {
        let tmux = Self { home };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        tmux.tell(&[
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
            "-s",
            "one",
            "bash --norc --noprofile",
        ]);
        tmux.tell(&["set-option", "-g", "remain-on-exit", "on"]);
        tmux.greet("one");
        tmux
    }

    /// Waits until the shell of a window does what is typed.
    fn greet(&self, window: &str) {
        self.line(window, "clear; echo 'the shell ''is there'");
        self.shows(window, "the shell is there");
    }

    pub(crate) fn tell(&self, arguments: &[&str]) -> String {
        let mut command: Command = self.home.command("tmux");
        command.env_remove("TMUX").env("PS1", "$ ").env("TERM", "xterm-256color").env("SHELL", "/bin/bash");
        command.arg("-S").arg(self.home.path().join("tmux")).args(["-f", "/dev/null"]).args(arguments);
        let done = command.output().expect("tmux runs");
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    }

    /// Types a line at the shell.
    pub(crate) fn line(&self, window: &str, line: &str) {
        self.tell(&["send-keys", "-t", window, "-l", line]);
        self.tell(&["send-keys", "-t", window, "Enter"]);
    }

    /// Runs `outlive` at the shell.
    pub(crate) fn outlive(&self, window: &str, arguments: &str) {
        self.line(window, &format!("{} {arguments}", binary("outlive").display()));
    }

    pub(crate) fn screen(&self, window: &str) -> String {
        self.tell(&["capture-pane", "-p", "-t", window])
    }

    pub(crate) fn shows(&self, window: &str, text: &str) {
        until(&format!("{window} shows {text:?}"), || self.screen(window).contains(text));
    }

    /// Returns the modes of the window that a program can have left behind.
    pub(crate) fn modes(&self, window: &str) -> String {
        let modes = "#{alternate_on} #{cursor_flag} #{insert_flag} #{keypad_cursor_flag} #{keypad_flag} #{mouse_any_flag} #{origin_flag} #{wrap_flag}";
        self.tell(&["display-message", "-p", "-t", window, modes])
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
    }
}

/// A program that draws its size, and what is typed. A shell looks at signals between reads, so none of them is long.
pub(super) const ECHOES: &str = "stty -echo; size() { printf '\\033[2J\\033[H'; stty size; }; trap size WINCH; printf '\\033[?1049h\\033[?1h\\033[?1000h\\033[?2004h'; size; while :; do if read -r -t 0.1 part; then echo \"got $line$part\"; line=; else line+=$part; fi; done";

#[test]
fn a_person_sees_types_and_leaves() {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open(&home, 80, 20);
    let before = tmux.modes("one");
    tmux.line("one", "stty -g > before");
    tmux.outlive("one", &format!("attach {job}"));
    tmux.shows("one", "20 80");
    assert_ne!(tmux.modes("one"), before, "the program's modes are the window's");
    tmux.line("one", "hello");
    tmux.shows("one", "got hello");
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "?"]);
    tmux.shows("one", "d: detach");
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "d"]);
    tmux.shows("one", "goes on: outlive attach");
    assert_eq!(tmux.modes("one"), before);
    tmux.line("one", "stty -g | cmp - before && echo same settings");
    tmux.shows("one", "same settings");
    until("the job has its own size again", || home.json(["screen", &job])["size"] == "120x40");
    home.run(["kill", &job]).ok();
}

#[test]
fn two_look_and_the_one_that_types_leads() {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open(&home, 80, 20);
    tmux.tell(&["new-session", "-d", "-x", "50", "-y", "12", "-s", "two", "bash --norc --noprofile"]);
    tmux.greet("two");
    tmux.outlive("one", &format!("attach {job}"));
    tmux.shows("one", "20 80");
    tmux.outlive("two", &format!("attach {job}"));
    tmux.shows("two", "12 50");
    tmux.line("one", "from the first");
    tmux.shows("one", "20 80");
    tmux.shows("two", "got from the first");
    tmux.line("two", "from the second");
    tmux.shows("one", "got from the second");
    tmux.shows("one", "12 50");
    // The last one who can still be seen leads when the other is gone, however it went.
    tmux.tell(&["kill-session", "-t", "two"]);
    tmux.shows("one", "20 80");
    home.run(["kill", &job]).ok();
    tmux.shows("one", "killed");
}

#[test]
fn who_only_looks_neither_types_nor_sizes() {
    let home = Home::new();
    let job = start(&home, &["--size", "60x10"], ECHOES);
    home.wait_for_output(&job, "10 60");
    let tmux = Tmux::open(&home, 80, 20);
    tmux.outlive("one", &format!("attach --view {job}"));
    tmux.shows("one", "10 60");
    tmux.line("one", "unheard");
    home.run(["send", &job, "heard"]).ok();
    tmux.shows("one", "got heard");
    assert!(!tmux.screen("one").contains("unheard"));
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "d"]);
    tmux.shows("one", "goes on");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_viewer_that_is_ended_leaves_the_window_as_it_was() {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open(&home, 80, 20);
    let before = tmux.modes("one");
    for signal in ["TERM", "HUP"] {
        tmux.tell(&["send-keys", "-t", "one", "clear", "Enter"]);
        tmux.outlive("one", &format!("attach {job} & wait $!"));
        // In the background it may not read: the shell brings it to the front.
        tmux.line("one", "fg");
        tmux.shows("one", "20 80");
        let viewers = home.processes().into_iter().filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("attach")
        });
        for viewer in viewers {
            outlive_tests::signal(viewer, signal);
        }
        tmux.shows("one", "goes on");
        assert_eq!(tmux.modes("one"), before, "{signal}");
    }
    assert_eq!(home.show(&job)["status"], "running");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_job_that_is_run_and_waited_for_is_in_the_window() {
    let home = Home::new();
    let tmux = Tmux::open(&home, 80, 20);
    tmux.outlive(
        "one",
        "run -t --wait 'stty size; read -p \"name? \" name; echo hello $name; exit 5'; echo code $?",
    );
    tmux.shows("one", "\nname?");
    tmux.line("one", "world");
    tmux.shows("one", "code 5");
    let screen = tmux.screen("one");
    assert!(screen.contains("20 80") && screen.contains("hello world"), "{screen}");
}

#[test]
fn a_job_is_opened_in_a_window_of_tmux() {
    let home = Home::new();
    let job = start(&home, &["--name", "shown"], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open(&home, 80, 20);
    tmux.outlive("one", &format!("attach --tmux {job}"));
    until("there is a window", || tmux.tell(&["list-windows", "-t", "one"]).contains("shown"));
    tmux.shows("one:shown", "20 80");
    tmux.line("one:shown", "hello");
    tmux.shows("one:shown", "got hello");
    home.run(["kill", &job]).ok();
    let mut without = home.outlive(["attach", "--tmux", &job]);
    without.env("PATH", "/nonexistent");
    let refused = outlive_tests::finish(without, b"").code(1).error();
    assert!(refused.contains("tmux is not installed"), "{refused}");
}

#[test]
fn without_a_terminal_it_is_refused() {
    let home = Home::new();
    let job = start(&home, &[], "read line");
    let refused = home.run(["attach", &job]).code(2).error();
    assert!(refused.contains("needs a terminal") && refused.contains("outlive screen"), "{refused}");
    home.run(["kill", &job]).ok();
    let pipes = home.start(["true"]);
    home.wait(&pipes);
    assert_eq!(home.run(["--json", "attach", &pipes]).code(1).error_json()["error"]["code"], "no_terminal");
}
