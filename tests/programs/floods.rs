//! Writes much, fast: `floods lines COUNT [SIGN]`, or `floods BYTES FILL [BEFORE [AFTER]]`, to standard output.
//!
//! Line n of `lines` is n in fifteen digits and forty-eight dots: 64 bytes with its newline. With SIGN, it waits in the middle until there is
//! such a file. Otherwise it is BEFORE, then
//! FILL over and over until it is BYTES, then AFTER; `\xHH` in any of them is a byte.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const LINE: usize = 64;
const DIGITS: usize = 15;

/// How much is written at a time.
const PIECE: usize = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize| arguments.get(at).map(|text| unescape(text)).unwrap_or_default();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let done = match (number(0), number(1)) {
        (Some(bytes), _) if !text(1).is_empty() => fill(bytes, &text(1), &text(2), &text(3)),
        (None, Some(count)) if arguments[0] == "lines" => lines(count, arguments.get(2).map(Path::new)),
        _ => return ExitCode::from(2),
    };
    ExitCode::from(if done.is_ok() { 0 } else { 3 })
}

fn lines(count: u64, sign: Option<&Path>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut line = [b'.'; LINE];
    line[..DIGITS].fill(b'0');
    line[LINE - 1] = b'\n';
    let mut piece = Vec::with_capacity(PIECE);
    for number in 0..count {
        if let Some(sign) = sign.filter(|_| number == count / 2) {
            while !sign.exists() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        for digit in line[..DIGITS].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                break;
            }
            *digit = b'0';
        }
        piece.extend_from_slice(&line);
        if piece.len() == PIECE {
            out.write_all(&piece)?;
            piece.clear();
        }
    }
    out.write_all(&piece)?;
    out.flush()
}

fn fill(bytes: u64, fill: &[u8], before: &[u8], after: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(before)?;
    let piece = fill.repeat((PIECE / fill.len()).max(1));
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    while left > 0 {
        let length = left.min(piece.len());
        out.write_all(&piece[..length])?;
        left -= length;
    }
    out.write_all(after)?;
    out.flush()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut parts = text.split(r"\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).unwrap_or(b'?'));
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}
