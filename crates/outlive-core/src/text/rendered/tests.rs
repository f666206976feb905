//! What is left of single programs, of hostile ones, and of any.

use proptest::prelude::*;

use super::*;

fn run(mut rendered: Rendered, pieces: &[&[u8]]) -> Vec<RenderedLine> {
    let mut lines = Vec::new();
    for piece in pieces {
        rendered.push(piece, |line| lines.push(line));
    }
    rendered.finish(|line| lines.push(line));
    lines
}

fn shown(rendered: Rendered, bytes: &[u8]) -> String {
    run(rendered, &[bytes]).iter().map(RenderedLine::to_string).collect::<Vec<_>>().join("\n")
}

fn check(cases: &[(&str, &str)]) {
    for (bytes, left) in cases {
        assert_eq!(shown(Rendered::new(None), bytes.as_bytes()), *left, "{}", bytes.escape_debug());
    }
}

fn check_in(columns: usize, rows: usize, cases: &[(&str, &str)]) {
    for (bytes, left) in cases {
        let rendered = Rendered::new(Some(columns)).with_rows(rows);
        assert_eq!(shown(rendered, bytes.as_bytes()), *left, "{}", bytes.escape_debug());
    }
}

#[test]
fn progress_is_left_in_its_last_state() {
    check(&[
        ("10%\r20%\r100%\n", "100%"),
        ("downloading\rdone\x1b[K\r\n", "done"),
        (
            "\x1b[?25lone\r\ntwo\r\n\x1b[2A\x1b[2Kone: done\r\n\x1b[2Ktwo: done\r\n\x1b[?25h",
            "one: done\ntwo: done",
        ),
        ("|\x08/\x08-\x08ok\n", "ok"),
        ("a\nb\nc\x1b[1F\x1b[Jd", "a\nd"),
        ("a\nb\x1b[1;1Hx\x1b[2;3Hy", "x\nb y"),
        ("abc\x1b[2Gx\x1b[1Cy", "axcy"),
        ("keep\x1b7 this\x1b8\x1b[K that\x1b[s!\x1b[u?", "keep that?"),
    ]);
}

#[test]
fn text_is_inserted_deleted_and_erased() {
    check(&[
        ("abcdef\r\x1b[2@\x1b[2C\x1b[3Pg", "  gef"),
        ("abcdef\x1b[3D\x1b[2X", "abc  f"),
        ("abcdef\x1b[3D\x1b[1K", "    ef"),
        ("abc\r\x1b[4hx\x1b[4ly", "xybc"),
        ("a\nb\nc\x1b[1A\x1b[L", "a\n\nb\nc"),
        ("a\nb\nc\x1b[1A\x1b[M", "a\nc"),
        ("a\nb\x1b[1J", ""),
        ("a\nb\n\x1b[2J\x1b[Hc", "c"),
        ("a\nb\x1bcc", "c"),
        ("a\n\x1b[1;1H\x1bMtop", "top\na"),
        ("=\x1b[4b\n", "====="),
        ("\x1b(0lqqk\x1b(B q \x0e\x1b)0x\x0fx", "┌──┐ q │x"),
    ]);
}

#[test]
fn wide_characters_take_two_columns_and_marks_none() {
    check(&[
        ("漢字\x1b[3Gx", "漢x"),
        ("漢字\x1b[2Gx", " x字"),
        ("漢字\x1b[4G\x1b[K", "漢"),
        ("e\u{301}a\r\x1b[Cb", "e\u{301}b"),
        ("漢\u{301}!\rx", "x !"),
        ("👩\u{200d}🔬.", "👩\u{200d}🔬."),
    ]);
}

#[test]
fn tabs_stay_where_they_still_reach() {
    check(&[
        ("\tif x {\t// y\n", "\tif x {\t// y"),
        ("\ta\r  b", "  b     a"),
        ("a\t\r\n", "a"),
        ("\x1b[2Ix\x1b[Zy", "\u{20}               y"),
    ]);
    check_in(
        20,
        5,
        &[
            ("0123456789012345678\tx", "0123456789012345678x"),
            ("01234567890123456789\tx", "01234567890123456789x"),
        ],
    );
}

