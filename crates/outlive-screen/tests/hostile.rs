//! Output that is made to fill memory or to break the emulator: nothing panics, and a screen stays small.
//!
//! Each test is a process of its own, so that the kernel knows the most memory that it ever had.

use std::time::Instant;

use outlive_core::terminal::query::{Answer, Facts, Queries};
use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;
use outlive_screen::export::{Event, Transcript};
use outlive_screen::{Checkpoint, Screen};

/// What a screen of 120 × 40 may cost beside the input, in KiB. It has 0.25 MiB of cells, 1 MiB of links at most, and buffers.
const SMALL: u64 = 8 << 10;

const MIB: usize = 1 << 20;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim_end_matches("kB").trim().parse().ok()).expect("the kernel says so")
}

/// Feeds bytes so often, and returns by how many KiB the most memory grew.
fn growth(screen: &mut Screen, bytes: &[u8], times: usize) -> u64 {
    let before = peak_kib();
    (0..times).for_each(|_| screen.feed(bytes));
    peak_kib() - before
}

fn small_screen() -> Screen {
    Screen::new(TerminalSize::new(120, 40))
}

/// The screen still works.
fn assert_alive(screen: &mut Screen) {
    screen.feed(b"\x18\x1bcalive");
    assert_eq!(screen.lines()[0], "alive");
}

#[test]
fn strings_without_end_cost_no_memory() {
    for start in ["\x1b]0;", "\x1b]8;;http://", "\x1b]52;c;", "\x1bPq", "\x1b_G", "\x1bX", "\x1b^"] {
        let mut screen = small_screen();
        screen.feed(start.as_bytes());
        let grown = growth(&mut screen, &[b'A'; 64 << 10], 64 * MIB / (64 << 10));
        assert!(grown < SMALL, "{start:?}: {grown} KiB");
        screen.feed(b"\x07\x1b\\");
        assert!(screen.title().is_none());
        assert_alive(&mut screen);
    }
}

#[test]
fn queries_in_strings_without_end_cost_no_memory() {
    let (mut queries, mut out, before) = (Queries::default(), Vec::new(), peak_kib());
    queries.push(b"\x1b]11;", |_, _| {});
    for _ in 0..1024 {
        queries.push(&[b'?'; 64 << 10], |query, _| {
            assert_ne!(
                query.answer(&Facts { size: TerminalSize::new(1, 1), is_light: false }, &mut out),
                Answer::Given
            );
        });
    }
    assert!(peak_kib() - before < SMALL && out.is_empty());
}

#[test]
fn stacks_do_not_grow() {
    let mut screen = small_screen();
    let grown = growth(&mut screen, &b"\x1b[>1u".repeat(5_000), 20);
    let titles = [b"\x1b]0;".to_vec(), vec![b't'; 8000], b"\x07\x1b[22t".to_vec()].concat();
    let grown = grown + growth(&mut screen, &titles.repeat(100), 20);
    assert!(grown < SMALL, "{grown} KiB");
    assert_eq!(screen.object(false).modes.keyboard, 1);
    screen.feed(&b"\x1b[<1u".repeat(16));
    assert_eq!(screen.object(false).modes.keyboard, 0);
    assert_alive(&mut screen);
}

#[test]
fn links_do_not_grow() {
    let mut screen = small_screen();
    let before = peak_kib();
    for number in 0..10_000 {
        screen.feed(format!("\x1b]8;id={number};http://{number}/{}\x07x", "a".repeat(2000)).as_bytes());
    }
    let grown = peak_kib() - before;
    assert!(grown < SMALL, "{grown} KiB");
    let linked =
        |screen: &Screen| screen.rows().iter().flatten().filter(|run| run.style.link.is_some()).count();
    assert!((1..=512).contains(&linked(&screen)), "{}", linked(&screen));
    // Once they have scrolled away there is room for others.
    screen.feed(b"\x1b]8;;\x07\x1b[2J\x1b[H");
    for number in 0..600 {
        screen.feed(format!("\x1b]8;;file:///{number}\x1b\\y\x1b]8;;\x1b\\").as_bytes());
    }
    assert!(linked(&screen) > 0);
    let bytes = screen.checkpoint(0, Timestamp(0)).expect("the screen is at ground");
    assert!(bytes.len() < 2 * MIB && Checkpoint::read(&bytes).is_ok());
    assert_alive(&mut screen);
}

#[test]
fn links_in_what_scrolled_away_do_not_grow() {
    let (mut transcript, before) = (Transcript::new(TerminalSize::new(120, 40)), peak_kib());
    for number in 0..8_000 {
        let link = format!("\x1b]8;;http://{number}/{}\x07x\r\n", "a".repeat(2000));
        transcript.push(&Event::Output(link.as_bytes()));
    }
    // The rows themselves take 23 MiB; all links would be 16 MiB.
    let grown = peak_kib() - before;
    assert!(grown < (23 << 10) + SMALL, "{grown} KiB");
}

