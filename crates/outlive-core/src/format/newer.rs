//! What a later version wrote and this one does not understand. It is kept as it stands and is never an error: the rest of
//! the file is read, and a file that is written again says what it said before.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A value that this version knows, or what a later version wrote in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OrNewer<T> {
    /// It is understood.
    Known(T),
    /// It is not; the JSON as it stands in the file.
    Newer(Value),
}

impl<T> OrNewer<T> {
    /// Returns the value, if this version knows it.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Newer(_) => None,
        }
    }

    /// Tells whether only a later version knows it.
    pub fn is_newer(&self) -> bool {
        self.known().is_none()
    }
}

impl<T: Serialize> OrNewer<T> {
    /// Returns the word as it stands in the file; of a value that is more than a word, its JSON.
    pub fn word(&self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(word)) => word,
            Ok(value) => value.to_string(),
            Err(_) => String::new(),
        }
    }
}

impl<T: Default> Default for OrNewer<T> {
    fn default() -> Self {
        Self::Known(T::default())
    }
}

impl<T> From<T> for OrNewer<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}

impl<T: PartialEq> PartialEq<T> for OrNewer<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(other)
    }
}

/// Reads a file of a later version as far as this one understands it, and returns the fields that it does not. Without a field
/// of `needed` it is of no use; of `others`, a field that is missing or not understood has the value that is given here.
pub(super) fn understood<T: DeserializeOwned>(
    bytes: &[u8],
    needed: &[&str],
    others: Value,
) -> Option<(T, BTreeMap<String, Value>)> {
    let file: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    let (first, rest): (Map<_, _>, Map<_, _>) =
        file.into_iter().partition(|(name, _)| needed.contains(&name.as_str()));
    let Value::Object(mut fields) = others else { return None };
    fields.extend(first);
    let mut read: T = serde_json::from_value(Value::Object(fields.clone())).ok()?;
    let mut newer = BTreeMap::new();
    for (name, value) in rest {
        let mut more = fields.clone();
        more.insert(name.clone(), value.clone());
        match serde_json::from_value(Value::Object(more.clone())) {
            Ok(better) => (fields, read) = (more, better),
            Err(_) => drop(newer.insert(name, value)),
        }
    }
    Some((read, newer))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any JSON that a later version might write in place of a word.
    pub(crate) fn values() -> impl Strategy<Value = Value> {
        let word = "later_[a-z]{1,9}";
        prop_oneof![
            word.prop_map(Value::from),
            any::<u32>().prop_map(Value::from),
            (word, any::<u32>()).prop_map(|(word, number)| serde_json::json!({ word: { "n": number } })),
        ]
    }

    #[test]
    fn a_word_is_shown_as_it_stands() {
        let read = |text: &str| serde_json::from_str::<OrNewer<crate::spec::Stdin>>(text).unwrap();
        assert_eq!((read("\"open\"").word(), read("\"open\"").is_newer()), ("open".to_owned(), false));
        assert_eq!(
            (read("\"terminal\"").word(), read("\"terminal\"").is_newer()),
            ("terminal".to_owned(), true)
        );
        assert_eq!(read("{\"file\":\"/x\"}").word(), "{\"file\":\"/x\"}");
        assert!(read("\"null\"") == crate::spec::Stdin::Null && read("null") != crate::spec::Stdin::Null);
    }
}
