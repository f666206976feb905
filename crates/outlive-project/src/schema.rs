//! The JSON Schema of `outlive.toml`, made from the declarations.

use outlive::OptionForm;
use serde_json::{Map, Value, json};

use crate::file::keys::{self, Form, Key};
use crate::file::templates::NOT_HERE;

/// Returns the schema, for editors and for `docs/reference/`.
pub fn schema() -> Value {
    let mut job = object(keys::of_job());
    job["required"] = json!(["run"]);
    let mut template = object(keys::of_job().filter(|key| !NOT_HERE.contains(&key.name)));
    template["required"] = json!(["run"]);
    template["properties"]["about"] = json!({ "type": "string", "description": "What it is for" });
    template["properties"]["params"] = json!({
        "type": "object",
        "additionalProperties": { "type": ["string", "number", "boolean"] },
        "description": "Its parameters, written {{name}} in the other keys, with their defaults; one that is not here must be given",
    });
    // A parameter may stand where something else than text does.
    template["properties"]["port"] = json!({ "type": ["integer", "string"], "description": template["properties"]["port"]["description"] });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "outlive.toml",
        "description": "The jobs of a project, for `outlive up`",
        "type": "object",
        "properties": {
            "name": { "description": "The name of the project; without it that of the directory", "type": "string", "minLength": 1, "maxLength": 64 },
            "queue": {
                "description": "A queue for each name: how many of its jobs run at once",
                "type": "object",
                "propertyNames": { "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" },
                "additionalProperties": {
                    "type": "object",
                    "properties": { "parallel": { "type": "integer", "minimum": 1, "maximum": outlive::MOST_PARALLEL } },
                    "required": ["parallel"],
                    "additionalProperties": false,
                },
            },
            "templates": {
                "description": "Jobs with parameters, for `outlive template run`",
                "type": "object",
                "propertyNames": { "pattern": "^[A-Za-z0-9._-]{1,64}$" },
                "additionalProperties": template,
            },
            "jobs": {
                "description": "A job for each name",
                "type": "object",
                "propertyNames": { "pattern": "^[A-Za-z0-9._-]{1,64}$" },
                "additionalProperties": job,
            },
        },
        "additionalProperties": false,
    })
}

fn object(keys: impl Iterator<Item = Key>) -> Value {
    let properties: Map<String, Value> = keys.map(|key| (key.name.to_owned(), property(key))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn property(key: Key) -> Value {
    let text = json!({ "type": "string" });
    let several = json!({ "anyOf": [text, { "type": "array", "items": text }] });
    let scalar = json!({ "type": ["string", "number", "boolean"] });
    let mut property = match key.form {
        Form::Text => text,
        Form::Command | Form::Texts => several,
        Form::Named => json!({ "type": "object", "additionalProperties": scalar }),
        Form::Port => {
            json!({ "anyOf": [{ "const": "auto" }, { "type": "integer", "minimum": 1, "maximum": 65535 }] })
        }
        Form::Quantity => json!({ "type": ["string", "number"] }),
        Form::Table("restart") => {
            let words = keys::of_table("restart").find(|key| key.name == "when").map(property);
            json!({ "anyOf": [words, object(keys::of_table("restart"))] })
        }
        Form::Table("schedule") => json!({ "anyOf": [text, object(keys::of_table("schedule"))] }),
        Form::Table(table) => object(keys::of_table(table)),
        Form::Option(option) => match option.form {
            OptionForm::Flag => json!({ "type": "boolean" }),
            OptionForm::Text => text,
            OptionForm::Words(words) => json!({ "enum": words }),
            // With a unit it is text, such as 5s or 100M; a number alone is in the smallest unit that people use.
            OptionForm::Number { unit: "", least, most } => {
                json!({ "anyOf": [{ "type": "integer", "minimum": least, "maximum": most }, text] })
            }
            OptionForm::Number { .. } => json!({ "type": ["string", "number"] }),
        },
    };
    property["description"] = key.about.into();
    property
}
