//! Where tests name lines of the designs: `proves!` and `instead!` in the sources, and the same words in written dialogues.
//!
//! A name counts only in the body of a test, right after the statement that asserts something, and a dialogue only if a test holds it.

use std::path::Path;

use outlive_tests::{dialogue_names, sources};
use serde_json::Value;

use crate::{Id, text};

/// How many lines one assertion may name: more are not each looked at.
const AT_ONCE: usize = 12;

/// The same for a part of a dialogue: a description, compared as a whole, may hold so many.
const IN_DIALOGUES: usize = 24;

/// What a statement right before the names must have: it fails if something is not so.
const ASSERTIONS: [&str; 7] = ["assert", "until(", "soon(", ".has(", ".code(", "shows(", "read_until("];

/// What a name claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    /// The line holds.
    Proves,
    /// Something else holds in its place.
    Instead,
}

impl How {
    const ALL: [(Self, &str); 2] = [(Self::Proves, "proves"), (Self::Instead, "instead")];
}

/// A line that a test names.
#[derive(Clone, Debug)]
pub(crate) struct Naming {
    pub(crate) id: Id,
    pub(crate) how: How,
    /// Its file and name, or that of the dialogue and the place there.
    pub(crate) test: String,
    /// Its source, or that of the dialogue.
    pub(crate) body: String,
}

/// Finds what tests and dialogues name, and says what is wrong with it.
pub(crate) fn namings(workspace: &Path) -> (Vec<Naming>, Vec<String>) {
    let (mut namings, mut problems) = (Vec::new(), Vec::new());
    let mut holders = Vec::new();
    for part in ["tests/it", "tests/profiles"] {
        for path in sources(&workspace.join(part)) {
            let name = path.strip_prefix(workspace).unwrap_or(&path).to_string_lossy().into_owned();
            let (found, tests) = in_source(&name, &text(&path), &mut problems);
            namings.extend(found);
            holders.extend(tests);
        }
    }
    let dialogues = workspace.join("tests/dialogues");
    for (folder, call) in [("", "dialogue"), ("examples", "examples")] {
        for entry in std::fs::read_dir(dialogues.join(folder)).into_iter().flatten().flatten() {
            let path = entry.path();
            let Some(profile) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")) else {
                continue;
            };
            let name = path.strip_prefix(workspace).unwrap_or(&path).to_string_lossy().into_owned();
            let held = format!("{call}(\"{profile}\")");
            if !holders.iter().any(|test| test.body.contains(&held)) {
                problems.push(format!("no test holds {name}"));
            }
            namings.extend(in_dialogue(&name, &text(&path), &mut problems));
        }
    }
    (namings, problems)
}

/// A test of a file.
struct Test {
    name: String,
    /// Its body, from the first line to the last.
    body: String,
}

/// Finds what a file names; returns its tests, too.
fn in_source(file: &str, source: &str, problems: &mut Vec<String>) -> (Vec<Naming>, Vec<Test>) {
    let (mut namings, mut tests) = (Vec::new(), Vec::new());
    let lines: Vec<&str> = source.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let indent = indent(lines[at]);
        if lines[at].trim() != "#[test]" {
            if How::ALL.iter().any(|(_, word)| is_call(lines[at], word)) {
                problems.push(format!("{file}, line {}: a name outside of a test", at + 1));
            }
            at += 1;
            continue;
        }
        // The formatter puts the end of a function below its beginning.
        let end = format!("{}}}", " ".repeat(indent));
        let last = (at..lines.len()).find(|line| lines[*line] == end).unwrap_or(lines.len() - 1);
        let name = lines[at..last].iter().find_map(|line| line.trim().strip_prefix("fn ")).unwrap_or("?(");
        let name = format!("{file}::{}", name.split('(').next().unwrap_or_default());
        let body = &lines[at..=last];
        namings.extend(in_test(&name, body, problems));
        tests.push(Test { name, body: body.join("\n") });
        at = last + 1;
    }
    for naming in &mut namings {
        let own = tests.iter().find(|test| test.name == naming.test);
        naming.body = own.map(|test| test.body.clone()).unwrap_or_default();
    }
    (namings, tests)
}

/// Finds what a test names.
fn in_test(test: &str, body: &[&str], problems: &mut Vec<String>) -> Vec<Naming> {
    let mut namings = Vec::new();
    for (at, line) in body.iter().enumerate() {
        let Some((how, _)) = How::ALL.into_iter().find(|(_, word)| is_call(line, word)) else { continue };
        let call: Vec<&str> =
            body[at..].iter().scan(false, |is_over, line| until_end(is_over, line)).collect();
        let words: Vec<&str> = call.iter().flat_map(|line| line.split('"').skip(1).step_by(2)).collect();
        let before = statement_before(body, at);
        if !ASSERTIONS.iter().any(|assertion| before.contains(assertion)) {
            problems.push(format!("{test} names {} where nothing is asserted", words.join(", ")));
        }
        namings.extend(read(test, how, &words, AT_ONCE, problems));
    }
    namings
}

fn is_call(line: &str, word: &str) -> bool {
    line.trim_start().strip_prefix(word).is_some_and(|rest| rest.starts_with("!("))
}

