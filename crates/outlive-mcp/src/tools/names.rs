//! Parameters as models write them: names and words of other tools, values that mean "not given".
//!
//! A call is rewritten to the declared parameters before its tool reads it. What has no meaning here is dropped with a note; what
//! would change where or what runs, or which job is meant, is never dropped: the call is refused, and the answer says how to write it.

use outlive::duration::parse_duration;
use serde_json::{Map, Value, json};

use super::{Kind, Tool};
use crate::arguments::{scalar, shown};
use crate::reply::Failure;

/// How the value of another name becomes the value of the declared parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Same,
    /// A yes means no.
    Not,
    /// Up to 3600 it is seconds, above that milliseconds; the answer says which.
    Time,
    Seconds,
    /// Tokens, of about four bytes each.
    Tokens,
    /// A number of lines to skip; a negative one counts from the end.
    Skip,
    /// A number of lines from the beginning.
    Head,
    /// The number of the last line.
    LastLine,
    /// Arguments of the command.
    Words,
    /// The shell for the command.
    Shell,
    /// Text for the job; an empty one only asks for output.
    Poll,
    /// A yes means the signal KILL.
    Force,
    /// Nothing is lost without it.
    Drop,
}

/// Other names, the parameters that they may mean, and how. Of the parameters the first that the tool declares is meant, of the rows
/// the first that has one.
#[rustfmt::skip]
static NAMES: [(&[&str], &[&str], How); 34] = [
    (&["cmd", "script", "shell_command", "command_line", "bash"], &["command"], How::Same),
    (&["args", "arguments", "argv"], &["command"], How::Words),
    (&["shell"], &["command"], How::Shell),
    (&["workdir", "working_directory", "working_dir", "directory", "dir"], &["cwd"], How::Same),
    (&["environment", "env_vars", "variables"], &["env"], How::Same),
    (&["run_in_background", "is_background", "in_background", "detach", "detached", "async"], &["background"], How::Same),
    (&["wait", "block", "blocking", "wait_for_completion", "foreground"], &["background"], How::Not),
    (&["job", "job_id", "id", "task_id", "session_id", "shell_id", "bash_id", "process_id", "handle", "job_name", "name"], &["job", "jobs"], How::Same),
    (&["jobs", "job_ids", "ids", "task_ids"], &["jobs", "job"], How::Same),
    (&["timeout"], &["timeout_ms", "wait_ms", "grace_ms"], How::Time),
    (&["timeout_seconds", "timeout_secs", "timeout_sec", "timeout_s"], &["timeout_ms", "wait_ms", "grace_ms"], How::Seconds),
    (&["timeout_ms", "deadline_ms"], &["timeout_ms", "wait_ms", "grace_ms"], How::Same),
    (&["wait_ms", "yield_ms", "yield_time_ms", "yield_after_ms", "max_wait_ms"], &["wait_ms", "timeout_ms"], How::Same),
    (&["wait_seconds", "wait_s", "seconds", "duration"], &["wait_ms", "timeout_ms"], How::Seconds),
    (&["tail", "tail_lines", "limit", "n", "num_lines", "max_lines", "line_count", "last", "last_lines", "last_n"], &["lines"], How::Same),
    (&["head", "first", "head_lines"], &["lines"], How::Head),
    (&["offset", "skip"], &["from_line"], How::Skip),
    (&["start_line", "line_start", "start", "from"], &["from_line"], How::Same),
    (&["end_line", "line_end", "to_line"], &["lines"], How::LastLine),
    (&["pattern", "filter", "search", "regex", "query", "match"], &["grep", "pattern"], How::Same),
    (&["ready_pattern", "ready_regex", "ready_when", "wait_for", "wait_for_pattern"], &["ready_on"], How::Same),
    (&["health_url", "healthcheck_url", "url"], &["ready_url"], How::Same),
    (&["until", "wait_for", "condition"], &["for"], How::Same),
    (&["wait_all", "wait_for_all"], &["all"], How::Same),
    (&["tty", "terminal", "use_pty", "interactive"], &["pty"], How::Same),
    (&["max_chars", "max_output_bytes", "max_output_chars", "max_output_length", "max_length"], &["max_bytes"], How::Same),
    (&["max_output_tokens", "max_tokens"], &["max_bytes"], How::Tokens),
    (&["input", "data", "stdin", "content", "message", "line"], &["text"], How::Same),
    (&["chars"], &["text"], How::Poll),
    (&["press_enter", "enter", "newline", "append_newline"], &["submit"], How::Same),
    (&["force"], &["signal"], How::Force),
    (&["state", "filter"], &["status"], How::Same),
    (&["new_name", "title", "label"], &["name"], How::Same),
    (&["description", "explanation", "justification", "reason", "thought", "summary", "requires_approval",
        "require_user_approval", "safe_to_auto_run", "sandbox_permissions", "with_escalated_permissions",
        "dangerously_disable_sandbox"], &[], How::Drop),
];

