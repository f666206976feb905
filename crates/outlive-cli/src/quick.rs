//! The plainest ways to start a job and to list all, read without clap: to declare every option takes longer than all else that a start
//! waits for.
//!
//! What it reads it reads as the declarations in `args` would; whatever else there is, and whatever is wrong, is left to them.

use std::ffi::OsString;

use crate::args::{Arguments, Common, List, Run, Verb};

/// Reads `run [--json] [--name NAME] [--cwd DIR] [--shell PROGRAM] [--] COMMAND` and `list [--json] [--all]`; none: it is something
/// else.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Option<Arguments> {
    let mut arguments = arguments.into_iter().skip(1).peekable();
    let (mut common, mut run) = (Common::default(), Run::default());
    common.json = arguments.next_if(|argument| argument == "--json").is_some();
    let verb = arguments.next()?;
    if verb == "list" {
        return read_list(common, arguments);
    }
    if verb != "run" {
        return None;
    }
    loop {
        let argument = arguments.next()?;
        let mut value = || arguments.next().filter(is_value);
        match argument.to_str() {
            Some("--json") if !common.json => common.json = true,
            Some("--name") if run.options.0.name.is_none() => {
                run.options.0.name = Some(Some(value()?.into_string().ok()?));
            }
            Some("--cwd") if run.cwd.is_none() => run.cwd = Some(value()?.into()),
            Some("--shell") if run.shell.is_none() => run.shell = Some(value()?.into()),
            Some("--") => {
                run.is_program = true;
                run.command = arguments.collect();
                break;
            }
            _ if is_value(&argument) => {
                run.command = std::iter::once(argument).chain(arguments).collect();
                break;
            }
            _ => return None,
        }
    }
    // What follows a line for the shell may be an option.
    let is_plain = run.command.len() == 1 || (!run.command.is_empty() && !run.begins_with_line());
    is_plain.then(|| Arguments { common, verb: Some(Verb::Run(Box::new(run))) })
}

fn read_list(mut common: Common, arguments: impl Iterator<Item = OsString>) -> Option<Arguments> {
    let mut list = List::default();
    for argument in arguments {
        let flag = match argument.to_str()? {
            "--json" => &mut common.json,
            "--all" => &mut list.all,
            _ => return None,
        };
        // One that is given twice is a mistake.
        if std::mem::replace(flag, true) {
            return None;
        }
    }
    Some(Arguments { common, verb: Some(Verb::List(list)) })
}

/// Tells whether this can be nothing but a value.
fn is_value(argument: &OsString) -> bool {
    !argument.is_empty() && !argument.as_encoded_bytes().starts_with(b"-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever it reads, the declarations read the same.
    #[test]
    fn it_reads_what_the_declarations_read() {
        let words = [
            "--json", "--name", "web", "--cwd", "/tmp", "--shell", "sh", "--", "echo hi", "--wait", "-x", "",
            "--all",
        ];
        let mut lines: Vec<Vec<&str>> = vec![vec![]];
        let mut read = 0;
        for _ in 0..4 {
            lines = lines
                .iter()
                .flat_map(|line| words.iter().map(move |word| [line.as_slice(), &[*word]].concat()))
                .collect();
            for line in &lines {
                for begin in [&["outlive", "run"][..], &["outlive", "--json", "run"], &["outlive", "list"]] {
                    let line: Vec<OsString> = begin.iter().chain(line).map(OsString::from).collect();
                    let Some(quick) = super::read(line.clone()) else { continue };
                    let declared = crate::parse_declared(line.clone());
                    let declared = declared.map_err(|error| format!("{line:?}: {error}")).unwrap();
                    assert_eq!(format!("{quick:?}"), format!("{declared:?}"), "{line:?}");
                    read += 1;
                }
            }
        }
        assert!(read > 1000, "{read}");
    }

    #[test]
    fn the_plain_ways_are_read() {
        for line in [
            &["outlive", "run", "echo hi"][..],
            &["outlive", "run", "--shell", "sh", "echo hi"],
            &["outlive", "list"],
            &["outlive", "--json", "list", "--all"],
            &["outlive", "--json", "run", "--name", "a", "--cwd", "b", "--", "x", "--y", ""],
            &["outlive", "run", "--name", "a", "python3", "-m", "http.server", "--", "--json"],
        ] {
            assert!(read(line.iter().map(OsString::from)).is_some(), "{line:?}");
        }
        for line in [
            &["outlive"][..],
            &["outlive", "run"],
            &["outlive", "run", "--"],
            &["outlive", "list", "x"],
            &["outlive", "--json", "list", "--json"],
            &["outlive", "run", "echo hi", "--wait"],
        ] {
            assert!(read(line.iter().map(OsString::from)).is_none(), "{line:?}");
        }
    }
}
