//! "Did you mean": the word that was most likely meant.

/// Returns the candidate that was most likely meant; none if none is like it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    let (best, candidate) = scored.min_by_key(|(distance, _)| *distance)?;
    // A third of the letters may be wrong, and one of a short word: two make another word of it.
    let most = (word.chars().count() / 3).max(1);
    (best <= most.min(candidate.chars().count().saturating_sub(1))).then_some(candidate)
}

/// Counts the letters to insert, remove, replace or swap with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // So different in length that it does not matter how much: a long word would take long to compare.
    if a.len().abs_diff(b.len()) > b.len() {
        return a.len().max(b.len());
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_is_recognised() {
        for (word, meant) in [
            ("redy", Some("ready")),
            ("raedy", Some("ready")),
            ("xyzzy", None),
            ("rn", Some("run")),
            ("db", None),
            ("wbe", Some("web")),
            ("exit", None),
        ] {
            assert_eq!(nearest(word, ["run", "ready", "env_file", "web", "wait"]), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), ["run"]), None);
        assert_eq!(nearest("x", [""]), None);
    }
}
