//! asciicast, version 3: a header and a line of JSON for each event, with the seconds since the event before.

use std::fmt::Write as _;

use outlive_core::timestamp::Timestamp;
use serde::Serialize;

use super::Event;
use outlive_core::terminal::size::TerminalSize;

/// What a recording says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CastHeader<'a> {
    /// The size at the beginning.
    pub size: TerminalSize,
    /// When it began.
    pub start: Timestamp,
    /// What was run.
    pub command: Option<&'a str>,
    /// Its title.
    pub title: Option<&'a str>,
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    version: u8,
    term: Terminal,
    /// Seconds since 1970.
    timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
}

#[derive(Serialize)]
struct Terminal {
    cols: u16,
    rows: u16,
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Writes a recording.
#[derive(Debug)]
pub struct Cast {
    /// The time of the last event.
    last: Timestamp,
    /// The beginnings of characters, of output and of input.
    partial: [Vec<u8>; 2],
}

impl Cast {
    /// Appends the header.
    pub fn begin(header: &CastHeader<'_>, out: &mut String) -> Self {
        let CastHeader { size, start, command, title } = *header;
        let term = Terminal { cols: size.columns(), rows: size.rows(), kind: "xterm-256color" };
        let line = HeaderLine { version: 3, term, timestamp: start.0 / 1_000_000, command, title };
        out.push_str(&serde_json::to_string(&line).expect("text and numbers are JSON"));
        out.push('\n');
        Self { last: start, partial: Default::default() }
    }

    /// Appends an event. A time before that of the last event counts as the same.
    pub fn push(&mut self, time: Timestamp, event: &Event<'_>, out: &mut String) {
        match *event {
            Event::Output(bytes) => self.text(0, time, bytes, out),
            Event::Input(bytes) => self.text(1, time, bytes, out),
            Event::Resize(size) => self.line(time, 'r', &size.to_string(), out),
            Event::Marker(label) => self.line(time, 'm', label, out),
            Event::Exit(status) => {
                self.finish(out);
                self.line(time, 'x', &status.to_string(), out);
            }
        }
    }

    /// Appends what is left of characters that were cut short.
    pub fn finish(&mut self, out: &mut String) {
        for stream in 0..self.partial.len() {
            let partial = std::mem::take(&mut self.partial[stream]);
            if !partial.is_empty() {
                self.line(self.last, ['o', 'i'][stream], &String::from_utf8_lossy(&partial), out);
            }
        }
    }

    /// Appends text; a character that is not whole waits for its end.
    fn text(&mut self, stream: usize, time: Timestamp, bytes: &[u8], out: &mut String) {
        let mut pending = std::mem::take(&mut self.partial[stream]);
        pending.extend_from_slice(bytes);
        let last = pending.utf8_chunks().last();
        let unfinished = last.map_or(0, |chunk| {
            let is_beginning = std::str::from_utf8(chunk.invalid()).is_err_and(|e| e.error_len().is_none());
            if is_beginning { chunk.invalid().len() } else { 0 }
        });
        self.partial[stream] = pending.split_off(pending.len() - unfinished);
        if !pending.is_empty() {
            self.line(time, ['o', 'i'][stream], &String::from_utf8_lossy(&pending), out);
        }
    }

    fn line(&mut self, time: Timestamp, code: char, data: &str, out: &mut String) {
        let time = Timestamp(time.0.max(self.last.0));
        let interval = time.0 - self.last.0;
        self.last = time;
        let data = serde_json::to_string(data).expect("text is JSON");
        let (seconds, microseconds) = (interval / 1_000_000, interval % 1_000_000);
        writeln!(out, "[{seconds}.{microseconds:06}, \"{code}\", {data}]")
            .expect("text takes all that is written");
    }
}
