//! Printing what a reading hands on: for people or as JSON lines.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Write};

use outlive::duration::format_size;
use outlive::{Display, Form, JobId, Line, LineObject, Loss, Piece, Plain, Stream, ViewItem};
use serde::Serialize;
use serde_json::json;

use super::live::LiveLine;
use crate::local_time;
use crate::render::{counted, give_up, note};

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
    /// What stands before each line, where there are several jobs.
    prefix: Option<String>,
    out: BufWriter<Box<dyn Write>>,
    plain: [Plain; 3],
    display: Display,
    /// The unfinished line, where standard output is a terminal.
    live: Option<LiveLine>,
    ends_in_newline: bool,
}

impl Printer {
    /// Prints to `out`, which is a terminal if there is a live line.
    pub(super) fn new(
        is_json: bool,
        has_times: bool,
        job: &JobId,
        form: Form,
        (out, live): (Box<dyn Write>, Option<LiveLine>),
    ) -> Self {
        let has_colour = matches!(form, Form::Display { has_colour: true });
        Self {
            is_json,
            has_times,
            job: job.clone(),
            form,
            options: String::new(),
            tells_omitted: false,
            prefix: None,
            out: BufWriter::with_capacity(64 << 10, out),
            plain: Default::default(),
            display: Display::new(has_colour),
            live,
            ends_in_newline: true,
        }
    }

    /// Goes on with lines of this job, with this before each of them.
    pub(super) fn go_on_with(&mut self, job: &JobId, prefix: &str) {
        self.job = job.clone();
        self.prefix = Some(prefix.to_owned());
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
                match self.form {
                    Form::Raw => {
                        self.write(bytes);
                        self.ends_in_newline = bytes.ends_with(b"\n");
                    }
                    Form::Display { .. } => self.display(*stream, bytes),
                    Form::Plain | Form::Rendered => {
                        let mut text = Vec::new();
                        self.plain[stream.map_or(2, Stream::index)].push(bytes, &mut text);
                        self.write(&text);
                        self.ends_in_newline = text.ends_with(b"\n");
                    }
                }
            }
        }
    }

    /// Shows bytes as a terminal would: on one, what is unfinished, too.
    fn display(&mut self, stream: Option<Stream>, bytes: &[u8]) {
        let mut ended = String::new();
        self.display.push(stream, bytes, &mut ended);
        let unfinished = self.display.unfinished();
        self.ends_in_newline = unfinished.is_empty();
        let text = match &mut self.live {
            Some(live) => live.update(&ended, &unfinished),
            None => ended,
        };
        self.write(text.as_bytes());
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
            let job = self.prefix.is_some().then(|| self.job.clone());
            return self.json(&LineObject::new(job.as_ref(), line));
        }
        let (is_displayed, has_more) =
            (matches!(self.form, Form::Display { .. }), self.prefix.is_some() || self.has_times);
        if is_displayed && !line.is_ended && !has_more {
            // It goes on where it stands.
            return self.display(line.stream, &line.text);
        }
        if let Some(prefix) = self.prefix.clone() {
            self.write(prefix.as_bytes());
        }
        if self.has_times {
            let time = line.time.map_or_else(|| "-".to_owned(), local_time::shown_exactly);
            self.write(format!("{time} ").as_bytes());
        }
        self.write(line.text.strip_suffix(b"\r").filter(|_| is_displayed).unwrap_or(&line.text));
        if line.cut_bytes > 0 {
            self.write(format!(" [{} more]", line.cut_bytes).as_bytes());
        }
        if line.repeated > 1 && !line.text.is_empty() {
            self.write(format!(" [{} times]", line.repeated).as_bytes());
        }
        // The next line is that of another job, perhaps.
        let is_ended = line.is_ended || self.prefix.is_some();
        if is_ended {
            self.write(b"\n");
        }
        self.ends_in_newline = is_ended;
    }

    fn omitted(&mut self, omitted: &outlive::Omitted<Line>) {
        let outlive::Omitted { lines, bytes, first, last, rescued, .. } = omitted;
        let (from_line, to_line, lines, bytes) = (first.number, last.number, *lines, *bytes);
        if self.is_json {
            let rescued = rescued.iter().map(|line| LineObject::new(None, line)).collect();
            let omitted = Omitted { from_line, to_line, lines, bytes, rescued };
            return self.json(&BTreeMap::from([("omitted", omitted)]));
        }
        let how = match self.form {
            Form::Rendered => String::new(),
            _ => format!("; outlive logs {}{} --from-line {from_line} -n {lines}", self.job, self.options),
        };
        let count = counted(lines, "line", "lines");
        self.write(format!("[{count}, {}, left out{how}]\n", format_size(bytes)).as_bytes());
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
        match self.form {
            Form::Raw => {}
            Form::Display { .. } if !self.ends_in_newline => self.display(None, b"\n"),
            _ if !self.ends_in_newline => self.write(b"\n"),
            _ => {}
        }
        self.ends_in_newline = true;
        self.flush();
        note(&format!("outlive: {loss}, here"));
    }

    /// Prints what is left, and a newline where the prompt of a terminal would follow an unfinished line.
    pub(super) fn finish(&mut self) {
        let mut text = Vec::new();
        for plain in &mut self.plain {
            plain.finish(&mut text);
        }
        if self.live.is_none() {
            text.extend_from_slice(self.display.unfinished().trim_end_matches('\r').as_bytes());
            self.display.clear();
        }
        self.write(&text);
        if !self.ends_in_newline && io::stdout().is_terminal() {
            self.write(b"\n");
        }
        self.flush();
    }
}
