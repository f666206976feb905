//! What the benchmarks of recorded output share: which recorders they compare, and how they are judged.

use outlive::Store;

use crate::{Failure, Options, Samples, World, judge};

/// The most processor time, as a multiple of that of `cat`.
const PROCESSOR_BOUND: f64 = 1.15;

/// What records the output.
#[derive(Debug)]
pub enum Way {
    /// None: the writer's output is a file.
    Raw,
    /// `cat > file`, the reference.
    Cat,
    /// The keepers of this store.
    Job(Box<Store>),
}

/// A recorder, as a row of the table.
#[derive(Debug)]
pub struct Contender {
    /// What records.
    pub way: Way,
    /// The name of the row.
    pub label: String,
    is_bound: bool,
}

/// Lists all recorders, `cat` first.
///
/// # Errors
///
/// If a keeper's store cannot be made.
pub fn contenders(world: &World, options: &Options) -> Result<Vec<Contender>, Failure> {
    let cat = Contender { way: Way::Cat, label: "| cat > file".to_owned(), is_bound: false };
    let jobs = options.keepers.iter().map(|keeper| {
        let way = Way::Job(Box::new(world.store(keeper)?));
        Ok(Contender { way, label: format!("{} keeper", keeper.label), is_bound: keeper.is_static() })
    });
    std::iter::once(Ok(cat)).chain(jobs).collect()
}

impl Contender {
    /// The writer alone.
    pub fn raw() -> Self {
        Self { way: Way::Raw, label: "> file".to_owned(), is_bound: false }
    }

    /// Judges whether it is as fast as `wanted` says, and its best cost against `cat`, where there is a bound.
    pub fn judge(&self, is_fast: bool, wanted: &str, cost: Ratio, all_kept: &mut bool) -> String {
        if !self.is_bound {
            return String::new();
        }
        let speed_word = judge(is_fast, all_kept);
        let cost_word = judge(cost.best <= PROCESSOR_BOUND, all_kept);
        format!("  {speed_word} ({wanted}) {cost_word} (≤ {PROCESSOR_BOUND})")
    }
}

/// How many times as much: best to best, and median to median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    best: f64,
    /// Median to median.
    pub median: f64,
}

impl Ratio {
    /// Compares two rows of samples.
    pub fn of(over: &Samples, under: &Samples) -> Self {
        Self { best: over.best() / under.best(), median: over.median() / under.median() }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{:.2} / {:.2}", self.best, self.median))
    }
}
