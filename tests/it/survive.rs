//! A job survives its starter, its terminal and every other process of outlive; `guard.rs` has its own keeper.
//!
//! Proves S0-1, S0-81 and S0-86 (own session; no process needs to wait for it), S3-72 and S3-95 (the registry is on disk and
//! survives), and that what S0-140, S3-77 and S4-130 call impossible or lost is neither: a later front end finds the job.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use outlive_sys::identity::Stat;
use outlive_tests::waits_with_open;
use outlive_tests::{
    Home, LIMIT, Terminal, all_processes, binary, end_within, is_running, pid, signal, until,
};

/// A command that answers what it is told and exits with 7 at the end of its input.
const ANSWERS: &str = "echo ready; while read line; do echo got $line; done; exit 7";

/// Asserts that a job runs, is known to a front end of its own, is still recorded, and ends with the right outcome.
fn assert_alive_and_well(home: &Home, job: &str) {
    let shown = home.show(job);
    assert_eq!(shown["status"], "running");
    assert_eq!(shown["orphaned"], false);
    assert!(is_running(pid(&shown, "pid")));
    assert_eq!(home.json(["list", "--live"])[0]["job"], job);
    home.run(["send", job, "a word"]).ok();
    home.wait_for_output(job, "got a word");
    home.run(["send", job, "--eof"]).ok();
    let ended = home.wait(job);
    assert_eq!(ended["status"], "failed");
    assert_eq!(ended["exit_code"], 7);
    assert_eq!(ended["output"]["lines"], 2);
    assert_eq!(home.logs(job), b"ready\ngot a word\n");
}

/// Starts a shell that leads a session of its own, starts the job, says its id and stays.
fn starter(home: &Home) -> (Child, String) {
    let script = format!("outlive run --stdin open -- sh -c '{ANSWERS}'; sleep 300 & sleep 300");
    let mut command = home.command("setsid");
    let mut shell =
        command.args(["sh", "-c", &script]).stdout(Stdio::piped()).spawn().expect("there is setsid");
    let mut job = String::new();
    BufReader::new(shell.stdout.take().expect("it is piped")).read_line(&mut job).expect("an id is text");
    (shell, job.trim_end().to_owned())
}

fn processes_of_session(session: i32) -> Vec<i32> {
    let is_in = |&pid: &i32| Stat::read(pid).is_some_and(|stat| stat.session == session);
    all_processes().into_iter().filter(is_in).collect()
}

#[test]
fn the_end_of_the_starters_process_group_is_survived() {
    let home = Home::new();
    let (mut shell, job) = starter(&home);
    let group = shell.id().cast_signed();
    assert_eq!(Stat::read(group).unwrap().group, group);
    signal(-group, "KILL");
    assert_eq!(end_within(&mut shell, LIMIT), Some(137));
    assert_alive_and_well(&home, &job);
}

#[test]
fn the_end_of_the_starters_whole_session_is_survived() {
    let home = Home::new();
    let (mut shell, job) = starter(&home);
    let session = shell.id().cast_signed();
    until("both sleeps run", || processes_of_session(session).len() == 3);
    for pid in processes_of_session(session) {
        signal(pid, "KILL");
    }
    assert_eq!(end_within(&mut shell, LIMIT), Some(137));
    until("nothing of the session is left", || processes_of_session(session).is_empty());
    assert_alive_and_well(&home, &job);
}

#[test]
fn the_end_of_the_terminal_is_survived() {
    let home = Home::new();
    let mut terminal = Terminal::open(80);
    let script = format!("outlive run --name lasting --stdin open -- sh -c '{ANSWERS}'; echo started; cat");
    let mut shell = terminal.start(&home, &[], ["sh", "-c", &script]);
    terminal.read_until("started");
    home.wait_for_output("lasting", "ready");
    let job = home.show("lasting")["job"].as_str().unwrap().to_owned();
    drop(terminal);
    assert_eq!(end_within(&mut shell, LIMIT), Some(129), "the shell was hung up on");
    assert_alive_and_well(&home, &job);
}

