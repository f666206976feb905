//! The verbs in groups, for the help of outlive itself: nobody reads a list of forty.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use super::Arguments;
use crate::render::{width, wrapped};

/// Each verb that is shown, under the heading of what it is for.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Start and see jobs", &["run", "list", "top", "open", "show", "logs", "wait", "watch"]),
    ("Change jobs", &["kill", "restart", "pause", "resume", "clear", "remove", "queue"]),
    ("Input and terminals", &["send", "attach", "screen", "resize", "play", "export"]),
    ("Projects", &["up", "down", "status", "why", "template", "import"]),
    ("Agents and programs", &["mcp", "setup", "wake", "serve", "token"]),
    ("Sessions", &["session", "events", "inbox", "agent"]),
    ("Upkeep and help", &["doctor", "upgrade", "gc", "deliver", "completions", "man", "help"]),
];

/// How many columns a verb takes with the blanks around it.
const VERB: usize = 15;

/// Returns the declarations with a help of outlive itself that has the verbs in groups. Its text has this many columns.
pub(crate) fn grouped(columns: usize) -> Command {
    let command = Arguments::command();
    let (header, literal) = (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let mut text = String::new();
    for (heading, verbs) in GROUPS {
        let of_group = verbs.iter().filter_map(|verb| command.find_subcommand(verb));
        writeln!(text, "{header}{heading}:{header:#}").expect("writing to a string cannot fail");
        for verb in of_group {
            let (name, about) = (verb.get_name(), about(verb));
            let about =
                wrapped(&about, columns.saturating_sub(VERB), "").replace('\n', &format!("\n{:VERB$}", ""));
            let gap = " ".repeat((VERB - 2).saturating_sub(name.len()));
            writeln!(text, "  {literal}{name}{literal:#}{gap}{about}")
                .expect("writing to a string cannot fail");
        }
        text.push('\n');
    }
    let template =
        format!("{{about-section}}\n{{usage-heading}} {{usage}}\n\n{text}{{all-args}}{{after-help}}");
    // Without this they would be listed once more.
    let usage = "outlive [OPTIONS] [COMMAND]";
    command.mut_subcommands(|verb| verb.hide(true)).override_usage(usage).help_template(template)
}

/// Returns the width of a help text in this terminal; in a pipe that of a small one, where it may end up.
pub(crate) fn help_columns() -> usize {
    width().unwrap_or(80).min(100)
}

fn about(verb: &Command) -> String {
    let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
    let aliases: Vec<&str> = verb.get_visible_aliases().collect();
    match aliases.as_slice() {
        [] => about,
        [alias] => format!("{about} [alias: {alias}]"),
        aliases => format!("{about} [aliases: {}]", aliases.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_one_group() {
        let command = Arguments::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
        let mut shown: Vec<&str> = shown.collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }
}
