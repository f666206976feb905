//! Files of variables: lines `NAME=VALUE`, as in `.env`.

/// Reads them, in their order; the error is the number of a line, from 1, that is none.
///
/// A value may stand in single quotes, as it is, or in double ones, where `\n`, `\"` and `\\` are read. Nothing is replaced in it.
pub(crate) fn read(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut variables = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(number + 1)?;
        let name = name.trim();
        let is_name = |name: &str| {
            !name.starts_with(|c: char| c.is_ascii_digit())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        };
        if name.is_empty() || !is_name(name) {
            return Err(number + 1);
        }
        variables.push((name.to_owned(), value_of(value.trim())));
    }
    Ok(variables)
}

fn value_of(text: &str) -> String {
    if let Some(quoted) = text.strip_prefix('\'').and_then(|rest| rest.split_once('\'')) {
        return quoted.0.to_owned();
    }
    if let Some(rest) = text.strip_prefix('"') {
        let (mut value, mut characters) = (String::new(), rest.chars());
        while let Some(c) = characters.next() {
            match c {
                '"' => return value,
                '\\' => match characters.next() {
                    Some('n') => value.push('\n'),
                    Some(escaped) => value.push(escaped),
                    None => break,
                },
                c => value.push(c),
            }
        }
    }
    // A comment begins with a space before it: a value may have a # in it.
    text.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_as_others_read_them() {
        let text =
            "# a\nA=1\n export B = two words # x\nC='a # b'\nD=\"x\\n\\\"y\\\"\"\nE=\nF=a#b\nG=\"open\n";
        let read = read(text).unwrap();
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a # b"),
            ("D", "x\n\"y\""),
            ("E", ""),
            ("F", "a#b"),
            ("G", "\"open"),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_no_variable_is_named_by_its_line() {
        for text in ["\nA", "A=1\n=2", "A=1\n1A=2", "#\nA B=1"] {
            assert_eq!(read(text), Err(2), "{text:?}");
        }
    }
}
