//! The screens of recorded programs: as checked in, from any checkpoint, and drawn on another terminal.
//!
//! `tests/clients/screens.mjs` compares the same screens with xterm.js. After a change on purpose
//! `BLESS=1 cargo test -p outlive-screen --test recordings` writes the checksums anew; `--example screens` prints the screens.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use outlive_core::checksum::crc32;
use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;
use outlive_screen::{Checkpoint, Screen, ScreenObject};

/// What happens in a recording.
enum Event {
    Output(Vec<u8>),
    Resize(TerminalSize),
    Marker,
}

struct Recording {
    name: String,
    text: String,
    size: TerminalSize,
    events: Vec<Event>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/terminal")
}

fn recordings() -> Vec<Recording> {
    let files = std::fs::read_dir(folder()).expect("the recordings are checked in");
    let paths = files.map(|file| file.expect("the folder can be read").path());
    let mut recordings: Vec<Recording> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "cast"))
        .map(|path| read(&path))
        .collect();
    recordings.sort_by(|one, other| one.name.cmp(&other.name));
    recordings
}

fn read(path: &Path) -> Recording {
    let text = std::fs::read_to_string(path).expect("the recording can be read");
    let size = |text: &str| TerminalSize::parse(text).expect("a size is within bounds");
    let mut lines = text.lines();
    let header: serde_json::Value =
        serde_json::from_str(lines.next().unwrap_or_default()).expect("the header is JSON");
    let begins = size(&format!("{}x{}", header["term"]["cols"], header["term"]["rows"]));
    let event = |line: &str| {
        let (_, code, data): (f64, String, String) = serde_json::from_str(line).expect("an event is JSON");
        match code.as_str() {
            "o" => Event::Output(data.into_bytes()),
            "r" => Event::Resize(size(&data)),
            _ => Event::Marker,
        }
    };
    let events = lines.map(event).collect();
    let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
    Recording { name, size: begins, events, text }
}

/// Plays events, and returns the screen at each marker.
fn play(screen: &mut Screen, events: &[Event]) -> Vec<ScreenObject> {
    let mut screens = Vec::new();
    for event in events {
        match event {
            Event::Output(bytes) => screen.feed(bytes),
            Event::Resize(size) => screen.resize(*size),
            Event::Marker => screens.push(screen.object(true)),
        }
    }
    screens
}

#[test]
fn screens_are_as_checked_in() {
    let mut now = String::from(
        "# Checksums of the screens of each recording, at its markers. See crates/outlive-screen/tests/recordings.rs.\n",
    );
    for recording in recordings() {
        let screens = play(&mut Screen::new(recording.size), &recording.events);
        write!(now, "{}:", recording.name).expect("text takes it");
        for screen in screens {
            let json = serde_json::to_string(&screen).expect("a screen is JSON");
            write!(now, " {:08x}", crc32(json.as_bytes())).expect("text takes it");
        }
        now.push('\n');
    }
    let path = folder().join("screens.txt");
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(path, now).expect("the checkout can be written");
        return;
    }
    let was = std::fs::read_to_string(path).unwrap_or_default();
    for (was, now) in was.lines().zip(now.lines()) {
        assert_eq!(
            was, now,
            "the screens changed; run this with BLESS=1 and compare them with `./test clients screens`"
        );
    }
    assert_eq!(was.lines().count(), now.lines().count());
}

#[test]
fn a_recording_goes_on_from_a_checkpoint_at_any_place() {
    for Recording { name, size, events, .. } in recordings() {
        let screens = play(&mut Screen::new(size), &events);
        let (mut whole, mut seen, mut made) = (Screen::new(size), 0, 0);
        for (place, event) in events.iter().enumerate() {
            let Event::Output(bytes) = event else {
                seen += play(&mut whole, std::slice::from_ref(event)).len();
                continue;
            };
            // A few places within the output, and its end.
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(bytes.len() / 3 + 1));
                whole.feed(piece);
                rest = after;
                let Some(checkpoint) = whole.checkpoint(0, Timestamp(0)) else { continue };
                let mut read = Checkpoint::read(&checkpoint).expect("it was just written").screen;
                read.feed(rest);
                assert_eq!(play(&mut read, &events[place + 1..]), screens[seen..], "{name}");
                made += 1;
            }
        }
        assert!(made > 0, "{name}");
    }
}

#[test]
fn a_recording_is_drawn_on_another_terminal() {
    for Recording { name, size, events, .. } in recordings() {
        let mut screen = Screen::new(size);
        for event in &events {
            play(&mut screen, std::slice::from_ref(event));
            if matches!(event, Event::Marker) {
                let mut viewer = Screen::new(screen.size());
                viewer.feed(screen.ansi().as_bytes());
                assert_eq!(viewer.object(true), screen.object(true), "{name}");
            }
        }
    }
}

#[test]
fn recordings_are_small_and_say_nothing_about_the_machine() {
    let recordings = recordings();
    assert!(recordings.len() >= 29, "{}", recordings.len());
    for Recording { name, text, .. } in recordings {
        assert!(text.len() <= 40_000, "{name} is large");
        for path in ["/root", "/home", "/work", "/opt", "https://"] {
            assert!(!text.contains(path), "{name} has {path}");
        }
    }
}
