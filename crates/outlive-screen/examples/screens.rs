//! Prints the screens of asciicast recordings at their markers, a JSON object a line: `screens FILE…`.
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;

use outlive_core::terminal::size::TerminalSize;
use outlive_screen::Screen;

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let recording = std::fs::read_to_string(&path)?;
        let mut lines = recording.lines();
        let header: serde_json::Value = serde_json::from_str(lines.next().unwrap_or_default())?;
        let side =
            |name: &str| header["term"][name].as_u64().and_then(|side| u16::try_from(side).ok()).unwrap_or(0);
        let mut screen = Screen::new(TerminalSize::new(side("cols"), side("rows")));
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (_, code, data): (f64, String, String) = serde_json::from_str(line)?;
            match code.as_str() {
                "o" => screen.feed(data.as_bytes()),
                "r" => screen.resize(TerminalSize::parse(&data)?),
                "m" => println!("{}", serde_json::to_string(&screen.object(false))?),
                _ => {}
            }
        }
    }
    Ok(())
}
