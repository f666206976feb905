//! Every key of `outlive top`, in real windows of tmux: one that is small, and one that is large.
//!
//! A key does the same in both, and what it does is seen in the window and in the store.

use std::fs;

use outlive_tests::{Home, until};

use super::top::{SIZES, Top, echoing};

#[test]
fn jobs_are_listed_live_and_keys_move_between_them() {
    for size in SIZES {
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
            (&["C-f"], &failed),
            (&["C-b"], &server),
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

        // Another program writes to the terminal; all is drawn again.
        let terminal = top.tmux.tell(&["display-message", "-p", "-t", "one", "#{pane_tty}"]);
        fs::write(terminal.trim_end(), "\x1b[2;2Hspoiled").expect("the terminal is written to");
        top.shows("spoiled");
        top.press(&["C-l"]);
        top.shows_no("spoiled");

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
    for size in SIZES {
        let home = Home::new();
        let job = echoing(&home, "echo");
        let top = Top::open(&home, size, "");
        top.shows("200");
        top.press(&["l"]);
        top.shows("follow ──");
        top.press(&["Enter"]);
        top.shows("COMMAND");
        top.press(&["Enter"]);
        top.shows("follow ──");
        top.shows(&format!("\n {}\n", 206 - size.1));
        home.run(["send", &job, "hello"]).ok();
        top.shows("got hello");

        top.press(&["g"]);
        top.shows("lines 1");
        top.shows("\n 1\n 2\n");
        top.press(&["j", "j"]);
        top.shows_no("\n 2\n");
        top.press(&["k"]);
        top.shows("\n 2\n");
        for (keys, first) in [(["C-d", "C-u"], "2"), (["Space", "PPage"], "2"), (["C-f", "C-b"], "2")] {
            top.press(&keys[..1]);
            top.shows_no(&format!("\n {first}\n"));
            top.press(&keys[1..]);
            top.shows(&format!("\n {first}\n"));
        }
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
        top.shows(&format!("copied {} lines", size.1 - 4));

        let long = format!("{}END", "x".repeat(usize::from(size.0) + 10));
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
}

#[test]
fn jobs_are_paused_killed_and_marked() {
    for size in SIZES {
        let home = Home::new();
        let jobs: Vec<String> = ["first", "second", "third"].map(|name| echoing(&home, name)).into();
        let status = |job: &String| home.show(job)["status"].as_str().unwrap_or_default().to_owned();
        let top = Top::open(&home, size, "");
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

        // What has ended is started again, after asking.
        top.press(&["G", "r"]);
        top.shows("y / n");
        top.press(&["n"]);
        top.shows_no("y / n");
        assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(3));
        top.press(&["r", "y"]);
        top.shows("restarted as ");
        top.shows("1 live");
        let live = home.json(["list"]).as_array().and_then(|jobs| {
            jobs.iter()
                .find(|job| job["status"] == "running")
                .and_then(|job| job["job"].as_str().map(str::to_owned))
        });
        let live = live.expect("one runs");
        top.press(&["g"]);
        top.chooses(&live);
        // What runs is ended first.
        top.press(&["r", "y"]);
        top.row_shows(&live, "killed");
        top.shows("1 live");
        top.press(&["g", "X", "y"]);
        top.shows("0 live");
        let again: Vec<String> = home.json(["list"]).as_array().map_or_else(Vec::new, |all| {
            all.iter()
                .filter_map(|job| job["job"].as_str().map(str::to_owned))
                .filter(|job| !jobs.contains(job))
                .collect()
        });
        again.iter().for_each(|job| drop(home.run(["remove", job]).ok()));
        // The next key takes away what was said.
        top.press(&["g"]);
        again.iter().for_each(|job| top.shows_no(job));

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
}

#[test]
fn what_is_chosen_follows_a_restart_and_the_first_match_of_a_filter() {
    let home = Home::new();
    let jobs = ["alpha", "beta", "alpine"].map(|name| home.start_with(&["--name", name], ["sleep", "1000"]));
    let top = Top::open(&home, SIZES[1], "");
    top.shows("3 live");
    // The last that was started is the first.
    top.press(&["j"]);
    top.chooses(&jobs[1]);
    top.press(&["/", "a", "l", "p", "Enter"]);
    top.chooses(&jobs[2]);
    top.press(&["Escape", "g"]);
    top.chooses(&jobs[2]);
    top.press(&["r", "y"]);
    until("it was restarted", || home.json(["list"]).as_array().is_some_and(|listed| listed.len() == 4));
    let next = home.json(["list"])[3]["job"].as_str().expect("an id").to_owned();
    top.chooses(&next);
    top.press(&["x", "y"]);
    until("the new run has ended", || home.show(&next)["status"] == "killed");
    top.press(&["q"]);
    home.run(["kill", "--all"]).ok();
}