#[test]
fn combining_characters_do_not_grow() {
    let mut screen = small_screen();
    let grown = growth(&mut screen, "e\u{301}\u{301}\u{301}\u{301}".repeat(100).as_bytes(), 100)
        + growth(&mut screen, "\u{301}".repeat(32 << 10).as_bytes(), 64);
    assert!(grown < SMALL, "{grown} KiB");
    assert!(screen.text().len() < 200_000);
    assert_alive(&mut screen);
}

/// How long this process was on a processor, in seconds.
fn processor_seconds() -> u64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = statistics.split(' ').next().and_then(|time| time.parse::<u64>().ok());
    nanoseconds.expect("the kernel says so") / 1_000_000_000
}

#[test]
fn a_repetition_is_bounded_in_time() {
    let mut screen = Screen::new(TerminalSize::new(80, 24));
    let repeats = b"x\x1b[65535b\x1b[65535I\x1b[65535Z\x1b[65535S\x1b[65535L\x1b[65535@";
    let before = processor_seconds();
    screen.feed(&repeats.repeat(4000));
    // 8 million characters instead of 262 million.
    assert!(processor_seconds() - before < 15, "{} s", processor_seconds() - before);
    assert_alive(&mut screen);
}

#[test]
fn sixel_and_images_are_ignored() {
    let mut screen = small_screen();
    let sixel =
        [b"a\x1bP0;1;q\"1;1;800;600".to_vec(), b"#0;2;0;0;0#0~~@@vv$-".repeat(50_000), b"\x1b\\b".to_vec()];
    let image = [
        b"\x1b_Ga=T,f=100;".to_vec(),
        vec![b'A'; MIB],
        b"\x1b\\c\x1b]1337;File=:".to_vec(),
        vec![b'A'; MIB],
        b"\x07d".to_vec(),
    ];
    let grown = growth(&mut screen, &sixel.concat(), 1) + growth(&mut screen, &image.concat(), 1);
    assert_eq!(screen.lines()[0], "abcd");
    assert!(grown < SMALL, "{grown} KiB");
}

#[test]
fn the_largest_screen_is_bounded() {
    let before = peak_kib();
    let mut screen = Screen::new(TerminalSize::new(u16::MAX, u16::MAX));
    screen.feed("\x1b[58:5:1m漢e\u{301}\u{301}".repeat(400_000).as_bytes());
    screen.feed(b"\x1b[?1049h");
    screen.feed("\x1b]8;;http://x\x07\x1b[58:5:1m漢e\u{301}\u{301}".repeat(400_000).as_bytes());
    screen.resize(TerminalSize::new(0, 0));
    screen.resize(TerminalSize::new(u16::MAX, u16::MAX));
    let grown = peak_kib() - before;
    assert!(grown < 400 << 10, "{grown} KiB");
    assert_alive(&mut screen);
}

#[test]
fn random_bytes_break_nothing() {
    let seed = std::env::var("OUTLIVE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut state: u64 = seed.unwrap_or(0x9e37_79b9_7f4a_7c15);
    println!("OUTLIVE_TEST_SEED={state}");
    let seconds = std::env::var("OUTLIVE_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let (mut screen, start, before) = (small_screen(), Instant::now(), peak_kib());
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let pieces: [&[u8]; 10] = [
        b"\x1b[",
        b"\x1b]",
        b"\x1b",
        b"\x1b[?",
        b";",
        b"\x1bP",
        b"\r\n",
        "漢".as_bytes(),
        "\u{301}".as_bytes(),
        b"\x07",
    ];
    let mut rounds = 0;
    while rounds < 300 || start.elapsed().as_secs() < seconds.unwrap_or(0) {
        let mut bytes = Vec::new();
        for _ in 0..2000 {
            match next() % 4 {
                0 => bytes.extend(pieces[next() as usize % pieces.len()]),
                1 => bytes.push(next() as u8),
                2 => bytes.push(b'0' + (next() % 10) as u8),
                _ => bytes.push(b'@' + (next() % 63) as u8),
            }
        }
        bytes.chunks(1 + next() as usize % 100).for_each(|chunk| screen.feed(chunk));
        if next() % 4 == 0 {
            screen.resize(TerminalSize::new(next() as u16 % 200, next() as u16 % 60));
        }
        let _ = (screen.object(true), screen.ansi());
        if let Some(bytes) = screen.checkpoint(0, Timestamp(0)) {
            assert_eq!(
                Checkpoint::read(&bytes).expect("it was just written").screen.object(true),
                screen.object(true)
            );
        }
        rounds += 1;
    }
    let grown = peak_kib() - before;
    println!("{rounds} rounds, {grown} KiB");
    assert!(grown < 2 * SMALL, "{grown} KiB");
    screen.resize(TerminalSize::new(120, 40));
    assert_alive(&mut screen);
}
