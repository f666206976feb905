//! Finds the programs that a shell line would run, without running it.
//!
//! This is no sandbox: scripts and arguments of `eval` are unknown. It handles quotes, escapes, comments, assignments (with the
//! values that the line itself gives), redirections, here-documents, lists, pipelines, groups, loops, conditions, functions,
//! wrappers (`env`, `time`, `timeout` …) and arguments that hold commands (`find -exec`, `trap`). A malformed line is read as far as
//! possible; the shell rejects it.

mod held;
mod lexer;

use std::collections::HashMap;

use lexer::{Lexer, Token};

/// The programs of a shell line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShellLine {
    /// Program of each simple command, without its directory, in the order of the line. A command of only assignments and
    /// redirections has none. A name that has `$` in it depends on what is not in the line.
    pub roots: Vec<String>,
    /// The line has a `$(…)` or backquotes that the shell would execute.
    pub has_substitution: bool,
    /// The line has no command, assignment or redirection.
    pub is_empty: bool,
}

/// Programs that run another: name, short options that take a value, number of operands before the command.
const WRAPPERS: [(&str, &str, usize); 24] = [
    ("builtin", "", 0),
    ("chroot", "", 1),
    ("chrt", "DPT", 1),
    ("command", "", 0),
    ("doas", "Cu", 0),
    ("env", "CSu", 0),
    ("exec", "a", 0),
    ("flock", "Ew", 1),
    ("ionice", "cnp", 0),
    ("nice", "n", 0),
    ("nohup", "", 0),
    ("parallel", "jN", 0),
    ("setsid", "", 0),
    ("ssh", "BbcDEeFIiJLlmOopQRSWw", 1),
    ("stdbuf", "eio", 0),
    ("strace", "abEeIOoPpSsuX", 0),
    ("sudo", "CDghpRrTtUu", 0),
    ("time", "fo", 0),
    ("timeout", "ks", 1),
    ("unbuffer", "", 0),
    ("unshare", "", 0),
    ("watch", "n", 0),
    ("xargs", "EILPadns", 0),
    ("xvfb-run", "enpsw", 0),
];

/// A longer value of a variable is not put in.
const LONGEST_VALUE: usize = 4096;

/// Words before a command.
const BEFORE_A_COMMAND: [&str; 13] =
    ["!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "coproc"];

/// Words before something that is no command, up to the next separator.
const NOT_A_COMMAND: [&str; 4] = ["for", "select", "case", "function"];

/// How deep commands that arguments hold are looked into.
const DEEPEST: usize = 4;

/// Parses a shell line.
pub fn read(line: &str) -> ShellLine {
    read_within(line, DEEPEST)
}

/// Parses a shell line, and what its arguments hold down to this depth.
fn read_within(line: &str, depth: usize) -> ShellLine {
    let mut lexer = Lexer::of(line);
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next() {
        tokens.push(token);
    }
    let is_something = |token: &Token| matches!(token, Token::Word(..) | Token::Redirection(_));
    let commands = commands(&tokens, depth);
    ShellLine {
        roots: commands.roots,
        has_substitution: lexer.has_substitution || commands.has_substitution,
        is_empty: !tokens.iter().any(is_something),
    }
}

/// Tells whether a line of a here-document has a substitution.
fn is_expanded(line: &str) -> bool {
    let mut rest = line;
    while let Some(at) = rest.find(['\\', '`', '$']) {
        let found = &rest[at..];
        if found.starts_with('\\') {
            rest = found
                .get(1..)
                .and_then(|rest| rest.char_indices().nth(1).map(|(at, _)| &rest[at..]))
                .unwrap_or("");
            continue;
        }
        let is_arithmetic = found.starts_with("$((") && found.contains("))");
        if found.starts_with('`') || (found.starts_with("$(") && !is_arithmetic) {
            return true;
        }
        rest = &found[1..];
    }
    false
}

/// Assembles tokens into simple commands.
#[derive(Default)]
struct Commands<'a> {
    roots: Vec<String>,
    /// Words of the current command.
    words: Vec<&'a str>,
    /// The next word is the target of a redirection.
    is_target: bool,
    /// After a closed group, words belong to no command until the next separator.
    is_after_group: bool,
    /// Within `[[ … ]]`, which has no separators.
    is_test: bool,
    /// Each open `case`: true if a pattern comes next.
    cases: Vec<bool>,
    /// What the line assigns to variables.
    variables: HashMap<String, String>,
    /// A command that an argument holds has a substitution.
    has_substitution: bool,
    /// How deep arguments are looked into.
    depth: usize,
}

