//! The end of a job's output, for a glance.

use std::io;

use outlive_core::plain::Plain;

use crate::job::Job;
use crate::output::{Output, Piece};

/// Factor by which more is read than shown: control sequences are removed.
const MORE: u64 = 4;

/// Returns the end of a job's output as plain text, about `bytes` of it, from the beginning of a line if possible.
///
/// # Errors
///
/// If the log cannot be read.
pub fn tail_text(job: &Job, bytes: usize) -> io::Result<String> {
    let mut output = Output::open(job)?;
    let mut offset = output.end().saturating_sub(bytes as u64 * MORE).max(output.start());
    let is_whole = offset == output.start();
    let (mut raw, mut text) = (Vec::new(), Vec::new());
    while let Some(piece) = output.piece(offset)? {
        match piece {
            Piece::Output { bytes, .. } => {
                offset += bytes.len() as u64;
                raw.extend_from_slice(&bytes);
            }
            Piece::Gone { to, .. } => offset = to,
        }
        // Output that arrives meanwhile is not read.
        if raw.len() as u64 > bytes as u64 * MORE * 2 {
            break;
        }
    }
    let mut plain = Plain::new();
    plain.push(&raw, &mut text);
    plain.finish(&mut text);
    Ok(last_of(&String::from_utf8_lossy(&text), bytes, is_whole))
}

/// Cuts a text to its last bytes, at the beginning of a line if there is one within the first quarter.
fn last_of(text: &str, bytes: usize, is_whole: bool) -> String {
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let kept = &text[from..];
    let is_cut = from > 0 || !is_whole;
    let line = kept.find('\n').map(|at| at + 1).filter(|&at| is_cut && at <= bytes / 4 && at < kept.len());
    kept[line.unwrap_or(0)..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_begins_with_a_line_where_it_can() {
        assert_eq!(last_of("one\ntwo\n", 100, true), "one\ntwo\n");
        assert_eq!(last_of("one\ntwo three four\n", 17, true), "two three four\n");
        assert_eq!(last_of("eins zwei\ndrei\n", 8, true), "ei\ndrei\n");
        assert_eq!(last_of(&"x".repeat(50), 10, true), "x".repeat(10));
        assert_eq!(last_of("äöü", 3, true), "ü");
        assert_eq!(last_of("e\ntwo three\n", 100, false), "two three\n");
        assert_eq!(last_of("", 10, true), "");
    }
}
