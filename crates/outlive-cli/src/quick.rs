//! The plainest ways to start a job, read without clap: to declare every option takes longer than all else that a start waits for.
//!
//! What it reads it reads as the declarations in `args` would; whatever else there is, and whatever is wrong, is left to them.

use std::ffi::OsString;

use crate::args::{Arguments, Common, Run, Verb};

/// Reads `run [--json] [--name NAME] [--cwd DIR] [--shell PROGRAM] LINE` or `… -- PROGRAM ARGS`; none: it is something else.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Option<Arguments> {
    let mut arguments = arguments.into_iter().skip(1).peekable();
    let (mut common, mut run) = (Common::default(), Run::default());
    common.json = arguments.next_if(|argument| argument == "--json").is_some();
    arguments.next().filter(|verb| verb == "run")?;
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
                run.argv = arguments.collect();
                break;
            }
            _ if is_value(&argument) => {
                run.line.push(argument);
                // What follows may be an option, or more of the line.
                if arguments.next().is_some() {
                    return None;
                }
                break;
            }
            _ => return None,
        }
    }
    (!run.line.is_empty() || !run.argv.is_empty())
        .then(|| Arguments { common, verb: Verb::Run(Box::new(run)) })
}

/// Tells whether this can be nothing but a value.
fn is_value(argument: &OsString) -> bool {
    !argument.is_empty() && !argument.as_encoded_bytes().starts_with(b"-")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// Whatever it reads, the declarations read the same.
    #[test]
    fn it_reads_what_the_declarations_read() {
        let words = [
            "--json", "--name", "web", "--cwd", "/tmp", "--shell", "sh", "--", "echo hi", "--wait", "-x", "",
        ];
        let mut lines: Vec<Vec<&str>> = vec![vec![]];
        let mut read = 0;
        for _ in 0..4 {
            lines = lines
                .iter()
                .flat_map(|line| words.iter().map(move |word| [line.as_slice(), &[*word]].concat()))
                .collect();
            for line in &lines {
                for begin in [&["outlive", "run"][..], &["outlive", "--json", "run"]] {
                    let line: Vec<OsString> = begin.iter().chain(line).map(OsString::from).collect();
                    let Some(quick) = super::read(line.clone()) else { continue };
                    let declared = Arguments::try_parse_from(line.clone());
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
            &["outlive", "--json", "run", "--name", "a", "--cwd", "b", "--", "x", "--y", ""],
        ] {
            assert!(read(line.iter().map(OsString::from)).is_some(), "{line:?}");
        }
        for line in
            [&["outlive"][..], &["outlive", "run"], &["outlive", "run", "--"], &["outlive", "list", "x"]]
        {
            assert!(read(line.iter().map(OsString::from)).is_none(), "{line:?}");
        }
    }
}
