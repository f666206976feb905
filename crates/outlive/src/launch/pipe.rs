//! The exit codes of a pipeline.
//!
//! A shell's own exit code is that of the last command of a pipeline, which hides the others. Bash knows them all: where a front end asks
//! for it, a line that ends with a pipeline gets an end that writes them into the job's directory. The line in `spec.json` stays as it was
//! given. Other shells are not asked.

use std::path::Path;

use outlive_core::file;
use outlive_core::spec::{Spec, quote};
use outlive_sys::durable;

use crate::job::Job;

impl Job {
    /// Returns the exit codes of the pipeline that its line ended with, from the first command to the last; `None` if they are not known.
    pub fn pipe_codes(&self) -> Option<Vec<u8>> {
        let line = durable::read_line(self.dir().ok()?, file::PIPE_CODES)?;
        line.split_whitespace().map(|code| code.parse().ok()).collect()
    }
}

/// Returns the last command of the pipeline that a line for a shell ends with.
pub fn end_of_pipe(line: &str) -> Option<&str> {
    let bytes = line.as_bytes();
    let (mut quote, mut end, mut at) = (None, None, 0);
    while let Some(&byte) = bytes.get(at) {
        let (before, after) = (at.checked_sub(1).map(|at| bytes[at]), bytes.get(at + 1).copied());
        let is_blank_since = |from: usize| line[from..at].trim_matches(['&', ' ', '\n', '\t']).is_empty();
        match (quote, byte) {
            (None | Some(b'"'), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            // Two of them are "or".
            (None, b'|') if after == Some(b'|') => (end, at) = (None, at + 1),
            (None, b'|') if before != Some(b'>') => end = Some(at + 1),
            // Of redirections, as in `2>&1` and `&>file`, and of `|&`.
            (None, b'&') if matches!(before, Some(b'>' | b'|')) || after == Some(b'>') => {}
            // The command may stand in the next line.
            (None, b'\n') if end.is_some_and(is_blank_since) => {}
            (None, b';' | b'&') => end = None,
            // What follows the line is another command, unless nothing does.
            (None, b'\n') if !line[at..].trim().is_empty() => end = None,
            _ => {}
        }
        at += 1;
    }
    let command = line.get(end?..)?.trim_start_matches('&').trim();
    (!command.is_empty()).then_some(command)
}

/// Returns the line of a job with an end that writes down the codes of its last pipeline; `None` if the shell is not bash, or the line does not
/// end with a pipeline or would not stay as it is.
pub(crate) fn noting_codes(spec: &Spec, directory: &Path) -> Option<String> {
    let line = std::str::from_utf8(&spec.shell_line.as_ref()?.0).ok()?;
    let shell = Path::new(std::str::from_utf8(&spec.argv.first()?.0).ok()?);
    let is_bash = shell.file_name().is_some_and(|name| name == "bash");
    // The end of a text in the line would be a part of that text, and a trace would show it.
    let is_plain = !line.contains("<<") && !line.trim_end().ends_with('\\') && !is_traced(line);
    (is_bash && is_plain).then_some(())?;
    end_of_pipe(line)?;
    let file = quote(directory.join(file::PIPE_CODES).to_str()?);
    Some(format!(
        "{line}\n__outlive=(\"${{PIPESTATUS[@]}}\"); {{ builtin echo \"${{__outlive[@]}}\" >{file}; }} 2>/dev/null || :; exit \"${{__outlive[-1]}}\""
    ))
}

/// Tells whether a line lets its shell print what it executes.
fn is_traced(line: &str) -> bool {
    let mut options = line.split("set -").skip(1).filter_map(|rest| rest.split_whitespace().next());
    line.contains("xtrace") || options.any(|letters| letters.contains(['x', 'v']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_pipeline_is_found() {
        for (line, end) in [
            ("false | tail -5", Some("tail -5")),
            ("cd x && pytest 2>&1 | tail -20", Some("tail -20")),
            ("a |& b &>file", Some("b &>file")),
            ("a |\n  b\n", Some("b")),
            ("a | b | c # over", Some("c # over")),
            ("(a; b) | tail", Some("tail")),
            (r#"echo "a\" | b" | c"#, Some("c")),
            ("pytest | tail -3; echo done", None),
            ("a | b\nc", None),
            ("a | b &", None),
            ("a || tail x", None),
            ("echo 'a | tail'", None),
            (r"echo a \| tail", None),
            ("echo a >| file", None),
            ("tail -f x", None),
            ("a |", None),
            ("é | ü", Some("ü")),
        ] {
            assert_eq!(end_of_pipe(line), end, "{line}");
        }
    }

    #[test]
    fn traces_are_known() {
        assert!(is_traced("set -ex; a | b") && is_traced("set -o xtrace; a | b"));
        assert!(!is_traced("set -eu; a | b"));
    }
}
