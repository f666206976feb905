//! The arguments of a call, read the way models write them.
//!
//! Numbers and booleans may come as strings, values out of range are clamped, and unknown parameters are ignored; the answer notes
//! each. Only meaningless values are errors; the message gives an example. Names of other tools are in `tools/names.rs`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::reply::Failure;
use crate::tools::{Tool, names};

/// The arguments of one call.
#[derive(Debug)]
pub(crate) struct Arguments {
    tool: &'static Tool,
    values: Map<String, Value>,
    /// For the answer: what was clamped or ignored.
    notes: Vec<String>,
    /// Why the call is not carried out, whatever its tool.
    refusal: Option<Failure>,
}

impl Arguments {
    /// Takes what models write for what they mean.
    pub(crate) fn as_meant(tool: &'static Tool, values: Map<String, Value>) -> Self {
        match names::resolve(tool, values) {
            Ok(resolved) => Self { notes: resolved.notes, ..Self::new(tool, resolved.values) },
            Err(failure) => Self { refusal: Some(failure), ..Self::new(tool, Map::new()) },
        }
    }

    /// Notes unknown parameters, with the known ones.
    pub(crate) fn new(tool: &'static Tool, values: Map<String, Value>) -> Self {
        let known: Vec<&str> = tool.parameters.iter().map(|parameter| parameter.name).collect();
        let is_unknown = |name: &&String| !known.contains(&name.as_str());
        let unknown: Vec<String> = values.keys().filter(is_unknown).take(5).map(|name| shown(name)).collect();
        let mut arguments = Self { tool, values, notes: Vec::new(), refusal: None };
        if !unknown.is_empty() {
            let (unknown, known) = (unknown.join(", "), known.join(", "));
            arguments.note(format!("{} has no parameter {unknown}; it has {known}", tool.name));
        }
        arguments
    }

    /// Adds a note to the answer.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Fails if the call is not to be carried out.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.refusal.clone().map_or(Ok(()), Err)
    }

    /// Returns all values.
    pub(crate) fn into_values(self) -> Map<String, Value> {
        self.values
    }

    /// Returns all values, as they are.
    pub(crate) fn values(&self) -> &Map<String, Value> {
        &self.values
    }

    /// Puts another value in the place of one.
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    /// Returns the notes for the answer.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        self.notes.drain(..).map(|note| format!("note: {note}")).collect()
    }

    /// Returns a value unchanged; null counts as missing.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, wanted: &str) -> Failure {
        let given = self.value(name).map(|value| shown(&value.to_string())).unwrap_or_default();
        Failure::new(format!("{name} must be {wanted}, and is {given}"))
            .next(format!("call {} again with {name} as {wanted}", self.tool.name))
    }

    /// Returns a text; an empty one counts as missing.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let text = scalar(value).ok_or_else(|| self.wrong(name, "a string"))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// Returns a text that must be there.
    pub(crate) fn required(&self, name: &str, example: &str) -> Result<String, Failure> {
        self.text(name)?.ok_or_else(|| {
            Failure::new(format!("{} needs {name}", self.tool.name)).next(format!("for example {example}"))
        })
    }

    /// Returns a whole number, clamped to the range.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Failure> {
        let given = match self.value(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
            Some(Value::String(text)) => text.trim().replace('_', "").parse::<f64>().ok(),
            Some(_) => None,
        };
        let Some(given) = given.filter(|given| given.is_finite()) else {
            return Err(self.wrong(name, "a whole number"));
        };
        let (least, most) = (*range.start(), *range.end());
        // Numbers here are far below what a float holds exactly.
        let number = (given.round().clamp(0.0, 9e15) as u64).clamp(least, most);
        if given.round() != number as f64 {
            self.note(format!("{name} {given} was taken as {number} (it may be {least} to {most})"));
        }
        Ok(Some(number))
    }

    /// Returns a boolean; false if it is missing.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.choice_of_two(name)?.unwrap_or(false))
    }

    /// Returns a boolean; `None` if it is missing.
    pub(crate) fn choice_of_two(&self, name: &str) -> Result<Option<bool>, Failure> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(is_true)) => Ok(Some(*is_true)),
            Some(Value::Number(number)) => Ok(Some(number.as_f64() != Some(0.0))),
            Some(Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
                "" => Ok(None),
                "true" | "yes" | "on" | "1" => Ok(Some(true)),
                "false" | "no" | "off" | "0" => Ok(Some(false)),
                _ => Err(self.wrong(name, "true or false")),
            },
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    /// Returns one of several words.
    pub(crate) fn word(
        &self,
        name: &str,
        words: &'static [&'static str],
    ) -> Result<Option<&'static str>, Failure> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let text = text.trim().to_ascii_lowercase();
        let found = words.iter().copied().find(|word| *word == text);
        found.map(Some).ok_or_else(|| self.wrong(name, &format!("one of {}", words.join(", "))))
    }

    /// Returns several texts: a list, or one text, or several with commas between.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, Failure> {
        let split = |text: &str| match serde_json::from_str(text) {
            Ok(Value::Array(items)) => items,
            _ => text.split(',').map(|part| Value::from(part.trim())).collect(),
        };
        let items = match self.value(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items.clone(),
            Some(Value::String(text)) => split(text),
            Some(_) => return Err(self.wrong(name, "a list of strings")),
        };
        let texts = items.into_iter().map(|item| match item {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(self.wrong(name, "a list of strings")),
        });
        Ok(texts.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|text| !text.is_empty()).collect())
    }

    /// Returns variables: an object, or `NAME=value` in a list or a text.
    pub(crate) fn variables(&self, name: &str) -> Result<BTreeMap<String, String>, Failure> {
        let wanted = "an object such as {\"PORT\": \"3000\"}";
        let pair = |text: &str| {
            let (name, value) = text.split_once('=')?;
            Some((name.trim().to_owned(), value.to_owned()))
        };
        let text = |value: &Value| if value.is_null() { Some(String::new()) } else { scalar(value) };
        let read = |value: &Value| -> Option<BTreeMap<String, String>> {
            match value {
                Value::Object(map) => {
                    map.iter().map(|(name, value)| Some((name.clone(), text(value)?))).collect()
                }
                Value::Array(items) => items.iter().map(|item| pair(item.as_str()?)).collect(),
                _ => None,
            }
        };
        match self.value(name) {
            None => Ok(BTreeMap::new()),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(BTreeMap::new()),
            Some(Value::String(text)) => {
                let parsed = serde_json::from_str::<Value>(text).ok().and_then(|value| read(&value));
                parsed.or_else(|| text.lines().map(pair).collect()).ok_or_else(|| self.wrong(name, wanted))
            }
            Some(value) => read(value).ok_or_else(|| self.wrong(name, wanted)),
        }
    }
}

