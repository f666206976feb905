//! An entry of `extensions` in YAML, as goose has it.
//!
//! Lines in, lines out: a block of ours goes below the key and out again. What is written in another way than goose itself writes
//! it, in braces or with tabs, is left alone.

use super::entry::{Entry, NAME};
use super::form::Unfit;

const EXTENSIONS: &str = "extensions";

/// Where the mapping of extensions is.
struct Block<'a> {
    lines: Vec<&'a str>,
    /// The line of the key; none where there is none.
    key: Option<usize>,
    /// The lines of our entry.
    own: Option<std::ops::Range<usize>>,
    /// How far its entries are indented.
    indent: usize,
}

pub(super) fn has(text: &str) -> Result<bool, Unfit> {
    Ok(Block::find(text)?.own.is_some())
}

/// Returns the text with this entry, in the place of one that is there.
pub(super) fn with(text: &str, entry: &Entry) -> Result<String, Unfit> {
    let block = Block::find(text)?;
    let lines = lines(entry, block.indent)?;
    if block.own.as_ref().is_some_and(|own| says(&block.lines[own.clone()], entry, block.indent)) {
        return Ok(text.to_owned());
    }
    let mut whole = text.to_owned();
    if !whole.is_empty() && !whole.ends_with('\n') {
        whole.push('\n');
    }
    let block = Block::find(&whole)?;
    let (before, after) = match (&block.own, block.key) {
        (Some(own), _) => (own.start, own.end),
        (None, Some(key)) => (key + 1, key + 1),
        (None, None) => return Ok(format!("{whole}{EXTENSIONS}:\n{lines}")),
    };
    Ok(format!("{}{lines}{}", block.lines[..before].concat(), block.lines[after..].concat()))
}

/// Returns the text without an entry of ours.
pub(super) fn without(text: &str) -> Result<String, Unfit> {
    let block = Block::find(text)?;
    let Some(own) = block.own else { return Ok(text.to_owned()) };
    let mut kept = [&block.lines[..own.start], &block.lines[own.end..]].concat();
    let is_alone = kept.get(own.start).is_none_or(|line| indent(line) == 0);
    if is_alone && block.key.is_some_and(|key| key + 1 == own.start) {
        // It was made for the entry, and goose does not read a key without a value.
        kept.remove(own.start - 1);
    }
    Ok(kept.concat())
}

impl<'a> Block<'a> {
    fn find(text: &'a str) -> Result<Self, Unfit> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let is_key = |line: &&str| {
            line.strip_prefix(EXTENSIONS).is_some_and(|rest| rest.trim_start().starts_with(':'))
        };
        let (keys, mut block) = (
            lines.iter().filter(|line| is_key(line)).count(),
            Self { key: None, own: None, indent: 2, lines },
        );
        let Some(key) = block.lines.iter().position(is_key) else { return Ok(block) };
        let value = block.lines[key].split_once(':').map_or("", |(_, value)| value).trim();
        if keys > 1 || !(value.is_empty() || value.starts_with('#')) {
            return Err(Unfit(format!("its {EXTENSIONS} are not written one below the other")));
        }
        block.key = Some(key);
        // To YAML a tab is no indent.
        if block.lines.iter().any(|line| line.trim_start_matches(' ').starts_with('\t')) {
            return Err(Unfit("it is indented with tabs".to_owned()));
        }
        let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let end = block.lines[key + 1..].iter().position(|line| is_content(line) && indent(line) == 0);
        let end = end.map_or(block.lines.len(), |end| key + 1 + end);
        let inside = key + 1..end;
        if let Some(first) = block.lines[inside.clone()].iter().find(|line| is_content(line)) {
            block.indent = indent(first);
        }
        let is_own = |line: &&str| {
            indent(line) == block.indent && line.trim_end() == format!("{}{NAME}:", " ".repeat(block.indent))
        };
        if let Some(start) = block.lines[inside].iter().position(is_own).map(|start| key + 1 + start) {
            let rest = &block.lines[start + 1..end];
            let length =
                rest.iter().take_while(|line| !is_content(line) || indent(line) > block.indent).count();
            // Comments and blank lines behind it are the user's.
            let last = rest[..length].iter().rposition(is_content).map_or(0, |last| last + 1);
            block.own = Some(start..start + 1 + last);
        }
        Ok(block)
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Writes the entry.
fn lines(entry: &Entry, indent: usize) -> Result<String, Unfit> {
    let fields = [
        "enabled: true".to_owned(),
        "type: stdio".to_owned(),
        format!("name: {NAME}"),
        "description: background jobs".to_owned(),
        command(entry)?,
        args(entry)?,
        // By itself goose gives up a call after 300 seconds; an agent may ask `wait` for longer.
        "timeout: 3600".to_owned(),
    ];
    let (outer, inner) = (" ".repeat(indent), " ".repeat(indent * 2));
    let fields: String = fields.iter().map(|field| format!("{inner}{field}\n")).collect();
    Ok(format!("{outer}{NAME}:\n{fields}"))
}

/// JSON is YAML, so words are written as JSON.
fn command(entry: &Entry) -> Result<String, Unfit> {
    serde_json::to_string(&entry.command).map(|command| format!("cmd: {command}")).map_err(unwritable)
}

fn args(entry: &Entry) -> Result<String, Unfit> {
    serde_json::to_string(&entry.args).map(|args| format!("args: {args}")).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Unfit {
    Unfit(format!("the entry cannot be written: {error}"))
}

/// Tells whether an entry already names the command; what else is in it is the user's.
fn says(own: &[&str], entry: &Entry, indent: usize) -> bool {
    let wanted = [command(entry), args(entry)];
    let has = |wanted: &Result<String, Unfit>| {
        wanted.as_ref().is_ok_and(|wanted| {
            own.iter().any(|line| line.trim_end() == format!("{}{wanted}", " ".repeat(indent * 2)))
        })
    };
    wanted.iter().all(has)
}
