//! What a screen shows: rows, styles, modes, what programs tell beside them, and the text that draws it again.

mod streams;

use outlive_core::terminal::size::TerminalSize;
use outlive_screen::{Color, CursorShape, Mark, Screen, Underline};
use proptest::prelude::*;
use streams::{apply, size, steps};

fn screen(columns: u16, rows: u16, output: &str) -> Screen {
    let mut screen = Screen::new(TerminalSize::new(columns, rows));
    screen.feed(output.as_bytes());
    screen
}

#[test]
fn rows_are_text_without_blanks_at_the_end() {
    let screen = screen(10, 4, "one  \r\n\r\nthree\tx");
    assert_eq!(screen.lines(), ["one", "", "three   x", ""]);
    assert_eq!(screen.text(), "one\n\nthree   x\n");
}

#[test]
fn runs_have_colours_and_attributes() {
    let output =
        "a\x1b[1;31mb\x1b[0;4:3;58:2::1:2:3;48;5;200mc \x1b[0;38;2;7;8;9md\x1b]8;;http://x\x07e\x1b]8;;\x07";
    let rows = screen(20, 1, output).rows();
    let texts: Vec<&str> = rows[0].iter().map(|run| run.text.as_str()).collect();
    assert_eq!(texts, ["a", "b", "c ", "d", "e"]);
    assert_eq!((rows[0][1].style.bold, rows[0][1].style.foreground), (true, Color::Palette(1)));
    let curly = &rows[0][2].style;
    assert_eq!((curly.underline, curly.underline_color), (Underline::Curly, Color::Rgb(1, 2, 3)));
    assert_eq!(curly.background, Color::Palette(200));
    assert_eq!(rows[0][3].style.foreground, Color::Rgb(7, 8, 9));
    assert_eq!(rows[0][4].style.link.as_deref(), Some("http://x"));
}

#[test]
fn the_clipboard_is_written_and_never_read() {
    let mut screen = screen(10, 1, "\x1b]52;c;aGVsbG8=\x07");
    assert_eq!((screen.take_clipboard().as_deref(), screen.take_clipboard()), (Some("c;aGVsbG8="), None));
    screen.feed(b"\x1b]52;c;?\x07\x1b]52;c;\x1b\\\x1b]52;c;a b\x07\x1b]52;x;aaaa\x07\x1b]52\x07");
    assert_eq!(screen.take_clipboard(), None);
}

#[test]
fn wide_characters_take_two_columns_and_half_of_one_is_a_blank() {
    assert_eq!(screen(10, 1, "漢字e\u{301}x").lines(), ["漢字e\u{301}x"]);
    assert_eq!(screen(10, 1, "漢字x\x1b[1Gz").lines(), ["z 字x"]);
    assert_eq!(screen(10, 1, "漢字x\x1b[2G\x1b[X").lines(), ["  字x"]);
    assert_eq!(screen(3, 2, "ab漢").lines(), ["ab", "漢"]);
}

#[test]
fn the_object_is_as_documented() {
    let output = "\x1b]0;vim\x07\x1b]7;file://host/home/a%20b\x07\x1b]133;D;3\x07\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[>5u\x1b[5 q\x1b[2;3Hx";
    let object = screen(6, 3, output).object(false);
    let json = serde_json::to_value(&object).unwrap();
    let expected = serde_json::json!({
        "size": "6x3",
        "cursor": { "row": 2, "column": 4, "visible": true, "shape": "bar", "blinking": true, "wrap_pending": false },
        "title": "vim",
        "directory": "/home/a b",
        "alternate": true,
        "mark": "ended",
        "command_exit_code": 3,
        "modes": {
            "application_cursor": true, "application_keypad": true, "bracketed_paste": true, "mouse": 1002,
            "mouse_encoding": 1006, "focus": true, "keyboard": 5,
        },
        "rows": ["", "  x", ""],
    });
    assert_eq!(json, expected);
    let styled = screen(6, 1, "a\x1b[1;32mb").object(true);
    let styled = serde_json::to_value(&styled).unwrap();
    let runs =
        serde_json::json!([[{ "text": "a" }, { "text": "b", "bold": true, "foreground": { "palette": 2 } }]]);
    assert_eq!(styled["styled_rows"], runs);
}

#[test]
fn titles_are_stacked_and_prompts_marked() {
    let mut screen = screen(10, 2, "\x1b]2;one\x07\x1b[22;0t\x1b]0;two\x1b\\\x1b]133;A\x07");
    assert_eq!((screen.title(), screen.mark()), (Some("two"), Some(Mark::Prompt)));
    screen.feed(b"\x1b[23;0t\x1b]133;C\x07");
    assert_eq!((screen.title(), screen.mark()), (Some("one"), Some(Mark::Output)));
}

#[test]
fn a_sequence_is_the_same_in_one_read_or_many() {
    let output = "\x1b]0;t\u{e9}tle\x1b\\\x1b[1;3H漢\x1b[3b\x1b[!p\x1bP1;2q###\x1b\\z";
    let whole = screen(12, 2, output);
    let mut cut = Screen::new(TerminalSize::new(12, 2));
    output.as_bytes().chunks(1).for_each(|byte| cut.feed(byte));
    assert_eq!(cut.object(true), whole.object(true));
    assert_eq!(whole.lines(), ["  漢漢漢漢z", ""]);
}

