//! Bytes of the operating system as JSON text.
//!
//! Arguments, paths and environment are bytes without NUL, mostly but not always UTF-8. In JSON they are a string; bytes
//! that are not UTF-8 are U+0000 and then hexadecimal, which no UTF-8 text of this kind can look like.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Bytes that came from the operating system.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RawText(pub Vec<u8>);

impl RawText {
    /// Returns the text for people; what is not UTF-8 shows as U+FFFD.
    pub fn to_lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl std::fmt::Debug for RawText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl<T: Into<Vec<u8>>> From<T> for RawText {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

impl Serialize for RawText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.serialize_str(&format!("\0{}", hex(&self.0))),
        }
    }
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.strip_prefix('\0') {
            None => Ok(Self(text.into_bytes())),
            Some(hex) => from_hex(hex).map(Self).ok_or_else(|| D::Error::custom("not hexadecimal")),
        }
    }
}

/// Writes bytes as pairs of hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads pairs of hexadecimal digits.
pub(crate) fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    hex.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_without_nul_come_back(bytes in prop::collection::vec(1u8.., 0..64)) {
            let text = RawText(bytes);
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<RawText>(&json).unwrap(), text);
        }
    }

    #[test]
    fn utf8_stays_readable() {
        assert_eq!(serde_json::to_string(&RawText::from("naïve")).unwrap(), "\"naïve\"");
        assert_eq!(serde_json::to_string(&RawText::from(vec![0xff, 0x41])).unwrap(), "\"\\u0000ff41\"");
    }
}
