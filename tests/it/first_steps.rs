//! The guide of the first steps, run as it stands: each command of `docs/guide/first-steps.md`, in order, in one home.
//!
//! What the guide shows below a command is in its output; a hint comes with a usage error, and all else succeeds unless it says how
//! it exits.

use outlive_tests::{Home, finish, workspace};

/// A command of the guide, and what is shown below it.
struct Step<'a> {
    command: &'a str,
    shown: Vec<&'a str>,
}

fn steps(guide: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut is_console = false;
    for line in guide.lines() {
        match (line, is_console) {
            ("```console", _) => is_console = true,
            ("```", _) => is_console = false,
            (line, true) => match line.strip_prefix("$ ") {
                Some(command) => steps.push(Step { command, shown: Vec::new() }),
                None => steps.last_mut().expect("a command comes first").shown.push(line),
            },
            _ => {}
        }
    }
    steps
}

/// Tells whether a line has the parts of another one in their order; `…` stands between them.
fn fits(line: &str, shown: &str) -> bool {
    let mut rest = line;
    shown.split('…').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[test]
fn every_command_of_the_first_steps_works_or_names_the_one_that_does() {
    let home = Home::new();
    let guide = std::fs::read_to_string(workspace().join("docs/guide/first-steps.md")).expect("it is there");
    let steps = steps(&guide);
    assert!(steps.len() >= 40, "{} commands", steps.len());
    for Step { command, shown } in steps {
        let mut shell = home.command("bash");
        shell.args(["-c", command]);
        let done = finish(shell, b"");
        let text = format!("{}{}", done.text(), done.error());
        let exit = shown.iter().find_map(|line| line.strip_prefix("# exits with "));
        let is_refused = shown.iter().any(|line| line.starts_with("hint: "));
        let wanted = exit.map_or(if is_refused { 2 } else { 0 }, |code| code.parse().expect("a number"));
        assert_eq!(done.code, wanted, "$ {command}\n{text}");
        for line in shown.iter().filter(|line| !line.starts_with('#')) {
            assert!(text.lines().any(|said| fits(said, line)), "$ {command}\nshows no {line:?}:\n{text}");
        }
    }
}
