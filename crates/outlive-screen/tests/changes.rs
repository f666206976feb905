//! A reader that looks only at the rows that it is told have changed sees the whole screen.

mod streams;

use outlive_core::terminal::size::TerminalSize;
use outlive_screen::{Run, Screen, SeenRows};
use proptest::prelude::*;
use streams::{Step, apply, config, size, steps};

#[derive(Default)]
struct Reader {
    seen: SeenRows,
    rows: Vec<Vec<Run>>,
}

impl Reader {
    fn look(&mut self, screen: &Screen) -> Vec<usize> {
        self.rows.resize(usize::from(screen.size().rows()), Vec::new());
        let unseen = screen.unseen_rows(&mut self.seen);
        unseen.iter().for_each(|&row| self.rows[row] = screen.row(row));
        unseen
    }
}

#[test]
fn a_key_changes_its_row_alone() {
    let (mut screen, mut reader) = (Screen::new(TerminalSize::new(20, 5)), Reader::default());
    assert_eq!(reader.look(&screen), [0, 1, 2, 3, 4], "at first all are new");
    assert!(reader.look(&screen).is_empty());
    screen.feed(b"\x1b[2;1Hone");
    assert_eq!(reader.look(&screen), [1]);
    screen.feed(b"\x1b[B\x1b[4Gtwo\x1b[Bsix\x1b[A");
    assert_eq!(reader.look(&screen), [2, 3], "also rows that the cursor has left");
    screen.feed(b"\rtwo");
    assert_eq!(reader.look(&screen), [2]);
    screen.feed(b"\x1b[H");
    assert!(reader.look(&screen).is_empty(), "a cursor that moves changes no row");
}

#[test]
fn what_is_cleared_behind_the_last_column_is_seen() {
    let (mut screen, mut reader) = (Screen::new(TerminalSize::new(4, 3)), Reader::default());
    screen.feed(b"abcd\r\nefgh\r\nijkl\x1b[1;4Hd");
    reader.look(&screen);
    screen.feed(b"\x1b[J");
    assert_eq!(reader.look(&screen), [1, 2]);
}

#[test]
fn a_screen_that_was_made_later_is_seen_as_a_whole() {
    let (mut screen, mut reader) = (Screen::new(TerminalSize::new(20, 2)), Reader::default());
    (0..10).for_each(|_| screen.feed(b"old\r\nold\r\n"));
    reader.look(&screen);
    let other = Screen::new(TerminalSize::new(20, 2));
    assert_eq!(reader.look(&other), [0]);
    assert_eq!(reader.rows, other.rows());
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn no_change_is_missed((columns, rows) in size(), steps in steps(4), pace in 1usize..12) {
        let mut screen = Screen::new(TerminalSize::new(columns, rows));
        let [mut each, mut some] = [(); 2].map(|()| Reader::default());
        for (number, step) in joined(&steps, pace).iter().enumerate() {
            apply(&mut screen, std::slice::from_ref(step));
            each.look(&screen);
            prop_assert_eq!(&each.rows, &screen.rows(), "after {:?}", step);
            if number % 3 == 0 {
                some.look(&screen);
                prop_assert_eq!(&some.rows, &screen.rows(), "after {:?}", step);
            }
        }
    }
}

/// Puts so many pieces of output together: what is fed at once is looked at once.
fn joined(steps: &[Step], count: usize) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match (joined.last_mut(), step) {
            (Some(Step::Bytes(before)), Step::Bytes(bytes)) if number % count > 0 => before.extend(bytes),
            _ => joined.push(step.clone()),
        }
    }
    joined
}
