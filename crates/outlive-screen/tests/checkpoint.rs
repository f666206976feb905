//! A screen that is read from a checkpoint becomes, with the rest of the output, the one that saw everything.

mod streams;

use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;
use outlive_screen::{Checkpoint, CheckpointError, Screen};
use proptest::prelude::*;
use streams::{Step, apply, config, size, steps};

const TIME: Timestamp = Timestamp(7);

/// All that decides what later output does.
fn state(screen: &mut Screen) -> Option<Vec<u8>> {
    screen.checkpoint(5, TIME)
}

fn reread(screen: &mut Screen) -> Screen {
    let bytes = state(screen).expect("the screen is at ground");
    Checkpoint::read(&bytes).expect("what was written can be read").screen
}

#[test]
fn a_checkpoint_has_place_and_screen() {
    let mut screen = Screen::new(TerminalSize::new(20, 5));
    screen.feed("\x1b]0;title\x07\x1b[1;32mgreen 漢\x1b[?1049h\x1b[3;4r\x1b[?6hx".as_bytes());
    let bytes = state(&mut screen).unwrap();
    assert_eq!(Checkpoint::place(&bytes[..32]).unwrap(), (5, TIME));
    let mut read = Checkpoint::read(&bytes).unwrap();
    assert_eq!((read.offset, read.time), (5, TIME));
    assert_eq!(read.screen.object(true), screen.object(true));
    read.screen.feed(b"\x1b[?1049l");
    assert_eq!(read.screen.lines()[0], "green 漢");
}

#[test]
fn none_is_made_within_a_sequence() {
    let mut screen = Screen::new(TerminalSize::new(20, 5));
    screen.feed(b"\x1b[3");
    assert_eq!(state(&mut screen), None);
    screen.feed(b"m");
    assert!(state(&mut screen).is_some());
}

#[test]
fn damage_and_other_versions_are_told_apart() {
    let mut screen = Screen::new(TerminalSize::new(20, 5));
    screen.feed(b"text");
    let bytes = state(&mut screen).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = Checkpoint::read(&damaged).expect_err("a flipped bit is noticed");
        assert_eq!(matches!(error, CheckpointError::Version(_)), (8..12).contains(&(bit / 8)), "bit {bit}");
    }
    for length in 0..bytes.len() {
        assert!(Checkpoint::read(&bytes[..length]).is_err());
    }
}

#[test]
fn a_repeated_character_is_repeated_after_a_checkpoint() {
    let mut screen = Screen::new(TerminalSize::new(20, 2));
    screen.feed("漢".as_bytes());
    let mut read = reread(&mut screen);
    read.feed(b"\x1b[2b");
    assert_eq!(read.lines()[0], "漢漢漢");
}

#[test]
fn a_screen_of_text_is_small() {
    let mut screen = Screen::new(TerminalSize::new(120, 40));
    for line in 0..40u32 {
        // No two neighbours are the same.
        let text: String = (0..119)
            .map(|column| char::from(b"abcdefghijklmnopqrstuvwxyz"[(line + column * 7) as usize % 26]))
            .collect();
        screen.feed(format!("\x1b[3{}m{}\x1b[0m{}\r\n", line % 8, &text[..60], &text[60..]).as_bytes());
    }
    let length = state(&mut screen).unwrap().len();
    assert!(length < 12_000, "{length} bytes");
    assert!(state(&mut Screen::new(TerminalSize::new(1000, 500))).unwrap().len() < 300);
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn feeding_the_rest_gives_the_same_screen((columns, rows) in size(), steps in steps(2), cut in any::<prop::sample::Index>()) {
        let mut whole = Screen::new(TerminalSize::new(columns, rows));
        let cut = cut.index(steps.len() + 1);
        apply(&mut whole, &steps[..cut]);
        prop_assume!(whole.is_at_ground());
        let before = state(&mut whole);
        let mut read = reread(&mut whole);
        // Neither writing nor reading changes a screen.
        prop_assert_eq!(&state(&mut whole), &before);
        prop_assert_eq!(&state(&mut read), &before);
        prop_assert_eq!(read.object(true), whole.object(true));
        for step in &steps[cut..] {
            apply(&mut whole, std::slice::from_ref(step));
            apply(&mut read, std::slice::from_ref(step));
            prop_assert_eq!(read.object(false), whole.object(false), "after {:?}", step);
        }
        for screen in [&mut whole, &mut read] {
            apply(screen, &[Step::Bytes(b"\x18".to_vec())]);
        }
        prop_assert_eq!(state(&mut read), state(&mut whole));
    }

    #[test]
    fn one_that_made_checkpoints_is_one_that_made_none((columns, rows) in size(), steps in steps(2)) {
        let mut plain = Screen::new(TerminalSize::new(columns, rows));
        let mut busy = Screen::new(TerminalSize::new(columns, rows));
        for step in &steps {
            apply(&mut plain, std::slice::from_ref(step));
            apply(&mut busy, std::slice::from_ref(step));
            let _ = (state(&mut busy), busy.ansi());
        }
        prop_assert_eq!(state(&mut busy), state(&mut plain));
    }

    #[test]
    fn any_bytes_are_read_without_harm(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), (columns, rows) in size(), steps in steps(1),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        is_whole in any::<bool>(),
    ) {
        if is_whole {
            let mut screen = Screen::new(TerminalSize::new(columns, rows));
            apply(&mut screen, &steps);
            screen.feed(b"\x18x");
            bytes = state(&mut screen).unwrap();
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
        }
        // A checksum that is right lets the contents be read.
        if bytes.len() >= 32 {
            bytes[..8].copy_from_slice(b"olscreen");
            bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
            let checksum = outlive_core::checksum::crc32(&bytes[16..]);
            bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        }
        if let Ok(mut read) = Checkpoint::read(&bytes) {
            apply(&mut read.screen, &steps);
            let _ = (read.screen.object(true), read.screen.ansi());
        }
    }
}