#[test]
fn lines_wrap_at_the_edge_and_are_whole_when_they_leave() {
    check_in(
        4,
        3,
        &[
            ("abcdefghij\nk", "abcdefghij\nk"),
            ("abcd\nefgh\n", "abcd\nefgh"),
            ("abcd\x1b[Kef", "abcdef"),
            ("abcdef\x1b[A\x1b[2K", "\nef"),
            ("abc漢d", "abc漢d"),
            ("\x1b[?7labcdefg\x1b[?7h", "abcg"),
            ("abcdefghijklmnopqrs\nt", "abcdefghijklmnopqrs\nt"),
            ("a   b   cde fgh", "a\nb\ncde fgh"),
        ],
    );
}

#[test]
fn nothing_is_left_of_an_alternate_screen_that_was_closed() {
    check(&[
        ("before\n\x1b[?1049h\x1b[2J\x1b[Hfull screen\n\n\x1b7\x1b[?1049lafter", "before\nafter"),
        ("a\x1b[?47hb\x1b[?47lc\x1b[?1047hd\x1b[?1047l\x1b[?1049he\x1bcf", "f"),
        ("a\x1b[?1049h\x1b[?7lb\x1b[?1049l\x1b[3Cc", "a   c"),
    ]);
}

#[test]
fn an_alternate_screen_that_was_left_open_is_shown() {
    check(&[
        ("before\n\x1b[?1049hFAILED\n", "before\nFAILED"),
        ("a\x1b[?1049h\x1b[2J\x1b[Hwork\x1b[?25l\x1b[2;1H50%\r60%", "a\nwork\n60%"),
        ("a\x1b[?1049hhidden\x1b[?1049lb\x1b[?47hc", "ab\nc"),
    ]);
    check_in(9, 2, &[("a\x1b[?1049hb\nc\nd\x1b[?1049le", "ae"), ("a\x1b[?1049hb\nc\nd", "a\nb\nc\nd")]);
}

/// What leaves the screen is kept in case that it stays open, up to a bound; beyond it the screen counts as left open.
#[test]
fn however_much_follows_an_open_alternate_screen_all_of_it_is_shown() {
    let follows: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    let program = format!("before\n\x1b[?1049h{}", follows.join("\n"));
    let (mut rendered, mut lines) = (Rendered::new(None), Vec::new());
    rendered.push(program.as_bytes(), |line| lines.push(line.text));
    assert!(lines.len() > 90_000, "memory is bounded: {} lines were handed on", lines.len());
    rendered.finish(|line| lines.push(line.text));
    assert!(lines[0] == "before" && lines[1..] == follows);
}

#[test]
fn rows_scroll_within_their_region_and_leave_at_the_top() {
    check_in(
        20,
        4,
        &[
            // As apt does it: the last row is kept for the bar.
            (
                "a\n\x1b7\x1b[1;3r\x1b8\x1b7\x1b[4;1Hbar 1\x1b8b\nc\nd\ne\x1b7\x1b[4;1Hbar 2\x1b8",
                "a\nb\nc\nd\ne\nbar 2",
            ),
            ("a\nb\nc\nd\x1b[2;3r\x1b[3;1H\n!", "a\nc\n!\nd"),
            ("a\nb\nc\nd\x1b[2S", "a\nb\nc\nd"),
            ("a\nb\nc\nd\x1b[2T", "\na\nb"),
            ("a\nb\nc\x1b[9;2rd", "a\nb\ncd"),
            ("a\nb\nc\x1b[3;900rd", "d\nb\nc"),
        ],
    );
}

#[test]
fn runs_of_the_same_line_are_one_with_a_count() {
    let lines = run(Rendered::new(None), &[b"a\n\n\n\nb\nb\nb\n\n"]);
    let seen: Vec<_> = lines.iter().map(|line| (line.text.as_str(), line.repeated)).collect();
    assert_eq!(seen, [("a", 1), ("", 3), ("b", 3)]);
    assert_eq!(shown(Rendered::new(None), b"a\n\n\n\nb\nb\nb\n\n"), "a\n\nb [3 times]");
    let mut many = Rendered::new(None);
    let mut lines = Vec::new();
    for _ in 0..100_000 {
        many.push(b"again\r\n", |line| lines.push(line));
    }
    many.finish(|line| lines.push(line));
    assert_eq!(lines, [RenderedLine { text: "again".into(), repeated: 100_000, cut_columns: 0 }]);
}

