//! `--restart-on-change`, and `watch` of a project: a job is restarted when its files change.
//!
//! Proves that the file is named, that several changes in a row are one restart, that what `.gitignore` names and what was not asked for
//! counts for nothing, and that the kernel's limit is explained.

use std::path::Path;
use std::process::Command;

use outlive_tests::{Home, finish, lacks, signal, until};
use serde_json::Value;

fn write(dir: &Path, name: &str) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
    std::fs::write(path, format!("{:?}", std::time::SystemTime::now())).expect("a file");
}

/// Starts a job in a directory that is restarted by these patterns.
fn start(home: &Home, dir: &Path, patterns: &[&str]) -> String {
    let mut words = vec!["run", "--name", "web", "--cwd", dir.to_str().expect("text")];
    for pattern in patterns {
        words.extend(["--restart-on-change", pattern]);
    }
    words.extend(["--", "sh", "-c", "echo run >> ../runs; exec sleep 300"]);
    home.run(words).ok().text().trim().to_owned()
}

fn runs(home: &Home) -> usize {
    std::fs::read_to_string(home.path().join("runs")).unwrap_or_default().lines().count()
}

/// Waits until files are watched: the process beside the job has an inotify.
fn until_watched(home: &Home) {
    let is_watching = |pid: &i32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let is_inotify = |fd: std::fs::DirEntry| {
            std::fs::read_link(fd.path()).is_ok_and(|link| link == Path::new("anon_inode:inotify"))
        };
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // One tells of the job, and one of its files.
        line.contains("probe") && fds.filter_map(|fd| is_inotify(fd).then_some(())).count() >= 2
    };
    until("its files are watched", || home.processes().iter().any(is_watching));
}

fn newest(home: &Home) -> Value {
    home.show("web")
}

#[test]
fn a_change_restarts_the_job_and_is_named() {
    let home = Home::new();
    let dir = home.make_dir("app");
    write(&dir, "src/main.py");
    write(&dir, "dist/out.js");
    std::fs::write(dir.join(".gitignore"), "dist/\n*.log\n").expect("a file");
    let first = start(&home, &dir, &["src/**", "*.toml", "!src/generated/**"]);
    until_watched(&home);
    // Nothing of this was asked for.
    for name in ["dist/out.js", "src/a.log", "README", "src/generated/x.py"] {
        write(&dir, name);
    }
    // Several in a row are one, in a directory that was not there.
    for number in 0..20 {
        write(&dir, &format!("src/deep/new/{number}.py"));
    }
    until("it was restarted", || {
        newest(&home)["job"] != first.as_str() && newest(&home)["status"] == "running"
    });
    let shown = newest(&home);
    assert_eq!(shown["previous"], first.as_str());
    let because = shown["because"].as_str().unwrap_or_default().to_owned();
    assert!(because.starts_with("src/deep") && because.ends_with(" changed"), "{because}");
    let before = home.show(&first);
    assert!(
        before["reason"].as_str().is_some_and(|reason| reason.contains("a change of src/deep")),
        "{before}"
    );
    let events = home.run(["events"]).ok().text();
    assert!(events.contains(&format!("{first} changed: src/deep")), "{events}");
    until("it runs", || runs(&home) == 2);
    // Each run watches for itself.
    until_watched(&home);
    std::fs::rename(dir.join("src/main.py"), dir.join("src/other.py")).expect("it is there");
    until("it was restarted again", || runs(&home) == 3);
    assert!(home.run(["show", "web"]).ok().text().contains("because"));
    home.run(["kill", "web"]).ok();
    until("nothing is left", || home.processes().is_empty());
}

/// Before this, what changed before the process beside the job watched was not seen.
#[test]
fn a_change_right_after_the_start_counts() {
    let home = Home::new();
    let dir = home.make_dir("app");
    write(&dir, "src/main.py");
    let first = start(&home, &dir, &["src/**"]);
    write(&dir, "src/main.py");
    until("it was restarted", || newest(&home)["previous"] == first.as_str());
    // What changed before it was started is no change, nor is what is of the future.
    until_watched(&home);
    home.run(["kill", "web"]).ok();
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    let file = std::fs::File::options().write(true).open(dir.join("src/main.py")).expect("it is there");
    file.set_modified(future).expect("its time can be set");
    let second = start(&home, &dir, &["src/**"]);
    until_watched(&home);
    assert_eq!(newest(&home)["job"], second.as_str());
    home.run(["kill", "web"]).ok();
}

#[test]
fn only_what_belongs_to_the_files_is_left_out_and_a_link_is_followed() {
    let home = Home::new();
    // As people keep their settings: all of it is ignored, and it is no repository.
    std::fs::write(home.path().join(".gitignore"), "*\n").expect("a file");
    let (dir, elsewhere) = (home.make_dir("app"), home.make_dir("elsewhere"));
    write(&elsewhere, "main.py");
    std::os::unix::fs::symlink(&elsewhere, dir.join("src")).expect("a link");
    let first = start(&home, &dir, &["src/**"]);
    until_watched(&home);
    write(&elsewhere, "main.py");
    until("it was restarted", || newest(&home)["previous"] == first.as_str());
    assert_eq!(newest(&home)["because"], "src/main.py changed");
    home.run(["kill", "web"]).ok();
}

