//! A job's terminal in a person's own: two real windows of tmux, of different sizes.
//!
//! What a person sees, types and leaves; the window is afterwards as it was before.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::{Followed, Follower, Piece, Sizing, TerminalSize};
use outlive_tests::{Home, LIMIT, binary, is_running, until, until_seen};

use super::keys::{SHOWS_BYTES, wait_for_bytes};
use super::start;

/// A tmux of the test's own, ended with it.
pub(crate) struct Tmux<'a> {
    home: &'a Home,
    /// Of its own: a server that was told to go is still there for a moment.
    socket: PathBuf,
    /// What was typed last: the terminal shows it too, before anything comes of it.
    typed: RefCell<String>,
}

impl<'a> Tmux<'a> {
    /// Opens a window of this size with bash in it.
    pub(crate) fn open(home: &'a Home, columns: u16, rows: u16) -> Self {
        Self::open_with(home, columns, rows, "bash --norc --noprofile")
    }

    /// Opens a window of this size with a shell in it.
    fn open_with(home: &'a Home, columns: u16, rows: u16, shell: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let socket = home.path().join(format!("tmux-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let tmux = Self { home, socket, typed: RefCell::default() };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        tmux.tell(&["new-session", "-d", "-x", &columns, "-y", &rows, "-s", "one", shell]);
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
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(arguments);
        let done = command.output().expect("tmux runs");
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    }

    /// Types a line at the shell.
    pub(crate) fn line(&self, window: &str, line: &str) {
        self.typed.replace(line.to_owned());
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

    /// Waits until a window shows what is not in the line that was typed last.
    pub(crate) fn shows(&self, window: &str, text: &str) {
        let typed = self.typed.borrow();
        assert!(
            !typed.contains(text),
            "{text:?} is shown as soon as {typed:?} is typed: wait for something else"
        );
        let what = format!("{window} shows {text:?}");
        until_seen(&what, || self.screen(window), |screen| screen.contains(text));
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

/// A program that draws its size, and what is typed. A shell looks at signals between reads, so none of them is long; a line that one
/// of them has read a part of is put together, with the blanks at the cut.
pub(super) const ECHOES: &str = "stty -echo; size() { printf '\\033[2J\\033[H'; stty size; }; trap size WINCH; printf '\\033[?1049h\\033[?1h\\033[?1000h\\033[?2004h'; size; while :; do if IFS= read -r -t 0.1 part; then echo \"got $line$part\"; line=; else line+=$part; fi; done";

#[test]
fn a_person_sees_types_and_leaves() {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open(&home, 80, 20);
    let before = tmux.modes("one");
    tmux.line("one", "stty -g > before");
    tmux.outlive("one", &format!("attach {job}"));
    tmux.shows("one", "C-\\ d leaves it");
    tmux.shows("one", "20 80");
    assert_ne!(tmux.modes("one"), before, "the program's modes are the window's");
    tmux.line("one", "hello");
    tmux.shows("one", "got hello");
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "?"]);
    tmux.shows("one", "d: detach");
    // It is a menu until a key has come: one that is not in it leaves it, and is not the job's.
    tmux.tell(&["send-keys", "-t", "one", "Escape"]);
    until("the menu is gone", || !tmux.screen("one").contains("d: detach"));
    tmux.line("one", "again");
    tmux.shows("one", "got again");
    // The prefix waits for its key as long as it takes, and says after a moment what there is: passed on, it would end the job.
    tmux.tell(&["send-keys", "-t", "one", "C-\\"]);
    tmux.shows("one", "d: detach");
    assert_eq!(home.show(&job)["status"], "running");
    tmux.tell(&["send-keys", "-t", "one", "d"]);
    tmux.shows("one", "goes on: outlive attach");
    assert_eq!(tmux.modes("one"), before);
    tmux.line("one", "stty -g | cmp - before && echo same ''settings");
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

/// A program that were given the key first would draw the answer, and then, for the size, clear its screen: the answer would be gone.
#[test]
fn a_key_is_read_at_the_size_of_the_window_where_it_is_typed() {
    let home = Home::new();
    let tells = "import os, tty\ntty.setraw(0)\nos.write(1, b'.')\nwhile True:\n    os.read(0, 1)\n    os.write(1, b'%dx%d.' % os.get_terminal_size(0))";
    let job = home.start_with(&["--pty"], ["python3", "-c", tells]);
    let store = home.open();
    let job = store.find(&job, None).unwrap();
    let mut follower = Follower::new(&store, &job, 0).unwrap();
    let mut read = || {
        let mut text = Vec::new();
        while text.last() != Some(&b'.') {
            match follower.next(Some(LIMIT)).unwrap() {
                Followed::Piece(Piece::Output { bytes, .. }) => text.extend(bytes),
                other => panic!("{other:?} after {text:?}"),
            }
        }
        String::from_utf8(text).unwrap()
    };
    assert_eq!(read(), ".");
    let mut viewers = [(80, 20), (50, 12)]
        .map(|(columns, rows)| store.view(&job, TerminalSize::new(columns, rows), Sizing::Latest).unwrap());
    for turn in 0..200 {
        let (viewer, size) = (&mut viewers[turn % 2], ["80x20.", "50x12."][turn % 2]);
        viewer.keys(b"k").unwrap();
        assert_eq!(read(), size, "turn {turn}");
    }
    drop(viewers);
    home.run(["kill", job.id().as_str()]).ok();
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
fn a_window_that_keeps_the_size_can_be_fitted() {
    let home = Home::new();
    let job = start(&home, &["--size", "60x10"], ECHOES);
    home.wait_for_output(&job, "10 60");
    let tmux = Tmux::open(&home, 80, 20);
    tmux.outlive("one", &format!("attach --size fixed {job}"));
    tmux.shows("one", "10 60");
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "f"]);
    tmux.shows("one", "20 80");
    // All the keys are told in a narrow window, too.
    tmux.tell(&["resize-window", "-t", "one", "-x", "50", "-y", "12"]);
    tmux.shows("one", "12 50");
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "?"]);
    tmux.shows("one", "f: fit  prefix: itself");
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "d"]);
    tmux.shows("one", "goes on");
    until("the job has its own size again", || home.json(["screen", &job])["size"] == "60x10");
    home.run(["kill", &job]).ok();
}

