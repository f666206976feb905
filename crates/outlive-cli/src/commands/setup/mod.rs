//! `outlive setup`: tell an agent's client of the MCP server, and a shell of completion.
//!
//! A new entry goes through the client's own command where there is one, for the client knows its file best. An entry that is
//! there and says something else is changed in the file itself: taking it out and adding it anew would lose what the user has put
//! beside the command.

mod boot;
mod client;
mod diff;
mod entry;
mod file;
mod form;
mod hook;
mod json;
mod shell;
mod toml;
mod waking;
mod yaml;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::ValueEnum;
use outlive::{Code, SessionName};
use serde::Serialize;
use serde_json::json;

use self::client::{Client, shown};
use self::entry::{Entry, NAME, in_path, quoted};
use self::file::Settings;
use self::form::{Form, Unfit};
use crate::args::{ClientChoice, Setup};
use crate::failure::{Failure, chain};
use crate::render::{answer, table, width};

pub(crate) fn run(
    arguments: &Setup,
    session: Option<&SessionName>,
    is_json: bool,
) -> Result<ExitCode, Failure> {
    if arguments.list {
        return list(is_json);
    }
    if arguments.client == Some(ClientChoice::Shell) {
        return shell::run(arguments, is_json);
    }
    if arguments.client == Some(ClientChoice::Boot) {
        return boot::run(arguments, is_json);
    }
    if arguments.wake {
        let unnamed =
            || Failure::usage("setup: --wake needs a client", "such as: outlive setup claude-code --wake");
        return waking::run(arguments.client.ok_or_else(unnamed)?, arguments, is_json);
    }
    let entry = Entry::of_this_program(session, arguments.profile.map(|profile| profile.name()))?;
    let Some(choice) = arguments.client else { return print_entry(&entry, is_json) };
    let client = Client::of(choice)?;
    if arguments.print {
        let text = client.form.with("", &entry).map_err(|why| left_alone(&client, &why))?;
        let object =
            json!({ "client": client.title, "file": client.file.display().to_string(), "text": text });
        return answer(is_json, &object, || text.clone());
    }
    let settings = Settings::read(&client.file)?;
    let plan = Plan::make(&client, &settings, &entry, arguments.remove)?;
    let backup = if arguments.write { plan.carry_out(&client, &settings, &entry)? } else { None };
    let object = plan.object(&client, arguments.write, backup.as_deref());
    answer(is_json, &object, || match (plan.action, arguments.write) {
        (Action::Nothing, _) => plan.nothing(&client),
        (_, true) => plan.done(&client, backup.as_deref()),
        (_, false) => plan.preview(&client),
    })
}

/// Lists the clients with their files, and whether they have outlive.
fn list(is_json: bool) -> Result<ExitCode, Failure> {
    let mut rows = vec![["CLIENT", "OUTLIVE", "WAKES", "FILE"].map(str::to_owned).to_vec()];
    let mut objects = Vec::new();
    for choice in ClientChoice::value_variants().iter().filter(|choice| choice.is_client()) {
        let name = choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let client = Client::of(*choice)?;
        let has = Settings::read(&client.file).ok().and_then(|settings| client.form.has(&settings.text).ok());
        let word = match has {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unreadable",
        };
        let wakes = waking::is_there(*choice);
        let woken = match wakes {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        let untried = if client.is_tried { "" } else { " (untried)" };
        objects.push(json!({
            "client": name, "title": client.title, "file": client.file.display().to_string(),
            "has_outlive": has, "wakes": wakes, "tried": client.is_tried,
        }));
        rows.push(vec![name, word.to_owned(), woken.to_owned(), format!("{}{untried}", shown(&client.file))]);
    }
    answer(is_json, &objects, || table(&rows, width(), |_, _, cell| cell.into()))
}

/// The entry for clients that outlive does not know.
fn print_entry(entry: &Entry, is_json: bool) -> Result<ExitCode, Failure> {
    let object = BTreeMap::from([("mcpServers", BTreeMap::from([(NAME, entry)]))]);
    let text = serde_json::to_string_pretty(&object).map_err(|error| Failure::other("json", &error))?;
    answer(is_json, &object, || text + "\n")
}

/// Returns the command line that was given, with `--write`.
fn repeated_with_write() -> String {
    let words = std::env::args_os().skip(1).chain(["--write".into()]);
    quoted(std::iter::once(NAME.into()).chain(words))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    #[serde(rename = "none")]
    Nothing,
    Add,
    Change,
    Remove,
}

impl Action {
    /// Tells what it does to a file, and what was done to the client.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Nothing => ("changes nothing in", "not changed in"),
            Self::Add => ("adds outlive to", "added to"),
            Self::Change => ("changes the entry of outlive in", "changed in"),
            Self::Remove => ("removes outlive from", "removed from"),
        }
    }
}

/// What is to be done.
struct Plan<'a> {
    action: Action,
    /// The client's own command with its arguments; none: the file is edited.
    command: Option<(PathBuf, Vec<&'a str>)>,
    /// What the file is to become.
    text: String,
    diff: String,
}

