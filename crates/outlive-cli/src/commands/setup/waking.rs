//! What wakes an idle agent: a hook in its client's settings, or a file of outlive's own that the client loads.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::client::{directory, shown};
use super::diff;
use super::entry::{quoted, this_program};
use super::file::Settings;
use super::form::Unfit;
use super::hook::{Further, Hook, VERB};
use super::{Action, failure, indented, repeated_with_write};
use crate::args::{ClientChoice, Setup};
use crate::failure::Failure;
use crate::render::answer;

/// How a client is told to run `outlive wake`.
enum Way {
    /// A hook in a file of settings.
    Hook(PathBuf, Hook),
    /// A file that is all outlive's, and its text.
    Files(Vec<(PathBuf, String)>),
}

/// What wakes the agent of a client.
struct Waking {
    title: &'static str,
    way: Way,
    /// Whether it was seen to work; else the client's documentation says so.
    is_tried: bool,
}

/// Where a client stands still while its hook runs: what is waited for, and how long.
const STANDS_STILL: [&str; 3] = ["--skip-servers", "--timeout", "10m"];

impl Waking {
    fn of(choice: ClientChoice) -> Result<Self, Failure> {
        let program = this_program()?;
        let line =
            |options: &[&str]| quoted([program.as_str(), VERB].into_iter().chain(options.iter().copied()));
        let hook = |event, options: &[&str], further| Hook { event, command: line(options), further };
        let home = |client: &str, file: &str| directory(client, "", "").map(|home| home.join(file));
        Ok(match choice {
            ClientChoice::ClaudeCode => {
                let further = &[("asyncRewake", Further::Flag(true)), ("timeout", Further::Number(86_400))];
                let file = directory("Claude Code", "CLAUDE_CONFIG_DIR", ".claude")?.join("settings.json");
                Self {
                    title: "Claude Code",
                    way: Way::Hook(file, hook("Stop", &[], further)),
                    is_tried: true,
                }
            }
            ClientChoice::Codex => {
                let file = directory("Codex", "CODEX_HOME", ".codex")?.join("hooks.json");
                let hook = hook("Stop", &STANDS_STILL, &[("timeout", Further::Number(660))]);
                Self { title: "Codex", way: Way::Hook(file, hook), is_tried: true }
            }
            ClientChoice::Gemini => {
                let file = directory("Gemini CLI", "GEMINI_CLI_HOME", "")?.join(".gemini/settings.json");
                let hook = hook("AfterAgent", &STANDS_STILL, &[("timeout", Further::Number(660_000))]);
                Self { title: "Gemini CLI", way: Way::Hook(file, hook), is_tried: true }
            }
            ClientChoice::Qwen => {
                let hook = hook("Stop", &STANDS_STILL, &[("timeout", Further::Number(660_000))]);
                let file = home("Qwen Code", ".qwen/settings.json")?;
                Self { title: "Qwen Code", way: Way::Hook(file, hook), is_tried: true }
            }
            ClientChoice::Goose => {
                let plugin = home("goose", ".agents/plugins/outlive")?;
                let hook = hook("Stop", &STANDS_STILL, &[("timeout", Further::Number(660))]);
                let manifest = json!({
                    "name": "outlive", "version": env!("CARGO_PKG_VERSION"),
                    "description": "Wakes the agent when a background job ends",
                });
                let files = vec![
                    (plugin.join("plugin.json"), format!("{manifest:#}\n")),
                    (plugin.join("hooks/hooks.json"), hook.with("").unwrap_or_default()),
                ];
                Self { title: "goose", way: Way::Files(files), is_tried: true }
            }
            ClientChoice::Opencode => {
                let file = directory("opencode", "XDG_CONFIG_HOME", ".config")?;
                let quoted = serde_json::to_string(&program).unwrap_or_default();
                let text = include_str!("opencode.js").replace("'outlive'\n", &format!("{quoted}\n"));
                let files = vec![(file.join("opencode/plugins/outlive.js"), text)];
                Self { title: "opencode", way: Way::Files(files), is_tried: true }
            }
            ClientChoice::Copilot => {
                let hooks = directory("Copilot CLI", "COPILOT_HOME", ".copilot")?.join("hooks");
                let line = quoted([program.as_str(), "--json", VERB].into_iter().chain(STANDS_STILL));
                let hook = json!({ "type": "command", "bash": line, "timeoutSec": 660 });
                let text = json!({ "version": 1, "hooks": { "agentStop": [hook] } });
                let files = vec![(hooks.join("outlive.json"), format!("{text:#}\n"))];
                Self { title: "Copilot CLI", way: Way::Files(files), is_tried: true }
            }
            ClientChoice::Cursor
            | ClientChoice::Vscode
            | ClientChoice::Zed
            | ClientChoice::Shell
            | ClientChoice::Boot => {
                return Err(failure(
                    "outlive knows no way to wake the agent of this client",
                    "it hears of endings with its next call of a tool; `outlive run --on-exit` can resume one that takes a prompt",
                ));
            }
        })
    }