#[test]
fn the_end_of_every_other_process_of_outlive_is_survived() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", ANSWERS]);
    home.wait_for_output(&job, "ready");
    let front_ends = [&["logs", "-f", &job][..], &["wait", &job], &["wait", "--timeout", "50s", &job]];
    let mut front_ends =
        front_ends.map(|arguments| home.outlive(arguments).stdout(Stdio::null()).spawn().unwrap());
    until("they follow and wait", || {
        let [follows, rest @ ..] = &front_ends;
        let pid = |child: &Child| child.id().cast_signed();
        waits_with_open(pid(follows), "inotify")
            && rest.iter().all(|child| waits_with_open(pid(child), "pidfd"))
    });
    let is_outlive =
        |&pid: &i32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == binary("outlive"));
    let others: Vec<i32> = home.processes().into_iter().filter(is_outlive).collect();
    assert_eq!(others.len(), 3);
    for pid in others {
        signal(pid, "KILL");
    }
    for front_end in &mut front_ends {
        assert_eq!(end_within(front_end, LIMIT), Some(137));
    }
    assert_eq!(home.keepers(), [pid(&home.show(&job), "keeper_pid")]);
    assert_alive_and_well(&home, &job);
}

#[test]
fn a_waiter_that_dies_takes_nothing_with_it() {
    let home = Home::new();
    let script = format!("exec outlive run --wait --name watched --stdin open -- sh -c '{ANSWERS}'");
    let mut waiter =
        home.command("setsid").args(["sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(waiter.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    signal(waiter.id().cast_signed(), "KILL");
    assert_eq!(end_within(&mut waiter, LIMIT), Some(137));
    let job = home.show("watched")["job"].as_str().unwrap().to_owned();
    assert_alive_and_well(&home, &job);
}

#[test]
fn the_keeper_is_nobodys_descendant_and_leads_its_own_session() {
    let home = Home::new();
    let (mut shell, job) = starter(&home);
    let keeper = pid(&home.show(&job), "keeper_pid");
    let stat = Stat::read(keeper).unwrap();
    assert_eq!((stat.group, stat.session), (keeper, keeper));
    let mine = std::process::id().cast_signed();
    let mut ancestors = vec![stat.parent];
    while let Some(parent) = ancestors.last().and_then(|&pid| Stat::read(pid)).map(|stat| stat.parent)
        && parent > 0
    {
        ancestors.push(parent);
    }
    assert!(!ancestors.contains(&shell.id().cast_signed()), "{ancestors:?} hold the starter");
    assert!(!ancestors.contains(&mine), "{ancestors:?} hold the test");
    let command = Stat::read(pid(&home.show(&job), "pid")).unwrap();
    assert_eq!(command.parent, keeper);
    signal(-shell.id().cast_signed(), "KILL");
    assert_eq!(end_within(&mut shell, LIMIT), Some(137));
}

#[test]
fn the_keeper_holds_only_what_it_needs() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["sleep", "300"]);
    let keeper = pid(&home.show(&job), "keeper_pid");
    let of_proc = |name: &str| std::fs::read_to_string(format!("/proc/{keeper}/{name}")).unwrap();
    let link = |name: &str| std::fs::read_link(format!("/proc/{keeper}/{name}")).unwrap();
    assert_eq!(link("cwd"), PathBuf::from("/"));
    for standard in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(link(standard), PathBuf::from("/dev/null"));
    }
    assert_eq!(of_proc("environ"), "", "the starter's environment goes to the command alone");
    let status = of_proc("status");
    assert!(status.lines().any(|line| line == "Threads:\t1"), "{status}");

    let directory = home.job_dir(&job).display().to_string();
    let held = || {
        let entries = std::fs::read_dir(format!("/proc/{keeper}/fd")).unwrap();
        let mut held: Vec<String> = entries
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .map(|link| link.display().to_string().replace(&directory, "JOB"))
            .map(|link| if link.starts_with("pipe:") { "pipe".to_owned() } else { link })
            .map(|link| if link.starts_with("socket:") { "socket".to_owned() } else { link })
            .map(|link| if link.starts_with("/memfd:") { "memfd".to_owned() } else { link })
            .collect();
        held.sort();
        held
    };
    let mut wanted =
        vec!["/dev/null", "/dev/null", "/dev/null", "JOB", "JOB/done", "JOB/lock", "JOB/out.idx"];
    wanted.extend(["JOB/out.000000000000000.log", "JOB/outcome", "anon_inode:[signalfd]"]);
    // The command's three, and both ends of the one between them and the log.
    wanted.extend(["pipe"; 5]);
    // The page that it has in common with its guard.
    wanted.extend(["memfd", "socket"]);
    let meta = std::fs::read_to_string(home.job_dir(&job).join("meta.json")).unwrap();
    if meta.contains(r#""level":"sweep""#) {
        // Without a control group it needs a hold on the first process group.
        wanted.push("anon_inode:[pidfd]");
    }
    wanted.sort_unstable();
    // The conversation with `show` is over once the keeper has noticed that it went.
    until(&format!("it holds {wanted:?} instead of {:?}", held()), || held() == wanted);
}
