//! Which test proves which line of the designs that outlive speaks: makes `docs/reference/coverage.md`, or says what is missing.
//!
//! `inventory.txt` has the lines: id, kind, what. A line is proved by nothing but a test that names it right after the assertion that
//! shows it, `proves!("S0-12")`, or by a step of a written dialogue that names it (`names.rs`). All other lines are settled in `s0.txt` to
//! `s4.txt` (`lists.rs`). A line that is both, or neither, is a mistake. `lacking.md` says what the inventory does not have.
//!
//! With `--shown FILE` it names the lines of which no test was reached in a run: those that are not in the file. With `--draw SEED` it
//! draws lines to be read beside the designs and the tests: whether an assertion shows all of its line, no program can tell.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints a page, or what is missing")]

mod lists;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::path::Path;
use std::process::ExitCode;

use lists::{Settled, Verdict, settled};
use names::{How, Naming, namings};
use outlive_tests::{Random, workspace};

/// How many lines are drawn: as many as can be read with care.
const DRAWN: usize = 80;

/// The id of a line: design and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id(u32, u32);

impl Id {
    fn parse(text: &str) -> Option<Self> {
        let (design, number) = text.strip_prefix('S')?.split_once('-')?;
        let id = Self(design.parse().ok()?, number.parse().ok()?);
        (id.to_string() == text).then_some(id)
    }
}

impl Display for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "S{}-{}", self.0, self.1)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let lists = workspace().join("tests/coverage");
    let inventory = text(&lists.join("inventory.txt"));
    let (namings, mut problems) = namings(workspace());
    let texts: Vec<String> = (0..5).map(|design| text(&lists.join(format!("s{design}.txt")))).collect();
    let (settled, more) = settled(&texts);
    problems.extend(more);
    match (rows(&inventory, &settled, &namings), arguments.as_slice()) {
        (Ok(rows), []) if problems.is_empty() => {
            print!("{}", page(&rows, &text(&lists.join("lacking.md"))));
            ExitCode::SUCCESS
        }
        (Ok(_), [option, file]) if option == "--shown" => {
            for (id, test) in not_shown(&namings, &text(Path::new(file))) {
                println!("{test}: for want of a run that shows {id}");
            }
            ExitCode::SUCCESS
        }
        (Ok(rows), [option, seed]) if option == "--draw" && seed.parse::<u64>().is_ok() => {
            let lines = drawn(&rows, seed.parse().unwrap_or_default());
            println!("{} of {} lines, drawn with the seed {seed}:\n", lines.len(), rows.len());
            lines.into_iter().for_each(|row| print!("{}", row.to_line()));
            ExitCode::SUCCESS
        }
        (Ok(_), [_, ..]) => {
            eprintln!("usage: coverage [--shown FILE | --draw SEED]");
            ExitCode::FAILURE
        }
        (rows, _) => {
            problems.extend(rows.err().into_iter().flatten());
            problems.iter().for_each(|problem| eprintln!("coverage: {problem}"));
            ExitCode::FAILURE
        }
    }
}

/// A line of the page.
struct Row {
    id: Id,
    kind: String,
    what: String,
    /// How it is counted.
    class: &'static str,
    /// What the page says of it.
    verdict: String,
}

impl Row {
    /// Renders it as a line of a table.
    fn to_line(&self) -> String {
        let [what, verdict] = [&self.what, &self.verdict].map(|text| text.replace('|', "\\|"));
        format!("| {} | {} | {what} | {verdict} |\n", self.id, self.kind)
    }
}

/// Draws lines, the same ones for the same seed, and returns them in their order.
fn drawn(rows: &[Row], seed: u64) -> Vec<&Row> {
    let mut random = Random::new(seed);
    let mut left: Vec<&Row> = rows.iter().collect();
    let mut drawn = Vec::new();
    while drawn.len() < DRAWN && !left.is_empty() {
        let place = usize::try_from(random.below(left.len() as u64)).unwrap_or(0);
        drawn.push(left.swap_remove(place));
    }
    drawn.sort_by_key(|row| row.id);
    drawn
}

