//! Two machines in networks of their own, and the cable to one of them pulled for a while.
//!
//! Proves: a follow, a wait and an attached terminal go on when it is back, with no byte lost or repeated and one answer; the same for
//! those that were killed meanwhile and started anew; the other machine is not touched.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use outlive_tests::{LIMIT, Terminal, end_within, until};

use super::{Machine, collect};

/// How long the cable is out, in seconds; `./test machines` takes 30. `ssh` gives a connection up after 15.
fn out() -> Duration {
    let given = std::env::var("OUTLIVE_TEST_CUT").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(3))
}

fn spawn(machine: &Machine, arguments: &[&str]) -> Child {
    let mut command = machine.outlive(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
}

fn count_until(machine: &Machine, name: &str) -> (String, std::path::PathBuf) {
    let stop = machine.there.path().join("stop");
    let line = format!(
        "i=0; while [ ! -e {} ]; do i=$((i+1)); echo line $i; sleep 0.005; done; exit 6",
        stop.display()
    );
    let id = machine.run(&["run", "--on", name, &line]).ok().text().trim_end().to_owned();
    (id, stop)
}

#[test]
fn a_pulled_cable_loses_and_repeats_nothing() {
    let Some([machine, other]) = Machine::pair() else { return };
    let link = machine.link.as_ref().expect("it has a network of its own");
    let (job, stop) = count_until(&machine, "gpu1");
    let (beside, stop_beside) = count_until(&other, "gpu2");
    let typed = machine.there.path().join("typed");
    let line = format!("while read x; do echo got $x; echo $x >>{}; done", typed.display());
    let talks = machine.run(&["run", "--on", "gpu1", "-t", &line]).ok().text().trim_end().to_owned();
    let mut terminal = Terminal::open(80);
    let variables = machine.variables();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut attached = terminal.start(&machine.here, &variables, ["outlive", "attach", &talks]);
    terminal.write(b"first\r");
    terminal.read_until("got first");
    let (mut following, mut waiting) =
        (spawn(&machine, &["logs", "-f", &job]), spawn(&machine, &["--json", "wait", &job]));
    let (mut killed, mut killed_too) =
        (spawn(&machine, &["logs", "-f", &job]), spawn(&machine, &["--json", "wait", &job]));
    let mut undisturbed = spawn(&machine, &["logs", "-f", &beside]);
    let (text, reading) = collect(&mut following);
    let (answer, answering) = collect(&mut waiting);
    let (_, reading_killed) = collect(&mut killed);
    let (text_beside, reading_beside) = collect(&mut undisturbed);
    let lines = || text.lock().expect("no panic").lines().count();
    let lines_beside = || text_beside.lock().expect("no panic").lines().count();
    until("it follows", || lines() > 50 && lines_beside() > 50);
    link.set("down");
    let before = lines_beside();
    std::thread::sleep(out());
    assert!(lines_beside() > before, "the other machine is not touched");
    // This side is killed while the cable is out, and started anew.
    for child in [&mut killed, &mut killed_too] {
        child.kill().and_then(|()| child.wait()).expect("our child");
    }
    reading_killed.join().expect("read");
    let (mut anew, mut waiting_anew);
    link.set("up");
    let before = lines();
    until("it goes on", || lines() > before + 50);
    anew = spawn(&machine, &["logs", "-f", &job]);
    waiting_anew = spawn(&machine, &["--json", "wait", &job]);
    let (text_anew, reading_anew) = collect(&mut anew);
    let (answer_anew, answering_anew) = collect(&mut waiting_anew);
    // Keys of which it is not known whether they have arrived are not sent again (`keys`); the terminal itself goes on.
    until("keys arrive again", || {
        terminal.write(b"second\r");
        std::thread::sleep(Duration::from_millis(200));
        fs::read_to_string(&typed).is_ok_and(|text| text.contains("second"))
    });
    terminal.read_until("got second");
    fs::write(&stop, "").expect("written");
    fs::write(&stop_beside, "").expect("written");
    for (child, code) in [
        (&mut waiting, 7),
        (&mut waiting_anew, 7),
        (&mut following, 0),
        (&mut anew, 0),
        (&mut undisturbed, 0),
    ] {
        assert_eq!(end_within(child, LIMIT), Some(code));
    }
    for thread in [reading, answering, reading_anew, answering_anew, reading_beside] {
        thread.join().expect("read");
    }
    let printed = String::from_utf8(machine.there.logs(bare(&job))).expect("text");
    for followed in [&text, &text_anew] {
        assert!(
            *followed.lock().expect("no panic") == printed,
            "{} lines of {}",
            lines(),
            printed.lines().count()
        );
    }
    let printed = String::from_utf8(other.there.logs(bare(&beside))).expect("text");
    assert!(*text_beside.lock().expect("no panic") == printed);
    for answer in [&answer, &answer_anew] {
        assert_eq!(answer.lock().expect("no panic").lines().count(), 1, "the waiter is told once");
    }
    machine.run(&["kill", &talks]).ok();
    assert_eq!(end_within(&mut attached, LIMIT), Some(0));
}

fn bare(job: &str) -> &str {
    job.split_once('/').expect("a machine").1
}
