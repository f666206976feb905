//! What a job uses, over time.

use std::collections::VecDeque;
use std::time::Instant;

use outlive::{Job, Listeners, State, Store};

/// How many measurements are kept: as many as the widest list shows.
const KEPT: usize = 16;

/// What was measured of one job. Unknown is none, never 0.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Percent of one processor, the newest last.
    pub(crate) cpu: VecDeque<u32>,
    pub(crate) memory: Option<u64>,
    pub(crate) processes: Option<u64>,
    /// Each once, in order.
    pub(crate) ports: Vec<u16>,
    /// When the processor time was this, in milliseconds.
    last: Option<(Instant, u64)>,
}

impl Figures {
    /// Measures a live job; its ports, too, where `listeners` are given: they take longest to find.
    pub(crate) fn measure(
        &mut self,
        store: &Store,
        job: &Job,
        state: &State,
        listeners: Option<&mut Listeners>,
    ) {
        let tree = job.tree(store, state);
        let usage = job.usage(state, tree.as_ref());
        let now = Instant::now();
        if let (Some((then, before)), Some(after)) = (self.last, usage.cpu_ms) {
            let passed = now.duration_since(then).as_millis().max(1);
            let percent = u128::from(after.saturating_sub(before)) * 100 / passed;
            self.cpu.push_back(u32::try_from(percent).unwrap_or(u32::MAX));
            self.cpu.drain(..self.cpu.len().saturating_sub(KEPT));
        }
        self.last = usage.cpu_ms.map(|cpu| (now, cpu));
        (self.memory, self.processes) = (usage.memory_bytes, usage.processes);
        if let (Some(listeners), Some(tree)) = (listeners, tree) {
            self.ports = tree.ports(listeners).iter().map(|port| port.port).collect();
            self.ports.dedup();
        }
    }

    /// Tells whether it was measured once, so that the next measurement gives a share of the processor.
    pub(crate) fn is_first(&self) -> bool {
        self.last.is_some() && self.cpu.is_empty()
    }
}

/// Draws measurements as bars of one row, the newest at the right; the highest bar is one processor, or more where more was used.
pub(crate) fn sparkline(values: &VecDeque<u32>, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let kept = values.len().min(width);
    let most = values.iter().copied().max().unwrap_or(0).max(100);
    let bar = |&value: &u32| BARS[(u64::from(value) * 7).div_ceil(u64::from(most)) as usize];
    let blanks = std::iter::repeat_n(' ', width - kept);
    blanks.chain(values.iter().skip(values.len() - kept).map(bar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_measured_against_a_processor() {
        assert_eq!(sparkline(&[0, 50, 100].into(), 5), "  ▁▅█");
        assert_eq!(sparkline(&[0, 100, 400].into(), 3), "▁▃█");
        assert_eq!(sparkline(&[1, 2, 3].into(), 2), "▂▂");
        assert_eq!(sparkline(&VecDeque::new(), 2), "  ");
    }
}
