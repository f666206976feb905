//! Searches output for a line as it comes.

use std::io;
use std::time::{Duration, Instant};

use outlive_core::lines::{Assembler, Line};
use outlive_core::plain::Plain;

use crate::job::Job;
use crate::output::{Output, Piece};

/// How long a match in an unfinished line must last before it counts: the rest of the line may be on its way, but a prompt has
/// none.
const STEADY: Duration = Duration::from_millis(50);

/// Examines each line of a job once, and unfinished lines as they stand.
#[derive(Debug)]
pub(crate) struct Scanner {
    output: Output,
    offset: u64,
    assembler: Assembler,
    from_line: u64,
    /// Since when an unfinished line matches.
    open_since: Option<Instant>,
}

impl Scanner {
    /// Starts with a line, or with the first that is kept.
    pub(crate) fn new(job: &Job, from_line: Option<u64>) -> io::Result<Self> {
        let mut output = Output::open(job)?;
        let offset = from_line.map_or(output.start(), |line| output.offset_before_line(line));
        let assembler = output.assembler_at(offset)?;
        Ok(Self { output, offset, assembler, from_line: from_line.unwrap_or(0), open_since: None })
    }

    /// Returns the first line for which `judge` has a verdict. In the last look, an unfinished line counts as it is.
    pub(crate) fn look<T>(
        &mut self,
        now: Instant,
        is_last: bool,
        judge: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Option<(T, Line)>> {
        self.output.refresh()?;
        let from_line = self.from_line;
        let judge_line = |line: &Line| {
            if line.number < from_line { None } else { judge(&shown(line)) }
        };
        while let Some(piece) = self.output.next_piece(&mut self.offset, u64::MAX)? {
            let Piece::Output { stream, time, bytes, .. } = piece else {
                self.assembler = self.output.assembler_at(self.offset)?;
                continue;
            };
            let mut found = None;
            self.assembler.push(stream, time, &bytes, |line| {
                if found.is_none() {
                    found = judge_line(&line).map(|thought| (thought, line));
                }
            });
            if found.is_some() {
                return Ok(found);
            }
        }
        let unfinished = self.assembler.unfinished();
        let found = unfinished.into_iter().find_map(|line| judge_line(&line).map(|thought| (thought, line)));
        if found.is_none() {
            self.open_since = None;
            return Ok(None);
        }
        let since = *self.open_since.get_or_insert(now);
        Ok(found.filter(|_| is_last || now.saturating_duration_since(since) >= STEADY))
    }

    /// Returns when to look again without output.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.open_since.map(|since| since + STEADY)
    }
}

/// Returns a line as a terminal shows it. A progress bar has several states in one line, each on its own.
pub(crate) fn shown(line: &Line) -> std::borrow::Cow<'_, [u8]> {
    let is_plain = |&byte: &u8| byte == b'\t' || (b' '..0x7f).contains(&byte);
    if line.text.iter().all(is_plain) {
        return line.text.as_slice().into();
    }
    let mut text = Vec::with_capacity(line.text.len());
    let mut plain = Plain::new();
    plain.push(&line.text, &mut text);
    plain.finish(&mut text);
    text.into()
}
