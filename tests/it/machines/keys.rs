//! What is typed into an attached terminal while its machine cannot be reached.
//!
//! Proves: it is sent once when the machine is back; where it is not known whether a key has arrived, none after it is sent, and the
//! viewer says so.

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use outlive_tests::{LIMIT, Terminal, end_within, signal};

use super::Machine;

/// Attaches to a job that answers each line, and writes it down.
fn attach(machine: &Machine) -> (String, PathBuf, Terminal, Child) {
    let typed = machine.there.path().join("typed");
    let line = format!("while read x; do echo got $x; echo $x >>{}; done", typed.display());
    let job = machine.run(&["run", "--on", "gpu1", "-t", &line]).ok().text().trim_end().to_owned();
    let terminal = Terminal::open(80);
    let variables = machine.variables();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let attached = terminal.start(&machine.here, &variables, ["outlive", "attach", &job]);
    (job, typed, terminal, attached)
}

#[test]
fn what_is_typed_during_a_cut_is_sent_once() {
    let Some(mut machine) = Machine::start() else { return };
    let (job, typed, mut terminal, mut attached) = attach(&machine);
    terminal.write(b"first\r");
    terminal.read_until("got first");
    machine.cut();
    terminal.read_until("trying again");
    terminal.write(b"sec");
    terminal.write(b"ond\r");
    machine.listen();
    terminal.read_until("got second");
    terminal.write(b"third\r");
    terminal.read_until("got third");
    assert_eq!(fs::read_to_string(&typed).expect("it was written"), "first\nsecond\nthird\n");
    machine.run(&["kill", &job]).ok();
    assert_eq!(end_within(&mut attached, LIMIT), Some(0));
}

#[test]
fn what_may_have_arrived_is_not_sent_again_and_that_is_told() {
    let Some(mut machine) = Machine::start() else { return };
    let (job, typed, mut terminal, mut attached) = attach(&machine);
    terminal.write(b"first\r");
    terminal.read_until("got first");
    machine.servers().iter().for_each(|pid| signal(*pid, "STOP"));
    terminal.write(b"second\r");
    machine.cut_silently();
    terminal.read_until("trying again");
    // The end of a line whose beginning was perhaps lost.
    terminal.write(b"tail\r");
    machine.listen();
    terminal.read_until("type it again");
    terminal.write(b"third\r");
    terminal.read_until("got third");
    assert_eq!(fs::read_to_string(&typed).expect("it was written"), "first\nthird\n");
    machine.run(&["kill", &job]).ok();
    assert_eq!(end_within(&mut attached, LIMIT), Some(0));
}