/// Brings together what the lists and the tests say of each line; else says all that is wrong.
fn rows(
    inventory: &str,
    settled: &BTreeMap<Id, Settled>,
    namings: &[Naming],
) -> Result<Vec<Row>, Vec<String>> {
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    let mut tests = BTreeMap::<(Id, How), BTreeMap<&str, &str>>::new();
    for naming in namings {
        let of_line = tests.entry((naming.id, naming.how)).or_default();
        if of_line.insert(&naming.test, &naming.body).is_some() {
            problems.push(format!("{} names {} twice", naming.test, naming.id));
        }
    }
    for line in inventory.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[name, kind, what] = fields.as_slice() else {
            problems.push(format!("inventory.txt has a line without three fields: {line}"));
            continue;
        };
        let Some(id) = Id::parse(name) else {
            problems.push(format!("{name:?} is no id"));
            continue;
        };
        let (proofs, instead) = (tests.remove(&(id, How::Proves)), tests.remove(&(id, How::Instead)));
        match judge(settled.get(&id), proofs.as_ref(), instead.as_ref()) {
            Ok((class, verdict)) => {
                rows.push(Row { id, kind: kind.to_owned(), what: what.to_owned(), class, verdict });
            }
            Err(problem) => problems.push(format!("{id} {problem}: {what}")),
        }
    }
    let known: BTreeSet<Id> = rows.iter().map(|row| row.id).collect();
    problems.extend(tests.keys().map(|(id, _)| format!("there is no line {id}, which a test names")));
    if problems.is_empty() {
        problems.extend(
            settled.keys().filter(|id| !known.contains(id)).map(|id| format!("there is no line {id}")),
        );
    }
    if problems.is_empty() { Ok(rows) } else { Err(problems) }
}

/// Tells how a line is counted and what is said of it, from the tests that prove it or show what there is instead; else what is wrong.
fn judge(
    settled: Option<&Settled>,
    proofs: Option<&BTreeMap<&str, &str>>,
    instead: Option<&BTreeMap<&str, &str>>,
) -> Result<(&'static str, String), &'static str> {
    let shown = |tests: &BTreeMap<&str, &str>| {
        tests.keys().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", ")
    };
    match (settled, proofs, instead) {
        (None, Some(tests), None) => Ok(("proved by a test", shown(tests))),
        (None, None, None) => Err("is neither proved nor settled"),
        (None, _, Some(_)) => {
            Err("is neither superseded nor reversed, but a test shows what there is instead")
        }
        (Some(_), Some(_), _) => Err("is settled in a list, and a test proves it all the same"),
        (Some(Settled { verdict, text }), None, instead) => {
            let class = verdict.class();
            match (verdict, instead) {
                (Verdict::Open | Verdict::NotApplicable, None) => Ok((class, text.clone())),
                (Verdict::Open | Verdict::NotApplicable, Some(_)) => {
                    Err("is neither superseded nor reversed, but a test shows what there is instead")
                }
                (_, None) => Err("has no test that shows what there is instead"),
                (Verdict::Superseded, Some(tests)) if !is_run(text, tests) => {
                    Err("is superseded by a command that the test which names it does not run")
                }
                (_, Some(tests)) => Ok((class, format!("{text}: {}", shown(tests)))),
            }
        }
    }
}

/// Tells whether the tests run every command that a verdict gives: its words are there in quotes.
fn is_run(verdict: &str, tests: &BTreeMap<&str, &str>) -> bool {
    let mut commands = verdict.split('`').skip(1).step_by(2).peekable();
    commands.peek().is_some()
        && commands.all(|command| {
            let words = || command.split(' ').filter(|word| *word != "outlive");
            tests.values().any(|body| words().all(|word| has_word(body, word)))
        })
}

