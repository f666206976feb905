//! Starting a job: a handle at once, whatever the starter is like.
//!
//! Proves S0-2, S0-37 to S0-41, S0-45, S0-46 (returned at once; command, arguments, session, directory; pid and status), S1-1,
//! S1-2, S1-25, S1-26, S1-102 (part of an id will do, and the whole id is the answer), S3-9, S3-39 to S3-41, S3-44, S3-46
//! and S3-86 (a handle at once, a directory, a label), S4-118.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use outlive::{Request, Status, Until};
use outlive_tests::{Done, Home, binary, finish, is_running, pid};

/// Runs a script in bash with the home's environment.
fn bash(home: &Home, script: &str) -> Done {
    let mut command = home.command("bash");
    command.args(["-c", script]);
    finish(command, b"")
}

/// Lists what is in a directory of the store.
fn entries(home: &Home, name: &str) -> Vec<OsString> {
    let entries = std::fs::read_dir(home.store().join(name)).expect("the store has it");
    entries.map(|entry| entry.expect("it can be listed").file_name()).collect()
}

/// Lists where the descriptors of a process lead.
fn descriptors(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is there");
    let links = entries.filter_map(|entry| std::fs::read_link(entry.expect("it can be listed").path()).ok());
    links.map(|link| link.display().to_string()).collect()
}

#[test]
fn a_handle_comes_back_while_the_command_runs() {
    let home = Home::new();
    let started = home.json(["run", "--name", "Long Sleep", "--session", "mine", "--", "sleep", "300"]);
    let job = started["job"].as_str().unwrap();
    assert_eq!(started["name"], "Long Sleep");
    assert_eq!(started["session"], "mine");
    assert_eq!(started["status"], "running");
    assert!(is_running(pid(&started, "pid")));
    assert_eq!(home.show(job)["pid"], started["pid"]);
    assert_eq!(entries(&home, "live"), [OsString::from(format!("{job}@mine"))]);
    assert_eq!(home.run(["run", "--", "sleep", "300"]).ok().text().lines().count(), 1);
}

#[test]
fn command_substitution_returns_at_once() {
    let home = Home::new();
    // If the job held the pipe, the shell would read it for five minutes.
    let job = bash(&home, "out=$(outlive run -- sleep 300) && echo \"<$out>\"").ok().text();
    let job = job.trim_end().trim_matches(['<', '>']);
    assert_eq!(home.show(job)["status"], "running");
    let job = bash(&home, "out=$(outlive run -- sleep 300 2>&1) && echo $out").ok().text();
    assert_eq!(home.show(job.trim_end())["status"], "running");
}

#[test]
fn a_starter_under_nohup_gets_its_handle() {
    let home = Home::new();
    let job = bash(&home, "out=$(nohup outlive run -- sleep 300 2>/dev/null) && echo $out").ok().text();
    assert_eq!(home.show(job.trim_end())["status"], "running");
}

#[test]
fn closed_standard_descriptors_do_no_harm() {
    let home = Home::new();
    for (number, closed) in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"].into_iter().enumerate() {
        let script = format!(
            "outlive run --name closed-{number} -- sh -c 'echo out; echo err >&2; cat; exit 3' {closed}"
        );
        assert_eq!(bash(&home, &script).ok().error(), "");
        let job = format!("closed-{number}");
        assert_eq!(home.wait(&job)["exit_code"], 3, "{closed}");
        assert_eq!(home.run(["logs", "--stream", "stdout", &job]).ok().text(), "out\n", "{closed}");
        assert_eq!(home.run(["logs", "--stream", "stderr", &job]).ok().text(), "err\n", "{closed}");
    }
}

#[test]
fn a_thousand_open_descriptors_of_the_starter_go_nowhere() {
    let home = Home::new();
    std::fs::write(home.path().join("held"), "").unwrap();
    let script = "ulimit -Sn 2000; for fd in $(seq 10 1009); do eval \"exec $fd<held\"; done
        ls -l /proc/$$/fd | grep -c /held; outlive run -- sleep 300";
    let text = bash(&home, script).ok().text();
    let (held, job) = text.trim_end().split_once('\n').unwrap();
    assert_eq!(held, "1000");
    let shown = home.show(job);
    assert_eq!(descriptors(pid(&shown, "pid")).len(), 3);
    let keeper = descriptors(pid(&shown, "keeper_pid"));
    assert!(keeper.len() <= 16, "{keeper:?}");
    assert!(!keeper.iter().any(|link| link.ends_with("/held")), "{keeper:?}");
}

