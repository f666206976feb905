//! Hostile output: it costs bounded memory in every view, and is harmless in the forms that are made to be shown.
//!
//! Proves S0-159 (output is buffered efficiently) and S2-76 (large output is read from the disk) at their worst: sequences
//! without end, NULs, bytes that are no text, tricks with direction and titles, and a line of a gibibyte.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::io::Read;
use std::process::Stdio;

use outlive_tests::{Home, LIMIT, Terminal, binary, end_within};

/// No view may take more memory than this, in KiB: what is mapped to be written, without the program itself, which grows with every verb.
const MEMORY_KIB: &str = "32768";

/// All that a view may be asked for, in every form.
const VIEWS: [&[&str]; 10] = [
    &[],
    &["-n", "3"],
    &["--from-line", "1", "-n", "2"],
    &["--grep", "never|the end"],
    &["--grep", "the end", "-C", "2"],
    &["--head", "2", "--tail", "2"],
    &["--budget", "2000t"],
    &["--timestamps"],
    &["--since", "1h"],
    &["--json"],
];

/// Reads a log within bounded memory and hands on what comes; returns how much that was.
fn read(home: &Home, job: &str, arguments: &[&str], mut look: impl FnMut(&[u8])) -> u64 {
    let mut command = home.command("sh");
    command.args(["-c", r#"ulimit -d "$0" && exec "$@""#, MEMORY_KIB]).arg(binary("outlive")).arg("logs");
    let mut child =
        command.args(arguments).arg(job).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut buffer, mut length) = (vec![0; 1 << 20], 0);
    loop {
        let count = stdout.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        look(&buffer[..count]);
        length += count as u64;
    }
    let code = end_within(&mut child, LIMIT);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    length
}

/// Checks pieces of text for anything that drives a terminal or deceives its reader.
struct Harmless {
    /// The beginning of a character.
    rest: Vec<u8>,
    what: String,
}

impl Harmless {
    fn new(what: &str) -> Self {
        Self { rest: Vec::new(), what: what.to_owned() }
    }

    fn look(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(error) => panic!("{}: {error}", self.what),
        };
        let rest = self.rest.split_off(whole);
        let text = String::from_utf8(std::mem::replace(&mut self.rest, rest)).unwrap();
        let bad = text.chars().find(|&c| {
            (c.is_control() && c != '\n' && c != '\t')
                || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(bad, None, "{}", self.what);
    }
}

fn floods(home: &Home, arguments: &[&str]) -> String {
    let mut argv = vec![binary("floods").display().to_string()];
    argv.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    let job = home.start_with(&["--output-cap", "off"], argv);
    assert_eq!(home.wait(&job)["exit_code"], 0);
    job
}

/// Looks at a log in every view and form.
fn every_view_is_bounded_and_harmless(home: &Home, job: &str, forms: &[&str]) {
    for form in forms {
        for view in VIEWS {
            let mut arguments = vec![*form];
            arguments.extend(view);
            let mut harmless = Harmless::new(&format!("{arguments:?}"));
            let is_shown = *form != "--raw";
            let mut last = Vec::new();
            read(home, job, &arguments, |bytes| {
                if is_shown {
                    harmless.look(bytes);
                }
                last.extend_from_slice(bytes);
                last.drain(..last.len().saturating_sub(4096));
            });
            let last = String::from_utf8_lossy(&last);
            // Two of them show the beginning only.
            assert!(view.contains(&"--from-line") || last.contains("the end"), "{arguments:?}: {last}");
        }
    }
}

const FORMS: [&str; 3] = ["--raw", "--plain", "--rendered"];

/// 64 MiB of a sequence that is never ended hide nothing that comes after them.
#[test]
fn a_title_without_end() {
    let home = Home::new();
    let job = floods(&home, &["67108864", "t", r"\x1b]0;", r"\x0athe end\x0a"]);
    every_view_is_bounded_and_harmless(&home, &job, &FORMS);
}

#[test]
fn a_device_string_without_end() {
    let home = Home::new();
    let job = floods(&home, &["67108864", "q", r"\x1bP", r"\x0athe end\x0a"]);
    every_view_is_bounded_and_harmless(&home, &job, &["--plain"]);
}

#[test]
fn a_control_sequence_without_end() {
    let home = Home::new();
    let job = floods(&home, &["67108864", "1;", r"\x1b[", r"\x0athe end\x0a"]);
    every_view_is_bounded_and_harmless(&home, &job, &["--plain", "--rendered"]);
}

#[test]
fn nothing_but_nuls() {
    let home = Home::new();
    let job = floods(&home, &["16777216", r"\x00", "", r"\x0athe end\x0a"]);
    every_view_is_bounded_and_harmless(&home, &job, &FORMS);
}

#[test]
fn nothing_but_newlines() {
    let home = Home::new();
    let job = floods(&home, &["300000", r"\x0a", "", r"the end\x0a"]);
    every_view_is_bounded_and_harmless(&home, &job, &FORMS);
}

#[test]
fn bytes_that_are_no_text() {
    let home = Home::new();
    let job = floods(
        &home,
        &["4194304", r"\xff\xfe\x80\x9b31m\xc3\xe2\x82\xf0\x9f\x98\xed\xa0\x80", "", r"\x0athe end\x0a"],
    );
    every_view_is_bounded_and_harmless(&home, &job, &FORMS);
}

#[test]
fn tricks_with_direction_titles_and_the_screen() {
    let home = Home::new();
    let trick = concat!(
        r"\x1b]0;owned\x07\x1b[2J\x1b[H\x1b[?1049h\x1b]52;c;ZXZpbA==\x07\x1bP+q544e\x1b\\\x1b[21t\x1bc\x1b(0",
        r"\xe2\x80\xaeevil\xe2\x81\xa6x\xe2\x81\xa9\xe2\x80\x8f\xd8\x9c\xc2\x9b31mred\xc2\x9d0;t\xc2\x9c\x9b5n",
        r"\x08\x08\x7f\x07\x0e\x0f\x05line\x0d\x0a"
    );
    let job = floods(&home, &["1048576", trick, "", r"\x1b[?1049l\x1b(B\x0athe end\x0a"]);
    every_view_is_bounded_and_harmless(&home, &job, &FORMS);
    // They are in the log all the same.
    let mut has_title = false;
    read(&home, &job, &["--bytes", "0..20"], |bytes| has_title |= bytes.starts_with(b"\x1b]0;owned\x07"));
    assert!(has_title);
}

/// The default form on a terminal.
#[test]
fn a_terminal_is_not_driven_by_a_log() {
    let home = Home::new();
    let text = r"\x1b]0;owned\x07\x1b[31mred\x1b[0m \xe2\x80\xaelevel\xc2\x9b31m\x05\x0athe end\x0a";
    let job = floods(&home, &["1", r"\x1b", text, r"[2Jlast\x0a"]);
    for arguments in
        [&["logs"][..], &["logs", "-n", "5"], &["logs", "--grep", "."], &["logs", "-t"], &["logs", "-f"]]
    {
        let terminal = Terminal::open(80);
        let mut argv = vec![binary("outlive").display().to_string()];
        argv.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        argv.push(job.clone());
        let mut child = terminal.start(&home, &[], argv);
        let shown = terminal.read_to_end();
        assert_eq!(end_within(&mut child, LIMIT), Some(0));
        // Colours alone come through.
        assert!(shown.contains("\x1b[0;31mred\x1b[0m level31m") && shown.contains("last"), "{shown:?}");
        let shown = shown.replace("\x1b[0;31m", "").replace("\x1b[0m", "");
        Harmless::new(&format!("{arguments:?}")).look(shown.replace("\r\n", "\n").as_bytes());
    }
}

/// The line of a gibibyte: it is passed on whole where bytes are, and cut with a note where lines are.
#[test]
fn a_line_of_a_gibibyte() {
    let home = Home::new();
    let job = floods(&home, &["1073741824", "x", r"first\x0a", r"\x0athe end\x0a"]);
    let whole = 6 + (1 << 30) + 9;
    assert_eq!(read(&home, &job, &[], |_| {}), whole);
    let text = |arguments: &[&str]| {
        let mut text = Vec::new();
        read(&home, &job, arguments, |bytes| text.extend_from_slice(bytes));
        String::from_utf8(text).unwrap()
    };
    assert_eq!(text(&["-n", "1"]), "the end\n");
    assert_eq!(text(&["--grep", "^the"]), "the end\n");
    assert_eq!(text(&["--from-line", "3"]), "the end\n");
    let cut = text(&["-n", "2"]);
    let note = format!(" [{} more]\nthe end\n", (1 << 30) - (1 << 20));
    assert_eq!(cut.len(), (1 << 20) + note.len());
    assert!(cut.ends_with(&note), "{}", &cut[1 << 20..]);
    let lines: Vec<serde_json::Value> =
        text(&["--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[1]["line"], &lines[1]["cut_bytes"]), (&2.into(), &((1 << 30) - (1 << 20)).into()));
    for form in ["--plain", "--rendered"] {
        let mut harmless = Harmless::new(form);
        let length = read(&home, &job, &[form], |bytes| harmless.look(bytes));
        assert!(length == whole || form == "--rendered", "{length} bytes are shown");
    }
    let small = text(&["--budget", "4K"]);
    assert!(small.len() < 5000 && small.starts_with("first\n") && small.ends_with("the end\n"), "{small}");
}
