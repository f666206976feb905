//! Marks in what a verb prints: they are taken out, and say from where to go on after a connection broke off.

use memchr::memmem;

/// One of the two streams, as far as it was printed here.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The last mark.
    pub(super) place: Option<String>,
    /// How many bytes were printed after it: a verb that goes on from there prints them again.
    since: u64,
    /// So many bytes are passed over.
    repeated: u64,
    /// The beginning of what may be a mark.
    held: Vec<u8>,
}

/// So many bytes of the secret are not by chance in what a job prints.
const KNOWN: usize = 8;

/// What is before the secret.
const SIGN: &str = "\x1b]7717;";

/// Both streams.
#[derive(Debug)]
pub(super) struct Marks {
    pub(super) secret: String,
    begin: Vec<u8>,
    /// They stay in what is printed, for a caller that goes on from them.
    stay: bool,
    pub(super) streams: [Stream; 2],
}

impl Marks {
    pub(super) fn new(secret: &str) -> Self {
        let begin = format!("{SIGN}{secret};").into_bytes();
        Self { secret: secret.to_owned(), begin, stay: false, streams: Default::default() }
    }

    /// Those of a caller that has come to these places; they stay in what is printed.
    pub(super) fn kept(secret: &str, places: [Option<String>; 2]) -> Self {
        let streams = places.map(|place| Stream { place, ..Stream::default() });
        Self { stay: true, streams, ..Self::new(secret) }
    }

    /// The verb is called again, from the last marks on; what it printed after them comes again, if it `repeats`.
    pub(super) fn resume(&mut self, repeats: bool) {
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.held.clear();
            // Notes on standard error are not the same again; only where it is marked, what comes is known.
            let is_same = repeats && (number == 0 || stream.place.is_some());
            // A cut may come while what was printed before is still being passed over.
            stream.repeated = if is_same { stream.since + stream.repeated } else { 0 };
            stream.since = 0;
        }
    }

    /// Takes what came on a stream (0 or 1), and returns what is to be printed.
    pub(super) fn take(&mut self, stream: usize, bytes: &[u8]) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.streams[stream].held);
        rest.extend_from_slice(bytes);
        let mut printed = Vec::with_capacity(rest.len());
        while let Some(at) = memmem::find(&rest, &self.begin) {
            let Some(end) = memchr::memchr(0x07, &rest[at..]) else {
                self.streams[stream].held = rest.split_off(at);
                break;
            };
            self.streams[stream].print(&rest[..at], &mut printed);
            let mark = String::from_utf8_lossy(&rest[at + self.begin.len()..at + end]).into_owned();
            if let Some((number, place)) = mark.split_once(';') {
                let marked = &mut self.streams[usize::from(number == "2")];
                marked.place = Some(place.to_owned());
                marked.since = 0;
            }
            if self.stay {
                printed.extend_from_slice(&rest[at..=at + end]);
            }
            rest.drain(..=at + end);
        }
        if self.streams[stream].held.is_empty() {
            let held = partial(&rest, &self.begin);
            self.streams[stream].held = rest.split_off(rest.len() - held);
        }
        self.streams[stream].print(&rest, &mut printed);
        printed
    }

    /// Returns what was held back on a stream and is no mark: nothing more comes. Of a mark that a verb could not write to its end, its
    /// beginning is none of the output.
    pub(super) fn rest(&mut self, stream: usize) -> Vec<u8> {
        let held = std::mem::take(&mut self.streams[stream].held);
        if held.len() >= SIGN.len() + KNOWN { Vec::new() } else { held }
    }
}

impl Stream {
    /// Passes over what was printed before.
    fn print(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        self.since += bytes.len() as u64;
        let repeated = usize::try_from(self.repeated).unwrap_or(usize::MAX).min(bytes.len());
        self.repeated -= repeated as u64;
        to.extend_from_slice(&bytes[repeated..]);
    }
}

/// Returns how many bytes at the end may be the beginning of a mark.
fn partial(bytes: &[u8], begin: &[u8]) -> usize {
    let most = bytes.len().min(begin.len() - 1);
    (1..=most).rev().find(|&count| begin.starts_with(&bytes[bytes.len() - count..])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &[u8] = b"one\n\x1b]7717;s;1;job 4\x07two\n\x1b]7717;x;1;job 9\x07\x1b]7717;s;1;job 8\x07thr";

    #[test]
    fn marks_are_taken_out_however_the_bytes_are_cut() {
        for size in 1..SAID.len() {
            let mut marks = Marks::new("s");
            let mut printed: Vec<u8> = SAID.chunks(size).flat_map(|bytes| marks.take(0, bytes)).collect();
            printed.extend(marks.rest(0));
            assert_eq!(printed, b"one\ntwo\n\x1b]7717;x;1;job 9\x07thr", "another secret is no mark");
            assert_eq!(marks.streams[0].place.as_deref(), Some("job 8"));
            assert_eq!(marks.streams[0].since, 3);
        }
    }

    #[test]
    fn marks_of_a_caller_stay_where_they_are() {
        let mut marks = Marks::kept("s", [None, None]);
        let mut printed = marks.take(0, b"a\x1b]7717;s;1;job 1\x07bc");
        marks.resume(true);
        printed.extend(marks.take(0, b"bcd\x1b]7717;s;1;job 4\x07e"));
        assert_eq!(printed, b"a\x1b]7717;s;1;job 1\x07bcd\x1b]7717;s;1;job 4\x07e");
    }

    #[test]
    fn half_a_mark_is_not_printed() {
        let secret = "0123456789abcdef";
        let whole = format!("one\n\x1b]7717;{secret};1;job 4\x07");
        for end in 4..whole.len() {
            let mut marks = Marks::new(secret);
            let mut printed = marks.take(0, &whole.as_bytes()[..end]);
            printed.extend(marks.rest(0));
            // So few bytes may be the job's own.
            let own = if end - 4 < SIGN.len() + KNOWN { end } else { 4 };
            assert_eq!(printed, &whole.as_bytes()[..own], "{end}");
        }
    }

    #[test]
    fn what_came_after_the_last_mark_is_printed_once() {
        let mut marks = Marks::new("s");
        let mut printed = marks.take(0, b"a\x1b]7717;s;1;job 1\x07bc\x1b]77");
        marks.resume(true);
        printed.extend(marks.take(0, b"b"));
        printed.extend(marks.take(0, b"cd\x1b]7717;s;1;job 4\x07e"));
        marks.resume(true);
        printed.extend(marks.take(0, b"ef"));
        assert_eq!(printed, b"abcdef");
    }

    #[test]
    fn a_cut_may_come_while_what_was_printed_is_passed_over() {
        let mut marks = Marks::new("s");
        let mut printed = marks.take(0, b"abcdef");
        marks.resume(true);
        printed.extend(marks.take(0, b"ab"));
        marks.resume(true);
        printed.extend(marks.take(0, b"abc\x1b]7717;s;1;job 3\x07d"));
        marks.resume(true);
        printed.extend(marks.take(0, b"defgh"));
        assert_eq!(printed, b"abcdefgh");
    }

    #[test]
    fn a_stream_can_be_marked_from_the_other_where_both_are_one_terminal() {
        let mut marks = Marks::new("s");
        assert_eq!(marks.take(0, b"\x1b]7717;s;2;job 7\x07x"), b"x");
        assert_eq!(marks.streams[1].place.as_deref(), Some("job 7"));
        assert_eq!(marks.streams[0].place, None);
    }
}