/// Helpers of the tests that run a verb.
const HELPERS: [(&str, &str); 7] = [
    ("show", "home.show("),
    ("logs", "home.logs("),
    ("run", "Limited::start("),
    ("run", "home.start_with("),
    ("wake", "wait_to_wake("),
    ("serve", "Server::start("),
    ("send_keys", " send_keys("),
];

/// Tells whether a test has a word in quotes, or at the beginning or the end of what is in quotes, or a helper that runs it.
fn has_word(body: &str, word: &str) -> bool {
    if HELPERS.iter().any(|(verb, helper)| *verb == word && body.contains(helper)) {
        return true;
    }
    let ends = |before: &str, after: &str| body.contains(&format!("{before}{word}{after}"));
    ["\"", " ", "\\\""].iter().any(|before| ["\"", " ", "=", "\\\""].iter().any(|after| ends(before, after)))
}

/// Makes the page.
fn page(rows: &[Row], lacking: &str) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut table = String::new();
    let mut design = None;
    for row in rows {
        *counts.entry(row.class).or_default() += 1;
        if design != Some(row.id.0) {
            design = Some(row.id.0);
            table.push_str(&format!(
                "\n## S{}\n\n| line | kind | what | |\n| --- | --- | --- | --- |\n",
                row.id.0
            ));
        }
        table.push_str(&row.to_line());
    }
    let counts: Vec<String> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    format!(
        "# What of the five designs is there\n\nMade by `tests/coverage/main.rs` from `tests/coverage/` and from what tests name; `./test \
        bless` makes it anew. {} lines: {}.\n\nThe designs: S0 macos-shell, S1 claude-code, S2 deepchat, S3 duragent, S4 neovate.\n\n\
        - A line with nothing but a test is **proved**: the test names it right after the assertion that shows it, or a step of a written \
        dialogue does, whose answer is compared field by field.\n\
        - **superseded**: there is another way to it; the test runs the command that is given.\n\
        - **reversed**: a limit or a shortcoming of the design that is not kept here, or a limit that is outlive's own; the test \
        shows what holds.\n\
        - **open**: not met, and why.\n\n{lacking}{table}",
        rows.len(),
        counts.join(", ")
    )
}