/// Other words for the words of a parameter.
static WORDS: [(&str, &[&str]); 18] = [
    (
        "exit",
        &["done", "end", "ended", "complete", "completed", "completion", "finish", "finished", "exited"],
    ),
    ("match", &["output", "line", "pattern", "log", "regex"]),
    ("port", &["listen", "listening"]),
    ("idle", &["quiet", "silence", "silent"]),
    ("input", &["prompt", "question"]),
    ("event", &["any", "anything"]),
    ("ready", &["up", "healthy", "started"]),
    ("live", &["active", "alive"]),
    ("ended", &["exited", "finished", "done", "stopped", "terminated"]),
    ("completed", &["success", "succeeded", "ok"]),
    ("failed", &["error", "failure"]),
    ("timed_out", &["timeout"]),
    ("pause", &["suspend"]),
    ("resume", &["continue", "unpause"]),
    ("remove", &["delete", "forget"]),
    ("open", &["pipe", "piped", "inherit", "interactive"]),
    ("null", &["none", "closed", "ignore"]),
    ("both", &["all", "combined", "merged"]),
];

/// Parts of names that would change where or what runs.
const DECISIVE: [&str; 15] = [
    "arg",
    "cmd",
    "container",
    "cwd",
    "dir",
    "env",
    "folder",
    "host",
    "image",
    "input",
    "path",
    "root",
    "shell",
    "stdin",
    "user",
];

/// Parameters that say where or what runs, or which job is meant: two of them must not differ.
const SUBJECTS: [&str; 7] = ["command", "cwd", "env", "job", "jobs", "text", "signal"];

/// So many blank values mean that the client fills in every field.
const FILLED_IN: usize = 3;

/// The longest line about unknown parameters, with its mark.
const LONGEST_NOTE: usize = 60;

/// A call in the declared parameters.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) values: Map<String, Value>,
    pub(crate) notes: Vec<String>,
}

/// Rewrites a call to the declared parameters.
pub(crate) fn resolve(tool: &Tool, given: Map<String, Value>) -> Result<Resolved, Failure> {
    let is_filled_in = given.values().filter(|value| is_blank(value)).count() >= FILLED_IN;
    let (mut resolved, mut other, mut unknown) = (Resolved::default(), Vec::new(), Vec::new());
    for (name, value) in given {
        match kind(tool, &name) {
            Some(kind) if is_given(tool, &name, kind, &value, is_filled_in) => {
                resolved.values.insert(name, value);
            }
            Some(_) => {}
            None => other.push((name, value)),
        }
    }
    // The number of the last line needs that of the first.
    other.sort_by_key(|(name, _)| matches!(meaning(tool, &snake_case(name)), Some((_, How::LastLine))));
    for (name, value) in other {
        let snake = snake_case(&name);
        match meaning(tool, &snake) {
            Some((target, how)) => resolved.take(tool, &snake, target, how, value, is_filled_in)?,
            None if is_blank(&value) => {}
            None if kind(tool, "command").is_some() && DECISIVE.iter().any(|part| snake.contains(part)) => {
                let what = format!("{} has no parameter {}, and does not guess", tool.name, shown(&name));
                return Err(Failure::new(what).next(
                    "say where with cwd, variables with env, and the rest in command; text for its input: stdin=\"open\", then send_input",
                ));
            }
            None => unknown.push(shown(&name)),
        }
    }
    for parameter in tool.parameters {
        if let Some(value) = resolved.values.get_mut(parameter.name) {
            straighten(parameter.name, parameter.kind, value);
        }
    }
    resolved.notes.extend(note_of(&unknown));
    Ok(resolved)
}