#[test]
fn a_watcher_that_the_keeper_started_restarts_the_job() {
    let home = Home::new();
    let dir = home.make_dir("app");
    write(&dir, "src/main.py");
    // The keeper looks after processes that check the job's health.
    let cwd = dir.to_str().expect("text");
    let options =
        ["run", "--name", "web", "--cwd", cwd, "--restart-on-change", "src/**", "--health-command", "true"];
    let first = home.run([&options[..], &["--", "sleep", "300"]].concat()).ok().text().trim().to_owned();
    until_watched(&home);
    let of_outlive = |verb: &str| {
        let is_one = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(verb.as_bytes())
        };
        home.processes().into_iter().filter(is_one).collect::<Vec<i32>>()
    };
    of_outlive("probe").into_iter().for_each(|pid| signal(pid, "KILL"));
    until("the keeper has started another", || !of_outlive("next-run").is_empty());
    write(&dir, "src/main.py");
    let runs = || home.json(["list", "--all"]).as_array().map_or(0, Vec::len);
    until("it was restarted", || runs() == 2);
    let second = newest(&home);
    assert_eq!((&second["previous"], &second["parent"]), (&first.as_str().into(), &Value::Null));
    home.run(["kill", "web"]).ok();
    until("nothing is left", || home.processes().is_empty());
}

/// Prints its variable into `../runs`; when it is asked to end, it makes `../stopping` and waits for `../go`.
const SLOW: &str = "trap 'touch ../stopping; until test -e ../go; do sleep 0.02; done; exit 3' TERM; \
    echo \"$COLOUR\" >> ../runs; while :; do sleep 0.02; done";

/// Starts [`SLOW`], restarted by files in `src`, changes one, and waits until the restart has begun.
fn begin_to_restart(home: &Home) {
    let dir = home.make_dir("app");
    write(&dir, "src/main.py");
    let cwd = dir.to_str().expect("text");
    let mut outlive = home.outlive(["run", "--name", "web", "--cwd", cwd, "--grace", "300s"]);
    outlive.args(["--restart-on-change", "src/**", "--", "sh", "-c", SLOW]).env("COLOUR", "blue");
    finish(outlive, b"").ok();
    until_watched(home);
    until("it runs", || runs(home) == 1);
    write(&dir, "src/main.py");
    until("it is asked to end", || home.path().join("stopping").exists());
}

/// Kills the processes beside jobs.
fn kill_companions(home: &Home) {
    let is_one = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let verb = words.split(|byte| *byte == 0).nth(1);
        verb == Some(b"probe") || verb == Some(b"next-run")
    };
    let companions = || home.processes().into_iter().filter(is_one).collect::<Vec<i32>>();
    companions().into_iter().for_each(|pid| signal(pid, "KILL"));
    until("none is left", || companions().is_empty());
}

/// Before this, no run followed.
#[test]
fn the_next_run_comes_though_the_watcher_is_killed_during_the_restart() {
    let home = Home::new();
    begin_to_restart(&home);
    kill_companions(&home);
    std::fs::write(home.path().join("go"), "").expect("a file");
    // No front end looks at it meanwhile.
    until("the next run comes", || runs(&home) == 2);
    let all = home.json(["list", "--all"]);
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
    let shown = newest(&home);
    assert_eq!(shown["because"], "src/main.py changed", "{shown}");
    let text = std::fs::read_to_string(home.path().join("runs")).expect("it is there");
    assert_eq!(text, "blue\nblue\n", "it has the environment of the first run");
    let first = shown["previous"].as_str().expect("an id");
    until("the run before it is closed", || home.show(first)["lingering"] == false);
    home.run(["kill", "--force", "web"]).ok();
    until("nothing is left", || home.processes().is_empty());
}

#[test]
fn a_kill_during_the_restart_is_the_last_word() {
    let home = Home::new();
    begin_to_restart(&home);
    home.run(["kill", "--force", "web"]).ok();
    until("nothing is left", || home.processes().is_empty());
    assert_eq!((runs(&home), home.json(["list", "--all"]).as_array().map(Vec::len)), (1, Some(1)));
}

/// Before this, only a front end that looked at the job started another watcher.
#[test]
fn a_change_counts_though_the_watcher_is_killed_before_it() {
    let home = Home::new();
    let dir = home.make_dir("app");
    write(&dir, "src/main.py");
    start(&home, &dir, &["src/**"]);
    until_watched(&home);
    kill_companions(&home);
    write(&dir, "src/main.py");
    until("it is restarted without a look", || runs(&home) == 2);
    home.run(["kill", "web"]).ok();
}