#[test]
fn the_directory_can_be_deleted_while_the_job_runs() {
    let home = Home::new();
    let script = "mkdir gone && cd gone && outlive run --stdin open -- cat && cd .. && rmdir gone";
    let job = bash(&home, script).ok().text();
    let job = job.trim_end();
    assert!(!home.path().join("gone").exists());
    home.run(["send", job, "still here", "--eof"]).ok();
    assert_eq!(home.wait(job)["exit_code"], 0);
    assert_eq!(home.logs(job), b"still here\n");
    assert_eq!(home.show(job)["cwd"], home.path().join("gone").to_str().unwrap());
}

#[test]
fn a_directory_that_is_gone_already_is_a_clear_error() {
    let home = Home::new();
    let script = "mkdir gone && cd gone && rmdir ../gone && outlive --json run -- true";
    let refused = bash(&home, script).code(2);
    assert_eq!(refused.text(), "");
    let message = refused.error_json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("current directory no longer exists"), "{message}");
    assert!(entries(&home, "jobs").is_empty());
    let elsewhere = "mkdir gone && cd gone && rmdir ../gone && outlive run --wait --cwd / -- pwd";
    assert_eq!(bash(&home, elsewhere).ok().text(), "/\n");
}

#[test]
fn a_job_inside_a_job_knows_its_parent_and_stays_in_its_session() {
    let home = Home::new();
    let script = "outlive run -- sleep 300; echo started; sleep 300";
    let outer = home.start_with(&["--session", "alpha"], ["sh", "-c", script]);
    home.wait_for_output(&outer, "started");
    let inner = String::from_utf8(home.logs(&outer)).unwrap().lines().next().unwrap().to_owned();
    let shown = home.show(&inner);
    assert_eq!(shown["parent"], outer);
    assert_eq!(shown["session"], "alpha");
    assert_eq!(home.show(&outer)["parent"], serde_json::Value::Null);
    // It is a job of its own: the outer one's end is not its end.
    home.run(["kill", "--force", &outer]).ok();
    assert_eq!(home.wait(&outer)["status"], "killed");
    assert!(is_running(pid(&shown, "pid")));
    assert_eq!(home.show(&inner)["status"], "running");
}

#[test]
fn a_huge_environment_arrives_whole() {
    let home = Home::new();
    let mut command = home.outlive(["run", "--", "sh", "-c", "printf %s $A $B $C $D $E | wc -c"]);
    for name in ["A", "B", "C", "D", "E"] {
        command.env(name, name.repeat(100 << 10));
    }
    let job = finish(command, b"").ok().text();
    assert_eq!(home.wait(job.trim_end())["exit_code"], 0);
    assert_eq!(String::from_utf8_lossy(&home.logs(job.trim_end())).trim(), (500 << 10).to_string());
}

#[test]
fn a_huge_argument_arrives_whole() {
    let home = Home::new();
    let huge = "x".repeat(100 << 10);
    let job = home.start(["sh", "-c", "printf %s \"$1\" | wc -c", "sh", &huge]);
    assert_eq!(home.wait(&job)["exit_code"], 0);
    assert_eq!(String::from_utf8_lossy(&home.logs(&job)).trim(), (100 << 10).to_string());
    assert_eq!(home.show(&job)["argv"][4], huge);
}

#[test]
fn arguments_arrive_as_they_are() {
    let home = Home::new();
    let plain =
        ["a b", "", "'\"`", "*", "$HOME", "$(id)", "~", "a\nb", ";", "&", "|", "--json", "-x", "\\", "é", ""];
    let mut argv: Vec<OsString> = plain.map(OsString::from).to_vec();
    argv.push(OsString::from_vec(b"\xff\xfe not utf-8 \x80".to_vec()));
    let program = binary("reports-self").into_os_string();
    let job = home.start(std::iter::once(&program).chain(&argv));
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let logs = home.logs(&job);
    let logs = String::from_utf8_lossy(&logs);
    let got: Vec<&str> = logs.lines().filter_map(|line| line.strip_prefix("arg: ")).collect();
    let wanted: Vec<String> = argv.iter().map(|argument| format!("{argument:?}")).collect();
    assert_eq!(got, wanted);
}

#[test]
fn a_program_whose_path_is_not_utf8_runs() {
    let home = Home::new();
    let path = home.path().join(OsStr::from_bytes(b"odd\xff name"));
    std::fs::copy("/bin/sh", &path).unwrap();
    let job = home.start([path.as_os_str(), OsStr::new("-c"), OsStr::new("exit 9")]);
    assert_eq!(home.wait(&job)["exit_code"], 9);
}

#[test]
fn one_string_is_a_line_for_the_shell() {
    let home = Home::new();
    let job = home.start_line("x=$((40 + 2)); echo \"$x\" | cat && echo a > /dev/null; exit 4");
    assert_eq!(home.wait(&job)["exit_code"], 4);
    assert_eq!(home.logs(&job), b"42\n");
    let shown = home.show(&job);
    assert_eq!(shown["command"], "x=$((40 + 2)); echo \"$x\" | cat && echo a > /dev/null; exit 4");
    let shell = shown["argv"][0].as_str().unwrap();
    // The harness itself uses bash, so there is one.
    assert_eq!(Path::new(shell).file_name(), Some(OsStr::new("bash")));
}

