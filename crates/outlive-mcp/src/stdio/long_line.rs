//! The id of a request whose line is too long to be kept: read while the line goes by.

use serde_json::Value;

/// Longer ids are not read.
const LONGEST: usize = 256;

/// Looks for the member `id` of the outermost object, and keeps nothing else.
#[derive(Debug, Default)]
pub(crate) struct IdScanner {
    depth: usize,
    is_string: bool,
    is_escaped: bool,
    /// The beginning of the name or value that is being read in the outermost object.
    text: Vec<u8>,
    is_id: bool,
    id: Option<Value>,
}

impl IdScanner {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.depth == 1 && self.text.len() < LONGEST {
                self.text.push(byte);
            }
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_string => self.is_escaped = true,
                b'"' => self.is_string = !self.is_string,
                _ if self.is_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    if self.depth == 1 {
                        self.end_value();
                    }
                    self.depth = self.depth.saturating_sub(1);
                }
                b':' if self.depth == 1 => {
                    let name = self.text.strip_suffix(b":").unwrap_or_default();
                    self.is_id = name.trim_ascii() == b"\"id\"";
                    self.text.clear();
                }
                b',' if self.depth == 1 => self.end_value(),
                _ => {}
            }
        }
    }

    /// Returns the id, null if there is none that can be read.
    pub(crate) fn finish(self) -> Value {
        self.id.filter(|id| id.is_string() || id.is_number()).unwrap_or_default()
    }

    fn end_value(&mut self) {
        let value = self.text.split_last().map(|(_, value)| value).filter(|_| self.is_id);
        if let Some(id) = value.and_then(|value| serde_json::from_slice(value).ok()) {
            self.id = Some(id);
        }
        self.is_id = false;
        self.text.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        let long = "x".repeat(1000);
        for (line, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":8,"a":"LONG"}}"#, json!(7)),
            (
                r#"{"method":"m","params":{"a":["LONG",{"id":1}],"b":"\"id\":3,"},"id" : "se\"ven"}"#,
                json!("se\"ven"),
            ),
            (r#"{"params":"LONG","id":{"a":1}}"#, json!(null)),
            (r#"{"params":"LONG","id":null}"#, json!(null)),
            (r#"{"params":"LONG"}"#, json!(null)),
            (r#"{"params":{"id":3,"LONG":1"#, json!(null)),
            (r#"LONG}}}]]"#, json!(null)),
            (r#"{"id":"LONG"}"#, json!(null)),
        ] {
            let line = line.replace("LONG", &long);
            let mut scanner = IdScanner::default();
            line.as_bytes().chunks(7).for_each(|bytes| scanner.push(bytes));
            assert_eq!(scanner.finish(), id, "{line}");
        }
    }
}
