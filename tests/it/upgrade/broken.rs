//! An upgrade to a program that does not work leaves every job as it was, and says so.
//!
//! Programs that cannot be executed, exit, hang or are of an earlier version are not even tried; one that fails only in the keeper's or
//! the guard's place is taken back.

use std::fs;
use std::path::PathBuf;

use outlive_tests::{Done, Home, binary, finish, guard_of, until};

use super::{PRINTING, assert_ends_whole};
use crate::guard::keeper;

/// Makes a program in a home.
fn program(home: &Home, name: &str, contents: &[u8]) -> PathBuf {
    let path = home.path().join(name);
    fs::write(&path, contents).unwrap();
    super::make_executable(&path);
    path
}

fn upgrade(home: &Home, program: &PathBuf) -> Done {
    let mut command = home.outlive(["--json", "upgrade", "--force"]);
    command.env("OUTLIVE_KEEPER", program);
    finish(command, b"")
}

/// A program that says that it can, and then does this: what it was executed for is in `$1`.
fn pretender(home: &Home, name: &str, then: &str) -> PathBuf {
    let real = binary("outlive-keeper").display().to_string();
    let text = format!(
        "#!/bin/bash\nreal() {{ exec -a outlive-keeper {real} \"$@\"; }}\ncase $1 in\n\
        page) real page;;\n{then}\nesac\n"
    );
    program(home, name, text.as_bytes())
}

#[test]
fn a_program_that_does_not_work_touches_no_job() {
    let home = Home::new();
    let job = home.start(["sh", "-c", PRINTING]);
    let (before, events) = (keeper(&home, &job), crate::guard::events(&home, &job));
    let guard = guard_of(before);
    let not_executable = home.path().join("not-executable");
    fs::write(&not_executable, "#!/bin/sh\n").unwrap();
    let mut other_machine = fs::read(binary("outlive-keeper")).unwrap();
    // The field of the ELF header that names the machine.
    other_machine[18..20].copy_from_slice(&[0xf3, 0x7f]);
    let programs = [
        (not_executable, "cannot be executed"),
        (home.path().join("not-there"), "cannot be executed"),
        (program(&home, "other-machine", &other_machine), "cannot"),
        (program(&home, "exits", b"#!/bin/sh\nexit 1\n"), "cannot go on in place"),
        (program(&home, "other", b"#!/bin/sh\necho something else\n"), "cannot go on in place"),
        (program(&home, "hangs", b"#!/bin/sh\nexec sleep 300\n"), "says nothing"),
        (program(&home, "older", b"#!/bin/sh\necho outlive-keeper 0.0.1 page 0\n"), "of an earlier version"),
    ];
    for (program, why) in programs {
        let done = upgrade(&home, &program).code(1);
        let error = done.error();
        assert!(error.contains(why), "{program:?}: {error}");
        assert_eq!((keeper(&home, &job), guard_of(before)), (before, guard), "{program:?}");
    }
    assert_eq!(crate::guard::events(&home, &job), events, "no keeper was asked to");
    assert_ends_whole(&home, std::slice::from_ref(&job));
}

#[test]
fn a_version_that_gives_no_sign_of_life_is_taken_back() {
    let home = Home::new();
    let cases = [("exits", "*) exit 1;;"), ("hangs", "*) exec sleep 300;;"), ("dies", "*) kill -KILL $$;;")];
    let cases = cases.map(|(name, then)| (name, pretender(&home, name, then)));
    let jobs: Vec<String> = std::thread::scope(|scope| {
        let run = cases.map(|(name, program)| {
            let home = &home;
            scope.spawn(move || {
                let job = home.start_with(&["--name", name], ["sh", "-c", PRINTING]);
                home.wait_for_output(&job, "o5\n");
                let mut command = home.outlive(["--json", "upgrade", "--force", &job]);
                command.env("OUTLIVE_KEEPER", program);
                let done = finish(command, b"").code(1);
                assert!(done.error().contains("no sign of life"), "{name}: {}", done.error());
                assert_eq!(done.json()["jobs"][0]["result"], "failed");
                assert_eq!(home.show(&job)["orphaned"], false);
                // It can be upgraded to one that works.
                if outlive_sys::exit::can_tell() {
                    assert_eq!(super::in_place::upgrade(home, &job)["result"], "upgraded");
                }
                job
            })
        });
        run.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_ends_whole(&home, &jobs);
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn a_program_that_vanishes_before_it_is_executed_changes_nothing() {
    let home = Home::new();
    let job = home.start(["sh", "-c", PRINTING]);
    let path = home.path().join("vanishes");
    let text = format!("#!/bin/sh\nrm {}\necho outlive-keeper 9 page 1\n", path.display());
    fs::write(&path, text).unwrap();
    super::make_executable(&path);
    let before = keeper(&home, &job);
    let done = upgrade(&home, &path).code(1);
    assert!(done.error().contains("No such file"), "{}", done.error());
    assert_eq!(keeper(&home, &job), before);
    // Keeper and guard have parted, and are as good as before.
    crate::guard::replace_keeper(&home, &job);
    assert_ends_whole(&home, std::slice::from_ref(&job));
}

#[test]
fn a_guard_that_gives_no_sign_of_life_is_replaced() {
    let home = Home::new();
    for (name, then) in [("exits", "exit 1"), ("hangs", "exec sleep 300")] {
        let job = home.start(["sh", "-c", PRINTING]);
        home.wait_for_output(&job, "o5\n");
        let (before, guard) = (keeper(&home, &job), guard_of(keeper(&home, &job)));
        let then = format!("resume) real \"$@\";;\n*) {then};;");
        let mut command = home.outlive(["--json", "upgrade", "--force", &job]);
        command.env("OUTLIVE_KEEPER", pretender(&home, name, &then));
        let said = finish(command, b"").ok().json();
        assert_eq!(said["jobs"][0]["result"], "upgraded", "{said}");
        assert_eq!(keeper(&home, &job), before);
        until("there is another guard", || guard_of(before).is_some_and(|other| Some(other) != guard));
        if outlive_sys::exit::can_tell() {
            crate::guard::replace_keeper(&home, &job);
        }
        assert_ends_whole(&home, std::slice::from_ref(&job));
    }
}
