//! Recordings for other programs: asciicast, text, HTML.

mod streams;

use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;
use outlive_screen::Screen;
use outlive_screen::export::{Cast, CastHeader, Event, Transcript, html};
use proptest::prelude::*;
use streams::{Step, config, size, steps};

const START: Timestamp = Timestamp(1_760_000_000_250_000);

fn after(milliseconds: u64) -> Timestamp {
    Timestamp(START.0 + milliseconds * 1000)
}

fn transcript(columns: u16, rows: u16, output: &str) -> Transcript {
    let mut transcript = Transcript::new(TerminalSize::new(columns, rows));
    transcript.push(&Event::Output(output.as_bytes()));
    transcript
}

#[test]
fn a_cast_is_as_its_specification_says() {
    let mut out = String::new();
    let header = CastHeader {
        size: TerminalSize::new(80, 24),
        start: START,
        command: Some("sh -c \"x\""),
        title: None,
    };
    let mut cast = Cast::begin(&header, &mut out);
    for (time, event) in [
        (0, Event::Output(b"a\x1b[1m\xe6\xbc")),
        (1500, Event::Resize(TerminalSize::new(100, 30))),
        (1600, Event::Output(b"\xa2b\xff")),
        // A clock that was set back.
        (100, Event::Input(b"y\r")),
        (1601, Event::Marker("here")),
        (2601, Event::Output(b"\xe6")),
        (2602, Event::Exit(3)),
    ] {
        cast.push(after(time), &event, &mut out);
    }
    cast.finish(&mut out);
    let expected = concat!(
        r#"{"version":3,"term":{"cols":80,"rows":24,"type":"xterm-256color"},"timestamp":1760000000,"command":"sh -c \"x\""}"#,
        "\n[0.000000, \"o\", \"a\\u001b[1m\"]\n",
        "[1.500000, \"r\", \"100x30\"]\n",
        "[0.100000, \"o\", \"漢b\u{fffd}\"]\n",
        "[0.000000, \"i\", \"y\\r\"]\n",
        "[0.001000, \"m\", \"here\"]\n",
        "[0.000000, \"o\", \"\u{fffd}\"]\n",
        "[1.001000, \"x\", \"3\"]\n",
    );
    assert_eq!(out, expected);
}

#[test]
fn text_has_what_scrolled_away_and_whole_lines() {
    let output = "one\r\n0123456789ab\r\n\x1b[31mred  \x1b[0m\r\nfour";
    assert_eq!(transcript(10, 2, output).text(), "one\n0123456789ab\nred\nfour\n");
    let full_screen = transcript(10, 2, "$ vi\r\n\x1b[?1049h\x1b[Hfile");
    assert_eq!(full_screen.text(), "$ vi\nfile\n");
    let left = transcript(10, 2, "$ vi\r\n\x1b[?1049h\x1b[Hfile\x1b[?1049l$");
    assert_eq!(left.text(), "$ vi\n$\n");
}

#[test]
fn a_page_shows_colours_and_runs_nothing() {
    let output = "\x1b]0;<b>\x07a<script>\x1b[1;31mred\x1b[0;7minv\x1b[0;4:3mu\x1b[0m\x1b]8;;http://a/\"b\x07l\x1b]8;;javascript:x\x07m";
    let page = html(transcript(40, 2, output));
    for part in [
        "<title>&lt;b&gt;</title>",
        "a&lt;script&gt;<span style=\"color:#ff0000;font-weight:bold;\">red</span>",
        "<span style=\"color:#000000;background:#e5e5e5;\">inv</span>",
        "<span style=\"text-decoration:underline wavy;\">u</span>",
        "<a href=\"http://a/&quot;b\" rel=\"noreferrer\" style=\"\">l</a>m\n",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("javascript") && !page.contains("<script"));
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn any_output_has_a_transcript((columns, rows) in size(), steps in steps(3)) {
        let transcripts = [(); 2].map(|()| {
            let mut transcript = Transcript::new(TerminalSize::new(columns, rows));
            for step in &steps {
                transcript.push(&match step {
                    Step::Bytes(bytes) => Event::Output(bytes),
                    Step::Resize(columns, rows) => Event::Resize(TerminalSize::new(*columns, *rows)),
                });
            }
            transcript
        });
        let [text, page] = transcripts;
        prop_assert!(!text.text().contains('\x1b'));
        let page = html(page);
        prop_assert!(page.ends_with("</html>\n") && !page.contains('\x1b'));
    }

    #[test]
    fn what_a_cast_plays_is_the_screen(chunks in prop::collection::vec("[a-z漢é\u{301}\r\n\u{1b}\\[;0-9Hm]{0,9}", 0..20), cut in 1usize..4) {
        let output = chunks.concat();
        let (mut out, mut screen) = (String::new(), Screen::new(TerminalSize::new(20, 5)));
        let header = CastHeader { size: screen.size(), start: START, command: None, title: None };
        let mut cast = Cast::begin(&header, &mut out);
        output.as_bytes().chunks(cut).for_each(|bytes| cast.push(START, &Event::Output(bytes), &mut out));
        cast.finish(&mut out);
        for line in out.lines().skip(1) {
            let (_, _, text): (f64, String, String) = serde_json::from_str(line).unwrap();
            screen.feed(text.as_bytes());
        }
        let mut direct = Screen::new(TerminalSize::new(20, 5));
        direct.feed(output.as_bytes());
        prop_assert_eq!(screen.object(true), direct.object(true));
    }
}
