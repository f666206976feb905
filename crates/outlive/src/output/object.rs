//! The documented JSON object of a line of output, for scripts and other programs.

use outlive_core::id::JobId;
use outlive_core::index::Stream;
use outlive_core::lines::Line;
use serde::Serialize;

/// A line as scripts see it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LineObject<'a> {
    /// The job, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub job: Option<&'a JobId>,
    /// Its number, from 1, never shifting.
    pub line: u64,
    /// `stdout` or `stderr`; none where that is not known.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub stream: Option<Stream>,
    /// When its end was read.
    pub time: Option<String>,
    /// Its text; bytes that are no UTF-8 are replaced.
    pub text: std::borrow::Cow<'a, str>,
    /// How often it stands there in a row, where that is more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u32>,
    /// What the line has beyond what is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_bytes: Option<u64>,
    /// False for the end of the log where no newline has come yet.
    pub ended: bool,
}

impl<'a> LineObject<'a> {
    /// Describes a line, with the job where there are several.
    pub fn new(job: Option<&'a JobId>, line: &'a Line) -> Self {
        Self {
            job,
            line: line.number,
            stream: line.stream,
            time: line.time.map(|time| time.to_string()),
            text: String::from_utf8_lossy(&line.text),
            repeated: Some(line.repeated).filter(|&times| times != 1),
            cut_bytes: Some(line.cut_bytes).filter(|&bytes| bytes > 0),
            ended: line.is_ended,
        }
    }
}
