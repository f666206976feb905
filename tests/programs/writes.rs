//! Writes a known pattern: `writes BYTES stdout|stderr [CODE]`, then exits at once with the code.
//!
//! Byte n of the pattern is a function of n alone, so that a log can be checked without keeping a copy.

use std::io::Write;

use outlive_tests::pattern;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let (Some(bytes), Some(stream)) = (number(1), arguments.get(2)) else {
        return std::process::ExitCode::from(2);
    };
    let mut out: Box<dyn Write> =
        if stream == "stderr" { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
    let (mut at, mut piece) = (0, vec![0; 64 << 10]);
    while at < bytes {
        let count = (bytes - at).min(piece.len() as u64);
        let part = &mut piece[..count as usize];
        pattern::fill(part, at);
        if out.write_all(part).is_err() {
            return std::process::ExitCode::from(3);
        }
        at += count;
    }
    if out.flush().is_err() {
        return std::process::ExitCode::from(3);
    }
    std::process::ExitCode::from(number(3).and_then(|code| u8::try_from(code).ok()).unwrap_or(0))
}