#[test]
fn the_smallest_window_of_all_can_set_the_size() {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open(&home, 80, 12);
    tmux.tell(&["new-session", "-d", "-x", "50", "-y", "20", "-s", "two", "bash --norc --noprofile"]);
    tmux.greet("two");
    tmux.outlive("one", &format!("attach --size smallest {job}"));
    tmux.shows("one", "12 80");
    tmux.outlive("two", &format!("attach --size smallest {job}"));
    // The columns of the one and the rows of the other, whichever is typed in.
    tmux.shows("two", "12 50");
    for window in ["one", "two"] {
        tmux.line(window, &format!("from {window}"));
        tmux.shows("one", &format!("got from {window}"));
        assert_eq!(home.json(["screen", &job])["size"], "50x12");
    }
    tmux.tell(&["resize-window", "-t", "one", "-x", "40", "-y", "15"]);
    tmux.shows("two", "15 40");
    // The window that is left is the smallest, and then the job has its own size.
    tmux.tell(&["kill-session", "-t", "two"]);
    until("the other is gone", || viewers(&home).len() == 1);
    tmux.tell(&["resize-window", "-t", "one", "-x", "90", "-y", "25"]);
    tmux.shows("one", "25 90");
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "d"]);
    tmux.shows("one", "goes on");
    until("the job has its own size again", || home.json(["screen", &job])["size"] == "120x40");
    home.run(["kill", &job]).ok();
}

/// Types these bytes as they are, as a terminal with extended keys sends them.
fn types(tmux: &Tmux<'_>, window: &str, bytes: &str) {
    let digits: Vec<String> = bytes.bytes().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.iter().map(String::as_str);
    tmux.tell(&["send-keys", "-t", window, "-H"].into_iter().chain(digits).collect::<Vec<_>>());
}