#[test]
fn what_was_cut_short_does_not_go_on_after_a_title() {
    let screen = screen(10, 1, "\x1b[1\x1b]0;t\x07ab\x1b\x1b]0;u\x07cd");
    assert_eq!((screen.lines(), screen.title()), (vec!["abcd".to_owned()], Some("u")));
}

#[test]
fn it_is_at_ground_between_characters_and_sequences() {
    let mut screen = Screen::new(TerminalSize::new(10, 2));
    for (bytes, is_at_ground) in [
        (&b"abc"[..], true),
        (b"\xe6", false),
        (b"\xbc", false),
        (b"\xa2", true),
        (b"\x1b", false),
        (b"[1", false),
        (b"m", true),
        (b"\x1b]0;t\x1b", false),
        (b"\\", true),
        (b"\xf0\x9f", false),
        (b"x", true),
        (b"\xff", true),
    ] {
        screen.feed(bytes);
        assert_eq!(screen.is_at_ground(), is_at_ground, "{bytes:?}");
    }
}

#[test]
fn it_differs_from_the_emulator_where_xterm_does() {
    // Inserting and deleting rows moves to the first column.
    assert_eq!(screen(5, 3, "abc\x1b[Lx").lines(), ["x", "abc", ""]);
    // Erasing above from the second row erases the first.
    assert_eq!(screen(5, 2, "abc\r\ndef\x1b[1J").lines(), ["", ""]);
    // Only what is behind the cursor is deleted; where it is behind the last column, nothing is erased.
    assert_eq!(screen(5, 1, "abc\x08\x1b[99P").lines(), ["ab"]);
    assert_eq!(screen(5, 2, "abcde\x1b[J").lines(), ["abcde", ""]);
    // After erasing or deleting there the next character does not wrap.
    assert_eq!(screen(5, 2, "abcde\x1b[Px").lines(), ["abcdx", ""]);
    assert_eq!(screen(5, 2, "abcde\x1b[Xx").lines(), ["abcdx", ""]);
    // In newline mode a line feed returns.
    assert_eq!(screen(5, 2, "\x1b[20hab\nc").lines(), ["ab", "c"]);
    assert_eq!(screen(5, 2, "\x1b[20hab\x1bDc").lines(), ["ab", "  c"]);
    // What is written beside half of a wide character stays.
    assert_eq!(screen(5, 1, "漢\r\x1b[Xab").lines(), ["ab"]);
    assert_eq!(screen(5, 1, "a漢\x1b[3G\x1b[X\x1b[1G字b").lines(), ["字b"]);
    assert_eq!(screen(6, 1, "abcd漢\x1b[1G\x1b[4hxyz").lines(), ["xyzabc"]);
    // It leaves the next row alone where the line does not wrap, or the region scrolls.
    assert_eq!(screen(3, 2, "\x1b[2;1Hxyz\x1b[H\x1b[4h\x1b[?7labcd").lines(), ["abd", "xyz"]);
    assert_eq!(screen(3, 3, "\x1b[3;1Hxyz\x1b[1;2r\x1b[2;1H\x1b[4habcd").lines(), ["abc", "d", "xyz"]);
    // Rows are inserted only in the scroll region.
    assert_eq!(screen(5, 3, "\x1b[2;3r\x1b[1;3H\x1b[Lx").lines(), ["  x", "", ""]);
    // Without tab stops a tab backwards goes to the first column.
    assert_eq!(screen(5, 1, "abc\x1b[3g\x1b[Zx").lines(), ["xbc"]);
    assert_eq!(screen(3, 1, "a\x1b#8x").lines(), ["xEE"]);
    // Up stops at the top of the scroll region.
    assert_eq!(screen(5, 4, "\x1b[2;4r\x1b[3;1H\x1b[9Ax").lines(), ["", "x", "", ""]);
    // In origin mode a column is no row.
    assert_eq!(screen(5, 4, "\x1b[2;4r\x1b[?6h\x1b[3Gx").lines(), ["", "  x", "", ""]);
    // A tab in the last column does not wrap.
    assert_eq!(screen(5, 2, "abcde\tf").lines(), ["abcde", "f"]);
    // Neither does a character after a line feed or a tab backwards.
    assert_eq!(screen(5, 3, "abcde\nf").lines(), ["abcde", "    f", ""]);
    assert_eq!(screen(5, 2, "abcde\x1b[Zf").lines(), ["fbcde", ""]);
    // An old alternate screen, without saving the cursor.
    assert_eq!(screen(5, 2, "ab\x1b[?47hxy\x1b[?47lz").lines(), ["ab  z", ""]);
    // Leaving the alternate screen restores the cursor even on the primary one.
    assert_eq!(screen(5, 2, "a\x1b7bc\x1b[?1049lx").lines(), ["axc", ""]);
    // The width is the user's.
    assert_eq!(screen(5, 1, "ab\x1b[?3l").lines(), ["ab"]);
}

