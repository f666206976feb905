//! A hook in JSON settings: a command that a client runs at an event. Most clients have the form that Claude Code began with.

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Value, json};

use super::entry::NAME;
use super::form::Unfit;
use super::json::{object, parse, text_of};

/// The verb that a hook of ours runs.
pub(super) const VERB: &str = "wake";

/// A hook that is to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hook {
    /// When the client runs it.
    pub(super) event: &'static str,
    /// What it runs, as a line for the shell.
    pub(super) command: String,
    /// What else the client has to know.
    pub(super) further: &'static [(&'static str, Further)],
}

/// A value beside the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Further {
    Flag(bool),
    Number(u64),
}

impl Hook {
    fn value(&self) -> Value {
        let mut hook = json!({ "type": "command", "command": self.command });
        for (name, value) in self.further {
            hook[*name] = match value {
                Further::Flag(flag) => (*flag).into(),
                Further::Number(number) => (*number).into(),
            };
        }
        json!({ "hooks": [hook] })
    }

    /// Tells whether a hook of ours is there, whatever it says.
    pub(super) fn has(text: &str) -> Result<bool, Unfit> {
        Ok(groups(&parse(text)?)?.iter().any(|(_, group)| !ours(group).is_empty()))
    }

    /// Returns the text with this hook; the same text if it is there.
    pub(super) fn with(&self, text: &str) -> Result<String, Unfit> {
        let is_this = |(event, group): &(String, CstObject)| {
            event == self.event && serde_json::from_str(&group.to_string()).ok() == Some(self.value())
        };
        let groups = groups(&parse(text)?)?;
        let own: Vec<_> = groups.iter().filter(|(_, group)| !ours(group).is_empty()).collect();
        if let [one] = own.as_slice()
            && is_this(one)
        {
            return Ok(text.to_owned());
        }
        let root = parse(&Self::without(text)?)?;
        let hooks = object(&root)?.object_value_or_set("hooks");
        hooks.array_value_or_set(self.event).append(input(&self.value()));
        let new = root.to_string();
        Ok(if new.ends_with('\n') { new } else { new + "\n" })
    }

    /// Returns the text without hooks of ours; the same text if there is none.
    pub(super) fn without(text: &str) -> Result<String, Unfit> {
        let root = parse(text)?;
        let mut is_changed = false;
        for (event, group) in groups(&root)? {
            let own = ours(&group);
            if own.is_empty() {
                continue;
            }
            is_changed = true;
            own.into_iter().for_each(CstNode::remove);
            // What was made for the hook means nothing without it.
            if group.array_value("hooks").is_some_and(|hooks| hooks.elements().is_empty()) {
                group.remove();
            }
            let hooks = object(&root)?.object_value("hooks");
            let Some(of_event) = hooks.as_ref().and_then(|hooks| hooks.get(&event)) else { continue };
            if of_event.array_value().is_some_and(|groups| groups.elements().is_empty()) {
                of_event.remove();
            }
            if hooks.is_some_and(|hooks| hooks.properties().is_empty()) {
                object(&root)?.get("hooks").into_iter().for_each(|hooks| hooks.remove());
            }
        }
        Ok(if is_changed { root.to_string() } else { text.to_owned() })
    }
}

/// Returns every group of hooks, with its event.
fn groups(root: &CstRootNode) -> Result<Vec<(String, CstObject)>, Unfit> {
    let Some(hooks) = object(root)?.get("hooks") else { return Ok(Vec::new()) };
    let hooks = hooks.object_value().ok_or_else(|| Unfit("its hooks is not an object".to_owned()))?;
    let mut found = Vec::new();
    for event in hooks.properties() {
        let name = event.decoded_name().unwrap_or_default();
        // Gemini CLI has other settings there, too.
        let Some(groups) = event.array_value() else { continue };
        found.extend(
            groups.elements().into_iter().filter_map(|group| Some((name.clone(), group.as_object()?))),
        );
    }
    Ok(found)
}

/// Returns the hooks of a group that run `outlive wake`.
fn ours(group: &CstObject) -> Vec<CstNode> {
    let hooks = group.array_value("hooks").map(|hooks: CstArray| hooks.elements()).unwrap_or_default();
    let is_ours = |hook: &CstNode| {
        let command = hook.as_object().and_then(|hook| text_of(hook.get("command")?.value()));
        let command = command.as_ref().and_then(|command| command.split_once(&format!(" {VERB}")));
        command.is_some_and(|(program, _)| program.trim_matches('\'').ends_with(NAME))
    };
    hooks.into_iter().filter(is_ours).collect()
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook() -> Hook {
        let further = &[("asyncRewake", Further::Flag(true)), ("timeout", Further::Number(5))];
        Hook { event: "Stop", command: "outlive wake".to_owned(), further }
    }

    #[test]
    fn a_hook_comes_and_goes_and_leaves_the_others() {
        for text in [
            "{}\n",
            "{\n  \"model\": \"x\" // mine\n}\n",
            "{\n  \"hooks\": {\n    \"Stop\": [\n      { \"hooks\": [{ \"type\": \"command\", \"command\": \"say done\" }] }\n    ]\n  }\n}\n",
            "{\n  \"hooks\": {\n    \"enabled\": true\n  }\n}\n",
        ] {
            let with = hook().with(text).unwrap();
            assert!(Hook::has(&with).unwrap() && !Hook::has(text).unwrap(), "{with}");
            assert_eq!(hook().with(&with).unwrap(), with);
            assert_eq!(Hook::without(&with).unwrap().trim_end(), text.trim_end());
            let changed = Hook { command: "'/a b/outlive' wake --skip-servers".to_owned(), ..hook() };
            let again = changed.with(&with).unwrap();
            assert_eq!(again.matches(" wake").count(), 1, "{again}");
        }
    }

    #[test]
    fn the_hooks_of_others_are_not_ours() {
        for command in ["outlive inbox", "wake", "echo outlive; wake", "my-tool wake"] {
            let text =
                json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": command }] }] } });
            assert!(!Hook::has(&text.to_string()).unwrap(), "{command}");
        }
        assert!(hook().with("{\"hooks\": []}").is_err());
        assert!(hook().with("[]").is_err());
    }
}