/// The forms of terminals with extended keys: kitty's, with and without events of keys that are let go, and that of xterm.
#[test]
fn the_prefix_is_known_in_the_forms_of_extended_keys() {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open(&home, 80, 20);
    for (prefix, typed) in [
        ("C-\\", "\x1b[92;5ud"),
        ("C-\\", "\x1b[27;5;92~d"),
        ("C-\\", "\x1b[92;5:1u\x1b[92;5:3ud"),
        ("C-\\", "\x1b[57442;5u\x1b[92;5u\x1b[92;5:3u\x1b[57442;1:3u\x1b[100u"),
        ("C-a", "\x1b[97;5ud"),
    ] {
        tmux.line("one", "clear");
        tmux.outlive("one", &format!("attach {job} --prefix '{prefix}'"));
        tmux.shows("one", "20 80");
        types(&tmux, "one", typed);
        tmux.shows("one", "goes on");
        until("there is no viewer", || viewers(&home).is_empty());
    }
    // What is no prefix reaches the program as it was typed; what comes after one and means nothing does not, and neither does the
    // prefix: alone it may be a key that ends the program. The next key is for the menu that is then shown.
    let other = start(&home, &[], SHOWS_BYTES);
    home.wait_for_output(&other, "ready");
    tmux.line("one", "clear");
    tmux.outlive("one", &format!("attach {other}"));
    tmux.shows("one", "ready");
    types(&tmux, "one", "\x1b[92;6u\x1b[92;5u\x1b[92;5u\x1b[92;5uqxz");
    wait_for_bytes(&home, &other, b"\x1b[92;6u\x1b[92;5uz");
    home.run(["kill", &job, &other]).ok();
}

/// Moving the mouse over a window, or choosing the window, is not typing in it; a click is.
#[test]
fn the_mouse_and_the_focus_take_no_lead() {
    let home = Home::new();
    let job = start(&home, &[], SHOWS_BYTES);
    home.wait_for_output(&job, "ready");
    let has_size = |size: &str| home.json(["screen", &job])["size"] == size;
    let tmux = Tmux::open(&home, 80, 20);
    tmux.tell(&["new-session", "-d", "-x", "50", "-y", "12", "-s", "two", "bash --norc --noprofile"]);
    tmux.greet("two");
    for (window, size) in [("one", "80x20"), ("two", "50x12")] {
        tmux.outlive(window, &format!("attach {job}"));
        until("the new window leads", || has_size(size));
    }
    let reports = "\x1b[I\x1b[MC!!\x1b[<35;10;5M\x1b[O\x1b[97;1:3u";
    types(&tmux, "one", reports);
    wait_for_bytes(&home, &job, reports.as_bytes());
    assert!(has_size("50x12"));
    types(&tmux, "one", "\x1b[<0;10;5M");
    until("the window that is clicked in leads", || has_size("80x20"));
    home.run(["kill", &job]).ok();
}

/// The program draws in two corners, and goes from one to the other at each line. Styles and the title come back with the screen.
#[test]
fn a_small_window_follows_the_cursor_and_a_large_one_shows_all() {
    let home = Home::new();
    let draws = "stty -echo; printf '\\033]2;corners\\007\\033[2J'; while :; do printf '\\033[40;90H\\033[31mfar corner\\033[0m'; read -r line; printf '\\033[1;1Hnear corner'; read -r line; done";
    let job = start(&home, &["--size", "100x40"], draws);
    home.wait_for_output(&job, "far corner");
    let tmux = Tmux::open(&home, 120, 50);
    tmux.tell(&["new-session", "-d", "-x", "50", "-y", "12", "-s", "two", "bash --norc --noprofile"]);
    tmux.greet("two");
    for window in ["one", "two"] {
        tmux.outlive(window, &format!("attach --size fixed {job}"));
        tmux.shows(window, "far corner");
    }
    tmux.line("two", "");
    tmux.shows("two", "near corner");
    assert!(!tmux.screen("two").contains("far corner"), "{}", tmux.screen("two"));
    tmux.shows("one", "near corner");
    // The window without the job around it is left empty.
    let rows: Vec<String> = tmux.screen("one").lines().map(str::to_owned).collect();
    assert!(rows[39].ends_with("far corner") && rows[40..].iter().all(String::is_empty), "{rows:#?}");
    // What is left and attached to again is as it was, with its styles; a window that is closed leaves the other one alone.
    tmux.tell(&["kill-session", "-t", "two"]);
    until("one viewer is left", || viewers(&home).len() == 1);
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "d"]);
    tmux.shows("one", "goes on");
    tmux.line("one", "clear");
    tmux.outlive("one", &format!("attach {job}"));
    tmux.shows("one", "near corner");
    let styled = tmux.tell(&["capture-pane", "-p", "-e", "-t", "one"]);
    assert!(styled.contains("\x1b[31mfar corner"), "{styled:?}");
    assert_eq!(tmux.tell(&["display-message", "-p", "-t", "one", "#{pane_title}"]), "corners\n");
    assert_eq!(home.json(["screen", &job])["size"], "120x50", "the one window leads");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_window_that_is_resized_resizes_the_job() {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open(&home, 80, 20);
    tmux.outlive("one", &format!("attach {job}"));
    tmux.shows("one", "20 80");
    for (columns, rows) in [("70", "15"), ("90", "30"), ("30", "5")] {
        tmux.tell(&["resize-window", "-t", "one", "-x", columns, "-y", rows]);
        tmux.shows("one", &format!("{rows} {columns}"));
    }
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "d"]);
    tmux.shows("one", "goes on");
    home.run(["kill", &job]).ok();
}

