//! What a tool answers: text, in one form for all tools.
//!
//! The server's lines begin with [`MARK`], and no line of a job's output does: one that would is moved by a space. So nothing
//! that a job prints can pass for a line of the server.

use std::collections::HashSet;

pub(crate) use outlive::chain;
use outlive::{Job, Nonce, State};
use serde_json::{Map, Value};

use crate::arguments::shown;

/// The beginning of each of the server's lines.
pub(crate) const MARK: &str = "[outlive]";

/// No line of a job's output may begin with this.
const RESERVED: &str = "[outlive";

/// An action for when an answer was written to the client.
pub(crate) type After = Box<dyn FnOnce() + Send>;

/// The answer of a tool.
#[derive(Default)]
pub(crate) struct Reply {
    /// The first line, without its mark.
    pub(crate) header: String,
    /// What a job printed, or a table: harmless lines, each with its newline.
    pub(crate) body: String,
    /// The lines after the body, without their marks.
    pub(crate) footers: Vec<String>,
    pub(crate) is_error: bool,
    /// The condition of a wait does not hold yet and still can.
    pub(crate) is_pending: bool,
    pub(crate) after: Vec<After>,
    /// Jobs whose end it reports: it carries no notice of them.
    pub(crate) delivered: Vec<Nonce>,
    /// Endings of other jobs, as harmless lines.
    pub(crate) notices: String,
    /// The whole text, in place of header, body and footers, for profiles with their own form.
    plain: Option<String>,
    /// Further content blocks beside the text.
    pub(crate) messages: Vec<String>,
    /// What is for the client and not for the model: `_meta` of the result.
    pub(crate) meta: Map<String, Value>,
}

impl Reply {
    pub(crate) fn new(header: impl Into<String>) -> Self {
        Self { header: header.into(), ..Self::default() }
    }

    /// Makes an answer of this text alone.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { plain: Some(text.into()), ..Self::default() }
    }

    /// Makes an answer of this object alone.
    pub(crate) fn json(object: &Value) -> Self {
        Self::plain(object.to_string())
    }

    /// Gives it this object as its only text.
    pub(crate) fn with_json(mut self, object: &Value) -> Self {
        self.plain = Some(object.to_string());
        self
    }

    /// Makes an error of this text alone.
    pub(crate) fn refusal(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::plain(text) }
    }

    pub(crate) fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn footer(mut self, footer: impl Into<String>) -> Self {
        self.footers.push(footer.into());
        self
    }

    /// Adds a field for the client, which the model does not see.
    pub(crate) fn meta(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(name.to_owned(), value.into());
        self
    }

    /// Marks it as reporting the end of a job, if the job has ended.
    pub(crate) fn tells(mut self, job: &Job, state: &State) -> Self {
        if state.status.has_ended() {
            self.delivered.push(job.spec().nonce);
        }
        self
    }

    /// Does this once the client has the answer.
    pub(crate) fn after(mut self, act: impl FnOnce() + Send + 'static) -> Self {
        self.after.push(Box::new(act));
        self
    }

    /// Puts the name of this machine, as the caller knows it, before the ids in the server's own lines.
    pub(crate) fn address(&mut self, host: &str, ids: &HashSet<String>) {
        self.header = addressed(&self.header, host, ids);
        self.footers.iter_mut().for_each(|footer| *footer = addressed(footer, host, ids));
        for text in [&mut self.body, &mut self.notices] {
            let own = |line: &str| match line.starts_with(MARK) {
                true => addressed(line, host, ids),
                false => line.to_owned(),
            };
            *text = text.split_inclusive('\n').map(own).collect();
        }
    }

    pub(crate) fn text(&self) -> String {
        if let Some(plain) = &self.plain {
            let end = if self.notices.is_empty() { "" } else { "\n" };
            return format!("{plain}{end}{}", self.notices.trim_end_matches('\n'));
        }
        let mut text = format!("{MARK} {}\n", self.header);
        text.push_str(&self.body);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        for footer in &self.footers {
            text.push_str(&format!("{MARK} {footer}\n"));
        }
        text.push_str(&self.notices);
        text.truncate(text.trim_end_matches('\n').len());
        text
    }
}

/// Puts a host before each id in a line.
fn addressed(line: &str, host: &str, ids: &HashSet<String>) -> String {
    let is_of_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let (mut text, mut word) = (String::new(), String::new());
    for c in line.chars().map(Some).chain([None]) {
        if let Some(c) = c.filter(|c| is_of_id(*c)) {
            word.push(c);
            continue;
        }
        if ids.contains(&word) {
            text += &format!("{host}/");
        }
        text += &std::mem::take(&mut word);
        text.extend(c);
    }
    text
}

/// Why a call could not be answered as asked, and what to call next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    what: String,
    next: Option<String>,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), next: None }
    }

    /// Says what to do next.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Returns what went wrong, without the next step, which names tools that a profile may not have.
    pub(crate) fn into_words(self) -> String {
        self.what
    }

    /// Makes a failure of an error, with its causes.
    pub(crate) fn of(what: &str, error: &dyn std::error::Error) -> Self {
        Self::new(format!("{what}: {}", chain(error)))
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        let mut reply = Self::new(format!("error: {}", failure.what));
        reply.footers.extend(failure.next.map(|next| format!("next: {next}")));
        reply.is_error = true;
        reply
    }
}

/// Adds a line that a job printed, made harmless: it cannot begin as a line of the server, nor change the direction of text.
pub(crate) fn push_line(text: &mut String, line: &str) {
    if line.trim_start_matches(is_invisible).starts_with(RESERVED) {
        text.push(' ');
    }
    for c in line.chars() {
        match c {
            '\t' => text.push('\t'),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => text.push('\u{fffd}'),
            '\u{2028}' | '\u{2029}' => text.push(' '),
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    text.push('\n');
}

/// Adds a line of the server's own to a body.
pub(crate) fn push_own_line(text: &mut String, line: &str) {
    text.push_str(MARK);
    text.push(' ');
    push_line(text, line);
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes a number with commas: `1,988`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Quotes a caller's or job's text for one of the server's lines.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", shown(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_cannot_pass_for_the_servers_own_lines() {
        for line in ["[outlive] done", "[outlive]", "\u{200b}[outlive] x", "\u{202e}[outlive] x"] {
            let mut text = String::new();
            push_line(&mut text, line);
            assert!(text.starts_with(' '), "{text:?}");
        }
        let mut text = String::new();
        push_line(&mut text, "a\r[outlive] b\u{1b}[31m\u{2028}[outlive] c");
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(!text.contains('\r') && !text.contains('\u{1b}'));
    }

    #[test]
    fn ids_are_addressed_in_own_lines_alone() {
        let ids = HashSet::from(["a-1".to_owned()]);
        let mut reply =
            Reply::new("a-1 running; a-12 not").body("a-1 says\n[outlive] a-1\n").footer("kill job=a-1");
        reply.address("gpu1", &ids);
        let expected =
            "[outlive] gpu1/a-1 running; a-12 not\na-1 says\n[outlive] gpu1/a-1\n[outlive] kill job=gpu1/a-1";
        assert_eq!(reply.text(), expected);
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_reply_is_header_body_footers() {
        let reply = Reply::new("a-1 running").body("x\ny").footer("next");
        assert_eq!(reply.text(), "[outlive] a-1 running\nx\ny\n[outlive] next");
        assert_eq!(Reply::new("only").text(), "[outlive] only");
        let failed = Reply::from(Failure::new("no").next("yes"));
        assert_eq!(failed.text(), "[outlive] error: no\n[outlive] next: yes");
        assert!(failed.is_error);
    }
}
