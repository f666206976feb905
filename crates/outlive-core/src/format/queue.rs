//! How a queue is set: the file `settings` in its directory.
//!
//! Lines `name=value`, which a keeper reads without a parser of JSON. Lines of a later version are kept when the file is written again.

use std::fmt::Write;

/// The most jobs of a queue that may run at once: the job that is next in the order has a descriptor open for each.
pub const MOST_PARALLEL: u32 = 500;

/// How a queue is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// How many of its jobs run at once.
    pub parallel: u32,
    /// No more of its jobs are started.
    pub is_paused: bool,
    /// What the configuration said of `parallel` when it was last applied: it is applied again when it says something else.
    pub configured: Option<u32>,
    /// Lines of a later version.
    pub newer: Vec<String>,
}

impl Default for QueueSettings {
    /// One job at a time: a queue that was not set keeps jobs from disturbing each other.
    fn default() -> Self {
        Self { parallel: 1, is_paused: false, configured: None, newer: Vec::new() }
    }
}

impl QueueSettings {
    /// Reads the file. What is not understood of it is as if it were not set.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut settings = Self::default();
        let count = |value: &str| value.parse().ok().filter(|count| (1..=MOST_PARALLEL).contains(count));
        for line in String::from_utf8_lossy(bytes).lines() {
            match line.split_once('=') {
                Some(("format", _)) => {}
                Some(("parallel", value)) => settings.parallel = count(value).unwrap_or(settings.parallel),
                Some(("configured", value)) => settings.configured = count(value),
                Some(("paused", value)) => settings.is_paused = value == "true",
                _ => settings.newer.push(line.to_owned()),
            }
        }
        settings
    }

    /// Returns the contents of the file.
    pub fn to_text(&self) -> String {
        let mut text =
            format!("format={}\nparallel={}\npaused={}\n", crate::FORMAT, self.parallel, self.is_paused);
        if let Some(configured) = self.configured {
            writeln!(text, "configured={configured}").expect("writing to a string cannot fail");
        }
        for line in &self.newer {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Takes what the configuration says; tells whether that changes anything. What was set by hand stays until the configuration says
    /// something else than when it was last applied.
    pub fn configure(&mut self, parallel: Option<u32>) -> bool {
        let Some(parallel) = parallel.filter(|_| self.configured != parallel) else { return false };
        (self.parallel, self.configured) = (parallel, Some(parallel));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn settings_come_back(parallel in 1..=MOST_PARALLEL, is_paused: bool, configured in prop::option::of(1..=MOST_PARALLEL)) {
            let settings = QueueSettings { parallel, is_paused, configured, newer: vec!["colour=blue".to_owned()] };
            prop_assert_eq!(QueueSettings::parse(settings.to_text().as_bytes()), settings);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(QueueSettings::parse(&bytes).parallel >= 1);
        }
    }

    #[test]
    fn what_is_set_by_hand_stays_until_the_configuration_changes() {
        let mut settings = QueueSettings::default();
        assert!(settings.configure(Some(4)) && settings.parallel == 4);
        settings.parallel = 9;
        assert!(!settings.configure(Some(4)) && !settings.configure(None) && settings.parallel == 9);
        assert!(settings.configure(Some(5)) && settings.parallel == 5);
    }
}