#[test]
fn lines_are_wrapped_anew_and_the_cursor_stays_in_its_line() {
    let cursor = |screen: &Screen| screen.cursor_report(false);
    let mut screen = screen(10, 4, "0123456789abc\r\n漢字漢字\x1b[42m\x1b[K\x1b[0m\r\n$ ls");
    assert_eq!(cursor(&screen), "\x1b[4;5R");
    let sizes: [(u16, u16, &[&str], &str); 7] = [
        (5, 4, &["abc", "漢字", "漢字", "$ ls"], "\x1b[4;5R"),
        (20, 4, &["abc", "漢字漢字", "$ ls"], "\x1b[3;5R"),
        (4, 4, &["abc", "漢字", "漢字", "$ ls"], "\x1b[4;4R"),
        (3, 5, &["字", "漢", "字", "$ l", "s"], "\x1b[5;2R"),
        (9, 5, &["字漢字", "$ ls"], "\x1b[2;5R"),
        (9, 1, &["$ ls"], "\x1b[1;5R"),
        (9, 3, &["$ ls"], "\x1b[1;5R"),
    ];
    // What did not fit is gone.
    for (columns, rows, lines, place) in sizes {
        screen.resize(TerminalSize::new(columns, rows));
        assert_eq!(screen.text().lines().collect::<Vec<_>>(), lines, "{columns}x{rows}");
        assert_eq!(cursor(&screen), place, "{columns}x{rows}");
    }
}

#[test]
fn the_alternate_screen_is_cut_and_the_primary_one_wrapped_behind_it() {
    let mut screen = screen(10, 3, "0123456789\x1b[?1049h\x1b[Habcdefghij\x1b[2;9Hx漢");
    screen.resize(TerminalSize::new(5, 3));
    assert_eq!(screen.lines(), ["abcde", "", "漢"]);
    screen.feed(b"\x1b[?1049lz");
    assert_eq!(screen.lines(), ["01234", "56789", "z"]);
}

#[test]
fn what_is_below_the_cursor_gives_way() {
    let mut screen = screen(10, 4, "one\r\ntwo\r\nthree\r\nfour\x1b[2;2H");
    screen.resize(TerminalSize::new(10, 2));
    assert_eq!(
        (screen.lines(), screen.cursor_report(false)),
        (vec!["one".into(), "two".into()], "\x1b[2;2R".into())
    );
}

#[test]
fn sizes_are_clamped() {
    for (columns, rows) in [(0, 0), (1, 1), (u16::MAX, u16::MAX)] {
        let mut screen = screen(columns, rows, "a漢b\r\nc");
        screen.resize(TerminalSize::new(rows, columns));
        screen.feed("\x1b[999;999Hx".as_bytes());
        assert_eq!(screen.size(), TerminalSize::new(rows.max(2), columns));
    }
}

#[test]
fn the_cursor_is_reported() {
    let screen = screen(80, 24, "\x1b[5;9H");
    assert_eq!(
        (screen.cursor_report(false), screen.cursor_report(true)),
        ("\x1b[5;9R".into(), "\x1b[?5;9R".into())
    );
}

#[test]
fn the_drawing_keeps_both_screens() {
    let mut vim = screen(10, 3, "$ vim\r\n\x1b[?1049h\x1b[1;31mtext\x1b[?25l\x1b[2 q\x1b[3 q");
    let mut viewer = screen(10, 3, "junk\x1b[?1049h\x1b[4h\x1b[2;2r\x1b[?1000h\x1b)0\x0e");
    viewer.feed(vim.ansi().as_bytes());
    assert_eq!(viewer.object(true), vim.object(true));
    assert_eq!(vim.object(false).cursor.shape, CursorShape::Underline);
    for screen in [&mut vim, &mut viewer] {
        screen.feed(b"\x1b[?25h\x1b[?1049lq");
        assert_eq!(screen.lines(), ["$ vim", "q", ""]);
    }
    assert_eq!(viewer.object(true), vim.object(true));
}

proptest! {
    #![proptest_config(streams::config(200))]

    #[test]
    fn any_drawing_gives_the_screen_on_any_terminal((columns, rows) in size(), drawn in steps(1), before in steps(0)) {
        let mut screen = Screen::new(TerminalSize::new(columns, rows));
        apply(&mut screen, &drawn);
        let mut viewer = Screen::new(screen.size());
        apply(&mut viewer, &before);
        viewer.feed(b"\x18\x1b[22;0t\x1b]0;\x07");
        viewer.resize(screen.size());
        let shown = screen.object(true);
        viewer.feed(screen.ansi().as_bytes());
        let mut seen = viewer.object(true);
        // A drawing is no prompt, and has no directory where there was none.
        (seen.mark, seen.command_exit_code) = (shown.mark, shown.command_exit_code);
        seen.directory = seen.directory.filter(|_| shown.directory.is_some());
        prop_assert_eq!(seen, shown);
        prop_assert!(viewer.is_at_ground());
    }
}