    /// Returns each file with what it is to become; nothing: it is to be removed.
    fn changes(&self, is_removal: bool) -> Result<Vec<(Settings, PathBuf, Option<String>)>, Failure> {
        let of_hook = |file: &PathBuf, hook: &Hook| -> Result<_, Failure> {
            let settings = Settings::read(file)?;
            let text = if is_removal { Hook::without(&settings.text) } else { hook.with(&settings.text) };
            let text = text.map_err(|Unfit(why)| {
                let hint =
                    "put it right first, or put the hook in by hand: outlive setup CLIENT --wake --print";
                failure(format!("{} was left alone: {why}", shown(file)), hint)
            })?;
            Ok((settings, file.clone(), Some(text)))
        };
        match &self.way {
            Way::Hook(file, hook) => Ok(vec![of_hook(file, hook)?]),
            Way::Files(files) => {
                let change = |(file, text): &(PathBuf, String)| {
                    let text = (!is_removal).then(|| text.clone());
                    Ok((Settings::read(file)?, file.clone(), text))
                };
                files.iter().map(change).collect()
            }
        }
    }

    fn printed(&self) -> String {
        match &self.way {
            Way::Hook(_, hook) => hook.with("").unwrap_or_default(),
            Way::Files(files) => {
                let print =
                    |(file, text): &(PathBuf, String)| format!("{}:\n\n{}\n", shown(file), indented(text));
                files.iter().map(print).collect()
            }
        }
    }
}

/// Tells whether the settings of a client have what wakes its agent; `None` if there is no such thing, or it cannot be read.
pub(super) fn is_there(choice: ClientChoice) -> Option<bool> {
    match Waking::of(choice).ok()?.way {
        Way::Hook(file, _) => Settings::read(&file).ok().and_then(|settings| Hook::has(&settings.text).ok()),
        Way::Files(files) => Some(files.iter().all(|(file, _)| file.exists())),
    }
}

/// Shows or makes the change that wakes the agent of a client.
pub(super) fn run(choice: ClientChoice, arguments: &Setup, is_json: bool) -> Result<ExitCode, Failure> {
    let waking = Waking::of(choice)?;
    if arguments.print {
        let text = waking.printed();
        return answer(is_json, &json!({ "client": waking.title, "text": text }), || text.clone());
    }
    let mut changes = waking.changes(arguments.remove)?;
    let is_same = |(settings, file, text): &(Settings, PathBuf, Option<String>)| match text {
        Some(text) => *text == settings.text,
        None => !file.exists(),
    };
    changes.retain(|change| !is_same(change));
    let action = match (changes.is_empty(), arguments.remove) {
        (true, _) => Action::Nothing,
        (false, true) => Action::Remove,
        (false, false) => Action::Add,
    };
    let mut backups = Vec::new();
    for (settings, _, text) in changes.iter().filter(|_| arguments.write) {
        match text {
            Some(text) => {
                backups.extend(settings.back_up()?);
                settings.replace(text)?;
            }
            None => settings.remove()?,
        }
    }
    let files: Vec<String> = changes.iter().map(|(_, file, _)| file.display().to_string()).collect();
    let object = json!({
        "client": waking.title, "files": files, "action": action, "tried": waking.is_tried,
        "written": arguments.write && action != Action::Nothing,
        "backups": backups.iter().map(|backup| backup.display().to_string()).collect::<Vec<_>>(),
    });
    answer(is_json, &object, || {
        let places: Vec<String> = changes.iter().map(|(_, file, _)| shown(file)).collect();
        let title = waking.title;
        match (action, arguments.write) {
            (Action::Nothing, _) if arguments.remove => {
                format!("nothing to do: outlive does not wake {title}\n")
            }
            (Action::Nothing, _) => format!("nothing to do: outlive wakes {title} already\n"),
            (Action::Remove, true) => {
                format!("outlive no longer wakes {title}: removed from {}\n", places.join(", "))
            }
            (_, true) => {
                let before: Vec<String> = backups.iter().map(|backup| shown(backup)).collect();
                let before = match before.is_empty() {
                    true => String::new(),
                    false => format!("as it was before: {}\n", before.join(", ")),
                };
                let places = places.join(", ");
                format!("outlive wakes {title} from its next conversation on: {places}\n{before}")
            }
            (_, false) => {
                let mut text = String::new();
                for (settings, file, new) in &changes {
                    let file = shown(file);
                    match new {
                        Some(new) => {
                            let diff = indented(&diff::diff(&settings.text, new));
                            text += &format!("this changes {file}:\n\n{diff}\n");
                        }
                        None => text += &format!("this removes {file}\n\n"),
                    }
                }
                if !waking.is_tried {
                    text += &format!("untried: this is what the documentation of {title} says\n\n");
                }
                text + &format!("to have it done: {}\n", repeated_with_write())
            }
        }
    })
}