impl<'a> Plan<'a> {
    fn make(
        client: &Client,
        settings: &Settings,
        entry: &'a Entry,
        is_removal: bool,
    ) -> Result<Self, Failure> {
        let old = settings.text.as_str();
        let unfit = |why: Unfit| left_alone(client, &why);
        let has = client.form.has(old).map_err(unfit)?;
        let text = if is_removal { client.form.without(old) } else { client.form.with(old, entry) };
        let text = text.map_err(unfit)?;
        let action = match (is_removal, has) {
            _ if text == old => Action::Nothing,
            (true, _) => Action::Remove,
            (false, true) => Action::Change,
            (false, false) => Action::Add,
        };
        let arguments = match action {
            Action::Add => Some(client.add.iter().copied().chain(entry.words()).collect()),
            Action::Remove => Some(client.remove.to_vec()),
            Action::Nothing | Action::Change => None,
        };
        let has_command = !client.add.is_empty();
        let arguments = arguments.filter(|_| has_command);
        let command = arguments.and_then(|arguments| Some((in_path(client.program)?, arguments)));
        let diff = if action == Action::Nothing { String::new() } else { diff::diff(old, &text) };
        Ok(Self { action, command, text, diff })
    }

    /// Does it, and returns where the file as it was is kept.
    fn carry_out(
        &self,
        client: &Client,
        settings: &Settings,
        entry: &Entry,
    ) -> Result<Option<PathBuf>, Failure> {
        if self.action == Action::Nothing {
            return Ok(None);
        }
        let backup = settings.back_up()?;
        let Some((program, arguments)) = &self.command else {
            settings.replace(&self.text)?;
            return Ok(backup);
        };
        execute(program, arguments)?;
        let is_removal = self.action == Action::Remove;
        let settings = Settings::read(&client.file)?;
        let unfit = |why: Unfit| left_alone(client, &why);
        if client.form.has(&settings.text).map_err(unfit)? == is_removal {
            let what = if is_removal { "still has" } else { "does not have" };
            return Err(failure(
                format!(
                    "{} ran without an error, but {} {what} the entry",
                    client.program,
                    shown(&client.file)
                ),
                format!("look yourself: {}", client.check),
            ));
        }
        // What the client's own command cannot say.
        if !is_removal {
            let text = client.form.with(&settings.text, entry).map_err(unfit)?;
            if text != settings.text {
                settings.replace(&text)?;
            }
        }
        Ok(backup)
    }

    fn nothing(&self, client: &Client) -> String {
        let file = shown(&client.file);
        match client.form.has(&self.text) {
            Ok(true) => format!("nothing to do: {} has {NAME} already, in {file}\n", client.title),
            _ => format!("nothing to do: {} does not have {NAME}, in {file}\n", client.title),
        }
    }

    fn preview(&self, client: &Client) -> String {
        let (file, (does, _)) = (shown(&client.file), self.action.words());
        let mut text = match &self.command {
            Some((_, arguments)) => {
                let own = quoted(std::iter::once(&client.program).chain(arguments));
                format!("this {does} {file}, through {}'s own command:\n\n  {own}\n", client.title)
            }
            None => format!("this {does} {file}:\n\n{}", indented(&self.diff)),
        };
        if let (Form::Toml, Action::Add, Some(_)) = (client.form, self.action, &self.command) {
            let further = indented(&toml::further_lines());
            text.push_str(&format!("\nand then these lines in the entry:\n\n{further}"));
        }
        if !client.is_tried {
            text.push_str(&format!("\nuntried: this is what the documentation of {} says\n", client.title));
        }
        text.push_str(&format!("\nto have it done: {}\n", repeated_with_write()));
        text
    }

    fn done(&self, client: &Client, backup: Option<&Path>) -> String {
        let (_, done) = self.action.words();
        let mut text = format!("{NAME} {done} {}, in {}\n", client.title, shown(&client.file));
        if let Some(backup) = backup {
            text.push_str(&format!("as it was before: {}\n", shown(backup)));
        }
        let others = if self.action == Action::Remove { "keep it" } else { "do not see it" };
        text.push_str(&format!("conversations that run already {others}; to check: {}\n", client.check));
        text
    }

    fn object(&self, client: &Client, is_written: bool, backup: Option<&Path>) -> serde_json::Value {
        let command = self.command.as_ref().map(|(program, arguments)| {
            let program = program.display().to_string();
            std::iter::once(program).chain(arguments.iter().map(ToString::to_string)).collect::<Vec<_>>()
        });
        json!({
            "client": client.title,
            "file": client.file.display().to_string(),
            "action": self.action,
            "written": is_written && self.action != Action::Nothing,
            "command": command,
            "diff": self.diff,
            "backup": backup.map(|backup| backup.display().to_string()),
        })
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// What keeps a client's settings from being changed.
fn failure(message: impl Into<String>, hint: impl Into<Box<str>>) -> Failure {
    Failure::new(Code::Setup, message).during("setup").hint(hint)
}

fn left_alone(client: &Client, why: &Unfit) -> Failure {
    failure(
        format!("{} was left alone: {}", shown(&client.file), why.0),
        "put it right first, or put the entry in by hand: outlive setup --print",
    )
}

/// Runs the client's own command. It gets nothing to read: none of these asks anything.
fn execute(program: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let line = quoted(std::iter::once(program.as_os_str()).chain(arguments.iter().map(AsRef::as_ref)));
    let failed = |why: String| failure(format!("{line}: {why}"), "run it yourself to see what is wrong");
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(chain(&error)))?;
    if output.status.success() {
        return Ok(());
    }
    let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    let said = String::from_utf8_lossy(said);
    let last: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = last[last.len().saturating_sub(3)..].join("; ");
    let colon = if last.is_empty() { "" } else { ": " };
    Err(failed(format!("{}{colon}{last}", output.status)))
}
