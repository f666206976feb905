//! Writes a known pattern: `writes BYTES stdout|stderr [CODE]`, then exits at once with the code.
//!
//! Byte n of the pattern is a function of n alone, so that a log can be checked without keeping a copy.

use std::io::Write;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    let (Some(bytes), Some(stream)) = (number(1), arguments.get(2)) else {
        return std::process::ExitCode::from(2);
    };
    let mut out: Box<dyn Write> =
        if stream == "stderr" { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout()) };
    let mut at = 0;
    while at < bytes {
        let end = (at + (64 << 10)).min(bytes);
        let piece: Vec<u8> = (at..end).map(outlive_tests::pattern).collect();
        if out.write_all(&piece).is_err() {
            return std::process::ExitCode::from(3);
        }
        at = end;
    }
    if out.flush().is_err() {
        return std::process::ExitCode::from(3);
    }
    std::process::ExitCode::from(number(3).and_then(|code| u8::try_from(code).ok()).unwrap_or(0))
}
