//! The plainest ways to start a job, to list all and to look at one, here and on another machine, and what a shell asks where the tab key
//! is pressed, read without clap: to declare every option takes longer than all else that they wait for.
//!
//! What it reads it reads as the declarations in `args` would; whatever else there is, and whatever is wrong, is left to them.

use std::ffi::OsString;

use crate::args::{Arguments, Common, Complete, List, Logs, Run, Show, Verb};

/// Reads `run [--json] [--name NAME] [--on HOST] [--cwd DIR] [--shell PROGRAM] [--] COMMAND`, `list [--json] [--all]`, `show [--json] JOB`
/// and `logs [--json] [-n COUNT] [-f] JOB…`, all also after `--host HOST`, `complete PLACE -- WORD…`,
/// `complete --line LINE --replaced END` and `rpc [--greet]`; none: it is something else.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Option<Arguments> {
    let mut arguments = arguments.into_iter().skip(1).peekable();
    let (mut common, mut run) = (Common::default(), Run::default());
    let verb = loop {
        let argument = arguments.next()?;
        match argument.to_str()? {
            "--json" if !common.json => common.json = true,
            "--host" if common.host.is_none() => {
                common.host = Some(arguments.next().filter(is_value)?.into_string().ok()?);
            }
            _ => break argument,
        }
    };
    match verb.to_str()? {
        "run" => {}
        "list" => return read_list(common, arguments),
        "show" => return read_show(common, arguments),
        "logs" => return read_logs(common, arguments),
        "complete" => return read_complete(common, arguments),
        "rpc" => {
            let greet = arguments.next_if(|word| word == "--greet").is_some();
            let is_all = arguments.peek().is_none();
            return is_all.then(|| Arguments { common, verb: Some(Verb::Rpc { greet }) });
        }
        _ => return None,
    }
    loop {
        let argument = arguments.next()?;
        let mut value = || arguments.next().filter(is_value);
        match argument.to_str() {
            Some("--json") if !common.json => common.json = true,
            Some("--name") if run.options.0.name.is_none() => {
                run.options.0.name = Some(Some(value()?.into_string().ok()?));
            }
            Some("--on") if run.on.is_none() => run.on = Some(value()?.into_string().ok()?),
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

fn read_show(mut common: Common, arguments: impl Iterator<Item = OsString>) -> Option<Arguments> {
    let mut show = Show::default();
    for argument in arguments {
        match argument.to_str()? {
            "--json" if !common.json => common.json = true,
            job if is_value(&argument) && show.job.is_empty() => job.clone_into(&mut show.job),
            _ => return None,
        }
    }
    (!show.job.is_empty()).then_some(Arguments { common, verb: Some(Verb::Show(show)) })
}

fn read_logs(mut common: Common, mut arguments: impl Iterator<Item = OsString>) -> Option<Arguments> {
    let mut logs = Logs::default();
    while let Some(argument) = arguments.next() {
        match argument.to_str()? {
            "--json" if !common.json => common.json = true,
            "-f" if !logs.follow => logs.follow = true,
            "-n" if logs.lines.is_none() => logs.lines = Some(arguments.next()?.to_str()?.parse().ok()?),
            job if is_value(&argument) => logs.jobs.push(job.to_owned()),
            _ => return None,
        }
    }
    Some(Arguments { common, verb: Some(Verb::Logs(logs)) })
}

fn read_complete(common: Common, mut arguments: impl Iterator<Item = OsString>) -> Option<Arguments> {
    let first = arguments.next()?;
    let mut complete = Complete::default();
    if first == "--line" {
        complete.line = Some(arguments.next()?);
        complete.replaced =
            Some(arguments.next().filter(|option| option == "--replaced").and(arguments.next())?);
        if arguments.next().is_some() {
            return None;
        }
    } else {
        complete.place = Some(Some(first).filter(is_value)?.to_str()?.parse().ok()?);
        complete.words = arguments.next().filter(|dashes| dashes == "--").map(|_| arguments.collect())?;
    }
    Some(Arguments { common, verb: Some(Verb::Complete(complete)) })
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
        let begins_and_words: [(&[&[&str]], &[&str]); 4] = [
            (
                &[&["run"], &["--json", "run"], &["--host", "gpu1", "run"], &["rpc"]],
                &[
                    "--json", "--name", "web", "--cwd", "/tmp", "--shell", "sh", "--", "echo hi", "--wait",
                    "-x", "", "--host", "--on",
                ],
            ),
            (
                &[&["list"], &["--host", "gpu1", "--json", "list"]],
                &["--json", "--all", "--host", "web", "-x", ""],
            ),
            (
                &[&["show"], &["logs"], &["--host", "gpu1", "logs"]],
                &["--json", "web", "100", "-n", "-f", "--", "-1", "+1", "--tree", ""],
            ),
            (
                &[&["complete"], &["--json", "complete"]],
                &["2", "-1", "+1", "x", "--", "", "--json", "outlive", "--line", "--replaced"],
            ),
        ];
        let mut read = 0;
        for (begins, words) in begins_and_words {
            let mut lines: Vec<Vec<&str>> = vec![vec![]];
            for _ in 0..4 {
                lines = lines
                    .iter()
                    .flat_map(|line| words.iter().map(move |word| [line.as_slice(), &[*word]].concat()))
                    .collect();
                for (begin, line) in
                    begins.iter().flat_map(|begin| lines.iter().map(move |line| (begin, line)))
                {
                    let line: Vec<OsString> =
                        ["outlive"].iter().chain(*begin).chain(line).map(OsString::from).collect();
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
            &["outlive", "rpc"],
            &["outlive", "complete", "2", "--", "outlive", "logs", ""],
            &["outlive", "complete", "--line", "outlive logs ", "--replaced", ""],
            &["outlive", "rpc", "--greet"],
            &["outlive", "--json", "list", "--all"],
            &["outlive", "show", "web"],
            &["outlive", "logs", "-n", "100", "web", "-f"],
            &["outlive", "--host", "ssh://gpu1", "run", "true"],
            &["outlive", "run", "--on", "gpu1", "true"],
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
            &["outlive", "show", "a", "b"],
            &["outlive", "logs", "-n", "many", "web"],
            &["outlive", "rpc", "x"],
            &["outlive", "complete", "2", "outlive"],
            &["outlive", "rpc", "--greet", "x"],
            &["outlive", "--host", "a", "--host", "b", "list"],
            &["outlive", "--json", "list", "--json"],
            &["outlive", "run", "echo hi", "--wait"],
        ] {
            assert!(read(line.iter().map(OsString::from)).is_none(), "{line:?}");
        }
    }
}
