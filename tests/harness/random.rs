//! Random numbers that can be repeated.

/// A small generator of pseudo-random numbers. A test prints its seed, so that a run can be repeated.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Begins with a seed.
    pub fn new(seed: u64) -> Self {
        // Close seeds must not give close numbers, and zero would stay zero.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the seed of `OUTLIVE_TEST_SEED`, else another one each time.
    pub fn seed() -> u64 {
        let given = std::env::var("OUTLIVE_TEST_SEED").ok().and_then(|text| text.parse().ok());
        given.unwrap_or_else(|| outlive_sys::clock::wall_us() ^ (u64::from(std::process::id()) << 32))
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below a bound, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.draw() >> 11) % bound
    }

    /// Returns one of several.
    pub fn one_of<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        let place = usize::try_from(self.below(several.len() as u64)).unwrap_or(0);
        &several[place]
    }
}
