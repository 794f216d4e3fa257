//! Cache lines of words that threads share.

use std::sync::atomic::{AtomicU64, Ordering};

/// One line of atomics, or more side by side. Words may be addresses of blocks, so stores release
/// and loads acquire; on x86-64 that costs nothing.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Words<const LANES: usize = 8>(pub(crate) [AtomicU64; LANES]);

impl<const LANES: usize> AsRef<[AtomicU64]> for Words<LANES> {
    #[inline(always)]
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl<const LANES: usize> Words<LANES> {
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
}