#[test]
fn the_shell_can_be_chosen() {
    let home = Home::new();
    for shell in ["sh", "/bin/sh"] {
        let chosen = home.run(["run", "--wait", "--shell", shell, "echo $0"]).ok();
        assert_eq!(chosen.text(), format!("{shell}\n"));
    }
    home.configure("[job]\nshell = \"/bin/sh\"\n");
    assert_eq!(home.run(["run", "--wait", "echo $0"]).ok().text(), "/bin/sh\n");
    let missing = home.run(["run", "--shell", "no-such-shell", "echo hi"]).code(127);
    assert!(missing.error().contains("no-such-shell"), "{}", missing.error());
}

#[test]
fn a_line_and_a_program_together_or_neither_are_refused() {
    let home = Home::new();
    for arguments in [
        &["run"][..],
        &["run", "echo hi", "there"],
        &["run", "echo hi", "--name", "x", "there"],
        &["run", "echo hi", "--", "true"],
        &["run", " "],
        &["run", "A=1", "true"],
    ] {
        let refused = home.run(arguments).code(2);
        assert!(refused.error().contains("hint: "), "{arguments:?}: {}", refused.error());
        assert_eq!(refused.text(), "");
    }
    assert!(entries(&home, "jobs").is_empty());
}

#[test]
fn the_first_word_without_spaces_ends_the_options() {
    let home = Home::new();
    let echoed = home.run(["run", "--wait", "echo", "--name", "x", "a b", "--", "--json", ""]).ok().text();
    assert_eq!(echoed, "--name x a b -- --json \n");
    // One word is a line: a program, or what only a shell knows.
    assert_eq!(home.run(["run", "--wait", "pwd;pwd"]).ok().text().lines().count(), 2);
    // Options may follow a line, before or after the verb's own.
    let told = home.run(["run", "--name", "a", "echo $((1+1)); exit 3", "--wait", "--session", "s"]).code(3);
    assert_eq!(told.text(), "2\n");
    assert_eq!((&home.show("a")["session"], &home.show("a")["name"]), (&"s".into(), &"a".into()));
    // After `--` it is a program, whatever its name.
    home.run(["run", "--", "echo hi"]).code(127);
    let refused = home.run(["run", "echo hi", "there"]).code(2).error();
    assert!(refused.contains("\"there\"") && refused.contains("--"), "{refused}");
    let refused = home.run(["run", "A=1", "true"]).code(2).error();
    assert!(refused.contains("--env A=1"), "{refused}");
}

#[test]
fn ids_say_what_they_are() {
    let home = Home::new();
    let ids = [
        (home.start(["/bin/sleep", "300"]), "sleep"),
        (home.start_line("A=1 sleep 300"), "sleep"),
        (home.start_with(&["--name", "My Web Server!"], ["sleep", "300"]), "my-web-server"),
        (home.start_with(&["--name", "日本"], ["sleep", "300"]), "job"),
    ];
    for (id, slug) in ids {
        let (word, tail) = id.rsplit_once('-').unwrap();
        assert_eq!(word, slug);
        assert_eq!(tail.len(), 4, "{id}");
        assert!(tail.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()), "{id}");
    }
}

#[test]
fn a_name_or_the_beginning_of_an_id_will_do() {
    let home = Home::new();
    let alpha = home.start_with(&["--name", "alpha"], ["sleep", "300"]);
    let beta = home.start_with(&["--name", "Big Beta"], ["sleep", "300"]);
    for (reference, job) in
        [("alpha", &alpha), ("alp", &alpha), ("Big Beta", &beta), ("big-b", &beta), (beta.as_str(), &beta)]
    {
        assert_eq!(home.show(reference)["job"], *job, "{reference}");
    }
    for unknown in ["gamma", "lph", "ALPHA", "", "alpha ", "../alpha"] {
        let error = home.run(["--json", "show", unknown]).code(3).error_json();
        assert_eq!(error["error"]["code"], "not_found", "{unknown:?}");
    }
}

