//! Which test proves which line of the designs that outlive speaks: makes `docs/reference/coverage.md`, or says what is missing.
//!
//! `inventory.txt` has the lines: id, kind, what. A test proves those that its doc comment or its body quotes, a module of tests
//! those that its header quotes: `S0-12`, `S0-12..15` or `S0-12 to S0-15`. What no test proves is settled in `s0.txt` to `s4.txt`:
//! ids, and `superseded by …`, `not applicable because …`, or `open: ` and who will do it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints a page, or what is missing")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use outlive_tests::{sources, workspace};

/// Who may own what is open.
const OWNERS: [&str; 4] = ["terminals", "web", "compose", "security"];

/// How many tests are named for one line.
const NAMED: usize = 3;

/// The id of a line: design and number.
type Id = (u32, u32);

fn main() -> ExitCode {
    match page(workspace()) {
        Ok(page) => {
            print!("{page}");
            ExitCode::SUCCESS
        }
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("coverage: {problem}"));
            ExitCode::FAILURE
        }
    }
}

/// Makes the page; else says all that is wrong.
fn page(workspace: &Path) -> Result<String, Vec<String>> {
    let lists = workspace.join("tests/coverage");
    let inventory = text(&lists.join("inventory.txt"));
    let proofs = proofs(workspace);
    let (settled, mut problems) = settled(&lists);
    let mut rows = String::new();
    let mut known = BTreeSet::new();
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut design = None;
    for line in inventory.lines() {
        let mut fields = line.split('\t');
        let (Some(name), Some(kind), Some(what)) = (fields.next(), fields.next(), fields.next()) else {
            problems.push(format!("inventory.txt has a line without three fields: {line}"));
            continue;
        };
        let Some(&id) = ids(name).first() else {
            problems.push(format!("{name:?} is no id"));
            continue;
        };
        known.insert(id);
        let verdict = match (proofs.get(&id), settled.get(&id)) {
            (Some(tests), _) => {
                *counts.entry("proved by a test").or_default() += 1;
                shown(tests)
            }
            (None, Some(verdict)) => {
                *counts.entry(class(verdict)).or_default() += 1;
                verdict.clone()
            }
            (None, None) => {
                problems.push(format!("{name} is neither proved nor settled: {what}"));
                continue;
            }
        };
        if design != Some(id.0) {
            design = Some(id.0);
            rows.push_str(&format!(
                "\n## S{}\n\n| line | kind | what | |\n| --- | --- | --- | --- |\n",
                id.0
            ));
        }
        rows.push_str(&format!("| {name} | {kind} | {} | {verdict} |\n", what.replace('|', "\\|")));
    }
    let strangers = proofs.keys().chain(settled.keys()).filter(|id| !known.contains(id));
    problems.extend(strangers.map(|(design, number)| format!("there is no line S{design}-{number}")));
    if !problems.is_empty() {
        return Err(problems);
    }
    let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    Ok(format!(
        "# What of the five designs is there\n\nMade by `tests/coverage/main.rs` from `tests/coverage/` and from the ids that tests \
        quote; `./test bless` makes it anew. {} lines: {}.\n\nThe designs: S0 macos-shell, S1 claude-code, S2 deepchat, S3 duragent, \
        S4 neovate. A module stands for all of its tests.\n{rows}",
        known.len(),
        counts.join(", ")
    ))
}

fn class(verdict: &str) -> &'static str {
    match verdict {
        _ if verdict.starts_with("superseded") => "superseded",
        _ if verdict.starts_with("open") => "open",
        _ => "not applicable",
    }
}

fn shown(tests: &BTreeSet<String>) -> String {
    // Those that say it of themselves before those whose module does.
    let (modules, own): (Vec<&String>, Vec<&String>) = tests.iter().partition(|test| !test.contains("::"));
    let names: Vec<String> = own.into_iter().chain(modules).map(|test| format!("`{test}`")).collect();
    match names.len() {
        ..=NAMED => names.join(", "),
        count => format!("{}, and {} more", names[..NAMED].join(", "), count - NAMED),
    }
}

/// Reads what is settled without a test.
fn settled(lists: &Path) -> (BTreeMap<Id, String>, Vec<String>) {
    let (mut settled, mut problems) = (BTreeMap::new(), Vec::new());
    for design in 0..5 {
        for line in text(&lists.join(format!("s{design}.txt"))).lines().filter(|line| !line.trim().is_empty())
        {
            let begins = ["superseded by ", "not applicable because ", "open: "];
            let Some(at) = begins.iter().filter_map(|begin| line.find(begin)).min() else {
                problems.push(format!("s{design}.txt has a line without a verdict: {line}"));
                continue;
            };
            let verdict = line[at..].trim();
            if let Some(owner) = verdict.strip_prefix("open: ").filter(|owner| !OWNERS.contains(owner)) {
                problems.push(format!("nobody is called {owner:?}: {line}"));
            }
            let named = ids(&line[..at]);
            if named.is_empty() {
                problems.push(format!("s{design}.txt has a line without ids: {line}"));
            }
            settled.extend(named.into_iter().map(|id| (id, verdict.to_owned())));
        }
    }
    (settled, problems)
}

