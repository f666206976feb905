//! `outlive help`: of a verb as `--help` has it, or a guide of the documentation, fitted to the terminal.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{ColorChoice, Command, CommandFactory};
use outlive::Code;

use crate::args::{Arguments, grouped, help_columns};
use crate::commands::logs::pager::Pager;
use crate::failure::Failure;
use crate::other_words::is_command;
use crate::render::{is_coloured, print, table, width, wrapped};

/// The guides that can be read here, each with its name.
pub(super) const GUIDES: [(&str, &str); 18] = [
    ("agents", include_str!("../../guide/agents/mcp.md")),
    ("clients", include_str!("../../guide/agents/others.md")),
    ("configuration", include_str!("../../guide/configuration.md")),
    ("containment", include_str!("../../guide/containment.md")),
    ("first-steps", include_str!("../../guide/first-steps.md")),
    ("hosts", include_str!("../../guide/hosts.md")),
    ("inbox", include_str!("../../guide/inbox.md")),
    ("output-forms", include_str!("../../guide/output-forms.md")),
    ("projects", include_str!("../../guide/projects.md")),
    ("recovery", include_str!("../../guide/recovery.md")),
    ("scripts", include_str!("../../guide/scripts.md")),
    ("serve", include_str!("../../guide/serve.md")),
    ("sessions", include_str!("../../guide/sessions.md")),
    ("slurm", include_str!("../../guide/slurm.md")),
    ("terminals", include_str!("../../guide/terminals.md")),
    ("top", include_str!("../../guide/top.md")),
    ("waking-agents", include_str!("../../guide/waking-agents.md")),
    ("whose-store", include_str!("../../guide/whose-store.md")),
];

/// Lines that are longer than this are hard to read.
const WIDEST: usize = 100;

pub(crate) fn run(topic: &[String]) -> Result<ExitCode, Failure> {
    let mut root = grouped(help_columns());
    root.build();
    let guide = GUIDES.iter().find(|(name, _)| topic.len() == 1 && topic[0] == *name);
    let verb = topic.iter().try_fold(&root, |command, word| command.find_subcommand(word));
    let verb = verb.map(|verb| help(verb, topic.is_empty()));
    let is_guide = guide.is_some();
    let guide = guide.map(|(_, guide)| shown(guide, columns()));
    // What is both, as `inbox`, is shown with both.
    let parts: Vec<String> = verb.into_iter().chain(guide).collect();
    if parts.is_empty() {
        let message = format!("there is no help on {:?}", topic.join(" "));
        let hint = format!("a verb, or one of: {}", names());
        return Err(Failure::new(Code::NotFound, message).during("help").hint(hint));
    }
    let text = parts.join("\n");
    if is_guide && std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && has_pager() {
        let (pager, mut input) = Pager::start()?;
        // A reader that has seen enough closes it.
        input.write_all(text.as_bytes()).ok();
        drop(input);
        pager.wait();
    } else {
        print(&text);
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells whether there is help on a word: a verb, or a guide.
pub(super) fn has(topic: &str) -> bool {
    let is_guide = GUIDES.iter().any(|(name, _)| topic == *name);
    is_guide || Arguments::command().find_subcommand(topic).is_some()
}

/// Tells whether the user named a pager, or the usual one is there.
fn has_pager() -> bool {
    let is_named = |name| std::env::var(name).is_ok_and(|line| !line.trim().is_empty());
    ["OUTLIVE_PAGER", "PAGER"].into_iter().any(is_named) || is_command("less")
}

/// Returns the width to fit to; in a pipe that of a small terminal, where it may end up.
fn columns() -> usize {
    width().unwrap_or(80).min(WIDEST)
}

fn names() -> String {
    GUIDES.map(|(name, _)| name).join(", ")
}

/// Returns what `--help` prints of a verb; of outlive itself, the guides, too.
fn help(command: &Command, is_root: bool) -> String {
    let colour = if std::io::stdout().is_terminal() { ColorChoice::Auto } else { ColorChoice::Never };
    let styled = command.clone().color(colour).render_long_help();
    let text = if is_coloured() { styled.ansi().to_string() } else { styled.to_string() };
    let topics = format!("Guides, read with `outlive help TOPIC`: {}", names());
    if is_root { format!("{text}\n{}\n", wrapped(&topics, columns(), "  ")) } else { text }
}

/// Turns a page of Markdown into text of this width.
fn shown(page: &str, width: usize) -> String {
    let mut text = String::new();
    let mut lines = page.lines().peekable();
    let mut is_code = false;
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            text.push_str(&format!("    {line}\n"));
        } else if let Some(title) = line.strip_prefix('#') {
            text.push_str(&bold(title.trim_start_matches('#').trim()));
            text.push('\n');
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(line));
            }
            // The line below the header.
            rows.remove(1.min(rows.len() - 1));
            text.push_str(&fitted(&rows, width));
        } else if line.is_empty() || line.starts_with("<!--") {
            text.push_str(if line.is_empty() { "\n" } else { "" });
        } else {
            let mut paragraph = line.trim().to_owned();
            let goes_on =
                |line: &&str| !line.is_empty() && !line.starts_with(['|', '#', '`']) && item(line).is_none();
            while let Some(line) = lines.next_if(goes_on) {
                paragraph = format!("{paragraph} {}", line.trim());
            }
            let indent = " ".repeat(item(line).unwrap_or(0));
            text.push_str(&wrapped(&plain(&paragraph), width, &indent));
            text.push('\n');
        }
    }
    text
}

