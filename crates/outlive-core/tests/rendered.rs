//! The rendered form of generated programs is what a terminal emulator shows.
//!
//! The programs do what real ones do: print, redraw, erase, scroll, at a width at which lines wrap or do not, on a screen
//! that is higher or lower than what they print. They leave out what differs on purpose, see the header of
//! `outlive_core::rendered`, and where the emulator itself errs: erasing above the second row, deleting more
//! characters than there are, and tabbing back from the edge, after which it marks another character as the last.

mod emulator;

use emulator::{emulated, rendered};
use outlive_core::rendered::Rendered;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-zA-Z0-9 .:%=>#-]{1,30}",
        1 => "[a-z ]{30,90}",
        1 => "(\t|[a-z]{1,9}|e\u{301}|é|─){1,6}",
    ]
}

/// A progress bar on one line.
fn bar() -> impl Strategy<Value = String> {
    let erase = prop_oneof![Just(""), Just("\x1b[K"), Just("\x1b[2K"), Just("\x1b[0K\x1b[1G")];
    (prop::collection::vec(text(), 1..6), erase, any::<bool>()).prop_map(|(frames, erase, comes_first)| {
        let frame = |text: &String| match comes_first {
            true => format!("\r{erase}\x1b[32m{text}\x1b[0m"),
            false => format!("{text}{erase}\r"),
        };
        frames.iter().map(frame).collect::<String>() + "\n"
    })
}

/// Several lines that are drawn again and again.
fn display() -> impl Strategy<Value = String> {
    let frames = prop::collection::vec(prop::collection::vec("[a-z0-9 ]{0,19}", 3), 1..5);
    let up = prop_oneof![
        Just("\x1b[3A\r"),
        Just("\x1b[3F"),
        Just("\x1bM\x1bM\x1bM"),
        Just("\x1b[A\x1b[A\x1b[A\x1b[G")
    ];
    let erase = prop_oneof![Just("\x1b[K"), Just("\x1b[2K"), Just("")];
    (frames, up, erase, any::<bool>()).prop_map(|(frames, up, erase, is_erased)| {
        let frame =
            |lines: &Vec<String>| lines.iter().map(|line| format!("{erase}{line}\r\n")).collect::<String>();
        let mut program = frames.iter().map(frame).collect::<Vec<_>>().join(up);
        if is_erased {
            program.push_str(up);
            program.push_str("\x1b[J");
        }
        program
    })
}

/// A single thing of which few programs make use.
fn edit() -> impl Strategy<Value = String> {
    prop_oneof![
        "\u{1b}\\[[0-9]?[CDGaX@I`]",
        "[a-z]\u{1b}\\[[0-9]?b",
        "\u{1b}\\[[0-9]?[ABEFde]",
        "\u{1b}\\[[1-4]?[LST]",
        "\r[a-z]{0,9}\u{1b}\\[[1-4]?Z",
        "\u{1b}\\[[0-9]{0,2};?[0-9]{0,2}[Hf]",
        "\u{1b}\\[[012]?K",
        "\u{1b}\\[0?J",
        "\u{1b}\\[[3-6];[0-9]H\u{1b}\\[1J",
        "\u{1b}\\[[2-6]d\u{1b}\\[[1-3]?M",
        "[a-z]{1,9}\u{1b}\\[[1-9]D\u{1b}\\[[1-2]P",
        "\u{1b}(7|\\[s)[a-z\n]{0,5}\u{1b}(8|\\[u)",
        "\u{1b}(D|E|M|\\(0[a-z_`{}~]{1,3}\u{1b}\\(B)",
        "\u{8}{1,4}",
        "\u{e}|\u{f}|\u{b}|\u{c}|\u{7}",
        "\u{1b}\\[\\?7[hl]",
        "\u{1b}\\[4h[a-z]{1,4}\u{1b}\\[4l",
        "\u{1b}\\[\\?1049h[a-z\n]{0,8}(\u{1b}\\[2J)?\u{1b}\\[\\?1049l",
        "\u{1b}\\[[1-3];[4-6]r",
        "\u{1b}\\[r",
        "\u{1b}\\](0;[a-z]{0,9}\u{7}|8;;[a-z:/]{0,9}\u{1b}\\\\)",
        "\u{1b}[P_^X][a-z0-9]{0,9}\u{1b}\\\\",
        "\u{1b}\\[([0-9]{0,3}[;:]){0,3}[0-9]?m",
    ]
}

fn ordinary() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => text().prop_map(|text| text + "\n"),
        2 => text(),
        1 => Just("\r\n".to_owned()),
        3 => bar(),
        3 => display(),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

fn strange() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        2 => text().prop_map(|text| text + "\n"),
        1 => text(),
        1 => bar(),
        1 => display(),
        6 => edit(),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn wide() -> impl Strategy<Value = String> {
    let text = "[a-c漢字👩é\u{301}\u{200d}]{1,30}";
    let piece = prop_oneof![
        text.prop_map(|text| text + "\n"),
        text.prop_map(|text| text + "\r"),
        text.prop_map(|text| text + "\r\u{1b}[2K"),
        text.prop_map(|text| text + "\n\u{1b}[A"),
        text.prop_map(|text| text + "\u{1b}[K\r\n"),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

fn check(program: &str, columns: usize, rows: usize) -> Result<(), TestCaseError> {
    let page = rendered(program.as_bytes(), Rendered::new(Some(columns)).with_rows(rows));
    prop_assert_eq!(page, emulated(program.as_bytes(), columns, rows));
    Ok(())
}

/// The mark of a row that wrapped moves with the character at its edge.
#[test]
fn a_wrapped_row_from_which_as_much_is_taken_as_is_put_in_goes_on() {
    let program =
        " aaaa a a  aa aa aaaaa a a     a a aaa aaa\u{1b}[1;4ra\u{1b}[1D\u{1b}[2P\u{1b}[4haa\u{1b}[4l";
    let page = rendered(program.as_bytes(), Rendered::new(Some(32)).with_rows(8));
    assert_eq!(page, emulated(program.as_bytes(), 32, 8));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ordinary_programs_look_the_same(program in ordinary(), columns in 20usize..120, rows in 8usize..60) {
        check(&program, columns, rows)?;
    }

    #[test]
    fn strange_programs_look_the_same(program in strange(), columns in 20usize..120, rows in 8usize..60) {
        check(&program, columns, rows)?;
    }

    #[test]
    fn wide_characters_look_the_same(program in wide(), columns in 5usize..40, rows in 8usize..60) {
        check(&program, columns, rows)?;
    }

    #[test]
    fn without_an_edge_it_looks_as_on_a_wide_terminal(program in ordinary(), rows in 8usize..60) {
        let page = rendered(program.as_bytes(), Rendered::new(None).with_rows(rows));
        prop_assert_eq!(page, emulated(program.as_bytes(), 2000, rows));
    }
}