impl Resolved {
    /// Takes a value under another name as that of a declared parameter.
    fn take(
        &mut self,
        tool: &Tool,
        name: &str,
        target: &'static str,
        how: How,
        value: Value,
        is_filled_in: bool,
    ) -> Result<(), Failure> {
        let number = number(&value);
        let value = match how {
            How::Drop => return Ok(()),
            How::Words => return self.append(&value),
            How::Shell => return self.wrap(&value),
            How::Poll if value == "" => {
                return Err(Failure::new("there is nothing to send")
                    .next("read_output wait_ms=10000 waits for output; text=\"\" is Enter"));
            }
            How::Skip => match number {
                Some(lines) if lines < 0.0 => return self.put(tool, name, "lines", json!(-lines)),
                Some(lines) => json!(lines + 1.0),
                None => value,
            },
            _ if !is_given(tool, target, kind(tool, target).unwrap_or(Kind::Text), &value, is_filled_in) => {
                return Ok(());
            }
            How::Same | How::Poll => value,
            How::Not => json!(!is_yes(&value)),
            How::Seconds => number.map_or(value, |seconds| json!(seconds * 1000.0)),
            How::Tokens => number.map_or(value, |tokens| json!(tokens * 4.0)),
            How::Force => match is_yes(&value) {
                true => json!("KILL"),
                false => return Ok(()),
            },
            How::Head => {
                self.put(tool, name, "from_line", json!(1))?;
                value
            }
            How::LastLine => {
                let first = self.values.get("from_line").and_then(self::number).unwrap_or(1.0);
                self.values.entry("from_line").or_insert(json!(1));
                number.map_or(value, |last| json!((last - first + 1.0).max(1.0)))
            }
            How::Time => match time(&value) {
                Some((millis, words)) => {
                    self.notes.push(format!(
                        "{name} {} is taken as {words}",
                        shown(&scalar(&value).unwrap_or_default())
                    ));
                    json!(millis)
                }
                None => value,
            },
        };
        self.put(tool, name, target, value)
    }

    /// Sets a parameter that is not given yet. Two values for what decides where or what runs are an error; else the first counts.
    fn put(&mut self, tool: &Tool, name: &str, target: &'static str, value: Value) -> Result<(), Failure> {
        match self.values.get(target) {
            None => drop(self.values.insert(target.to_owned(), value)),
            Some(first) if *first == value => {}
            Some(_) if SUBJECTS.contains(&target) => {
                return Err(Failure::new(format!("{target} and {} differ", shown(name)))
                    .next(format!("call {} again with {target} alone", tool.name)));
            }
            Some(_) => self.notes.push(format!("{target} counts, not {}", shown(name))),
        }
        Ok(())
    }