fn commands(tokens: &[Token], depth: usize) -> Commands<'_> {
    let mut commands = Commands { depth, ..Commands::default() };
    for token in tokens {
        commands.push(token);
    }
    commands.finish();
    commands
}

impl<'a> Commands<'a> {
    fn push(&mut self, token: &'a Token) {
        let is_pattern = self.cases.last() == Some(&true);
        match token {
            Token::Word(..) if std::mem::take(&mut self.is_target) => {}
            Token::Redirection(takes_word) => self.is_target = *takes_word,
            Token::Word(text, _) if self.is_test => self.is_test = text != "]]",
            _ if self.is_test => {}
            Token::Word(text, is_plain) if is_pattern => {
                if *is_plain && text == "esac" {
                    self.cases.pop();
                    self.is_after_group = true;
                }
            }
            Token::Close if is_pattern => {
                self.cases.pop();
                self.cases.push(false);
                self.words.clear();
            }
            _ if is_pattern => {}
            Token::Word(text, is_plain) => self.word(text, *is_plain),
            Token::Separator(ends_branch) => {
                self.finish();
                if let Some(comes) = self.cases.last_mut().filter(|_| *ends_branch) {
                    *comes = true;
                }
            }
            Token::Open => {
                // A single word before a parenthesis is the name of a function.
                if self.words.len() == 1 {
                    self.words.clear();
                }
                self.finish();
            }
            Token::OpenProcess => self.finish(),
            Token::Close => {
                self.finish();
                self.is_after_group = true;
            }
        }
    }

    fn word(&mut self, text: &'a str, is_plain: bool) {
        let is_reserved = is_plain && self.words.is_empty();
        if is_reserved && BEFORE_A_COMMAND.contains(&text) {
            self.is_after_group = false;
            return;
        }
        if is_reserved && text == "esac" && self.cases.pop().is_some() {
            self.is_after_group = true;
            return;
        }
        if self.is_after_group {
            return;
        }
        if is_reserved && text == "[[" {
            self.is_test = true;
        }
        self.words.push(text);
        match (self.words.as_slice(), is_plain) {
            (["case", _, "in"], true) => {
                self.words.clear();
                self.cases.push(true);
            }
            (["function", _, "{"], true) => self.words.clear(),
            _ => {}
        }
    }

    /// Puts in the values that the line has assigned. What has none stays as it is.
    fn expand(&self, word: &str) -> String {
        let (mut text, mut rest) = (String::new(), word);
        while let Some(at) = rest.find('$').filter(|_| text.len() <= LONGEST_VALUE) {
            text.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let is_braced = after.starts_with('{');
            let name = after.trim_start_matches('{');
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            let (name, left) = name.split_at(end);
            let left = if is_braced { left.strip_prefix('}') } else { Some(left) };
            match (self.variables.get(name), left) {
                (Some(value), Some(left)) => {
                    text.push_str(value);
                    rest = left;
                }
                _ => {
                    text.push('$');
                    rest = after;
                }
            }
        }
        text + rest
    }

    /// Ends the current command.
    fn finish(&mut self) {
        let words = std::mem::take(&mut self.words);
        if !words.first().is_some_and(|word| NOT_A_COMMAND.contains(word)) {
            let words: Vec<String> = words.into_iter().map(|word| self.expand(word)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if words.iter().all(|word| is_assignment(word)) {
                let assigned = words.iter().filter_map(|word| word.split_once('='));
                // A value that is made of itself must not grow without end.
                let assigned = assigned.filter(|(_, value)| value.len() <= LONGEST_VALUE);
                self.variables.extend(assigned.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            self.roots.extend(root(&words));
            for line in held::lines(&words) {
                let Some(depth) = self.depth.checked_sub(1) else {
                    // Not known: as a name that only the shell would know.
                    self.roots.push("$".to_owned());
                    break;
                };
                let held = read_within(&line, depth);
                self.roots.extend(held.roots);
                self.has_substitution |= held.has_substitution;
            }
        }
        (self.is_target, self.is_after_group) = (false, false);
    }
}

/// Returns the program that a simple command runs.
fn root(words: &[&str]) -> Option<String> {
    let mut rest = words;
    let mut name = None;
    loop {
        while rest.first().is_some_and(|word| is_assignment(word)) {
            rest = &rest[1..];
        }
        // A wrapper without a command is the program itself.
        let Some((word, after)) = rest.split_first() else { return name };
        let base = word.rsplit(['/', '\\']).next().unwrap_or_default();
        name = Some(base.to_owned()).filter(|name| !name.is_empty()).or(name);
        let Some((_, with_value, operands)) = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == base) else {
            return name;
        };
        let (options, left) = split_options(after, with_value);
        // `command -v` runs nothing.
        if base == "command" && options.iter().any(|option| option.contains(['v', 'V'])) {
            return name;
        }
        rest = left.get(*operands..).unwrap_or_default();
    }
}

/// Splits the options of a program from its operands.
fn split_options<'a, 'b>(words: &'b [&'a str], with_value: &str) -> (&'b [&'a str], &'b [&'a str]) {
    let mut at = 0;
    while let Some(option) =
        words.get(at).filter(|word| word.len() > 1).and_then(|word| word.strip_prefix('-'))
    {
        at += 1;
        if option == "-" {
            break;
        }
        let value = option.find(|c| with_value.contains(c)).filter(|_| !option.starts_with('-'));
        // The value is the rest of the word or the next word.
        at += usize::from(value.is_some_and(|value| value + 1 == option.len()));
    }
    words.split_at(at.min(words.len()))
}

