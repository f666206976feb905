//! `--stdin-from JOB`: a job reads what another one prints.
//!
//! Proves that every byte comes once and in its order, from the beginning or from now on; that it ends with the other job; that the other
//! job never waits; and that keepers, guards and the process in between may be killed meanwhile.

use outlive_tests::{Home, is_guard, proves, signal, until};

/// Starts a job that reads another one, and returns its id.
fn reader(home: &Home, options: &[&str], line: &str) -> String {
    home.start_with(options, ["sh", "-c", line])
}

fn text(home: &Home, job: &str) -> String {
    String::from_utf8(home.logs(job)).expect("text")
}

#[test]
fn a_job_reads_what_another_prints_from_the_beginning_to_its_end() {
    let home = Home::new();
    let source = home.start_line(
        "echo out 1; echo err 1 >&2; while [ ! -e go ]; do sleep 0.05; done; echo out 2; echo err 2 >&2",
    );
    home.wait_for_output(&source, "err 1");
    let [all, errors, new] = [
        reader(&home, &["--stdin-from", &source], "cat; echo over"),
        reader(&home, &["--stdin-from", &format!("{source}:stderr")], "cat; echo over"),
        reader(&home, &["--stdin-from", &source, "--stdin-new"], "cat; echo over"),
    ];
    home.wait_for_output(&all, "out 1\n");
    assert_eq!(home.show(&all)["stdin_from"], format!("{source}:stdout"));
    let refused = home.run(["send", &all, "x"]).code(1).error();
    assert!(refused.contains("is what") && refused.contains("prints"), "{refused}");
    std::fs::write(home.path().join("go"), b"").expect("a file");
    for job in [&source, &all, &errors, &new] {
        home.wait(job);
    }
    assert_eq!(text(&home, &all), "out 1\nout 2\nover\n");
    assert_eq!(text(&home, &errors), "err 1\nerr 2\nover\n");
    assert_eq!(text(&home, &new), "out 2\nover\n");
    proves!("S0-167");
    // Long after its end.
    let late = reader(&home, &["--stdin-from", &source, "--wait"], "cat");
    drop(late);
}

#[test]
fn a_source_never_waits_and_a_reader_may_end_first() {
    let home = Home::new();
    let source =
        home.start_line("i=0; while [ $i -lt 20000 ]; do echo line $i of many; i=$((i+1)); done; echo done");
    let idle = reader(&home, &["--stdin-from", &source], "while [ ! -e go ]; do sleep 0.05; done; wc -l");
    let short = reader(&home, &["--stdin-from", &source], "head -n 1");
    // It ends while nothing of it is read: more than any pipe holds.
    home.wait(&source);
    home.wait(&short);
    assert_eq!(text(&home, &short), "line 0 of many\n");
    std::fs::write(home.path().join("go"), b"").expect("a file");
    home.wait(&idle);
    assert_eq!(text(&home, &idle).trim(), "20001");
}

