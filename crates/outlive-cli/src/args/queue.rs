//! Queues.

use clap::Subcommand;
use outlive::QueueName;

/// List queues, pause and resume them, and say how many of their jobs run at once
///
/// `outlive run --queue NAME` puts a job into a queue: it is `queued` until it is its turn, and jobs are started in the order in which
/// they were put there. A queue belongs to the store: jobs of all sessions and projects that name it share it.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
outlive queue parallel build 2          # two at a time; without this one\n  \
outlive run --queue build make test\n  \
outlive queue pause build               # what runs goes on, nothing more is started")]
pub(crate) enum Queue {
    /// List queues with the jobs that run and wait in them
    List,
    /// Start no more jobs of a queue; those that run go on
    Pause {
        /// The queues
        #[arg(value_name = "QUEUE", required = true, value_parser = QueueName::parse)]
        queues: Vec<QueueName>,
    },
    /// Start jobs of a paused queue again
    Resume {
        /// The queues
        #[arg(value_name = "QUEUE", required = true, value_parser = QueueName::parse)]
        queues: Vec<QueueName>,
    },
    /// Say how many jobs of a queue run at once
    ///
    /// Of more jobs that run already none is ended. `[queue.NAME] parallel` of config.toml or outlive.toml says the same for good, and
    /// counts again when it is changed there.
    Parallel {
        /// The queue
        #[arg(value_name = "QUEUE", value_parser = QueueName::parse)]
        queue: QueueName,

        /// How many, from 1 to 500
        #[arg(value_name = "COUNT")]
        count: u64,
    },
}