/// Tells whether a word assigns to a variable: `NAME=…`, `NAME+=…`, `NAME[…]=…`.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = if name.ends_with(']') { name.split('[').next().unwrap_or_default() } else { name };
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(line: &str, roots: &[&str]) {
        assert_eq!(read(line).roots, roots, "{line}");
    }

    #[test]
    fn the_program_of_a_simple_command_is_found() {
        check("npm run dev", &["npm"]);
        check("pnpm install", &["pnpm"]);
        check("/usr/bin/node script.js", &["node"]);
        check("  FOO=1 BAR='a b' npm run dev", &["npm"]);
        check("'np'\"m\" run", &["npm"]);
        check("\\rm -r x", &["rm"]);
        check("2>&1 npm start > log", &["npm"]);
        check("npm \\\n  run dev", &["npm"]);
        check("A=(rm x) B[1]=2 C+=3 npm", &["npm"]);
        check("A=1", &[]);
        check("> file", &[]);
        check("# npm", &[]);
        check("echo '# no' # npm; rm", &["echo"]);
    }

    #[test]
    fn wrappers_are_looked_through() {
        check("time npm test", &["npm"]);
        check("time -p npm test", &["npm"]);
        check("env A=1 npm start", &["npm"]);
        check("env -i -u HOME A=1 /usr/bin/npm start", &["npm"]);
        check("timeout -k 5 -s KILL 30 cargo test", &["cargo"]);
        check("nohup nice -n 5 sudo -u me -- make all", &["make"]);
        check("nice -n5 make", &["make"]);
        check("find . | xargs -n 1 rm", &["find", "rm"]);
        check("env", &["env"]);
        check("command -v rm", &["command"]);
        check("command rm x", &["rm"]);
        check("exec -a name node x", &["node"]);
    }

    #[test]
    fn lists_pipelines_and_groups_have_a_program_each() {
        check("cd app && npm run dev", &["cd", "npm"]);
        check("(npm start)", &["npm"]);
        check("{ npm start; } >log 2>&1 &", &["npm"]);
        check("a;b&c|d||e|&f\ng", &["a", "b", "c", "d", "e", "f", "g"]);
        check("npm run dev &>log & echo $!", &["npm", "echo"]);
        check("! (cd x; make) && ls", &["cd", "make", "ls"]);
        check("diff <(ls a) <(rm b) c", &["diff", "ls", "rm"]);
        check("cat <<< rm >(tee x) y", &["cat", "tee"]);
        check("A=curl; $A x", &["curl"]);
        check("A=cu B=rl && ${A}$B x", &["curl"]);
        check("$A x", &["$A"]);
        check("A=1 $A x", &["$A"]);
        check("trap 'rm x; ls' EXIT", &["trap", "rm", "ls"]);
        check("find . -exec rm {} \\; -o -exec ls {} +", &["find", "rm", "ls"]);
    }

    #[test]
    fn words_of_the_language_are_no_programs() {
        check("if test -f x; then rm x; elif ls; then :; else make; fi", &["test", "rm", "ls", ":", "make"]);
        check("while true; do npm test; done < in", &["true", "npm"]);
        check("for x in rm sh; do echo $x; done", &["echo"]);
        check("for ((i=0; i<3; i++)); do cargo test; done", &["i", "i++", "cargo"]);
        check("case $1 in (rm) ls;; sh|bash) rm x;; *) make; esac; echo", &["ls", "rm", "make", "echo"]);
        check("(case x in a) rm y;; esac) && npm t", &["rm", "npm"]);
        check("f() { rm x; }; f", &["rm", "f"]);
        check("function f { rm x; }", &["rm"]);
        check("[[ a == rm || b && (c) ]] && npm t", &["[[", "npm"]);
        check("if (true) then rm x; fi", &["true", "rm"]);
        check("echo if then rm", &["echo"]);
        check("'if' x", &["if"]);
    }

    #[test]
    fn here_documents_are_text() {
        check("cat <<EOF && make\nrm x\nEOF\nls", &["cat", "make", "ls"]);
        check("cat <<-'E F' <<B\n\trm\n\tE F\nsh\nB\nls", &["cat", "ls"]);
        assert!(read("cat <<E\n$(rm)\nE").has_substitution);
        assert!(read("cat <<E\n$((a) ; b)\nE").has_substitution);
        assert!(!read("cat <<'E'\n$(rm)\nE").has_substitution);
        assert!(!read("cat <<E\n\\$(rm) \\`x\\` $((1+1))\nE").has_substitution);
        check("cat <<", &["cat"]);
    }

    #[test]
    fn substitutions_are_told_apart_from_what_looks_like_them() {
        for line in [
            "echo $(ls)",
            "echo \"$(ls)\"",
            "echo `ls`",
            "echo \"`ls`\"",
            "a=$(ls)",
            "echo ${a:-$(ls)}",
            "echo $((1 + $(ls)))",
            "echo $((ls); ls)",
            "echo '' $(ls) ''",
            "echo $'\\'' $(ls)",
            "echo \"'$(ls)'\"",
        ] {
            assert!(read(line).has_substitution, "{line}");
        }
        for line in [
            "echo '$(ls)'",
            "echo '`ls`'",
            "echo \\$\\(ls\\)",
            "echo \"\\$(ls) \\`ls\\`\"",
            "echo $((1 + (2 * 3)))",
            "echo ${a} $b $ # $(ls)",
            "echo $'`'",
        ] {
            assert!(!read(line).has_substitution, "{line}");
        }
        check("npm run $(echo \"a) b\" ')' \\)) && ls", &["npm", "ls"]);
        check("echo \"a; rm\" `x; rm` && ls", &["echo", "ls"]);
    }

    #[test]
    fn nothing_is_told_apart_from_something() {
        for line in ["", "  ", "\n;", "&&", "()", "# only words"] {
            assert!(read(line).is_empty, "{line}");
        }
        for line in ["A=1", "> x", "ls", "\"\""] {
            assert!(!read(line).is_empty, "{line}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let many = 200_000;
        read(&"(".repeat(many));
        read(&"$((".repeat(many));
        read(&"\"${".repeat(many));
        read(&"case x in ".repeat(many));
        read(&"env ".repeat(many));
    }

    proptest! {
        #[test]
        fn anything_is_read_without_harm(line in "[-a-z0-9 \\t\\n'\"\\\\$`(){}\\[\\];&|<>#=!é]{0,80}") {
            let first = read(&line);
            prop_assert_eq!(&first, &read(&line));
            prop_assert!(!first.is_empty || first.roots.is_empty());
        }

        #[test]
        fn what_is_in_single_quotes_is_one_word(inner in "[^']{0,60}") {
            let found = read(&format!("npm '{inner}' && ls"));
            prop_assert_eq!(found.roots, ["npm", "ls"]);
            prop_assert!(!found.has_substitution);
        }

        #[test]
        fn quoting_a_program_does_not_hide_it(name in "[a-z][a-z0-9_.-]{0,12}", at in 0usize..12) {
            prop_assume!(!BEFORE_A_COMMAND.contains(&name.as_str()) && !NOT_A_COMMAND.contains(&name.as_str()));
            prop_assume!(!WRAPPERS.iter().any(|(wrapper, ..)| *wrapper == name) && name != "esac");
            let at = at.min(name.len());
            let (head, tail) = name.split_at(at);
            for line in [
                format!("{name} x"),
                format!("{head}'{tail}' x"),
                format!("\\{name} x"),
                format!("A=1 /usr/bin/{name}"),
                format!("(cd x && {name})"),
            ] {
                let found = read(&line);
                prop_assert_eq!(found.roots.last(), Some(&name), "{}", line);
            }
        }
    }
}
