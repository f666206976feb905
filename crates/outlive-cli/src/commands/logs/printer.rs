//! Printing what a reading hands on: for people or as JSON lines.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Write};

use outlive::duration::format_size;
use outlive::{Form, JobId, Line, Loss, Piece, Plain, Stream, ViewItem};
use serde::Serialize;
use serde_json::json;

use crate::render::{give_up, note};

/// A line as scripts see it.
#[derive(Serialize)]
struct LineObject<'a> {
    line: u64,
    stream: Option<Stream>,
    time: Option<String>,
    text: &'a str,
    /// How often it stands there in a row, where that is more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<u32>,
    /// What the line has beyond what is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_bytes: Option<u64>,
    /// False for the end of the log where no newline has come yet.
    ended: bool,
}

#[derive(Serialize)]
struct Omitted<'a> {
    from_line: u64,
    to_line: u64,
    lines: u64,
    bytes: u64,
    rescued: Vec<LineObject<'a>>,
}

/// Prints lines or bytes.
pub(super) struct Printer {
    is_json: bool,
    has_times: bool,
    job: JobId,
    form: Form,
    /// The options by which what is left out can be asked for.
    pub(super) options: String,
    /// Says what was left out to fit.
    pub(super) tells_omitted: bool,
    out: BufWriter<io::Stdout>,
    plain: [Plain; 3],
    ends_in_newline: bool,
}

impl Printer {
    pub(super) fn new(is_json: bool, has_times: bool, job: &JobId, form: Form) -> Self {
        Self {
            is_json,
            has_times,
            job: job.clone(),
            form,
            options: String::new(),
            tells_omitted: false,
            out: BufWriter::with_capacity(64 << 10, io::stdout()),
            plain: Default::default(),
            ends_in_newline: true,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.out.write_all(bytes) {
            give_up(&error);
        }
    }

    fn json(&mut self, value: &impl Serialize) {
        let mut json = serde_json::to_vec(value).unwrap_or_default();
        json.push(b'\n');
        self.write(&json);
    }

    pub(super) fn flush(&mut self) {
        if let Err(error) = self.out.flush() {
            give_up(&error);
        }
    }

    /// Passes bytes on as they come.
    pub(super) fn piece(&mut self, piece: &Piece, wanted: Option<Stream>) {
        match piece {
            Piece::Gone { from, to } => self.gone(*from, *to),
            Piece::Output { stream, bytes, lost_before, .. } => {
                lost_before.inspect(|loss| self.lost(loss));
                if wanted.is_some() && *stream != wanted {
                    return;
                }
                if self.form == Form::Raw {
                    self.write(bytes);
                    self.ends_in_newline = bytes.ends_with(b"\n");
                } else {
                    let mut text = Vec::new();
                    self.plain[stream.map_or(2, Stream::index)].push(bytes, &mut text);
                    self.write(&text);
                    self.ends_in_newline = text.ends_with(b"\n");
                }
            }
        }
    }

    pub(super) fn item(&mut self, item: &ViewItem) {
        match item {
            ViewItem::Line(line) => self.line(line),
            ViewItem::Break if self.is_json => {}
            ViewItem::Break => self.write(b"--\n"),
            ViewItem::Gone { from, to } => self.gone(*from, *to),
            ViewItem::Omitted(omitted) if self.tells_omitted => self.omitted(omitted),
            ViewItem::Omitted(_) => {}
        }
    }

    pub(super) fn line(&mut self, line: &Line) {
        if self.is_json && line.lost_bytes > 0 {
            return self.lost(&Loss { bytes: line.lost_bytes, time: line.time });
        }
        if self.is_json {
            let text = String::from_utf8_lossy(&line.text);
            return self.json(&object(line, &text));
        }
        if self.has_times {
            let time = line.time.map_or_else(|| "-".to_owned(), |time| time.to_string());
            self.write(format!("{time} ").as_bytes());
        }
        self.write(&line.text);
        if line.cut_bytes > 0 {
            self.write(format!(" [{} more]", line.cut_bytes).as_bytes());
        }
        if line.repeated > 1 && !line.text.is_empty() {
            self.write(format!(" [{} times]", line.repeated).as_bytes());
        }
        if line.is_ended {
            self.write(b"\n");
        }
        self.ends_in_newline = line.is_ended;
    }

    fn omitted(&mut self, omitted: &outlive::Omitted<Line>) {
        let outlive::Omitted { lines, bytes, first, last, rescued, .. } = omitted;
        let (from_line, to_line, lines, bytes) = (first.number, last.number, *lines, *bytes);
        if self.is_json {
            let texts: Vec<_> = rescued.iter().map(|line| String::from_utf8_lossy(&line.text)).collect();
            let rescued = rescued.iter().zip(&texts).map(|(line, text)| object(line, text)).collect();
            let omitted = Omitted { from_line, to_line, lines, bytes, rescued };
            return self.json(&BTreeMap::from([("omitted", omitted)]));
        }
        let how = match self.form {
            Form::Rendered => String::new(),
            _ => format!("; outlive logs {}{} --from-line {from_line} -n {lines}", self.job, self.options),
        };
        self.write(format!("[{lines} lines, {}, left out{how}]\n", format_size(bytes)).as_bytes());
        if !rescued.is_empty() {
            self.write(b"[errors among them:]\n");
            for line in rescued {
                self.write(format!("{}: ", line.number).as_bytes());
                self.line(&Line { is_ended: true, ..line.clone() });
            }
            self.write(b"[end of errors]\n");
        }
    }

    pub(super) fn gone(&mut self, from: u64, to: u64) {
        if self.is_json {
            return self.json(&json!({ "gap": { "from": from, "to": to } }));
        }
        note(&format!("outlive: bytes {from} to {to} are no longer kept"));
    }

    pub(super) fn lost(&mut self, loss: &Loss) {
        if self.is_json {
            let time = loss.time.map(|time| time.to_string());
            return self.json(&json!({ "lost_bytes": loss.bytes, "time": time }));
        }
        if self.form != Form::Raw && !self.ends_in_newline {
            self.write(b"\n");
            self.ends_in_newline = true;
        }
        self.flush();
        note(&format!("outlive: {loss}, here"));
    }

    /// Prints what is left, and a newline where the prompt of a terminal would follow an unfinished line.
    pub(super) fn finish(&mut self) {
        let mut text = Vec::new();
        for plain in &mut self.plain {
            plain.finish(&mut text);
        }
        self.write(&text);
        if !self.ends_in_newline && io::stdout().is_terminal() {
            self.write(b"\n");
        }
        self.flush();
    }
}

fn object<'a>(line: &Line, text: &'a str) -> LineObject<'a> {
    LineObject {
        line: line.number,
        stream: line.stream,
        time: line.time.map(|time| time.to_string()),
        text,
        repeated: Some(line.repeated).filter(|&times| times != 1),
        cut_bytes: Some(line.cut_bytes).filter(|&bytes| bytes > 0),
        ended: line.is_ended,
    }
}