/// Finds which tests quote which lines.
fn proofs(workspace: &Path) -> BTreeMap<Id, BTreeSet<String>> {
    let mut proofs = BTreeMap::<Id, BTreeSet<String>>::new();
    for part in ["tests/it", "tests/profiles", "tests/faults", "crates"] {
        for path in sources(&workspace.join(part)) {
            let name = path.strip_prefix(workspace).unwrap_or(&path).to_string_lossy().into_owned();
            for (quoted, test) in quotes(&text(&path), part != "crates") {
                let of = test.map_or_else(|| name.clone(), |test| format!("{name}::{test}"));
                for id in quoted {
                    proofs.entry(id).or_default().insert(of.clone());
                }
            }
        }
    }
    proofs
}

/// Returns what is quoted in a file, and by which test; none: by the module.
fn quotes(source: &str, has_header: bool) -> Vec<(Vec<Id>, Option<String>)> {
    let mut found = Vec::new();
    let header: String =
        source.lines().filter_map(|line| line.strip_prefix("//!")).collect::<Vec<_>>().join(" ");
    if has_header {
        found.push((ids(&header), None));
    }
    let (mut comment, mut is_test, mut test) = (String::new(), false, None::<String>);
    for line in source.lines().map(str::trim) {
        if line.starts_with("//!") {
            continue;
        } else if let Some(text) = line.strip_prefix("//") {
            comment.push_str(text.trim_start_matches('/'));
            comment.push(' ');
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]";
        } else if !line.is_empty() {
            if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
                test = name.split('(').next().map(str::to_owned);
                is_test = false;
            }
            // What stands above a test or in it is the test's.
            if test.is_some() && !comment.is_empty() {
                found.push((ids(&comment), test.clone()));
            }
            comment.clear();
        }
    }
    found.retain(|(ids, _)| !ids.is_empty());
    found
}

/// Returns the ids in a text, ranges spelled out.
fn ids(text: &str) -> Vec<Id> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((id, after)) = next_id(rest) {
        let last = after
            .strip_prefix("..")
            .and_then(|after| number(after).map(|(last, after)| ((id.0, last), after)))
            .or_else(|| {
                after.strip_prefix(" to ").and_then(|after| next_id(after).filter(|_| after.starts_with('S')))
            });
        match last {
            Some(((design, last), after)) if design == id.0 && last >= id.1 => {
                found.extend((id.1..=last).map(|number| (design, number)));
                rest = after;
            }
            _ => {
                found.push(id);
                rest = after;
            }
        }
    }
    found
}

/// Finds the next `S0-12`; returns what follows it, too.
fn next_id(text: &str) -> Option<(Id, &str)> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find('S')? + 1..];
        let digit = rest.chars().next().and_then(|c| c.to_digit(5));
        if let Some((design, (number, after))) =
            digit.and_then(|design| Some((design, number(rest.get(1..)?.strip_prefix('-')?)?)))
        {
            return Some(((design, number), after));
        }
    }
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_alone_in_lists_and_in_ranges() {
        assert_eq!(ids("S0-1, S1-20: and S0-3..5."), [(0, 1), (1, 20), (0, 3), (0, 4), (0, 5)]);
        assert_eq!(ids("S3-8 to S3-10 and S3-8 to nowhere"), [(3, 8), (3, 9), (3, 10), (3, 8)]);
        assert_eq!(ids("SO-1 S5-1 S-1 Sx S4-"), []);
    }

    #[test]
    fn a_quote_belongs_to_the_test_that_it_stands_above_or_in() {
        let source = "//! Header S0-1.\n\n/// S0-2: a.\n#[test]\nfn a() {\n    // S0-3\n    b();\n}\n\n/// S0-4\n#[test]\nfn c() {}\n";
        let quoted = quotes(source, true);
        let test = |name: &str| Some(name.to_owned());
        assert_eq!(
            quoted,
            [
                (vec![(0, 1)], None),
                (vec![(0, 2)], test("a")),
                (vec![(0, 3)], test("a")),
                (vec![(0, 4)], test("c"))
            ]
        );
    }
}
