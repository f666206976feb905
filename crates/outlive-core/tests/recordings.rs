//! The forms of recordings of real tools: as checked in, and as a terminal emulator shows them.
//!
//! `BLESS=1 cargo test -p outlive-core --test recordings` writes the forms and the table anew.

mod emulator;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use emulator::{emulated, rendered};
use outlive_core::plain::Plain;
use outlive_core::rendered::Rendered;

/// The recordings: name, and what was run.
const RECORDINGS: [(&str, &str); 8] = [
    ("cargo", "`cargo build`, eight crates"),
    ("git", "`git clone --progress`, 3,000 files"),
    ("nextest", "`cargo nextest run`, 17 tests"),
    ("npm", "`npm install express mocha`"),
    ("pip", "`pip install rich numpy`"),
    ("pytest", "`pytest -v`, 42 tests"),
    ("rich", "Three progress bars of Python's rich at once"),
    ("tqdm", "Two loops with tqdm"),
];

/// The size of the terminal on which they were made.
const COLUMNS: usize = 100;
const ROWS: usize = 30;

const PAGE: &str = "docs/guide/output-forms.md";

/// Stands before the table on the page.
const MARK: &str = "<!-- Written by crates/outlive-core/tests/recordings.rs with BLESS=1. -->\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recording(name: &str) -> Vec<u8> {
    fs::read(root().join(format!("tests/recordings/{name}.raw"))).expect("the recording is checked in")
}

fn terminal() -> Rendered {
    Rendered::new(Some(COLUMNS)).with_rows(ROWS)
}

fn plain_form(raw: &[u8]) -> String {
    let (mut plain, mut out) = (Plain::new(), Vec::new());
    plain.push(raw, &mut out);
    plain.finish(&mut out);
    String::from_utf8(out).expect("plain text is UTF-8")
}

fn rendered_form(raw: &[u8]) -> String {
    let (mut rendered, mut lines) = (terminal(), Vec::new());
    rendered.push(raw, |line| lines.push(line));
    rendered.finish(|line| lines.push(line));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Writes a file with `BLESS=1`, else compares.
fn check(path: &str, now: &str) {
    let file = root().join(path);
    if env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::write(file, now).expect("the checkout can be written");
    } else {
        let was = fs::read_to_string(file).unwrap_or_default();
        assert!(
            was == now,
            "{path} is not as it would be written now; run this with BLESS=1 and look at the change"
        );
    }
}

#[test]
fn forms_are_as_checked_in() {
    for (name, _) in RECORDINGS {
        let raw = recording(name);
        check(&format!("tests/recordings/{name}.plain.txt"), &plain_form(&raw));
        check(&format!("tests/recordings/{name}.rendered.txt"), &rendered_form(&raw));
    }
}

#[test]
fn rendered_is_what_a_terminal_shows() {
    for (name, _) in RECORDINGS {
        let raw = recording(name);
        assert_eq!(rendered(&raw, terminal()), emulated(&raw, COLUMNS, ROWS), "{name}");
    }
}

#[test]
fn the_table_in_the_guide_is_true() {
    let mut table = String::from("| Recording | Raw bytes | Plain | Rendered |\n|:--|--:|--:|--:|\n");
    let mut totals = [0; 3];
    for (name, what) in RECORDINGS {
        let raw = recording(name);
        let sizes = [raw.len(), plain_form(&raw).len(), rendered_form(&raw).len()];
        writeln!(table, "| {what} | {} | {} | {} |", sizes[0], sizes[1], sizes[2]).unwrap();
        totals.iter_mut().zip(sizes).for_each(|(total, size)| *total += size);
    }
    writeln!(table, "| All | {} | {} | {} |", totals[0], totals[1], totals[2]).unwrap();
    println!("{table}");
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (text, _) = page.split_once(MARK).expect("the page says where the table goes");
    check(PAGE, &format!("{text}{MARK}{table}"));
}

#[test]
fn recordings_say_nothing_about_the_machine() {
    for (name, _) in RECORDINGS {
        let raw = recording(name);
        assert!(raw.len() <= 60_000, "{name} is large");
        let text = String::from_utf8_lossy(&raw);
        for path in ["/root", "/home", "/work", "/opt", "/usr", "http://", "https://"] {
            assert!(!text.contains(path), "{name} has {path}");
        }
    }
}
