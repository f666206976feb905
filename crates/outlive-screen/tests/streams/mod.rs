//! Random terminal output: text of all widths, every sequence that the emulator knows, with odd parameters, and junk.
#![allow(dead_code, reason = "each test uses a part of it")]

use outlive_core::terminal::size::TerminalSize;
use outlive_screen::Screen;
use proptest::prelude::*;

/// What happens to a screen.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Bytes(Vec<u8>),
    Resize(u16, u16),
}

pub(crate) fn apply(screen: &mut Screen, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Bytes(bytes) => screen.feed(bytes),
            Step::Resize(columns, rows) => screen.resize(TerminalSize::new(*columns, *rows)),
        }
    }
}

/// So many cases, or as many as `PROPTEST_CASES` says.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(cases), failure_persistence: None, ..ProptestConfig::default() }
}

fn parameter() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0u16..12).prop_map(|number| number.to_string()),
        1 => any::<u16>().prop_map(|number| number.to_string()),
        1 => Just(String::new()),
    ]
}

fn control_sequence() -> impl Strategy<Value = String> {
    let last = prop::sample::select("@ABCDEFGHIJKLMPSTXZ`abdefgnprstu".chars().collect::<Vec<_>>());
    (prop::collection::vec(parameter(), 0..3), last)
        .prop_map(|(parameters, last)| format!("\x1b[{}{last}", parameters.join(";")))
}

fn mode() -> impl Strategy<Value = String> {
    let modes = vec![
        1, 3, 5, 6, 7, 9, 12, 25, 47, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1042, 1047,
        1048, 1049, 1049, 1049, 2004, 2026,
    ];
    let private = (prop::sample::select(modes), any::<bool>())
        .prop_map(|(mode, is_on)| format!("\x1b[?{mode}{}", if is_on { 'h' } else { 'l' }));
    let plain = prop::sample::select(vec!["\x1b[4h", "\x1b[4l", "\x1b[20h", "\x1b[20l"]);
    prop_oneof![8 => private, 1 => plain.prop_map(str::to_owned)]
}

fn style() -> impl Strategy<Value = String> {
    let styles = vec![
        "0",
        "",
        "1",
        "2",
        "3",
        "4",
        "4:3",
        "21",
        "7",
        "8",
        "9",
        "22",
        "24",
        "27",
        "31",
        "44",
        "97",
        "103",
        "39",
        "49",
        "38;5;123",
        "48;5;3",
        "38;2;1;2;3",
        "48:2::9:8:7",
        "58:5:9",
        "58:2::1:2:3",
        "59",
    ];
    prop::collection::vec(prop::sample::select(styles), 1..3)
        .prop_map(|styles| format!("\x1b[{}m", styles.join(";")))
}

fn other() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "\x1b7",
        "\x1b8",
        "\x1bD",
        "\x1bE",
        "\x1bM",
        "\x1bH",
        "\x1bc",
        "\x1b=",
        "\x1b>",
        "\x1b(0",
        "\x1b(B",
        "\x1b)0",
        "\x1b#8",
        "\x0e",
        "\x0f",
        "\x1b[!p",
        "\x1b[3 q",
        "\x1b[5 q",
        "\x1b[0 q",
        "\x1b[>1u",
        "\x1b[<1u",
        "\x1b[=5;2u",
        "\x1b[22;0t",
        "\x1b[23;0t",
        "\x1b]0;title\x07",
        "\x1b]2;\x1b\\",
        "\x1b]7;file://h/a%20b\x07",
        "\x1b]8;;http://a\x1b\\",
        "\x1b]8;id=x;http://b\x07",
        "\x1b]8;;\x07",
        "\x1b]133;A\x07",
        "\x1b]133;D;1\x07",
        "\x1bP1$r\x1b\\",
        "\x1b_Gx\x1b\\",
        "\x1b[6",
        "\x1b",
        "\x1b]0;cut",
        "\x1b[200b",
        "\x1b[3;4b",
    ])
    .prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-z ]{1,12}",
        2 => prop::collection::vec(prop::sample::select("é漢字🎉e\u{301}\u{200d}\u{fe0f}👩👧ｶ".chars().collect::<Vec<_>>()), 1..6)
            .prop_map(String::from_iter),
        3 => prop::sample::select(vec!["\r\n", "\n", "\r", "\t", "\x08", "\x0b", "\x07"]).prop_map(str::to_owned),
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => text().prop_map(String::into_bytes),
        6 => control_sequence().prop_map(String::into_bytes),
        2 => mode().prop_map(String::into_bytes),
        2 => style().prop_map(String::into_bytes),
        2 => other().prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..6),
    ]
}

pub(crate) fn size() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![8 => (2u16..24, 1u16..10), 1 => (any::<u16>().prop_map(|columns| columns % 200), 0u16..60)]
}

pub(crate) fn steps(resizes: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => bytes().prop_map(Step::Bytes),
        resizes => size().prop_map(|(columns, rows)| Step::Resize(columns, rows)),
    ];
    prop::collection::vec(step, 0..120)
}
