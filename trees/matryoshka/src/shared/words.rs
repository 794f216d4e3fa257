//! One cache line of words that threads share.

use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_simd::SharedLine;

use crate::line::Line;

/// Words in a line.
pub(crate) const LANES: usize = 8;

/// A line of atomics. Words may be addresses of blocks, so stores release and loads acquire; on
/// x86-64 that costs nothing.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Words(pub(crate) SharedLine);

impl Words {
    pub(crate) fn new(lanes: [u64; LANES]) -> Self {
        Self(lanes.map(AtomicU64::new))
    }

    #[inline(always)]
    pub(crate) fn get(&self, lane: usize) -> u64 {
        self.0[lane].load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn set(&self, lane: usize, word: u64) {
        self.0[lane].store(word, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> [u64; LANES] {
        std::array::from_fn(|lane| self.get(lane))
    }

    #[inline(always)]
    pub(crate) fn store(&self, lanes: &[u64; LANES]) {
        for (lane, &word) in lanes.iter().enumerate() {
            self.set(lane, word);
        }
    }

    /// The line as the single writer's code knows it. Consistent only for who holds the latch, or
    /// validates afterwards.
    #[inline(always)]
    pub(crate) fn line(&self) -> Line<u64> {
        Line(self.load())
    }
}
