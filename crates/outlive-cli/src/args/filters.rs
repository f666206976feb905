//! Which of many jobs are meant: for lists, and for what is done to several at once.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use outlive::{Job, LabelFilter, Labels, State, Status};

/// Conditions that a job has to meet, all of them.
#[derive(Debug, Default, Args)]
pub(crate) struct Filters {
    /// Only jobs of this group
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,

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
        self.group.is_none() && self.label.is_empty() && self.status.is_empty() && !self.failed
    }

    /// Tells whether a job meets all that can be told without looking at its state.
    pub(crate) fn fits(&self, job: &Job) -> bool {
        let none = Labels::new();
        let labels = job.spec().labels.as_ref().unwrap_or(&none);
        (self.group.is_none() || job.spec().options.group == self.group)
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
