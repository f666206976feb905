//! Copying by way of the terminal (OSC 52), which also works over ssh.

/// Terminals take so much at least; longer texts are refused by some of them without a word.
pub(crate) const MOST: usize = 74_000;

/// Returns what makes a terminal copy a text.
pub(crate) fn copy(text: &str) -> String {
    format!("\x1b]52;c;{}\x07", base64(text.as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let is_there = digit <= group.len();
            let value = DIGITS[(bits >> (18 - 6 * digit) & 63) as usize];
            text.push(if is_there { char::from(value) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_are_encoded() {
        for (text, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
        assert_eq!(copy("hi"), "\x1b]52;c;aGk=\x07");
    }
}
