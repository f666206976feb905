//! The files for contributors are true.
//!
//! Proves that every file which `CONTRIBUTING.md` names is there, that each thing is added in five steps at most, and that the code
//! map of `ARCHITECTURE.md` is what `ls` shows.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::collections::BTreeSet;
use std::path::Path;

use outlive_tests::workspace;

fn page(name: &str) -> String {
    std::fs::read_to_string(workspace().join(name)).unwrap()
}

/// Returns what stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_file_that_contributing_names_is_there() {
    let text = page("CONTRIBUTING.md");
    // Blocks of commands and of sample text name files that are not in the repository.
    let prose: String = text.split("\n```").step_by(2).collect();
    let is_file = |name: &&str| {
        let has_ending = [".rs", ".md", ".toml"].iter().any(|ending| name.ends_with(ending));
        let is_other = name.contains([' ', ':']) || name.starts_with("target/");
        !is_other && (name.contains('/') || has_ending)
    };
    let names: Vec<&str> = quoted(&prose).filter(is_file).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        // Where a name is left to the reader, its folder is there.
        let known = name.split('<').next().unwrap().trim_end_matches(|c| name.contains('<') && c != '/');
        assert!(workspace().join(known).exists(), "CONTRIBUTING.md names {name}");
    }
}

#[test]
fn each_thing_is_added_in_five_steps_at_most() {
    let text = page("CONTRIBUTING.md");
    let (_, add) = text.split_once("\n## Add ").unwrap();
    let add = add.split("\n## ").next().unwrap();
    for thing in ["option", "verb", "tool", "error", "event"] {
        let is_about = |section: &&str| section.lines().next().unwrap().contains(thing);
        let section = add.split("\n### ").skip(1).find(is_about).unwrap_or_else(|| panic!("{thing}"));
        let steps = section.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
        assert!((1..=5).contains(&steps), "{thing}: {steps} steps");
    }
}

/// A table of the code map: the crate's sources, and the cells of each row.
fn code_map() -> Vec<(String, Vec<Vec<String>>)> {
    let text = page("ARCHITECTURE.md");
    let (_, map) = text.split_once("\n## Code map\n").unwrap();
    let map = map.split("\n## ").next().unwrap().to_owned();
    let sections = map.split("\n### `crates/").skip(1);
    let cells = |line: &str| line.split('|').skip(1).map(|cell| cell.trim().to_owned()).collect();
    sections
        .map(|section| {
            let rows = section.lines().filter(|line| line.starts_with("| ")).map(cells).collect();
            (section.split('`').next().unwrap().to_owned(), rows)
        })
        .collect()
}

/// Lists the modules in a folder, by name.
fn modules(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let names = entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    names.filter(|name| !["mod", "lib", "main", "tests"].contains(&name.as_str())).collect()
}

/// A row whose first cell ends with `/` is a room, and its third cell names the files in it, if it names any.
#[test]
fn the_code_map_is_what_ls_shows() {
    let map = code_map();
    assert_eq!(map.len(), 11, "a section for each crate");
    for (name, rows) in map {
        let sources = workspace().join("crates").join(&name).join("src");
        let mut named = BTreeSet::new();
        for row in rows.iter().filter(|row| row[0].starts_with('`')) {
            named.extend(quoted(&row[0]).map(|module| module.trim_end_matches('/').to_owned()));
            let Some(room) = row[0].strip_suffix("/`") else { continue };
            let is_module = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            let files: BTreeSet<String> = quoted(&row[2]).filter(is_module).map(str::to_owned).collect();
            if !files.is_empty() {
                let folder = sources.join(room.trim_start_matches('`'));
                assert_eq!(files, modules(&folder), "{name}: {}", row[0]);
            }
        }
        let there = modules(&sources);
        let missing: Vec<_> = named.difference(&there).collect();
        assert!(missing.is_empty(), "{name} has no {missing:?}");
        if rows[0][0] == "room" {
            assert_eq!(named, there, "{name}");
        }
    }
}
