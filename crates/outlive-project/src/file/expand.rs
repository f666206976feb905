//! What stands for something else in a file of process-compose: `${NAME}` for a variable, `{{.NAME}}` for one of its `vars`.

use std::collections::BTreeMap;

/// Replaces `${NAME}`, `${NAME:-DEFAULT}` and their like in a text, and `$$` by one `$`. A `$NAME` without braces is left to the shell.
/// Returns the text, and the names without a value or default. The error is the line, from 1, of a form that is not known.
pub(crate) fn variables(
    text: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(String, Vec<String>), (usize, String)> {
    let (mut expanded, mut unset) = (String::with_capacity(text.len()), Vec::new());
    for (number, line) in text.split_inclusive('\n').enumerate() {
        // A comment may name what it likes.
        if line.trim_start().starts_with('#') {
            expanded.push_str(line);
            continue;
        }
        let mut rest = line;
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                expanded.push('$');
                rest = after;
            } else if let Some((inside, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'))
            {
                let value = one(inside, &variable, &mut unset);
                let message = || {
                    format!(
                        "`${{{inside}}}` is not known here; write $${{{inside}}} to leave it to the shell"
                    )
                };
                expanded.push_str(&value.ok_or_else(|| (number + 1, message()))?);
                rest = after;
            } else {
                expanded.push('$');
            }
        }
        expanded.push_str(rest);
    }
    Ok((expanded, unset))
}

/// Returns what stands for the inside of a pair of braces; `None` if its form is not known.
fn one(inside: &str, variable: impl Fn(&str) -> Option<String>, unset: &mut Vec<String>) -> Option<String> {
    let end = inside.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inside.len());
    let (name, rest) = inside.split_at(end);
    if name.is_empty() {
        return None;
    }
    let value = variable(name);
    if rest.is_empty() {
        if value.is_none() && !unset.iter().any(|known| known == name) {
            unset.push(name.to_owned());
        }
        return Some(value.unwrap_or_default());
    }
    let (counts_empty, rest) = rest.strip_prefix(':').map_or((false, rest), |rest| (true, rest));
    let default = rest.strip_prefix(['-', '='])?;
    Some(value.filter(|value| !(counts_empty && value.is_empty())).unwrap_or_else(|| default.to_owned()))
}

/// Replaces `{{.NAME}}`; the error says which is not known. Without any `vars` the text is left as it is.
pub(crate) fn vars(text: &str, vars: &BTreeMap<String, String>) -> Result<String, String> {
    if vars.is_empty() {
        return Ok(text.to_owned());
    }
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, after) = after.split_once("}}").ok_or("`{{` is not closed by `}}`")?;
        let name = inside.trim().trim_matches('-').trim();
        let value = name.strip_prefix('.').and_then(|name| vars.get(name));
        let value = value.ok_or_else(|| {
            format!(
                "`{{{{{inside}}}}}` is none of its vars: {}",
                vars.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
            )
        })?;
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    Ok(filled + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_as_process_compose_does() {
        let variable = |name: &str| {
            [("A", "1"), ("E", "")]
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let text = "# ${X:?}\na: ${A} $A $$A $${A} ${B:-two words} ${E:-e} ${E-e} ${C} $(x) 5$\n";
        let (expanded, unset) = variables(text, variable).unwrap();
        assert_eq!(expanded, "# ${X:?}\na: 1 $A $A ${A} two words e   $(x) 5$\n");
        assert_eq!(unset, ["C"]);
        assert_eq!(variables("a\nb: ${A:?no}\n", variable).unwrap_err().0, 2);
    }

    #[test]
    fn vars_are_filled_in() {
        let known = BTreeMap::from([("PORT".to_owned(), "80".to_owned())]);
        assert_eq!(vars("a {{.PORT}} {{ .PORT }}", &known).unwrap(), "a 80 80");
        assert!(vars("{{.NO}}", &known).unwrap_err().contains("PORT"));
        assert_eq!(
            vars("docker ps --format '{{.ID}}'", &BTreeMap::new()).unwrap(),
            "docker ps --format '{{.ID}}'"
        );
    }
}