/// Passes lines on up to the one that ends a statement.
fn until_end<'a>(is_over: &mut bool, line: &'a str) -> Option<&'a str> {
    let passes = !*is_over;
    *is_over = line.trim_end().ends_with(';');
    passes.then_some(line)
}

/// Returns the statement that ends right before a line: back to the line that begins as far to the left, and closes nothing.
fn statement_before(body: &[&str], at: usize) -> String {
    let own = indent(body[at]);
    let mut found = Vec::new();
    for line in body[..at].iter().rev() {
        found.push(*line);
        let closes = line.trim_start().starts_with([')', '}', ']']);
        if indent(line) <= own && !closes && !line.trim().is_empty() {
            // Names that stand together belong to the same assertion.
            if How::ALL.iter().any(|(_, word)| is_call(line, word)) {
                found.clear();
                continue;
            }
            break;
        }
    }
    found.reverse();
    found.join("\n")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Finds what a written dialogue names.
fn in_dialogue(file: &str, source: &str, problems: &mut Vec<String>) -> Vec<Naming> {
    let dialogue: Value = match serde_json::from_str(source) {
        Ok(dialogue) => dialogue,
        Err(error) => {
            problems.push(format!("{file}: {error}"));
            return Vec::new();
        }
    };
    let mut namings = Vec::new();
    for (how, key) in How::ALL {
        for (place, names) in dialogue_names(&dialogue, key) {
            let words: Vec<&str> = names.iter().map(String::as_str).collect();
            namings.extend(read(&format!("{file} {place}"), how, &words, IN_DIALOGUES, problems));
        }
    }
    namings.iter_mut().for_each(|naming| source.clone_into(&mut naming.body));
    namings
}

/// Reads the names that stand in one place, which may be so many.
fn read(test: &str, how: How, words: &[&str], most: usize, problems: &mut Vec<String>) -> Vec<Naming> {
    if words.is_empty() || words.len() > most {
        problems.push(format!("{test} names {} lines at once", words.len()));
    }
    let ids = words.iter().filter_map(|word| {
        let id = Id::parse(word);
        if id.is_none() {
            problems.push(format!("{test}: {word:?} is no line"));
        }
        id
    });
    ids.map(|id| Naming { id, how, test: test.to_owned(), body: String::new() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(source: &str) -> (Vec<(Id, How, String)>, Vec<String>) {
        let mut problems = Vec::new();
        let (namings, _) = in_source("f.rs", source, &mut problems);
        (namings.into_iter().map(|naming| (naming.id, naming.how, naming.test)).collect(), problems)
    }

    const SOURCE: &str = "
fn call() {
    go();
}

mod inner {
    /// S0-9 is said and not named.
    #[test]
    fn a() {
        assert_eq!(
            call(),
            1,
        );
        proves!(\"S0-1\", \"S0-2\");
        for x in y {
            assert!(x);
        }
        instead!(
            \"S0-3\",
            \"S0-4\",
        );
        proves!(\"S0-5\");
    }
}
";

    #[test]
    fn names_count_in_a_test_after_what_it_asserts() {
        let (found, problems) = scan(SOURCE);
        assert_eq!(problems, Vec::<String>::new());
        let of = |number, how| (Id(0, number), how, "f.rs::a".to_owned());
        let [proves, instead] = [How::Proves, How::Instead];
        assert_eq!(found, [of(1, proves), of(2, proves), of(3, instead), of(4, instead), of(5, proves)]);
    }

    #[test]
    fn names_elsewhere_are_mistakes() {
        let outside = SOURCE.replace("    go();", "    go();\n    proves!(\"S0-6\");");
        assert_eq!(scan(&outside).1, ["f.rs, line 4: a name outside of a test"]);
        let unasserted = SOURCE.replace("            assert!(x);", "            go(x);");
        let [both, after] =
            ["S0-3, S0-4", "S0-5"].map(|ids| format!("f.rs::a names {ids} where nothing is asserted"));
        assert_eq!(scan(&unasserted).1, [both, after]);
        assert_eq!(scan(&SOURCE.replace("S0-3", "S0 3")).1, ["f.rs::a: \"S0 3\" is no line"]);
        let many = vec!["\"S0-6\""; AT_ONCE + 1].join(", ");
        assert_eq!(scan(&SOURCE.replace("\"S0-1\"", &many)).1, ["f.rs::a names 14 lines at once"]);
    }

    #[test]
    fn a_dialogue_names_with_its_tools_and_steps() {
        let written = r#"{"tools": {"a": {"proves": ["S0-1"]}}, "steps": [{"call": "a", "instead": ["S0-2", "S0-x"]}, {}]}"#;
        let mut problems = Vec::new();
        let found = in_dialogue("d.json", written, &mut problems);
        let found: Vec<(Id, How, &str)> =
            found.iter().map(|naming| (naming.id, naming.how, naming.test.as_str())).collect();
        let expected = [(Id(0, 1), How::Proves, "d.json tool a"), (Id(0, 2), How::Instead, "d.json step 1")];
        assert_eq!(found, expected);
        assert_eq!(problems, ["d.json step 1: \"S0-x\" is no line"]);
    }
}
