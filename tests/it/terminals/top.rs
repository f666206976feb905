//! `outlive top` in a real window of tmux: what it shows, every key, and how it is left.
//!
//! Quitting it, closing its window or killing it ends no job, and the window is afterwards as it was before.

use std::fs;
use std::time::{Duration, Instant};

use outlive_tests::{Home, LIMIT, activity, until};

use super::attach::{ECHOES, Tmux};
use super::start;

/// The view in a window.
struct Top<'a> {
    tmux: Tmux<'a>,
    home: &'a Home,
}

impl<'a> Top<'a> {
    fn open(home: &'a Home, size: (u16, u16), arguments: &str) -> Self {
        let tmux = Tmux::open(home, size.0, size.1);
        tmux.tell(&["set-option", "-g", "set-clipboard", "on"]);
        let top = Self { tmux, home };
        top.start(arguments);
        top
    }

    fn start(&self, arguments: &str) {
        self.tmux.line("one", "stty -g > before");
        self.tmux.outlive("one", &format!("top {arguments}"));
        self.shows(" live");
    }

    /// Types keys, by the names that tmux has for them.
    fn press(&self, keys: &[&str]) {
        self.tmux.tell(&[&["send-keys", "-t", "one"], keys].concat());
    }

    /// Types text as it is.
    fn text(&self, text: &str) {
        self.tmux.tell(&["send-keys", "-t", "one", "-l", text]);
    }