#[test]
fn a_reference_that_fits_several_jobs_is_refused_and_names_them() {
    let home = Home::new();
    let [one, two] = [0, 1].map(|_| home.start_with(&["--name", "same"], ["sleep", "300"]));
    // The beginning of an id is enough to look, and not to kill.
    for (verb, reference, code, field) in [
        ("kill", "same", "ambiguous", "message"),
        ("show", "sa", "ambiguous", "message"),
        ("kill", "sa", "not_found", "hint"),
    ] {
        let error = home.run(["--json", verb, reference]).code(3).error_json();
        assert_eq!(error["error"]["code"], code, "{verb} {reference}");
        let text = error["error"][field].as_str().unwrap();
        assert!(text.contains(&one) && text.contains(&two), "{text}");
    }
    // Of several jobs of one name, the one that still runs is meant; when none does, the newest.
    home.run(["kill", "--force", &one]).ok();
    assert_eq!(home.show("same")["job"], two);
    home.run(["kill", "--force", &two]).ok();
    assert_eq!(home.show("same")["job"], two);
    assert_eq!(home.run(["--json", "show", "sa"]).code(3).error_json()["error"]["code"], "ambiguous");
}

#[test]
fn a_store_with_a_path_too_long_for_a_socket_works() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&deep).unwrap();
    let home = Home::in_dir(&deep);
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    assert!(home.job_dir(&job).join("ctl").as_os_str().len() > 200);
    home.run(["send", &job, "through a long path"]).ok();
    home.wait_for_output(&job, "through a long path");
    home.run(["kill", &job]).ok();
    assert_eq!(home.wait(&job)["status"], "killed");
}

#[test]
fn a_lone_copy_of_outlive_is_its_own_keeper() {
    let home = Home::new();
    let lone = home.path().join("lone");
    std::fs::create_dir(&lone).unwrap();
    std::fs::copy(binary("outlive"), lone.join("outlive")).unwrap();
    let mut command = home.command(lone.join("outlive"));
    command.env("PATH", "/usr/bin:/bin").args(["run", "--", "sh", "-c", "echo kept; exec sleep 300"]);
    let job = finish(command, b"").ok().text().trim_end().to_owned();
    home.wait_for_output(&job, "kept");
    let keeper = pid(&home.show(&job), "keeper_pid");
    assert_eq!(std::fs::read_link(format!("/proc/{keeper}/exe")).unwrap(), lone.join("outlive"));
    home.run(["kill", &job]).ok();
    assert_eq!(home.wait(&job)["signal"], "SIGTERM");
}

#[test]
fn a_keeper_that_cannot_be_executed_is_named_and_nothing_is_left() {
    let home = Home::new();
    let not_executable = home.path().join("plain-file");
    std::fs::write(&not_executable, "").unwrap();
    for bad in [Path::new("/no/such/keeper"), &not_executable] {
        let mut command = home.outlive(["run", "--", "true"]);
        command.env("OUTLIVE_KEEPER", bad);
        let refused = finish(command, b"").code(1);
        let error = refused.error();
        assert!(error.starts_with("outlive: run: ") && error.contains(bad.to_str().unwrap()), "{error}");
        assert!(error.contains("\nhint: "), "{error}");
        assert_eq!(refused.text(), "");
        for directory in ["jobs", "live", "new"] {
            assert!(entries(&home, directory).is_empty(), "{directory} after {bad:?}");
        }
    }
}

#[test]
fn a_program_that_is_no_keeper_is_told_and_counts_for_nothing() {
    let home = Home::new();
    let mut command = home.outlive(["--json", "run", "--", "sleep", "300"]);
    command.env("OUTLIVE_KEEPER", "/bin/true");
    let error = finish(command, b"").code(126).error_json();
    assert_eq!(error["error"]["code"], "not_started");
    let shown = home.show(error["error"]["job"].as_str().unwrap());
    assert_eq!(shown["status"], "failed");
    assert_eq!(shown["cause"], "never_started");
    assert!(entries(&home, "live").is_empty());
}

#[test]
fn a_program_starts_jobs_through_the_library() {
    let home = Home::new();
    let store = home.open();
    let started = store.start(&Request::shell("echo from the library; exit 3").name("lib")).unwrap();
    assert!(started.pid > Some(0));
    assert!(started.warning.is_none());
    let found = store.find("lib", None).unwrap();
    assert_eq!(found.id(), started.job.id());
    let waited = store.wait(std::slice::from_ref(&found), Until::All, Some(Duration::from_secs(50)));
    assert!(waited.is_reached);
    assert_eq!(waited.states[0].status, Status::Failed);
    // The command line is an equal front end of the same store.
    assert_eq!(home.show("lib")["exit_code"], 3);
    assert_eq!(home.logs("lib"), b"from the library\n");
}

/// What a loader has to relocate, each keeper has in memory of its own.
#[test]
fn the_programs_have_a_fixed_address() {
    const EXECUTABLE: [u8; 2] = 2u16.to_ne_bytes();
    for name in ["outlive", "outlive-keeper"] {
        let program = std::fs::read(binary(name)).unwrap();
        assert_eq!(program[16..18], EXECUTABLE, "{name}: the type of an ELF file");
    }
}
