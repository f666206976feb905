//! What a change does to a text, for people.

/// Longest line that is shown: a line of settings may be a whole file.
const WIDEST: usize = 160;

/// Returns the lines that go and that come. No others are shown: settings hold keys.
pub(super) fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same =
        |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(old, new)| old == new).count();
    let before = same(&mut old.iter().zip(&new));
    let after = same(&mut old[before..].iter().rev().zip(new[before..].iter().rev()));
    let gone = old[before..old.len() - after].iter().map(|line| ('-', line));
    let come = new[before..new.len() - after].iter().map(|line| ('+', line));
    let lines = gone.chain(come).map(|(sign, line)| format!("{sign} {}\n", cut(line)));
    format!("line {}:\n{}", before + 1, lines.collect::<String>())
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::diff;

    #[test]
    fn only_what_changes_is_shown() {
        assert_eq!(diff("a\nb\nc\n", "a\nx\ny\nc\n"), "line 2:\n- b\n+ x\n+ y\n");
        assert_eq!(diff("", "a\n"), "line 1:\n+ a\n");
        assert_eq!(diff("a\na\n", "a\n"), "line 2:\n- a\n");
        let long = "k".repeat(1000);
        assert!(diff("", &long).chars().count() < 200);
    }
}