/// Returns the lines that tests name and none of them has reached, with a test that should have.
fn not_shown<'a>(namings: &'a [Naming], shown: &str) -> BTreeMap<Id, &'a str> {
    let shown: BTreeSet<Id> = shown.lines().filter_map(Id::parse).collect();
    let named = namings.iter().filter(|naming| !shown.contains(&naming.id));
    named.map(|naming| (naming.id, naming.test.as_str())).collect()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVENTORY: &str = "S0-1\tgoal\ta\nS0-2\tlimit\tb\n";

    fn naming(id: Id, how: How, test: &str) -> Naming {
        Naming { id, how, test: test.to_owned(), body: "home.run([\"wait\", \"--group\"])".to_owned() }
    }

    /// Judges two lines: what is settled, and what tests name.
    fn judged(list: &str, namings: &[Naming]) -> Result<String, String> {
        let (settled, problems) = settled(&[list.to_owned()]);
        assert_eq!(problems, Vec::<String>::new());
        let rows = rows(INVENTORY, &settled, namings).map_err(|problems| problems.join("\n"))?;
        Ok(page(&rows, ""))
    }

    #[test]
    fn a_line_is_proved_by_a_test_or_settled() {
        let [one, two] = [1, 2].map(|number| naming(Id(0, number), How::Proves, "t.rs::a"));
        let page = judged("", &[one.clone(), two]).expect("all is well");
        assert!(page.contains("2 lines: 2 proved by a test."), "{page}");
        assert!(page.contains("| S0-1 | goal | a | `t.rs::a` |\n"), "{page}");
        let page = judged("S0-2 open: it is not built\n", std::slice::from_ref(&one)).expect("all is well");
        assert!(page.contains("| S0-2 | limit | b | open: it is not built |\n"), "{page}");
        let problem = judged("", std::slice::from_ref(&one)).expect_err("one is missing");
        assert_eq!(problem, "S0-2 is neither proved nor settled: b");
        // The lists win over what tests name.
        let problem = judged("S0-1 open: it is not built\nS0-2 open: nor this\n", &[one]).expect_err("both");
        assert_eq!(problem, "S0-1 is settled in a list, and a test proves it all the same: a");
    }

    #[test]
    fn an_id_that_is_unknown_or_doubled_is_a_mistake() {
        let [one, two] = [1, 2].map(|number| naming(Id(0, number), How::Proves, "t.rs::a"));
        let stranger = naming(Id(7, 1), How::Proves, "t.rs::a");
        let problem = judged("", &[one.clone(), two.clone(), stranger]).expect_err("there is no S7");
        assert_eq!(problem, "there is no line S7-1, which a test names");
        let problem = judged("S3-9 open: x\n", &[one.clone(), two.clone()]).expect_err("there is no S3-9");
        assert_eq!(problem, "there is no line S3-9");
        let problem = judged("", &[one.clone(), two.clone(), two.clone()]).expect_err("doubled");
        assert_eq!(problem, "t.rs::a names S0-2 twice");
        let (_, problems) = settled(&["S0-1 open: x\nS0-1 open: y\n".to_owned()]);
        assert_eq!(problems, ["S0-1 is settled twice"]);
    }

    #[test]
    fn what_there_is_instead_is_run_by_a_test() {
        let one = naming(Id(0, 1), How::Proves, "t.rs::a");
        let list = "S0-2 superseded by `outlive wait --group`\n";
        let problem = judged(list, std::slice::from_ref(&one)).expect_err("no test");
        assert_eq!(problem, "S0-2 has no test that shows what there is instead: b");
        let instead = naming(Id(0, 2), How::Instead, "t.rs::b");
        let page = judged(list, &[one.clone(), instead.clone()]).expect("all is well");
        assert!(page.contains("| S0-2 | limit | b | superseded by `outlive wait --group`: `t.rs::b` |\n"));
        for list in ["S0-2 superseded by `outlive kill --group`\n", "S0-2 superseded by something\n"] {
            let problem = judged(list, &[one.clone(), instead.clone()]).expect_err("it is not run");
            assert!(problem.contains("does not run"), "{problem}");
        }
        let page =
            judged("S0-2 reversed: there is no limit\n", &[one.clone(), instead.clone()]).expect("well");
        assert!(page.contains("1 proved by a test, 1 reversed."), "{page}");
        assert!(judged("S0-2 open: x\n", &[one.clone(), instead.clone()]).is_err());
        assert!(judged("", &[one, instead]).is_err());
    }

    #[test]
    fn a_seed_draws_the_same_lines_and_none_twice() {
        let row = |number| Row {
            id: Id(0, number),
            kind: String::new(),
            what: String::new(),
            class: "",
            verdict: String::new(),
        };
        let ids = |count: u32, seed: u64| -> Vec<Id> {
            let rows: Vec<Row> = (0..count).map(row).collect();
            drawn(&rows, seed).iter().map(|row| row.id).collect()
        };
        assert_eq!(ids(609, 7), ids(609, 7));
        assert_ne!(ids(609, 7), ids(609, 8));
        assert!(ids(609, 7).is_sorted_by(|one, next| one < next), "{:?}", ids(609, 7));
        assert_eq!((ids(609, 7).len(), ids(3, 7).len()), (DRAWN, 3));
    }

    #[test]
    fn what_no_run_has_reached_is_told() {
        let namings = [1, 2].map(|number| naming(Id(0, number), How::Proves, "t.rs::a"));
        assert_eq!(not_shown(&namings, "S0-2\n"), BTreeMap::from([(Id(0, 1), "t.rs::a")]));
        assert_eq!(not_shown(&namings, "S0-2\nS0-1\n"), BTreeMap::new());
    }
}
