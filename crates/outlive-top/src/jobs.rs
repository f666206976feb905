//! The list: its jobs in their order, which of them are shown, chosen and marked.

use std::collections::{HashMap, HashSet};
use std::io;

use outlive::{AwaitedKind, Job, JobId, Listeners, SessionName, State, Store};

use crate::figures::Figures;

/// One job of the list.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) job: Job,
    pub(crate) state: State,
    pub(crate) figures: Figures,
}

impl Row {
    pub(crate) fn is_paused(&self) -> bool {
        self.state.is_live() && self.state.meta.as_ref().is_some_and(|meta| meta.paused)
    }

    /// Tells whether it waits for an answer.
    pub(crate) fn asks(&self) -> bool {
        let awaited = self.state.awaits();
        awaited.is_some_and(|awaited| matches!(awaited.kind, AwaitedKind::Line | AwaitedKind::Password))
    }

    /// Tells whether a filter, in lower case, occurs in what a person knows it by.
    fn matches(&self, filter: &str) -> bool {
        let spec = self.job.spec();
        let contains = |text: &str| text.to_lowercase().contains(filter);
        filter.is_empty()
            || contains(self.job.id().as_str())
            || self.job.name().is_some_and(contains)
            || contains(&self.state.summary())
            || contains(self.job.session().as_str())
            || spec.options.group.as_deref().is_some_and(contains)
            || contains(&spec.command_line())
    }

    /// Live jobs come first, those that started last before the others; then ended ones, the last that ended first.
    fn order(&self) -> (bool, std::cmp::Reverse<u64>) {
        let ended =
            self.state.outcome.as_ref().filter(|_| !self.state.is_live()).map(|outcome| outcome.ended);
        (ended.is_some(), std::cmp::Reverse(ended.unwrap_or(self.job.spec().created).0))
    }
}

/// The list.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    rows: Vec<Row>,
    /// The places in `rows` of those that match the filter.
    shown: Vec<usize>,
    filter: String,
    /// The place in `shown` that keys act on.
    cursor: usize,
    /// The place in `shown` of the first one in view.
    top: usize,
    marked: HashSet<JobId>,
    /// A job that was restarted, and its new run, which is chosen in its place as soon as it is listed.
    restarted: Option<(JobId, JobId)>,
    /// Directories of jobs that cannot be used.
    pub(crate) damaged: usize,
}

impl Jobs {
    /// Reads the list anew. What is known of an ended job is kept: it does not change.
    pub(crate) fn reload(&mut self, store: &Store, session: Option<&SessionName>) -> io::Result<()> {
        let listing = store.list(session)?;
        let mut chosen = self.chosen().map(|row| row.job.id().clone());
        if let Some((_, next)) = self.restarted.take_if(|(before, _)| Some(&*before) == chosen.as_ref()) {
            chosen = Some(next);
        }
        self.damaged = listing.damaged.len();
        let mut known: HashMap<JobId, Row> =
            self.rows.drain(..).map(|row| (row.job.id().clone(), row)).collect();
        let rows = listing.jobs.into_iter().map(|job| match known.remove(job.id()) {
            Some(row) if row.job.spec().nonce == job.spec().nonce => {
                let state = if row.state.is_live() { job.state(store) } else { row.state };
                Row { state, figures: row.figures, job }
            }
            _ => Row { state: job.state(store), figures: Figures::default(), job },
        });
        self.rows = rows.filter(|row| !row.state.is_removed()).collect();
        self.marked.retain(|id| self.rows.iter().any(|row| row.job.id() == id));
        self.rows.sort_by_cached_key(Row::order);
        self.filter_again(chosen.as_ref());
        Ok(())
    }

    /// Finds out what is shown; the chosen job stays chosen while it is.
    fn filter_again(&mut self, chosen: Option<&JobId>) {
        let filter = self.filter.to_lowercase();
        let matching = self.rows.iter().enumerate().filter(|(_, row)| row.matches(&filter));
        self.shown = matching.map(|(place, _)| place).collect();
        let place =
            chosen.and_then(|id| self.shown.iter().position(|&place| self.rows[place].job.id() == id));
        self.cursor = place.unwrap_or(self.cursor).min(self.shown.len().saturating_sub(1));
    }

    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    pub(crate) fn set_filter(&mut self, filter: String) {
        let chosen = self.chosen().map(|row| row.job.id().clone());
        self.filter = filter;
        self.filter_again(chosen.as_ref());
        if self.chosen().map(|row| row.job.id()) != chosen.as_ref() {
            self.cursor = 0;
        }
    }

    /// Notes that a job was restarted as another: what was chosen goes on to be.
    pub(crate) fn note_restart(&mut self, before: JobId, next: JobId) {
        self.restarted = Some((before, next));
    }

    /// Looks at the live jobs among some of those that are shown. Tells whether one has ended, so that the order is another.
    pub(crate) fn measure(&mut self, store: &Store, places: std::ops::Range<usize>, has_ports: bool) -> bool {
        let mut listeners = has_ports.then(Listeners::new);
        let mut has_ended = false;
        for place in places {
            let Some(row) = self.shown.get(place).map(|&place| &mut self.rows[place]) else { continue };
            if !row.state.is_live() {
                continue;
            }
            row.state = row.job.state(store);
            if row.state.is_live() {
                row.figures.measure(store, &row.job, &row.state, listeners.as_mut());
            } else {
                has_ended = true;
            }
        }
        has_ended
    }

    /// Scrolls so that the chosen job is in view in so many rows, and no row is wasted.
    pub(crate) fn scroll(&mut self, height: usize) {
        self.top = self.top.min(self.cursor).min(self.shown.len().saturating_sub(height));
        self.top = self.top.max((self.cursor + 1).saturating_sub(height));
    }

    /// Returns the jobs that are in view in so many rows.
    pub(crate) fn in_view(&self, height: usize) -> Vec<&Row> {
        self.shown.iter().skip(self.top).take(height).map(|&place| &self.rows[place]).collect()
    }

    /// The place of the first job in view.
    pub(crate) fn top(&self) -> usize {
        self.top
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn shown_count(&self) -> usize {
        self.shown.len()
    }

    /// Looks up a row by its place among those that are shown.
    pub(crate) fn at(&self, place: usize) -> Option<&Row> {
        self.shown.get(place).map(|&place| &self.rows[place])
    }

    pub(crate) fn chosen(&self) -> Option<&Row> {
        self.at(self.cursor)
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(crate) fn choose(&mut self, place: usize) {
        self.cursor = place.min(self.shown.len().saturating_sub(1));
    }

    pub(crate) fn has_mark(&self, id: &JobId) -> bool {
        self.marked.contains(id)
    }

    pub(crate) fn mark_count(&self) -> usize {
        self.marked.len()
    }

    pub(crate) fn toggle_mark(&mut self) {
        let Some(id) = self.chosen().map(|row| row.job.id().clone()) else { return };
        if !self.marked.remove(&id) {
            self.marked.insert(id);
        }
    }

    pub(crate) fn clear_marks(&mut self) {
        self.marked.clear();
    }

    /// Returns the jobs that an action is for: the marked ones, hidden by the filter or not, else the chosen one.
    pub(crate) fn targets(&self) -> Vec<&Row> {
        if self.marked.is_empty() {
            return self.chosen().into_iter().collect();
        }
        self.rows.iter().filter(|row| self.has_mark(row.job.id())).collect()
    }
}