    fn screen(&self) -> String {
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

    fn shows(&self, text: &str) {
        self.sees(&format!("{text:?}"), &[], |screen| screen.contains(text));
    }

    fn shows_no(&self, text: &str) {
        self.sees(&format!("itself without {text:?}"), &[], |screen| !screen.contains(text));
    }

    /// Waits until the chosen row, which is the only one with a background, is of this job.
    fn chooses(&self, job: &str) {
        self.sees(&format!("{job} as chosen"), &["-e"], |screen| {
            screen.lines().any(|line| line.contains("\x1b[46m") && line.contains(job))
        });
    }

    /// Waits until the row of a job has this text.
    fn row_shows(&self, job: &str, text: &str) {
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
    fn is_restored(&self) {
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
fn echoing(home: &Home, name: &str) -> String {
    let line = "seq 1 200; while read line; do echo got $line; done";
    let job = home.run(["run", "--name", name, "--stdin", "open", line]).ok().text().trim_end().to_owned();
    home.wait_for_output(&job, "\n200\n");
    job
}

#[test]
fn jobs_are_listed_live_and_keys_move_between_them() {
    for size in [(80, 24), (200, 60)] {
        let home = Home::new();
        let failed = home.start(["sh", "-c", "echo broken >&2; exit 3"]);
        home.wait(&failed);
        let port = "python3 -c 'import socket,time; s=socket.create_server((\"127.0.0.1\",0)); print(s.getsockname()[1],flush=True); time.sleep(1000)'";
        let server = home.run(["run", "--name", "server", port]).ok().text().trim_end().to_owned();
        home.wait_for_output(&server, "\n");
        let number = String::from_utf8(home.logs(&server)).expect("text").trim().to_owned();
        let top = Top::open(&home, size, "");
        top.shows("1 live");
        top.shows("1 ended");
        for text in ["JOB", "STATUS", "TIME", "CPU", "MEMORY", "PORTS", "COMMAND"] {
            assert!(top.screen().contains(text), "{}", top.screen());
        }
        top.row_shows(&failed, "failed: 3");
        top.row_shows(&server, "running");
        top.row_shows(&server, &number);
        top.row_shows(&server, "0%");
        top.chooses(&server);
        for (keys, chosen) in [
            (&["j"][..], &failed),
            (&["k"], &server),
            (&["Down"], &failed),
            (&["Up"], &server),
            (&["G"], &failed),
            (&["g"], &server),
            (&["End"], &failed),
            (&["Home"], &server),
            (&["C-d"], &failed),
            (&["C-u"], &server),
            (&["NPage"], &failed),
            (&["PPage"], &server),
        ] {
            top.press(keys);
            top.chooses(chosen);
        }
        // What was printed is below the list.
        top.press(&["j"]);
        top.shows("broken");

        let later = home.start(["sleep", "1000"]);
        top.row_shows(&later, "running");
        top.shows("2 live");
        // The list is another, and the chosen job the same.
        top.chooses(&failed);
        home.run(["kill", &later]).ok();
        top.row_shows(&later, "killed");
        home.run(["remove", &later]).ok();
        top.shows_no(&later);

        top.press(&["?"]);
        top.shows("jobs go on");
        top.press(&["Escape"]);
        top.shows_no("jobs go on");
        assert!(top.screen().lines().all(|line| line.chars().count() <= usize::from(size.0)));
        top.press(&["q"]);
        top.is_restored();
        assert_eq!(home.show(&server)["status"], "running", "leaving ends no job");
        home.run(["kill", &server]).ok();
    }
}

#[test]
fn output_is_followed_searched_and_copied() {
    let home = Home::new();
    let job = echoing(&home, "echo");
    let top = Top::open(&home, (80, 24), "");
    top.shows("200");
    top.press(&["Enter"]);
    top.shows("follow ──");
    top.shows("\n 182\n");
    home.run(["send", &job, "hello"]).ok();
    top.shows("got hello");

    top.press(&["g"]);
    top.shows("lines 1");
    top.shows("\n 1\n 2\n");
    top.press(&["j", "j"]);
    top.shows_no("\n 2\n");
    top.press(&["k"]);
    top.shows("\n 2\n");
    top.press(&["C-d", "Space", "PPage", "C-u"]);
    top.shows("lines");
    top.press(&["f"]);
    top.shows("follow ──");
    top.press(&["f"]);
    top.shows("lines ");
    home.run(["send", &job, "unseen"]).ok();
    home.wait_for_output(&job, "got unseen");
    top.press(&["k"]);
    assert!(!top.screen().contains("got unseen"), "{}", top.screen());
    top.press(&["G"]);
    top.shows("got unseen");

    top.press(&["/"]);
    top.text("^15");
    top.shows("find: ^15");
    top.press(&["Enter"]);
    top.shows("found in line 159");
    top.press(&["N"]);
    top.shows("found in line 158");
    top.press(&["n"]);
    top.shows("found in line 159");
    top.press(&["n"]);
    top.shows("no match after");
    top.press(&["/"]);
    top.text("nowhere(");
    top.press(&["Enter"]);
    top.shows("is no regular expression");
    top.press(&["/"]);
    top.text("nowhere");
    top.press(&["Enter"]);
    top.shows("is not in the output");
    top.press(&["Escape"]);

    // Selected lines are copied by the terminal.
    top.press(&["G", "v", "k", "y"]);
    top.shows("copied 2 lines");
    until("they are copied", || top.tmux.tell(&["show-buffer"]) == "got hello\ngot unseen\n");
    top.press(&["g", "v", "j", "j", "y"]);
    top.shows("copied");
    top.press(&["v"]);
    top.shows("select");
    top.press(&["Escape"]);
    top.press(&["y"]);
    top.shows("copied 20 lines");

    let long = format!("{}END", "x".repeat(90));
    home.run(["send", &job, &long]).ok();
    top.press(&["G"]);
    top.shows("got xxx");
    assert!(!top.screen().contains("END"));
    top.press(&["w"]);
    top.shows("END");
    top.press(&["w"]);
    top.shows_no("END");
    top.press(&["Right", "Right", "Right"]);
    top.shows("END");
    top.press(&["Left", "Left", "Left"]);
    top.shows_no("END");

    top.press(&["q"]);
    top.shows("JOB");
    top.press(&["y"]);
    top.shows(&format!("copied {job}"));
    until("the id is copied", || top.tmux.tell(&["show-buffer"]) == job);
    home.run(["kill", &job]).ok();
    home.run(["remove", &job]).ok();
    top.shows("no jobs");
    top.press(&["Enter", "a", "x", "p", "Space", "y", "Tab", "q"]);
    top.is_restored();
}

#[test]
fn jobs_are_paused_killed_and_marked() {
    let home = Home::new();
    let jobs: Vec<String> = ["first", "second", "third"].map(|name| echoing(&home, name)).into();
    let status = |job: &String| home.show(job)["status"].as_str().unwrap_or_default().to_owned();
    let top = Top::open(&home, (80, 24), "");
    top.chooses(&jobs[2]);
    top.press(&["p"]);
    top.row_shows(&jobs[2], "running, paus");
    top.shows("paused");
    top.press(&["p"]);
    top.shows("goes on");

    // It asks once; any other key is no.
    top.press(&["x"]);
    top.shows(&format!("kill {}?", jobs[2]));
    top.press(&["n"]);
    top.shows_no("kill third");
    assert_eq!(status(&jobs[2]), "running");
    top.press(&["x", "y"]);
    top.row_shows(&jobs[2], "killed");
    top.shows("ended, 1 process");
    assert_eq!(home.show(&jobs[2])["cause"], "kill");

    // Keys that are pasted do nothing.
    top.press(&["g"]);
    top.text("\x1b[200~xy\x1b[201~");
    top.press(&["?"]);
    top.shows("jobs go on");
    top.press(&["Escape", "g", "Space", "Space"]);
    top.shows("2 marked");
    top.press(&["Escape"]);
    top.shows_no("marked");
    top.press(&["g", "Space", "Space", "X"]);
    top.shows("kill 2 jobs");
    top.press(&["y"]);
    for job in &jobs[..2] {
        top.row_shows(job, "killed");
    }
    assert_eq!(home.show(&jobs[0])["signal"], "SIGKILL", "at once");
    top.press(&["x"]);
    top.shows("nothing of it runs any more");

    top.press(&["/"]);
    top.text("SEC");
    top.shows_no(&jobs[0]);
    top.press(&["Enter"]);
    top.shows("filter \"SEC\": 1");
    top.chooses(&jobs[1]);
    top.press(&["/", "C-u"]);
    top.text("zzz");
    top.shows("no job matches");
    top.press(&["Escape"]);
    top.shows(&jobs[0]);
    top.press(&["q"]);
    top.is_restored();
    top.start("third");
    top.shows("filter \"third\": 1");
    top.press(&["C-c"]);
    top.is_restored();
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
    let top = Top::open(&home, (80, 24), "");
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

#[test]
fn a_flood_leaves_the_keys_in_charge() {
    let home = Home::new();
    let job = home
        .run(["run", "--name", "flood", "--output-cap", "4M", "yes flooding"])
        .ok()
        .text()
        .trim_end()
        .to_owned();
    home.wait_for_output(&job, "flooding");
    let top = Top::open(&home, (80, 24), "");
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
