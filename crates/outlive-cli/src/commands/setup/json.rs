//! An entry of `mcpServers` in JSON, with or without comments, or of what else a client calls it.

use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::entry::{Entry, NAME};
use super::form::Unfit;

/// What a client calls the parts of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The object that all servers are in.
    pub(super) servers: &'static str,
    /// The type that a new entry says it has.
    pub(super) kind: Option<&'static str>,
    /// The program and its arguments are one list.
    pub(super) is_joined: bool,
    /// What else a new entry has, as JSON.
    pub(super) further: &'static [(&'static str, &'static str)],
}

impl Layout {
    /// As most clients have it.
    pub(super) const USUAL: Self = Self { servers: "mcpServers", kind: None, is_joined: false, further: &[] };

    /// Returns the fields that say which command it is.
    fn command(&self, entry: &Entry) -> Vec<(&'static str, Field)> {
        if self.is_joined {
            return vec![("command", Field::Words(entry.words().map(str::to_owned).collect()))];
        }
        vec![("command", Field::Text(entry.command.clone())), ("args", Field::Words(entry.args.clone()))]
    }

    /// Returns all fields of a new entry.
    fn fields(&self, entry: &Entry) -> Vec<(&'static str, Field)> {
        let kind = self.kind.map(|kind| ("type", Field::Text(kind.to_owned())));
        let further = self.further.iter().map(|&(name, json)| (name, Field::Json(json)));
        kind.into_iter().chain(self.command(entry)).chain(further).collect()
    }
}

/// The value of a field.
enum Field {
    Text(String),
    Words(Vec<String>),
    /// Written as it is.
    Json(&'static str),
}

impl Field {
    fn json(&self) -> Option<String> {
        match self {
            Self::Text(text) => serde_json::to_string(text).ok(),
            Self::Words(words) => serde_json::to_string(words).ok(),
            Self::Json(json) => Some((*json).to_owned()),
        }
    }

    fn is(&self, found: &CstObjectProp) -> bool {
        match self {
            Self::Text(text) => text_of(found.value()).as_ref() == Some(text),
            Self::Words(words) => words_of(found).as_ref() == Some(words),
            Self::Json(_) => true,
        }
    }

    fn value(self) -> CstInputValue {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Words(words) => words.into(),
            Self::Json("true") => true.into(),
            Self::Json(json) => serde_json::from_str::<Vec<String>>(json).unwrap_or_default().into(),
        }
    }
}

/// Tells whether there is an entry of our name.
pub(super) fn has(text: &str, layout: &Layout) -> Result<bool, Unfit> {
    Ok(servers(&parse(text)?, layout)?.is_some_and(|servers| servers.get(NAME).is_some()))
}

/// Returns the text with this entry.
pub(super) fn with(text: &str, entry: &Entry, layout: &Layout) -> Result<String, Unfit> {
    let root = parse(text)?;
    let servers = match servers(&root, layout)? {
        Some(servers) => servers,
        None => object(&root)?.object_value_or_set(layout.servers),
    };
    match servers.get(NAME) {
        None => match in_line(text, entry, layout) {
            Some(text) => return Ok(text),
            None => drop(servers.append(NAME, value(entry, layout))),
        },
        Some(found) => change(&found, entry, layout),
    }
    Ok(root.to_string())
}

/// Returns the text without an entry of ours.
pub(super) fn without(text: &str, layout: &Layout) -> Result<String, Unfit> {
    let root = parse(text)?;
    let Some(servers) = servers(&root, layout)? else { return Ok(text.to_owned()) };
    let Some(found) = servers.get(NAME) else { return Ok(text.to_owned()) };
    found.remove();
    if servers.properties().is_empty() && servers.children().iter().all(|child| !child.is_comment()) {
        // It was most likely made for the entry, and means nothing now.
        object(&root)?.get(layout.servers).into_iter().for_each(CstObjectProp::remove);
    }
    Ok(root.to_string())
}

/// Returns the text with a new entry where all that it goes into is one line. The library would break the line, and never join it
/// again.
fn in_line(text: &str, entry: &Entry, layout: &Layout) -> Option<String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options()).ok()?;
    let root = parsed.value.as_ref()?.as_object()?;
    let servers = root.get_object(layout.servers);
    let around = servers.unwrap_or(root);
    let last = around.properties.last()?.range.end;
    let (inside, rest) = (&text[around.range.start..last], &text[last..around.range.end]);
    if inside.contains('\n') || rest.trim_start() != "}" {
        return None;
    }
    let fields = layout.fields(entry).into_iter();
    let fields = fields.map(|(name, field)| Some(format!("\"{name}\":{}", field.json()?)));
    let mut new = format!("\"{NAME}\":{{{}}}", fields.collect::<Option<Vec<_>>>()?.join(","));
    if servers.is_none() {
        new = format!("\"{}\":{{{new}}}", layout.servers);
    }
    let space = if rest.starts_with(' ') || inside.contains(", ") { " " } else { "" };
    Some(format!("{},{space}{new}{}", &text[..last], &text[last..]))
}

/// Changes an entry, and keeps what else the user has put into it.
fn change(found: &CstObjectProp, entry: &Entry, layout: &Layout) {
    let Some(object) = found.object_value().filter(is_of_a_command) else {
        return found.set_value(value(entry, layout));
    };
    for (name, field) in layout.command(entry) {
        match object.get(name) {
            Some(found) if field.is(&found) => {}
            Some(found) => found.set_value(field.value()),
            None => drop(object.append(name, field.value())),
        }
    }
}

/// Tells whether an entry is a command, and not an address of a server that runs already.
fn is_of_a_command(object: &CstObject) -> bool {
    let has = |name: &str| object.get(name).is_some();
    let kind = object.get("type").map(|kind| text_of(kind.value()));
    !has("url")
        && !has("httpUrl")
        && kind.is_none_or(|kind| kind.as_deref().is_some_and(|kind| ["stdio", "local"].contains(&kind)))
}

fn words_of(found: &CstObjectProp) -> Option<Vec<String>> {
    let elements = found.array_value()?.elements();
    elements.into_iter().map(|element| text_of(Some(element))).collect()
}

pub(super) fn text_of(node: Option<CstNode>) -> Option<String> {
    node?.as_string_lit()?.decoded_value().ok()
}

fn value(entry: &Entry, layout: &Layout) -> CstInputValue {
    let fields = layout.fields(entry).into_iter();
    CstInputValue::Object(fields.map(|(name, field)| (name.to_owned(), field.value())).collect())
}

pub(super) fn parse(text: &str) -> Result<CstRootNode, Unfit> {
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

pub(super) fn object(root: &CstRootNode) -> Result<CstObject, Unfit> {
    root.object_value().ok_or_else(|| Unfit("it is not a JSON object".to_owned()))
}

fn servers(root: &CstRootNode, layout: &Layout) -> Result<Option<CstObject>, Unfit> {
    let wrong = || Unfit(format!("its {} is not an object", layout.servers));
    object(root)?.get(layout.servers).map(|found| found.object_value().ok_or_else(wrong)).transpose()
}