    /// Adds arguments to the command: words of a list are quoted, a text is added as it is.
    fn append(&mut self, value: &Value) -> Result<(), Failure> {
        let text = match value {
            Value::Array(words) => line_of(words),
            value => scalar(value),
        };
        let command = match self.values.get("command") {
            Some(Value::String(command)) => Some(command.clone()),
            Some(Value::Array(words)) => line_of(words),
            _ => None,
        };
        match (command, text) {
            (_, Some(text)) if text.trim().is_empty() => {}
            (Some(command), Some(text)) => {
                self.values.insert("command".to_owned(), format!("{command} {text}").into());
            }
            _ if is_blank(value) => {}
            _ => {
                return Err(Failure::new("arguments without a command that they belong to")
                    .next("call run again with all of it in command"));
            }
        }
        Ok(())
    }

    /// Runs the command in the shell that is asked for.
    fn wrap(&mut self, value: &Value) -> Result<(), Failure> {
        match (self.values.get("command"), value) {
            // Every line goes to a shell.
            (_, value) if is_blank(value) || value.is_boolean() => {}
            (Some(Value::String(line)), Value::String(shell)) => {
                let line = format!("{} -c {}", outlive::quote(shell), outlive::quote(line));
                self.values.insert("command".to_owned(), line.into());
            }
            _ => {
                return Err(Failure::new("shell is taken with a command line alone")
                    .next("call run again with command=\"zsh -c '…'\""));
            }
        }
        Ok(())
    }
}

fn kind(tool: &Tool, name: &str) -> Option<Kind> {
    tool.parameters.iter().find(|parameter| parameter.name == name).map(|parameter| parameter.kind)
}

/// Returns the declared parameter that another name means for this tool.
fn meaning(tool: &Tool, name: &str) -> Option<(&'static str, How)> {
    if kind(tool, name).is_some() {
        // In other letters.
        let parameter = tool.parameters.iter().find(|parameter| parameter.name == name)?;
        return Some((parameter.name, How::Same));
    }
    NAMES.iter().filter(|(names, ..)| names.contains(&name)).find_map(|(_, targets, how)| {
        let target = targets.iter().copied().find(|target| kind(tool, target).is_some());
        if *how == How::Drop { Some(("", How::Drop)) } else { Some((target?, *how)) }
    })
}