/// Returns a string, a number or a boolean as text.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Makes a caller's text short and harmless, for an answer.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 120;
    let mut short: String = text.chars().take(MOST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arguments(value: Value) -> Arguments {
        let Value::Object(values) = value else { panic!("not an object") };
        Arguments::new(crate::tools::TOOLS[0], values)
    }

    #[test]
    fn numbers_and_flags_come_as_strings() {
        let mut given =
            arguments(json!({"wait_ms": "500", "timeout_ms": 1e3, "background": "true", "memory_mb": null}));
        assert_eq!(given.number("wait_ms", 0..=1000).unwrap(), Some(500));
        assert_eq!(given.number("timeout_ms", 0..=1000).unwrap(), Some(1000));
        assert_eq!(given.number("memory_mb", 0..=1000).unwrap(), None);
        assert!(given.flag("background").unwrap());
        assert_eq!(given.take_notes(), Vec::<String>::new());
    }

    #[test]
    fn what_is_out_of_range_is_clamped_and_told() {
        for (value, taken) in [(json!(99999), 45000), (json!(-3), 0), (json!("1e99"), 45000)] {
            let mut given = arguments(json!({"wait_ms": value}));
            assert_eq!(given.number("wait_ms", 0..=45000).unwrap(), Some(taken));
            let notes = given.take_notes();
            assert!(notes[0].contains(&taken.to_string()), "{notes:?}");
        }
    }

    #[test]
    fn what_has_no_sense_is_refused() {
        for value in [json!([1]), json!({}), json!("soon"), json!("NaN"), json!(true)] {
            assert!(arguments(json!({"wait_ms": value})).number("wait_ms", 0..=9).is_err());
        }
        assert!(arguments(json!({"background": "maybe"})).flag("background").is_err());
        assert!(arguments(json!({"stdin": "wide"})).word("stdin", &["null", "open"]).is_err());
    }

    #[test]
    fn lists_and_variables_come_in_many_forms() {
        for value in [json!(["a", "b"]), json!("a, b"), json!("[\"a\",\"b\"]")] {
            assert_eq!(arguments(json!({"jobs": value})).texts("jobs").unwrap(), ["a", "b"]);
        }
        for value in [json!({"A": 1, "B": "x=y"}), json!(["A=1", "B=x=y"]), json!("A=1\nB=x=y")] {
            let read = arguments(json!({"env": value})).variables("env").unwrap();
            assert_eq!(read["A"], "1");
            assert_eq!(read["B"], "x=y");
        }
        assert!(arguments(json!({"env": [1]})).variables("env").is_err());
    }

    #[test]
    fn an_unknown_parameter_is_told_with_those_there_are() {
        let mut given = arguments(json!({"comand": "ls"}));
        let notes = given.take_notes();
        assert!(notes[0].contains("comand") && notes[0].contains("wait_ms"), "{notes:?}");
    }
}
