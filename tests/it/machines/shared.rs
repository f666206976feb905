//! The connection that ssh shares, used without executing ssh.
//!
//! Proves: once ssh has said which connection leads to a machine, no other ssh is executed for it; what ssh would send along is sent along;
//! where the connection or the configuration is another one, or takes no more, ssh is asked again, and the right machine is reached.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use outlive_tests::until;

use super::Machine;

impl Machine {
    /// Lets its ssh write down each time that it is executed for a command.
    fn count_ssh(&self) {
        let dir = self.here.path().join("ssh");
        let wrapper = format!(
            "#!/bin/sh\ncase \" $* \" in *\" -G \"*) ;; *) echo >>{0}/executed ;; esac\nexec /usr/bin/ssh -F {0}/ssh_config \"$@\"\n",
            dir.display()
        );
        // Not written in place: it may be executed.
        fs::write(dir.join("new"), wrapper).expect("written");
        fs::set_permissions(dir.join("new"), fs::Permissions::from_mode(0o755)).expect("set");
        fs::rename(dir.join("new"), dir.join("ssh")).expect("renamed");
    }

    fn executed(&self) -> usize {
        fs::read_to_string(self.here.path().join("ssh/executed")).map_or(0, |text| text.lines().count())
    }

    /// Calls until it is known which connection leads there, so that no ssh is executed.
    fn warm(&self) {
        until("the shared connection is used", || {
            let before = self.executed();
            self.run(&["--host", "gpu1", "list"]).ok();
            self.executed() == before
        });
    }
}

#[test]
fn ssh_is_executed_once_for_a_connection() {
    let Some(machine) = Machine::start() else { return };
    machine.count_ssh();
    machine.warm();
    let before = machine.executed();
    let run = |line: &str| machine.run(&["run", "--on", "gpu1", "--wait", line]);
    assert_eq!(run("echo out; echo err >&2; exit 4").code(4).text(), "out\n");
    machine.run(&["--host", "gpu1", "show", "nothing"]).code(3);
    assert_eq!(machine.executed(), before, "it goes over the shared connection");
    // The process that has the connection is gone, and so is what it was asked for before.
    let path = format!("ControlPath={}", machine.here.path().join("run/outlive/%C").display());
    assert!(machine.ssh(&["-o", &path, "-O", "exit", "gpu1"]).status().expect("it runs").success());
    let before = machine.executed();
    run("true").ok();
    assert_eq!(machine.executed(), before + 1, "ssh connects again");
}

#[test]
fn what_is_configured_anew_holds_at_once() {
    let Some(machine) = Machine::start() else { return };
    machine.count_ssh();
    machine.warm();
    let config = machine.here.path().join("ssh/ssh_config");
    let text = fs::read_to_string(&config).expect("read");
    fs::write(&config, text.replace("Host gpu1", "Host gpu2")).expect("written");
    let refused = machine.run(&["--host", "gpu1", "list"]).code(1);
    assert!(refused.error().contains("gpu1"), "{}", refused.error());
    machine.run(&["--host", "ssh://gpu2", "list"]).ok();
}

#[test]
fn what_ssh_sends_along_is_sent_along() {
    let Some(machine) = Machine::start_with("OTHER=1\nAcceptEnv SENT* SET") else { return };
    machine.count_ssh();
    let config = machine.here.path().join("ssh/ssh_config");
    let text = fs::read_to_string(&config).expect("read");
    fs::write(&config, format!("{text}  SendEnv SENT_*\n  SetEnv SET=3\n")).expect("written");
    machine.warm();
    let before = machine.executed();
    let mut command =
        machine.outlive(&["run", "--on", "gpu1", "--wait", "echo $SENT_A $SENTB $SET $NOT_SENT"]);
    command.envs([("SENT_A", "1"), ("SENTB", "2"), ("NOT_SENT", "4")]);
    assert_eq!(outlive_tests::finish(command, b"").ok().text(), "1 3\n");
    assert_eq!(machine.executed(), before, "it goes over the shared connection");
}

#[test]
fn a_connection_that_takes_no_more_is_left_to_ssh() {
    let Some(machine) = Machine::start_with("OTHER=1\nMaxSessions 1") else { return };
    machine.count_ssh();
    machine.warm();
    let id = machine.run(&["run", "--on", "gpu1", "echo one; sleep 300"]).ok().text().trim_end().to_owned();
    let mut following = machine
        .outlive(&["logs", "-f", &id])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let (text, reading) = super::collect(&mut following);
    until("it follows", || *text.lock().expect("no panic") == "one\n");
    let before = machine.executed();
    assert_eq!(machine.run(&["logs", &id]).ok().text(), "one\n");
    assert_eq!(machine.executed(), before + 1, "another connection is made");
    machine.run(&["kill", &id]).ok();
    assert_eq!(outlive_tests::end_within(&mut following, outlive_tests::LIMIT), Some(0));
    reading.join().expect("read");
}
