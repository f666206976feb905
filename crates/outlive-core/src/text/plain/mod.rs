//! Output without control sequences: text that is safe to show anywhere and loses no words.
//!
//! What is left is valid UTF-8 with `\n` and `\t` for its only controls:
//! - Escape and control sequences, strings (titles, links, clipboard, images) and charset designations go, whole.
//! - `\r\n` is `\n`. A carriage return that is not part of one is a newline too if there is text before it on the line,
//!   so that the frames of a progress bar do not run together; at the very end it is nothing.
//! - Backspace, delete, NUL, bell and all other controls go, C1 controls too. Backspace takes nothing with it.
//! - Controls of writing direction and invisible tags go; joiners and combining marks stay.
//! - Bytes that are not UTF-8 become U+FFFD.
//!
//! A sequence that is never ended hides 64 KiB at most. How input is taken apart is decided in the `parser` module, which
//! [`crate::rendered`] uses as well. Nothing moves: text that was placed with cursor movements comes in the order in
//! which it was written, and text on the alternate screen comes too.

pub(crate) mod parser;

use parser::{Parser, Sink};

/// Removes control sequences from a stream, in constant memory.
#[derive(Debug, Clone, Default)]
pub struct Plain {
    parser: Parser,
    line: Line,
}

/// Where the output stands.
#[derive(Debug, Clone, Default)]
struct Line {
    has_text: bool,
    /// A carriage return after text has come, and nothing that shows since.
    is_returned: bool,
}

impl Plain {
    /// Begins at the beginning of a line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and appends what is left of them, always whole characters.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.parser.push(bytes, &mut Stripper { line: &mut self.line, out });
    }

    /// Ends the stream, appends U+FFFD if it ends within a character, and begins anew.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.parser.finish(&mut Stripper { line: &mut self.line, out });
        self.line = Line::default();
    }
}

struct Stripper<'a> {
    line: &'a mut Line,
    out: &'a mut Vec<u8>,
}

impl Stripper<'_> {
    fn before_text(&mut self) {
        if std::mem::take(&mut self.line.is_returned) {
            self.out.push(b'\n');
        }
        self.line.has_text = true;
    }
}

