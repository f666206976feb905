//! Splits a shell line into words, operators and here-documents.

use super::{is_assignment, is_expanded};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A word without its quotes; true if it had none.
    Word(String, bool),
    /// `;`, `&`, `|`, a newline and their combinations; true if it ends a branch of a `case`.
    Separator(bool),
    /// `(`
    Open,
    /// `<(` or `>(`
    OpenProcess,
    Close,
    /// True if the next word is its target.
    Redirection(bool),
}

/// A construct around the current character of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    DoubleQuotes,
    Parentheses {
        /// The outer parentheses of `$((`: the inner and outer ones must close together.
        is_arithmetic: bool,
    },
    Braces,
}

pub(super) struct Lexer {
    chars: Vec<char>,
    at: usize,
    pub(super) has_substitution: bool,
    /// Here-documents that begin after this line.
    here: Vec<HereDocument>,
}

struct HereDocument {
    /// The delimiter.
    end: String,
    /// The delimiter was quoted: no expansion.
    is_quoted: bool,
    /// `<<-`: leading tabs are ignored.
    skips_tabs: bool,
}

impl Lexer {
    pub(super) fn of(line: &str) -> Self {
        Self { chars: line.chars().collect(), at: 0, has_substitution: false, here: Vec::new() }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    pub(super) fn next(&mut self) -> Option<Token> {
        loop {
            match self.peek(0)? {
                ' ' | '\t' | '\r' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '#' => self.skip_until('\n'),
                _ => break,
            }
        }
        let (token, length) = match (self.peek(0)?, self.peek(1)) {
            ('\n', _) => {
                self.at += 1;
                self.skip_here_documents();
                (Token::Separator(false), 0)
            }
            ('<' | '>', Some('(')) => (Token::OpenProcess, 2),
            ('&', Some('>')) | ('<' | '>', _) => (self.redirection(), 0),
            (';' | '&' | '|', _) => {
                let begin = self.at;
                while matches!(self.peek(0), Some(';' | '&' | '|')) && !self.is_redirection_of_both() {
                    self.at += 1;
                }
                let sign = &self.chars[begin..self.at];
                (Token::Separator(sign.first() == Some(&';') && sign.len() > 1), 0)
            }
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            _ => {
                let (text, is_plain) = self.word();
                let is_number = is_plain && text.bytes().all(|byte| byte.is_ascii_digit());
                // A number before a redirection is its descriptor.
                if is_number && matches!(self.peek(0), Some('<' | '>')) && self.peek(1) != Some('(') {
                    return Some(self.redirection());
                }
                (Token::Word(text, is_plain), 0)
            }
        };
        self.at += length;
        Some(token)
    }

    fn is_redirection_of_both(&self) -> bool {
        self.peek(0) == Some('&') && self.peek(1) == Some('>')
    }

    fn skip_until(&mut self, wanted: char) {
        while self.peek(0).is_some_and(|c| c != wanted) {
            self.at += 1;
        }
    }

    /// Reads a redirection operator; for a here-document, the delimiter, too.
    fn redirection(&mut self) -> Token {
        let begin = self.at;
        while matches!(self.peek(0), Some('<' | '>' | '&' | '|')) {
            self.at += 1;
        }
        let sign: String = self.chars[begin..self.at].iter().collect();
        if sign != "<<" {
            return Token::Redirection(true);
        }
        let skips_tabs = self.peek(0) == Some('-');
        self.at += usize::from(skips_tabs);
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
        let (end, is_plain) = self.word();
        self.here.push(HereDocument { end, is_quoted: !is_plain, skips_tabs });
        Token::Redirection(false)
    }

    /// Skips the here-documents that begin here; substitutions in unquoted ones count.
    fn skip_here_documents(&mut self) {
        for document in std::mem::take(&mut self.here) {
            while self.at < self.chars.len() {
                let begin = self.at;
                self.skip_until('\n');
                let line: String = self.chars[begin..self.at].iter().collect();
                self.at += 1;
                let line = if document.skips_tabs { line.trim_start_matches('\t') } else { &line };
                if line == document.end {
                    break;
                }
                if !document.is_quoted {
                    self.has_substitution |= is_expanded(line);
                }
            }
            self.at = self.at.min(self.chars.len());
        }
    }

    /// Reads a word; returns it without quotes, and whether it had none.
    fn word(&mut self) -> (String, bool) {
        let (mut text, mut is_plain) = (String::new(), true);
        let mut inside: Vec<Inside> = Vec::new();
        while let Some(c) = self.peek(0) {
            let next = self.peek(1);
            match (inside.last().copied(), c) {
                (None, ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | ')') => break,
                // The values of an array belong to its assignment.
                (None, '(') if text.ends_with('=') && is_plain && is_assignment(&text) => {
                    inside.push(Inside::Parentheses { is_arithmetic: false });
                }
                (None, '(') => break,
                (_, '\\') => {
                    self.at += 1;
                    is_plain = false;
                    if next.is_some_and(|next| next != '\n') {
                        text.extend(next);
                    }
                }
                (Some(Inside::DoubleQuotes), '"') => drop(inside.pop()),
                (_, '"') => {
                    is_plain = false;
                    inside.push(Inside::DoubleQuotes);
                }
                (Some(Inside::DoubleQuotes), '\'') => text.push(c),
                (_, '\'') => {
                    is_plain = false;
                    self.at += 1;
                    while let Some(c) = self.peek(0).filter(|&c| c != '\'') {
                        text.push(c);
                        self.at += 1;
                    }
                }
                (None | Some(Inside::Parentheses { .. } | Inside::Braces), '$') if next == Some('\'') => {
                    is_plain = false;
                    self.at += 2;
                    while let Some(c) = self.peek(0).filter(|&c| c != '\'') {
                        self.at += usize::from(c == '\\');
                        let meant = self.peek(0);
                        let is_code = |c: char| matches!(c, 'x' | 'u' | 'U' | 'c' | '0'..='7');
                        // A character by its number is not worked out: the word then has a part that is not known.
                        text.extend(if c == '\\' && meant.is_some_and(is_code) { Some('$') } else { meant });
                        self.at += 1;
                    }
                }
                (_, '`') => {
                    is_plain = false;
                    self.has_substitution = true;
                    self.at += 1;
                    while let Some(c) = self.peek(0).filter(|&c| c != '`') {
                        self.at += if c == '\\' { 2 } else { 1 };
                    }
                }
                (_, '$') if next == Some('(') => {
                    is_plain = false;
                    let is_arithmetic = self.peek(2) == Some('(');
                    inside.push(Inside::Parentheses { is_arithmetic });
                    self.at += 1;
                    if is_arithmetic {
                        inside.push(Inside::Parentheses { is_arithmetic: false });
                        self.at += 1;
                    } else {
                        self.has_substitution = true;
                    }
                }
                (_, '$') if next == Some('{') => {
                    text.push_str("${");
                    inside.push(Inside::Braces);
                    self.at += 1;
                }
                (Some(Inside::Parentheses { .. }), '(') => {
                    inside.push(Inside::Parentheses { is_arithmetic: false });
                }
                (Some(Inside::Parentheses { .. }), ')') => {
                    inside.pop();
                    // `$((a) ; b)` is no arithmetic, but a subshell in a substitution.
                    let is_open = inside.last() == Some(&Inside::Parentheses { is_arithmetic: true });
                    self.has_substitution |= is_open && next != Some(')');
                }
                (Some(Inside::Braces), '}') => {
                    text.push('}');
                    inside.pop();
                }
                _ => text.push(c),
            }
            self.at += 1;
        }
        self.at = self.at.min(self.chars.len());
        (text, is_plain)
    }
}
