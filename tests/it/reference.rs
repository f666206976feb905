//! Generated pages are up to date, and every module is listed.
//!
//! Proves S0-163 (documentation) as far as it is generated, and the rules of the code: the keeper stays small, and only one
//! crate holds `unsafe`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use outlive_tests::{Home, sources, workspace};

fn assert_is_up_to_date(page: &str) {
    let home = Home::new();
    let made = home.run(["reference", page]).ok().text();
    assert!(made.starts_with("# ") && made.lines().count() > 10, "{made}");
    let path = workspace().join("docs/reference").join(format!("{page}.md"));
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == made, "{} is not what `outlive reference {page}` makes: ./test bless", path.display());
}

#[test]
fn the_page_of_the_command_line_is_up_to_date() {
    assert_is_up_to_date("cli");
}

#[test]
fn global_options_have_a_heading_of_their_own_in_every_help_text() {
    let page = std::fs::read_to_string(workspace().join("docs/reference/cli.md")).unwrap();
    let is_global = |line: &&str| {
        let mut words = line.split_whitespace().map(|word| word.trim_end_matches(','));
        let is_declared = line.starts_with("  -") || line.starts_with("      --");
        is_declared && words.any(|word| ["--json", "--session", "--reader", "--help"].contains(&word))
    };
    for section in page.split("\n## ").skip(1) {
        let (above, below) = section.split_once("\nGlobal options:\n").expect(section);
        let options = |text: &str| text.lines().filter(is_global).count();
        assert_eq!((options(above), options(below)), (0, 4), "{section}");
    }
}

#[test]
fn the_page_of_exit_statuses_is_up_to_date() {
    assert_is_up_to_date("exit-status");
}

#[test]
fn every_error_code_is_used_and_documented() {
    let page = std::fs::read_to_string(workspace().join("docs/reference/exit-status.md")).unwrap();
    let table = workspace().join("crates/outlive/src/failure/table.rs");
    let files = sources(&workspace().join("crates")).into_iter().filter(|path| *path != table);
    let text: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for code in outlive::Code::ALL {
        assert!(text.contains(&format!("Code::{code:?}")), "nothing fails with {code:?}");
        assert!(page.contains(&format!("| `{}` | {} |", code.word(), code.exit_status())), "{code:?}");
    }
}

#[test]
fn the_page_of_profiles_is_up_to_date() {
    assert_is_up_to_date("profiles");
}

/// Every line of the designs is proved by a test that names it where it shows it, or has a reason why not.
#[test]
fn every_line_of_the_designs_is_accounted_for() {
    let home = Home::new();
    let made = outlive_tests::finish(home.command(home.program("coverage")), b"").ok().text();
    let path = workspace().join("docs/reference/coverage.md");
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == made, "{} is not what target/debug/coverage makes: ./test bless", path.display());
}

#[test]
fn every_module_of_the_tests_is_listed() {
    let directory = workspace().join("tests/it");
    let files = sources(&directory);
    assert!(files.contains(&directory.join("reference.rs")));
    for path in files.iter().filter(|path| !path.ends_with("it/main.rs")) {
        // A folder is a module, and its parts are listed in its mod.rs.
        let module = if path.ends_with("mod.rs") { path.parent().unwrap() } else { path };
        let above = module.parent().unwrap();
        let list = above.join(if above == directory { "main.rs" } else { "mod.rs" });
        let listed = std::fs::read_to_string(&list).unwrap();
        let line = format!("mod {};", module.file_stem().unwrap().to_str().unwrap());
        assert!(listed.lines().any(|listed| listed == line), "{} lacks `{line}`", list.display());
    }
}

#[test]
fn every_module_of_the_tests_says_what_it_proves() {
    for path in sources(&workspace().join("tests/it")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(header.len() > 1, "{} has no header that says what it proves", path.display());
        assert!(!text.contains(concat!("#[", "ignore")), "{} ignores a test", path.display());
    }
}

#[test]
fn the_keeper_needs_little_and_no_async_runtime() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "tree",
        "--package",
        "outlive-keeper",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--offline",
    ]);
    let output = command.current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let crates: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains("outlive-keeper") && crates.contains("outlive-sys"), "{crates:?}");
    for runtime in
        ["tokio", "async-std", "smol", "mio", "async-io", "async-executor", "futures", "futures-core"]
    {
        assert!(!crates.contains(runtime), "the keeper depends on {runtime}");
    }
    assert!(crates.len() <= 25, "the keeper depends on {} crates: {crates:?}", crates.len());
}

#[test]
fn only_one_crate_holds_unsafe() {
    // Taken apart, so that this file does not hold the word where code has it.
    let word = concat!("un", "safe");
    let forms = ["{", "fn", "impl", "extern", "trait"].map(|form| format!("{word} {form}"));
    let mut holders = BTreeSet::new();
    let mut files = 0;
    for path in ["crates", "bench", "tests"].iter().flat_map(|name| sources(&workspace().join(name))) {
        files += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let holds = code.into_iter().any(|line| {
            forms.iter().any(|form| line.contains(form)) || line.contains(&format!("({word}_code"))
        });
        if holds {
            let relative = path.strip_prefix(workspace()).unwrap();
            holders.insert(relative.components().take(2).collect::<PathBuf>());
        }
    }
    assert!(files > 50);
    assert_eq!(holders, BTreeSet::from([PathBuf::from("crates/outlive-sys")]));
}
