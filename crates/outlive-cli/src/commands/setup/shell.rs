//! `outlive setup shell`: completion in the user's shell, by a line in its startup file, or by a file where the shell looks.

use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::Shell;
use serde_json::json;

use super::client::{directory, shown};
use super::entry::{NAME, quoted, this_program};
use super::failure;
use super::file::Settings;
use crate::args::Setup;
use crate::commands::completions::script;
use crate::failure::Failure;
use crate::render::answer;

/// Ends a line of ours in a startup file.
const MARK: &str = "# outlive setup shell";

pub(super) fn run(arguments: &Setup, is_json: bool) -> Result<ExitCode, Failure> {
    let shell = arguments.shell.map_or_else(own_shell, Ok)?;
    let (file, own) = place(shell)?;
    if arguments.print {
        return answer(is_json, &json!({ "file": file.display().to_string(), "text": own }), || own.clone());
    }
    let settings = Settings::read(&file)?;
    let kept = kept(shell, &settings.text);
    let text = if arguments.remove { kept } else { kept + &own };
    let is_changed = text != settings.text;
    // The copy is of the file before it had the line: taking the line out makes none.
    let backup = if is_changed && !arguments.remove { settings.back_up()? } else { None };
    match is_changed {
        true if text.is_empty() => settings.remove()?,
        true => settings.replace(&text)?,
        false => {}
    }
    if arguments.remove {
        settings.forget_backup(&text);
    }
    let object = json!({
        "shell": shell.to_string(),
        "file": file.display().to_string(),
        "written": is_changed,
        "backup": backup.as_ref().map(|backup| backup.display().to_string()),
    });
    let (file, verb) = (shown(&file), if arguments.remove { "removed from" } else { "added to" });
    let done = match (is_changed, arguments.remove) {
        (false, true) => format!("nothing to do: {file} has no completion of {NAME}\n"),
        (false, false) => format!("nothing to do: {file} has completion of {NAME} already\n"),
        (true, true) => format!("completion of {NAME} {verb} {file}\n"),
        (true, false) => format!(
            "completion of {NAME} {verb} {file}; new shells have it\nto take it out again: {NAME} setup shell --remove\n"
        ),
    };
    let before = backup.map(|backup| format!("as it was before: {}\n", shown(&backup))).unwrap_or_default();
    answer(is_json, &object, || done + &before)
}

/// Returns the shell that the user logs in with.
fn own_shell() -> Result<Shell, Failure> {
    let program = std::env::var("SHELL").unwrap_or_default();
    let shell = Shell::from_shell_path(&program).filter(|&shell| script(shell).is_some());
    shell.ok_or_else(|| {
        failure(
            format!("SHELL={program} is not bash, zsh or fish"),
            "name one: outlive setup shell --shell bash; `outlive completions` prints scripts for others",
        )
    })
}

/// Returns the file, and what is to be in it.
fn place(shell: Shell) -> Result<(PathBuf, String), Failure> {
    let line = |shell: &str| -> Result<String, Failure> {
        let program = quoted([this_program()?]);
        Ok(format!("command -v {program} >/dev/null && eval \"$({program} completions {shell})\" {MARK}\n"))
    };
    Ok(match shell {
        Shell::Bash => (directory("bash", "", "")?.join(".bashrc"), line("bash")?),
        Shell::Zsh => (directory("zsh", "ZDOTDIR", "")?.join(".zshrc"), line("zsh")?),
        _ => {
            let file = directory("fish", "XDG_CONFIG_HOME", ".config")?.join("fish/completions/outlive.fish");
            (file, script(Shell::Fish).unwrap_or_default().to_owned())
        }
    })
}

/// Returns what is not ours of a file. The file of fish is ours alone.
fn kept(shell: Shell, text: &str) -> String {
    if shell == Shell::Fish {
        return String::new();
    }
    let is_ours = |line: &&str| line.trim_end().ends_with(MARK);
    let mut kept: String = text.split_inclusive('\n').filter(|line| !is_ours(line)).collect();
    if !kept.is_empty() && !kept.ends_with('\n') {
        kept.push('\n');
    }
    kept
}