/// A run that waits after a failure is not ended and made anew: it begins at once, and earlier failures do not count any more.
#[test]
fn a_change_ends_the_wait_for_the_next_run() {
    let home = Home::new();
    let dir = home.make_dir("app");
    write(&dir, "src/main.py");
    let cwd = dir.to_str().expect("text");
    let options = ["--restart", "on-failure", "--restart-delay", "300s", "--restart-tries", "1"];
    let words = ["run", "--name", "web", "--cwd", cwd, "--restart-on-change", "src/**"];
    let line = "echo run >> ../runs; exit 3";
    home.run([&words[..], &options, &["--", "sh", "-c", line]].concat()).ok();
    for count in 1..4 {
        until("a run waits", || runs(&home) == count && newest(&home)["status"] == "queued");
        until_watched(&home);
        write(&dir, "src/main.py");
        until("it begins", || runs(&home) == count + 1);
    }
    let is_over = || newest(&home)["status"] == "queued" && runs(&home) == 4;
    until("the next one waits, and it has not given up", is_over);
    home.run(["kill", "web"]).ok();
}

#[test]
fn a_job_that_has_ended_says_that_it_is_no_longer_watched() {
    let home = Home::new();
    let dir = home.make_dir("app");
    write(&dir, "src/main.py");
    let cwd = dir.to_str().expect("text");
    home.run(["run", "--name", "once", "--cwd", cwd, "--restart-on-change", "src/**", "true"]).ok();
    home.run(["wait", "once"]).ok();
    let why = home.run(["why", "once"]).ok().text();
    assert!(why.contains("it is no longer watched for changes of files"), "{why}");
    let help = home.run(["run", "--help"]).ok().text();
    assert!(help.contains("once it has ended it is no longer watched"), "{help}");
}

/// devenv#2657: nothing was watched, and not a word said so.
#[test]
fn what_cannot_be_watched_is_refused() {
    let home = Home::new();
    let dir = home.make_dir("app");
    for (pattern, said) in [
        ("src/**", "there is no directory"),
        ("/etc/**", "write a path below the job's directory"),
        ("../x", "write a path below the job's directory"),
        ("[", "cannot watch \"[\""),
        ("!src", "nothing is left to watch"),
    ] {
        let cwd = dir.to_str().expect("text");
        let error =
            home.run(["run", "--cwd", cwd, "--restart-on-change", pattern, "--", "true"]).code(2).error();
        assert!(error.contains(said), "{pattern}: {error}");
    }
    assert_eq!(home.json(["list"]), serde_json::json!([]));
}

/// tilt#2079, tilt#2487: "no space left on device" was read as a full disk.
#[test]
fn the_limit_of_the_kernel_is_explained() {
    let home = Home::new();
    let dir = home.make_dir("app");
    for number in 0..20 {
        write(&dir, &format!("src/{number}/x"));
    }
    let outlive = home.outlive([
        "run",
        "--cwd",
        dir.to_str().expect("text"),
        "--restart-on-change",
        "src/**",
        "--",
        "true",
    ]);
    let mut words = vec![outlive.get_program().to_owned()];
    words.extend(outlive.get_args().map(ToOwned::to_owned));
    let mut command = Command::new("unshare");
    command
        .args([
            "-Ur",
            "sh",
            "-c",
            "echo 5 > /proc/sys/user/max_inotify_watches || exit 77; exec \"$@\"",
            "sh",
        ])
        .args(words);
    command.env_clear();
    for (name, value) in outlive.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let done = finish(command, b"");
    if done.code == 77 || done.error().starts_with("unshare:") {
        return lacks("a user namespace of its own");
    }
    let error = done.error();
    assert!(
        error.contains("lets a user watch only 5 directories")
            && error.contains("sysctl fs.inotify.max_user_watches"),
        "{error}"
    );
}

/// compose#11813: what was watched in a file with dependencies was left aside.
#[test]
fn a_project_says_which_files_are_watched() {
    let home = Home::new();
    let dir = home.make_dir("app");
    write(&dir, "src/main.py");
    let toml = "[jobs.db]\nrun = \"exec sleep 300\"\n\
        [jobs.web]\nrun = \"echo run >> ../runs; exec sleep 300\"\nwatch = [\"src\"]\nafter = [\"db\"]\n";
    std::fs::write(dir.join("outlive.toml"), toml).expect("a file");
    let file = dir.join("outlive.toml").display().to_string();
    home.run(["up", "-f", &file, "--wait"]).ok();
    until_watched(&home);
    write(&dir, "src/main.py");
    until("it was restarted", || runs(&home) == 2);
    until("the next run is up", || home.run(["why", "-f", &file, "web"]).text().contains("runs as"));
    let why = home.run(["why", "-f", &file, "web"]).ok().text();
    assert!(why.contains("started again because src/main.py changed"), "{why}");
    assert!(
        home.run(["up", "-f", &file]).ok().error().contains("nothing to do"),
        "it was started in the same way"
    );
    std::fs::write(dir.join("outlive.toml"), toml.replace("[\"src\"]", "[\"none/**\"]")).expect("a file");
    let told = home.run(["up", "-f", &file, "--wait"]).code(1).text();
    assert!(told.contains("web  not started: ") && told.contains("there is no directory"), "{told}");
    home.run(["down", "-f", &file]).ok();
    until("nothing is left", || home.processes().is_empty());
}