#[test]
fn no_byte_is_lost_or_doubled_when_what_is_between_is_killed() {
    let home = Home::new();
    let source = home.start_line(
        "i=0; while [ $i -lt 30000 ]; do echo $i; i=$((i+1)); done; while [ ! -e go ]; do sleep 0.05; done; echo last",
    );
    let job = reader(
        &home,
        &["--stdin-from", &source],
        "while read -r n; do echo $n; [ $n = last ] || { [ $((n % 500)) = 0 ] && sleep 0.01; }; done",
    );
    home.wait_for_output(&job, "100\n");
    let of_job = |name: &str| i32::try_from(home.show(&job)[name].as_i64().unwrap_or(0)).expect("a pid");
    // The keeper, twice; then the process in between, which the next look starts again.
    for _ in 0..2 {
        let keeper = of_job("keeper_pid");
        signal(keeper, "KILL");
        until("its guard goes on", || of_job("keeper_pid") != keeper && of_job("keeper_pid") != 0);
    }
    let between = || {
        let is_it = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.get(1) == Some(&&b"probe"[..]) && words.get(2) == Some(&job.as_bytes())
        };
        home.processes().into_iter().find(|pid| !is_guard(*pid) && is_it(pid))
    };
    until("a process passes it on", || between().is_some());
    // Each look starts one more where it finds none: that one waits a moment for the first, and goes.
    until("it is gone", || {
        between().into_iter().for_each(|pid| signal(pid, "KILL"));
        between().is_none()
    });
    std::fs::write(home.path().join("go"), b"").expect("a file");
    // One that is about to be gone still holds its lock.
    until("another passes it on, or has done so", || {
        home.show(&job)["status"] != "running" || between().is_some()
    });
    home.wait(&job);
    let expected: String =
        (0..30_000).map(|number| format!("{number}\n")).chain(["last\n".to_owned()]).collect();
    let read = text(&home, &job);
    let place = read.lines().zip(expected.lines()).position(|(read, printed)| read != printed);
    assert!(read == expected, "{} lines, from {place:?} on others", read.lines().count());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = Home::new();
    let source = home.start_line("true");
    for (options, said) in [
        (&["--stdin-from", "nowhere"][..], "nowhere"),
        (&["--stdin-new"], "--stdin-from"),
        (&["--stdin-from", &source, "--stdin", "open"], "cannot be used with"),
        (&["--stdin-from", &source, "--pty"], "a job in a terminal cannot read what another job prints"),
    ] {
        let done = home.run([&["run"], options, &["--", "cat"]].concat());
        assert!(done.code != 0 && done.error().contains(said), "{}", done.error());
    }
}

#[test]
fn one_that_reads_another_job_asks_nobody_and_has_not_changed() {
    let home = Home::new();
    let dir = home.make_dir("app");
    let toml = "[jobs.sink]\nrun = 'cat; sleep 300'\nstdin_from = 'source'\n[jobs.source]\nrun = 'echo a; sleep 300'\n";
    std::fs::write(dir.join("outlive.toml"), toml).expect("a file");
    let file = dir.join("outlive.toml").display().to_string();
    home.run(["up", "-f", &file, "--wait"]).ok();
    home.wait_for_output("sink", "a\n");
    let meta = home.job_dir(home.show("sink")["job"].as_str().expect("an id")).join("meta.json");
    until("its keeper has seen that it waits for input", || {
        std::fs::read_to_string(&meta).unwrap_or_default().contains("\"awaits\":{")
    });
    assert_eq!(home.show("sink")["awaits"], serde_json::Value::Null);
    let status = home.run(["status", "-f", &file]).ok().text();
    assert!(!status.contains("asks") && !status.contains("changed"), "{status}");
    // The same job, anew, is the same source; another stream of it is not.
    home.run(["restart", "source"]).ok();
    let status = home.run(["status", "-f", &file]).ok().text();
    assert!(!status.contains("changed"), "{status}");
    std::fs::write(dir.join("outlive.toml"), toml.replace("'source'", "'source:stderr'")).expect("a file");
    let status = home.run(["status", "-f", &file]).ok().text();
    assert!(status.contains("running, changed"), "{status}");
    home.run(["down", "-f", &file]).ok();
}

#[test]
fn a_project_says_which_job_reads_another() {
    let home = Home::new();
    let dir = home.make_dir("app");
    let toml = "[jobs.count]\nrun = \"wc -l > counted\"\nstdin_from = \"requests\"\n\
        [jobs.requests]\nrun = \"echo a; echo b\"\n";
    std::fs::write(dir.join("outlive.toml"), toml).expect("a file");
    let file = dir.join("outlive.toml").display().to_string();
    home.run(["up", "-f", &file, "--wait"]).ok();
    until("it has read all", || {
        std::fs::read_to_string(dir.join("counted")).unwrap_or_default().trim() == "2"
    });
    home.run(["down", "-f", &file]).ok();
    for (from, said) in
        [("none", "there is no job `none`"), ("requests:all", "write NAME, NAME:stdout or NAME:stderr")]
    {
        std::fs::write(dir.join("outlive.toml"), toml.replace("\"requests\"", &format!("{from:?}")))
            .expect("a file");
        let error = home.run(["up", "-f", &file]).code(1).error();
        assert!(error.contains("outlive.toml:3:") && error.contains(said), "{error}");
    }
}