impl Sink for Stripper<'_> {
    fn text(&mut self, ascii: &[u8]) {
        self.before_text();
        self.out.extend_from_slice(ascii);
    }

    fn character(&mut self, character: char) {
        self.before_text();
        self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn control(&mut self, control: u8) {
        match control {
            b'\n' => {
                *self.line = Line::default();
                self.out.push(b'\n');
            }
            b'\t' => self.text(b"\t"),
            b'\r' => self.line.is_returned = self.line.has_text,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parser::MAX_SEQUENCE;
    use super::*;
    use proptest::prelude::*;

    fn plain(bytes: &[u8]) -> String {
        let (mut plain, mut out) = (Plain::new(), Vec::new());
        plain.push(bytes, &mut out);
        plain.finish(&mut out);
        String::from_utf8(out).expect("plain text is UTF-8")
    }

    #[test]
    fn sequences_go_whole() {
        for (bytes, left) in [
            (&b"\x1b[31mred\x1b[0m \x1b[38:2::1:2:3mtrue\x1b[m"[..], "red true"),
            (b"\x1b[?25lhidden cursor\x1b[?25h", "hidden cursor"),
            (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
            (b"a\x1bP1$r0m\x1b\\b\x1b_apc\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x07not the end\x1b\\e", "abcde"),
            (b"\x1b(0lqk\x1b(B\x1b7\x1b8\x1b=\x1b#8\x1bcx", "lqkx"),
            (b"a\x1b[2 qb\x1b[!pc\x1b[1;2;3;4 @d", "abcd"),
            (b"a\x1b[1\x1b[2mb\x1b\x1b[mc", "abc"),
            (b"a\x1b]0;cut\x18b\x1b]0;cut\x1ac\x1b[3\x18d", "abcd"),
            (b"a\x00b\x07c\x08d\x7fe\x0e\x0ff\x0bg\x0ch", "abcdefgh"),
        ] {
            assert_eq!(plain(bytes), left, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn frames_never_run_together() {
        for (bytes, left) in [
            (&b"one\r\ntwo\r\r\nthree\n"[..], "one\ntwo\nthree\n"),
            (b"10%\r20%\r30%\n", "10%\n20%\n30%\n"),
            (b"\r10%\r\x1b[K20%\x1b[K\r", "10%\n20%"),
            (b"\r\rdone\r\x1b[K\n\r\n", "done\n\n"),
            (b"a\r\tb", "a\n\tb"),
        ] {
            assert_eq!(plain(bytes), left, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn c1_controls_go_and_begin_nothing() {
        assert_eq!(plain(b"a\x9b31mb\x9d0;title\x9cc"), "a31mb0;titlec");
        assert_eq!(plain("a\u{9b}31mb\u{85}c\u{9d}d".as_bytes()), "a31mbcd");
    }

    #[test]
    fn what_reorders_or_hides_goes_and_what_joins_stays() {
        let text = "a\u{202e}b\u{2066}c\u{2069}\u{200f}\u{61c}d\u{e0041}\u{e007f}e";
        assert_eq!(plain(text.as_bytes()), "abcde");
        for kept in ["👩\u{200d}🔬", "e\u{301}", "\u{feff}x", "日本語"] {
            assert_eq!(plain(kept.as_bytes()), kept);
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_show() {
        assert_eq!(plain(b"caf\xe9 \xff\xfe\xa4"), "caf\u{fffd} \u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(plain(b"\xe2\x82\x1b[mx \xf0\x9f\x98"), "\u{fffd}x \u{fffd}");
        assert_eq!(plain(b"\x1b\xc3\xa9\x1b[3\xc3\xa9"), "éé");
    }

    #[test]
    fn a_sequence_without_end_hides_little() {
        for start in [&b"\x1b]0;"[..], b"\x1bP", b"\x1b_", b"\x1b[", b"\x1b "] {
            let fill = if start.ends_with(b" ") { b' ' } else { b';' };
            let mut bytes = start.to_vec();
            bytes.resize(64 << 20, fill);
            bytes.extend_from_slice(b"\nthe end");
            let (mut plain, mut out, mut length) = (Plain::new(), Vec::new(), 0);
            for chunk in bytes.chunks(1 << 20) {
                out.clear();
                plain.push(chunk, &mut out);
                length += out.len();
            }
            assert!(out.ends_with(b"\nthe end"));
            assert_eq!(length, bytes.len() - MAX_SEQUENCE, "{}", start.escape_ascii());
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..6),
            "[a-z\r\n\t é漢\u{301}\u{202e}\u{9b}]{0,6}".prop_map(String::into_bytes),
            "\u{1b}[\\[\\]P_( ]?[0-9;:?]{0,4}[a-zA-Z@`\\\\\u{7}]?".prop_map(String::into_bytes),
        ];
        prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_text(bytes in bytes(), sizes in prop::collection::vec(1usize..9, 1..20)) {
            let (mut split, mut out, mut rest) = (Plain::new(), Vec::new(), &bytes[..]);
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (part, after) = rest.split_at(rest.len().min(*size));
                split.push(part, &mut out);
                prop_assert!(std::str::from_utf8(&out).is_ok());
                rest = after;
            }
            split.finish(&mut out);
            prop_assert_eq!(String::from_utf8(out).expect("plain text is UTF-8"), plain(&bytes));
        }

        #[test]
        fn nothing_is_left_that_drives_a_terminal(bytes in bytes()) {
            let text = plain(&bytes);
            prop_assert!(!text.chars().any(|left| left.is_control() && left != '\n' && left != '\t'), "{:?}", text);
        }

        #[test]
        fn plain_text_stays_as_it_is(text in "[ -~\n\té漢字\u{301}]{0,60}") {
            prop_assert_eq!(plain(text.as_bytes()), text);
        }
    }
}