/// Returns how far the text of an item of a list is indented.
fn item(line: &str) -> Option<usize> {
    let number = line.bytes().take_while(u8::is_ascii_digit).count();
    match line {
        _ if line.starts_with("- ") || line.starts_with("* ") => Some(2),
        _ if number > 0 && line[number..].starts_with(". ") => Some(number + 2),
        _ => None,
    }
}

fn cells(line: &str) -> Vec<String> {
    line.trim_matches('|').split('|').map(|cell| plain(cell.trim())).collect()
}

/// Writes a table; one that is too wide becomes a list, a row below the other.
fn fitted(rows: &[Vec<String>], width: usize) -> String {
    let aligned = table(rows, None, |_, _, cell| cell.into());
    if aligned.lines().all(|line| line.chars().count() <= width) {
        return aligned;
    }
    let row = |row: &Vec<String>| {
        let rest = row[1..].iter().filter(|cell| !cell.is_empty());
        let rest = rest.map(|cell| wrapped(&format!("    {cell}"), width, "    ") + "\n").collect::<String>();
        format!("{}\n{rest}", row[0])
    };
    rows.iter().skip(1).map(row).collect()
}

fn bold(text: &str) -> String {
    if is_coloured() { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

/// Takes emphasis away, and the addresses of links that lead to files.
fn plain(text: &str) -> String {
    let text = text.replace("**", "");
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |left, part| {
        let (address, rest) = part.split_once(')').unwrap_or(("", part));
        let name = left.rfind('[').map_or(left.clone(), |at| format!("{}{}", &left[..at], &left[at + 1..]));
        let address = if address.starts_with("http") { format!(" ({address})") } else { String::new() };
        format!("{name}{address}{rest}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_fitted_to_the_width() {
        let page = "# Title\n\nSome **words** that\ngo on, [a link](other.md) and [one](https://x.y).\n\n- an item that is long\n- another\n\n```sh\nrun it\n```\n\n| a | b |\n| --- | --- |\n| one | a cell of some width |\n";
        let text = shown(page, 24);
        assert_eq!(
            text,
            "Title\n\nSome words that go on, a\nlink and one\n(https://x.y).\n\n- an item that is long\n- another\n\n    run it\n\none\n    a cell of some width\n"
        );
        assert!(shown(page, 80).contains("one  a cell of some width\n"));
    }
}
