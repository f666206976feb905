//! Bytes that say where in a log they belong, so that a log can be checked without keeping a copy.
//!
//! A crate of its own because it is optimised: tests write and check gigabytes of it, and are themselves quickly built.

/// Returns byte `at`: every value occurs, newlines too, and no two neighbouring kilobytes are alike.
pub fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Writes the bytes from `at` on.
pub fn fill(bytes: &mut [u8], at: u64) {
    for (place, to) in (at..).zip(bytes) {
        *to = byte(place);
    }
}

/// Returns the first place at which `bytes`, which begin at `at`, are not the pattern.
pub fn first_difference(bytes: &[u8], at: u64) -> Option<u64> {
    (at..).zip(bytes).find(|&(place, &found)| found != byte(place)).map(|(place, _)| place)
}

/// Counts newlines.
pub fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte == b'\n')).sum()
}