/// Tells whether a value means anything. Zero and empty mean "not given", but where they mean something: an empty text is Enter, a
/// grace of zero is none, and neither is a wait of zero unless the client fills in every field.
fn is_given(tool: &Tool, name: &str, kind: Kind, value: &Value, is_filled_in: bool) -> bool {
    let is_zero = matches!(kind, Kind::Number) && number(value) == Some(0.0);
    match name {
        "text" => !value.is_null(),
        "grace_ms" if is_zero => true,
        "wait_ms" if is_zero => !is_filled_in,
        "timeout_ms" if is_zero && tool.name == "wait" => !is_filled_in,
        _ if matches!(kind, Kind::Flag) => !value.is_null() && value != "",
        _ => !is_zero && !is_empty(value),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Tells whether a value is one that clients fill in.
fn is_blank(value: &Value) -> bool {
    is_empty(value) || *value == Value::Bool(false) || value.as_f64() == Some(0.0)
}

fn is_yes(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            !matches!(text.trim().to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0")
        }
        value => !is_blank(value),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Reads a time of an unknown unit, in milliseconds, with words for it.
fn time(value: &Value) -> Option<(u64, String)> {
    match number(value).filter(|number| (0.0..=9e15).contains(number)) {
        Some(number) if number <= 3600.0 => Some(((number * 1000.0) as u64, format!("{number} s"))),
        Some(number) => Some((number as u64, format!("{number} ms"))),
        None => {
            let millis = parse_duration(value.as_str()?).ok()?.as_millis();
            Some((u64::try_from(millis).ok()?, format!("{millis} ms")))
        }
    }
}

/// Quotes a list of words for the shell.
fn line_of(words: &[Value]) -> Option<String> {
    let words: Option<Vec<String>> =
        words.iter().map(|word| Some(outlive::quote(&scalar(word)?).to_string())).collect();
    words.map(|words| words.join(" ")).filter(|line| !line.is_empty())
}

/// Rewrites a value to the form that its parameter has.
fn straighten(name: &str, kind: Kind, value: &mut Value) {
    match (name, kind) {
        ("command", _) => *value = command(std::mem::take(value)),
        ("lines", _) => {
            if let Some(lines) = number(value).filter(|lines| *lines < 0.0) {
                *value = json!(-lines);
            }
        }
        (_, Kind::Text) => {
            if let Value::Array(items) = value
                && let [item] = items.as_slice()
            {
                *value = item.clone();
            }
        }
        (_, Kind::Word(words)) => {
            let Value::String(text) = value else { return };
            let word = text.trim().to_ascii_lowercase().replace(['-', ' '], "_");
            let is_known = |known: &&str| words.contains(known);
            let other =
                WORDS.iter().filter(|(_, others)| others.contains(&word.as_str())).map(|(known, _)| *known);
            if is_known(&word.as_str()) {
                *text = word;
            } else if let Some(known) = { other }.find(is_known) {
                *text = known.to_owned();
            }
        }
        _ => {}
    }
}

/// Makes one line of a list of words, or of an object that holds nothing but the command; also of their JSON in a text.
fn command(value: Value) -> Value {
    let line = match &value {
        Value::Array(words) => line_of(words),
        Value::Object(fields) if fields.len() == 1 => {
            ["command", "cmd"].iter().find_map(|name| fields.get(*name)?.as_str()).map(str::to_owned)
        }
        Value::String(text) if text.trim_start().starts_with(['[', '{']) => {
            match serde_json::from_str(text) {
                Ok(inner @ (Value::Array(_) | Value::Object(_))) => {
                    Some(command(inner)).and_then(|line| line.as_str().map(str::to_owned))
                }
                _ => None,
            }
        }
        _ => None,
    };
    line.map_or(value, Value::from)
}

/// `workingDirectory` and `working-directory` are `working_directory`.
fn snake_case(name: &str) -> String {
    let (mut snake, mut before) = (String::new(), ' ');
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            snake.push('_');
        }
        snake.push(if c == '-' { '_' } else { c.to_ascii_lowercase() });
        before = c;
    }
    snake
}

/// Names unknown parameters, as far as they fit.
fn note_of(unknown: &[String]) -> Option<String> {
    const LEAD: usize = "[outlive] note: ".len();
    if unknown.is_empty() {
        return None;
    }
    let mut note = format!("no parameter {}", unknown.join(", "));
    if note.len() > LONGEST_NOTE - LEAD {
        note.truncate(note.floor_char_boundary(LONGEST_NOTE - LEAD - '…'.len_utf8()));
        note.push('…');
    }
    Some(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::TOOLS;

    #[test]
    fn every_name_means_something_and_hides_no_parameter() {
        for (names, targets, how) in &NAMES {
            let is_declared = |name: &&str| TOOLS.iter().any(|tool| kind(tool, name).is_some());
            assert!(*how == How::Drop || targets.iter().all(is_declared), "{names:?}");
        }
        for (word, _) in &WORDS {
            let has = |kind: Kind| matches!(kind, Kind::Word(words) if words.contains(word));
            assert!(
                TOOLS.iter().any(|tool| tool.parameters.iter().any(|parameter| has(parameter.kind))),
                "{word}"
            );
        }
    }

    #[test]
    fn names_are_compared_without_their_case() {
        for name in ["workingDirectory", "working-directory", "WorkingDirectory", "WORKING_DIRECTORY"] {
            assert_eq!(snake_case(name), "working_directory");
        }
    }

    #[test]
    fn a_note_on_unknown_parameters_is_short() {
        for unknown in [vec!["colour".to_owned()], vec!["é".repeat(120); 3]] {
            let note = format!("[outlive] note: {}", note_of(&unknown).unwrap());
            assert!(note.len() <= LONGEST_NOTE, "{note}");
        }
        assert_eq!(note_of(&[]), None);
    }
}