/// Both windows are of one tmux, which makes a buffer of all that is copied.
#[test]
fn what_is_copied_comes_to_the_window_that_leads() {
    let home = Home::new();
    let copies = "while read -r text; do printf '\\033]52;c;?\\007\\033]52;c;%s\\007copied\\r\\n' \"$(printf %s \"$text\" | base64)\"; done";
    let job = start(&home, &[], copies);
    let tmux = Tmux::open(&home, 80, 20);
    tmux.tell(&["set-option", "-s", "set-clipboard", "on"]);
    tmux.tell(&["new-session", "-d", "-x", "50", "-y", "12", "-s", "two", "bash --norc --noprofile"]);
    tmux.greet("two");
    for window in ["one", "two"] {
        tmux.outlive(window, &format!("attach {job}"));
    }
    until("both look", || viewers(&home).len() == 2);
    let buffers = || tmux.tell(&["list-buffers", "-F", "#{buffer_sample}"]);
    tmux.line("one", "from the first");
    until("it is copied", || buffers() == "from the first\n");
    tmux.line("two", "from the second");
    until("it is copied once", || buffers() == "from the second\nfrom the first\n");
    // Later viewers see that it was copied, and copy nothing.
    kill_viewers(&home);
    tmux.tell(&["new-session", "-d", "-x", "60", "-y", "15", "-s", "three", "bash --norc --noprofile"]);
    tmux.greet("three");
    tmux.outlive("three", &format!("attach {job}"));
    tmux.shows("three", "copied");
    tmux.line("three", "from the third");
    until("it is copied", || buffers().starts_with("from the third\n"));
    assert_eq!(buffers().lines().count(), 3, "{}", buffers());
    let printed = String::from_utf8(home.logs(&job)).unwrap();
    assert!(!printed.contains("^[]52"), "no clipboard was read: {printed:?}");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_viewer_that_is_ended_leaves_the_window_as_it_was() {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open(&home, 80, 20);
    let before = tmux.modes("one");
    tmux.line("one", "stty -g > before");
    for signal in ["TERM", "HUP"] {
        tmux.tell(&["send-keys", "-t", "one", "clear", "Enter"]);
        tmux.outlive("one", &format!("attach {job} & wait $!"));
        // In the background it may not read: the shell brings it to the front.
        tmux.line("one", "fg");
        tmux.shows("one", "20 80");
        viewers(&home).into_iter().for_each(|viewer| outlive_tests::signal(viewer, signal));
        tmux.shows("one", "goes on");
        assert_eq!(tmux.modes("one"), before, "{signal}");
        tmux.line("one", &format!("stty -g | cmp - before && echo same after {signal}"));
        tmux.shows("one", &format!("\nsame after {signal}"));
    }
    assert_eq!(home.show(&job)["status"], "running");
    home.run(["kill", &job]).ok();
}

/// A killed viewer leaves the window as it was last. Bash sets its own terminal right; this shell leaves it raw. `mends` is given the
/// job, and what is typed at the shell.
fn after_a_kill(mends: impl Fn(&Tmux<'_>, &str, &dyn Fn(&str))) {
    let home = Home::new();
    let job = start(&home, &[], ECHOES);
    home.wait_for_output(&job, "40 120");
    let tmux = Tmux::open_with(&home, 80, 20, "sh");
    let before = tmux.modes("one");
    tmux.line("one", "stty -g > before; echo it is $?");
    tmux.shows("one", "it is 0");
    tmux.outlive("one", &format!("attach {job}"));
    tmux.shows("one", "20 80");
    kill_viewers(&home);
    tmux.shows("one", "Killed");
    assert_ne!(tmux.modes("one"), before, "nothing has set it right");
    mends(&tmux, &job, &|arguments| {
        // Enter is no end of a line in a raw terminal.
        let line = format!("{} {arguments}", binary("outlive").display());
        tmux.tell(&["send-keys", "-t", "one", "-l", &line]);
        tmux.tell(&["send-keys", "-t", "one", "C-j"]);
    });
    until("the window is as it was", || tmux.modes("one") == before);
    // One that goes throws away what is typed meanwhile.
    until("there is no viewer", || viewers(&home).is_empty());
    tmux.line("one", "stty -g | cmp - before && echo same ''settings");
    tmux.shows("one", "\nsame settings");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_window_is_reset_after_its_viewer_was_killed() {
    after_a_kill(|_, _, run| run("attach --reset"));
}

#[test]
fn the_next_viewer_mends_a_window_whose_viewer_was_killed() {
    after_a_kill(|tmux, job, run| {
        run(&format!("attach {job}"));
        until("there is a viewer", || !viewers(tmux.home).is_empty());
        tmux.line("one", "again");
        tmux.shows("one", "got again");
        tmux.tell(&["send-keys", "-t", "one", "C-\\", "d"]);
        tmux.shows("one", "goes on");
    });
}

/// Lists the viewers of a home.
pub(super) fn viewers(home: &Home) -> Vec<i32> {
    let is_viewer = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).nth(1) == Some(b"attach")
    };
    home.processes().into_iter().filter(is_viewer).collect()
}

/// Kills the viewers of a home, which has some.
pub(super) fn kill_viewers(home: &Home) {
    let viewers = viewers(home);
    assert!(!viewers.is_empty(), "there is a viewer");
    viewers.iter().for_each(|&viewer| outlive_tests::signal(viewer, "KILL"));
    until("they are gone", || !viewers.iter().any(|&viewer| is_running(viewer)));
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

/// A job that is left has not ended: what stands behind `&&` is not for now.
#[test]
fn a_job_that_is_waited_for_and_left_is_no_success() {
    let home = Home::new();
    let tmux = Tmux::open(&home, 80, 20);
    tmux.outlive("one", "run --name left -t --wait 'echo \"u\"p; read line' && echo it was ''successful");
    tmux.shows("one", "up\n");
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "?"]);
    tmux.shows("one", "d: detach");
    tmux.tell(&["send-keys", "-t", "one", "d"]);
    tmux.shows("one", "goes on: outlive attach");
    tmux.line("one", "echo code $?");
    tmux.shows("one", "code 4");
    assert!(!tmux.screen("one").contains("it was successful"), "{}", tmux.screen("one"));
    assert_eq!(home.show("left")["status"], "running");
    tmux.line("one", "clear");
    until("the shell is empty", || !tmux.screen("one").contains("goes on"));
    tmux.outlive("one", "attach left");
    tmux.shows("one", "C-\\ d leaves it");
    // After a key that does nothing, too.
    tmux.tell(&["send-keys", "-t", "one", "C-\\", "x"]);
    tmux.shows("one", "d: detach");
    tmux.tell(&["send-keys", "-t", "one", "d"]);
    tmux.shows("one", "goes on: outlive attach");
    tmux.line("one", "echo code $?");
    tmux.shows("one", "code 0");
    home.run(["kill", "left"]).ok();
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
