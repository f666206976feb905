//! An entry of `mcpServers` in JSON, with or without comments.

use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::entry::{Entry, NAME};
use super::form::Unfit;

const SERVERS: &str = "mcpServers";

/// Tells whether there is an entry of our name.
pub(super) fn has(text: &str) -> Result<bool, Unfit> {
    Ok(servers(&parse(text)?)?.is_some_and(|servers| servers.get(NAME).is_some()))
}

/// Returns the text with this entry.
pub(super) fn with(text: &str, entry: &Entry, is_typed: bool) -> Result<String, Unfit> {
    let root = parse(text)?;
    let servers = match servers(&root)? {
        Some(servers) => servers,
        None => object(&root)?.object_value_or_set(SERVERS),
    };
    match servers.get(NAME) {
        None => match in_line(text, entry, is_typed) {
            Some(text) => return Ok(text),
            None => drop(servers.append(NAME, value(entry, is_typed))),
        },
        Some(found) => change(&found, entry, is_typed),
    }
    Ok(root.to_string())
}

/// Returns the text without an entry of ours.
pub(super) fn without(text: &str) -> Result<String, Unfit> {
    let root = parse(text)?;
    let Some(servers) = servers(&root)? else { return Ok(text.to_owned()) };
    let Some(found) = servers.get(NAME) else { return Ok(text.to_owned()) };
    found.remove();
    if servers.properties().is_empty() && servers.children().iter().all(|child| !child.is_comment()) {
        // It was most likely made for the entry, and means nothing now.
        object(&root)?.get(SERVERS).into_iter().for_each(CstObjectProp::remove);
    }
    Ok(root.to_string())
}

/// Returns the text with a new entry where all that it goes into is one line. The library would break the line, and never join it
/// again.
fn in_line(text: &str, entry: &Entry, is_typed: bool) -> Option<String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options()).ok()?;
    let root = parsed.value.as_ref()?.as_object()?;
    let servers = root.get_object(SERVERS);
    let around = servers.unwrap_or(root);
    let last = around.properties.last()?.range.end;
    let (inside, rest) = (&text[around.range.start..last], &text[last..around.range.end]);
    if inside.contains('\n') || rest.trim_start() != "}" {
        return None;
    }
    let kind = if is_typed { "\"type\":\"stdio\"," } else { "" };
    let (command, args) =
        (serde_json::to_string(&entry.command).ok()?, serde_json::to_string(&entry.args).ok()?);
    let mut new = format!("\"{NAME}\":{{{kind}\"command\":{command},\"args\":{args}}}");
    if servers.is_none() {
        new = format!("\"{SERVERS}\":{{{new}}}");
    }
    let space = if rest.starts_with(' ') || inside.contains(", ") { " " } else { "" };
    Some(format!("{},{space}{new}{}", &text[..last], &text[last..]))
}

/// Changes an entry, and keeps what else the user has put into it.
fn change(found: &CstObjectProp, entry: &Entry, is_typed: bool) {
    let Some(object) = found.object_value().filter(is_of_a_command) else {
        return found.set_value(value(entry, is_typed));
    };
    let is_same = object.get("command").and_then(|command| text_of(command.value())).as_deref()
        == Some(entry.command.as_str());
    if !is_same {
        set(&object, "command", entry.command.as_str().into());
    }
    if args_of(&object).as_ref() != Some(&entry.args) {
        set(&object, "args", entry.args.clone().into());
    }
}

/// Tells whether an entry is a command, and not an address of a server that runs already.
fn is_of_a_command(object: &CstObject) -> bool {
    let has = |name: &str| object.get(name).is_some();
    let kind = object.get("type").map(|kind| text_of(kind.value()));
    !has("url") && !has("httpUrl") && kind.is_none_or(|kind| kind.as_deref() == Some("stdio"))
}

fn set(object: &CstObject, name: &str, value: CstInputValue) {
    match object.get(name) {
        Some(found) => found.set_value(value),
        None => drop(object.append(name, value)),
    }
}

fn args_of(object: &CstObject) -> Option<Vec<String>> {
    let elements = object.array_value("args")?.elements();
    elements.into_iter().map(|element| text_of(Some(element))).collect()
}

fn text_of(node: Option<CstNode>) -> Option<String> {
    node?.as_string_lit()?.decoded_value().ok()
}

fn value(entry: &Entry, is_typed: bool) -> CstInputValue {
    let kind = is_typed.then(|| ("type".to_owned(), CstInputValue::from("stdio")));
    let command = ("command".to_owned(), CstInputValue::from(entry.command.as_str()));
    let args = ("args".to_owned(), CstInputValue::from(entry.args.clone()));
    CstInputValue::Object(kind.into_iter().chain([command, args]).collect())
}

fn parse(text: &str) -> Result<CstRootNode, Unfit> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root =
        CstRootNode::parse(text, &options()).map_err(|error| Unfit(format!("it is not JSON: {error}")))?;
    object(&root)?;
    Ok(root)
}

/// JSON with comments and commas at the end, and nothing looser: what the client itself would refuse must not be guessed at.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn object(root: &CstRootNode) -> Result<CstObject, Unfit> {
    root.object_value().ok_or_else(|| Unfit("it is not a JSON object".to_owned()))
}

fn servers(root: &CstRootNode) -> Result<Option<CstObject>, Unfit> {
    let wrong = || Unfit(format!("its {SERVERS} is not an object"));
    object(root)?.get(SERVERS).map(|found| found.object_value().ok_or_else(wrong)).transpose()
}
