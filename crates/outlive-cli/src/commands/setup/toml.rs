//! An entry of `mcp_servers` in TOML, as Codex has it.

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value, value};

use super::entry::{Entry, NAME};
use super::form::Unfit;

const SERVERS: &str = "mcp_servers";

/// Codex hands a server next to nothing of its environment. These decide which store it opens, and with which settings.
const VARIABLES: [&str; 4] = ["OUTLIVE_HOME", "OUTLIVE_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];

/// By itself Codex gives up a call after 300 seconds; an agent may ask `wait` for longer.
const TOOL_TIMEOUT: i64 = 3600;

/// Tells whether there is an entry of our name.
pub(super) fn has(text: &str) -> Result<bool, Unfit> {
    let document = parse(text)?;
    let servers = document.get(SERVERS).map(|servers| servers.as_table_like().ok_or_else(not_a_table));
    Ok(servers.transpose()?.is_some_and(|servers| servers.contains_key(NAME)))
}

/// Returns the text with this entry.
pub(super) fn with(text: &str, entry: &Entry) -> Result<String, Unfit> {
    let mut document = parse(text)?;
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let servers = document.entry(SERVERS).or_insert(Item::Table(implicit));
    let servers = servers.as_table_like_mut().ok_or_else(not_a_table)?;
    match servers.get_mut(NAME).and_then(Item::as_table_like_mut) {
        Some(found) if !found.contains_key("url") => fill(found, entry),
        _ => {
            let mut table = Table::new();
            fill(&mut table, entry);
            servers.insert(NAME, Item::Table(table));
        }
    }
    Ok(document.to_string())
}

/// Returns the text without an entry of ours.
pub(super) fn without(text: &str) -> Result<String, Unfit> {
    let mut document = parse(text)?;
    let Some(servers) = document.get_mut(SERVERS) else { return Ok(text.to_owned()) };
    let servers = servers.as_table_like_mut().ok_or_else(not_a_table)?;
    servers.remove(NAME);
    Ok(document.to_string())
}

/// The lines that Codex's own command cannot write.
pub(super) fn further_lines() -> String {
    let mut table = Table::new();
    fill_further(&mut table);
    table.to_string()
}

/// Sets the command; what else is there stays as the user wants it.
fn fill(table: &mut dyn TableLike, entry: &Entry) {
    if table.get("command").and_then(Item::as_str) != Some(&entry.command) {
        put(table, "command", value(&entry.command));
    }
    if args_of(table).as_ref() != Some(&entry.args) {
        put(table, "args", value(Array::from_iter(&entry.args)));
    }
    fill_further(table);
}

fn fill_further(table: &mut dyn TableLike) {
    if !table.contains_key("env_vars") {
        table.insert("env_vars", value(Array::from_iter(VARIABLES)));
    }
    if !table.contains_key("tool_timeout_sec") {
        table.insert("tool_timeout_sec", value(TOOL_TIMEOUT));
    }
}

/// Sets a value in the place of another, so that what is written around it stays.
fn put(table: &mut dyn TableLike, name: &str, mut new: Item) {
    if let (Some(old), Some(new)) = (table.get(name).and_then(Item::as_value), new.as_value_mut()) {
        *new.decor_mut() = old.decor().clone();
    }
    table.insert(name, new);
}

fn args_of(table: &dyn TableLike) -> Option<Vec<String>> {
    let args = table.get("args")?.as_array()?;
    args.iter().map(|arg| Value::as_str(arg).map(str::to_owned)).collect()
}

fn parse(text: &str) -> Result<DocumentMut, Unfit> {
    let document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| Unfit(format!("it is not TOML: {}", error.message())))?;
    if document.to_string() != text {
        return Err(Unfit("outlive cannot write it back as it is".to_owned()));
    }
    Ok(document)
}

fn not_a_table() -> Unfit {
    Unfit(format!("its {SERVERS} is not a table"))
}