#[test]
fn a_line_is_visible_before_it_ends() {
    let mut rendered = Rendered::new(None);
    rendered.push(b"one\ntw", |_| panic!("both can still change"));
    let mut lines = Vec::new();
    rendered.clone().finish(|line| lines.push(line.text));
    rendered.push(b"o", |_| panic!("both can still change"));
    rendered.finish(|line| lines.push(line.text));
    assert_eq!(lines, ["one", "tw", "one", "two"]);
}

#[test]
fn a_huge_line_is_cut_and_counted() {
    for columns in [None, Some(100)] {
        let mut rendered = Rendered::new(columns);
        let mut lines = Vec::new();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..64 {
            rendered.push(&piece, |line| lines.push(line));
        }
        rendered.push(b"\nend", |line| lines.push(line));
        rendered.finish(|line| lines.push(line));
        let cut = (64 << 20) - MAX_COLUMNS as u64;
        assert_eq!((lines[0].text.len(), lines[0].cut_columns), (MAX_COLUMNS, cut));
        assert_eq!((lines[1].text.as_str(), lines.len()), ("end", 2));
    }
    let mut bar = vec![b'x'; MAX_COLUMNS + 10];
    bar.extend_from_slice(b"\rdone\x1b[K");
    assert_eq!(shown(Rendered::new(None), &bar), "done");
}

/// Sequences that cost a terminal the most for their length.
#[test]
fn hostile_programs_end_soon() {
    let wide = "漢".repeat(MAX_COLUMNS);
    for piece in [
        "\x1b[999999999B\x1b[999999999Cx",
        "\x1b[65535S",
        "\x1b[65535T\x1b[65535L\x1b[65535M",
        "x\x1b[65535b",
        "\x1b[65535@\x1b[65535P",
        "\x1b[H\x1b[@",
        "e\u{301}\u{301}\u{301}\u{301}\x08",
        "\x1b[2J\x1bc",
        "\x1b[65535;65535r\x1b[65535;65535H\n",
        "\t\x1b[65535I\x1b[65535Z",
        "\x1b[?1049h\n\x1b[?1049l",
    ] {
        for columns in [None, Some(100)] {
            let mut rendered = Rendered::new(columns);
            let program = piece.repeat(100_000 / piece.len());
            let mut length = 0;
            rendered.push(wide.as_bytes(), |_| {});
            rendered.push(program.as_bytes(), |line| length += line.text.len());
            rendered.finish(|line| length += line.text.len());
            assert!(length < 16 << 20, "{} leaves {length} bytes", piece.escape_debug());
        }
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..6),
        "[a-z\r\n\t\u{8} é漢\u{301}\u{202e}\u{9b}]{0,12}".prop_map(String::into_bytes),
        "\u{1b}\\[[0-9;]{0,4}[@A-MPSTXZ`a-hrsu]".prop_map(String::into_bytes),
        "\u{1b}\\[[0-9]{0,12}[@A-MPSTXZ`a-hrsu]".prop_map(String::into_bytes),
        "\u{1b}(7|8|c|D|E|M|\\(0|\\(B|\\[\\?(7|47|1048|1049)[hl]|\\[4[hl])".prop_map(String::into_bytes),
        "\u{1b}[\\[\\]P_( ]?[0-9;:?]{0,4}[a-zA-Z@`\\\\\u{7}]?".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_lines(
        bytes in bytes(),
        columns in prop::option::of(0usize..12),
        rows in 0usize..6,
        sizes in prop::collection::vec(1usize..9, 1..20),
    ) {
        let rendered = Rendered::new(columns).with_rows(rows);
        let (mut pieces, mut rest) = (Vec::new(), &bytes[..]);
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at(rest.len().min(*size));
            pieces.push(piece);
            rest = after;
        }
        let whole = run(rendered.clone(), &[&bytes]);
        for line in &whole {
            prop_assert!(line.repeated > 0);
            prop_assert!(!line.text.chars().any(|left| left.is_control() && left != '\t'), "{:?}", line);
        }
        prop_assert_eq!(whole, run(rendered, &pieces));
    }

    #[test]
    fn lines_of_text_stay_as_they_are(lines in prop::collection::vec("([ -~é漢字\t]{0,30}[!-~])?", 0..12)) {
        let text = lines.join("\n");
        let left = run(Rendered::new(None), &[text.as_bytes()]);
        let left: Vec<_> = left.iter().flat_map(|line| vec![line.text.as_str(); line.repeated as usize]).collect();
        prop_assert_eq!(left.join("\n"), text.trim_end_matches('\n'));
    }
}
