//! Which of many jobs are meant: for lists, and for what is done to several at once.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use outlive::{Job, LabelFilter, Labels, QueueName, State, Status};

/// Conditions that a job has to meet, all of them.
#[derive(Debug, Default, Args)]
pub(crate) struct Filters {
    /// Only jobs of this group
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,

    /// Only jobs that were put into this queue
    #[arg(long, value_name = "NAME", value_parser = QueueName::parse)]
    pub(crate) queue: Option<QueueName>,

    /// Only jobs with this label, of any value or of this one; may be given again
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) label: Vec<LabelFilter>,

    /// Only jobs with this status: queued, starting, running, completed, failed, killed, timed_out or lost; may be given again
    #[arg(long, value_name = "STATUS", value_parser = status(), hide_possible_values = true)]
    pub(crate) status: Vec<Status>,

    /// Only jobs that went wrong: failed, timed out or lost
    #[arg(long)]
    pub(crate) failed: bool,
}

impl Filters {
    /// Tells whether every job meets them.
    pub(crate) fn is_empty(&self) -> bool {
        self.group.is_none()
            && self.queue.is_none()
            && self.label.is_empty()
            && self.status.is_empty()
            && !self.failed
    }

    /// Returns them as they are written on a command line.
    pub(crate) fn written(&self) -> String {
        let mut text = String::new();
        let mut add = |option: &str, value: &str| text += &format!(" {option} {}", in_quotes(value));
        self.group.iter().for_each(|group| add("--group", group));
        self.queue.iter().for_each(|queue| add("--queue", queue.as_str()));
        self.label.iter().for_each(|label| add("--label", &label.to_string()));
        self.status.iter().for_each(|status| add("--status", status.word()));
        if self.failed {
            text += " --failed";
        }
        text
    }

    /// Tells whether a job meets all that can be told without looking at its state.
    pub(crate) fn fits(&self, job: &Job) -> bool {
        let none = Labels::new();
        let labels = job.spec().labels.as_ref().unwrap_or(&none);
        (self.group.is_none() || job.spec().options.group == self.group)
            && (self.queue.is_none() || job.spec().options.queue == self.queue)
            && self.label.iter().all(|filter| filter.matches(labels))
    }

    /// Tells whether the state of a job meets them.
    pub(crate) fn fits_state(&self, state: &State) -> bool {
        let went_wrong = matches!(state.status, Status::Failed | Status::TimedOut | Status::Lost);
        (self.status.is_empty() || self.status.contains(&state.status)) && (!self.failed || went_wrong)
    }
}

fn status() -> impl TypedValueParser<Value = Status> {
    PossibleValuesParser::new(Status::WORDS).try_map(|word| Status::parse(&word).ok_or("no such status"))
}

/// Writes a word so that a shell takes it as it is.
pub(super) fn in_quotes(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./:@,+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
