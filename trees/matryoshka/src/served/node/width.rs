//! What 32-bit and 64-bit keys make of the nodes that threads share.
//!
//! | | 32-bit | 64-bit |
//! |---|---|---|
//! | leaf line: keys; bytes of keys and words | 15; 64 + 128 | 7; 64 + 64 |
//! | leaf lines of a page; keys | 40; 600 | 58; 406 |
//! | routing of a page: lines of samples and of separators | 1 + 3 | 1 + 8 |
//! | routing of an inner node | 2 + 20 | 5 + 39 |
//!
//! Memory is the same lines of 64-bit atomics for both ([`Words`]). A 32-bit lane is half a word:
//! who holds the latch stores the whole word with one half changed, so that readers see either lane
//! whole.

use hedgerow_index::Direction;
use hedgerow_simd::{Kernel, SharedLine, flip_sign};

use super::node_key::SharedNodeKey;
use super::routing::Routing;
use super::words::Words;

impl SharedNodeKey for u64 {
    type Beside = Words;
    type PageRouting = Routing<u64, 1, 8>;
    type InnerRouting = Routing<u64, 5, 39>;
    const CAPACITIES: [usize; 4] = [4, 14, 34, 58];

    fn no_words() -> Words {
        Words::new([0; 8])
    }

    #[inline(always)]
    fn below_shared<N: Kernel>(line: &SharedLine, key: u64) -> u32 {
        N::below_shared(line, key)
    }

    #[inline(always)]
    fn count_flipped<N: Kernel, const LINES: usize>(
        lines: [&SharedLine; LINES],
        key: u64,
    ) -> usize {
        N::count_flipped(lines, key)
    }

    #[inline(always)]
    fn flipped(self) -> u64 {
        flip_sign(self)
    }

    #[inline(always)]
    fn get(line: &Words, lane: usize) -> u64 {
        line.get(lane)
    }

    #[inline(always)]
    fn set(line: &Words, lane: usize, key: u64) {
        line.set(lane, key);
    }

    #[inline(always)]
    fn load(line: &Words) -> [u64; 8] {
        line.load()
    }

    #[inline(always)]
    fn store(line: &Words, lanes: &[u64; 8]) {
        line.store(lanes);
    }

    #[inline(always)]
    fn beyond(self, direction: Direction) -> Option<u64> {
        match direction {
            Direction::Forward => self.checked_add(1),
            Direction::Reverse => self.checked_sub(1),
        }
    }
}

/// The lane of a word, by its number in the line.
#[inline(always)]
fn half(word: u64, lane: usize) -> u32 {
    (word >> (lane % 2 * 32)) as u32
}

impl SharedNodeKey for u32 {
    type Beside = Words<16>;
    type PageRouting = Routing<u32, 1, 3>;
    type InnerRouting = Routing<u32, 2, 20>;
    const CAPACITIES: [usize; 4] = [4, 11, 24, 40];

    fn no_words() -> Words<16> {
        Words::new([0; 16])
    }

    #[inline(always)]
    fn below_shared<N: Kernel>(line: &SharedLine, key: u32) -> u32 {
        N::below_shared_32(line, key)
    }

    #[inline(always)]
    fn count_flipped<N: Kernel, const LINES: usize>(
        lines: [&SharedLine; LINES],
        key: u32,
    ) -> usize {
        N::count_flipped_32(lines, key)
    }

    #[inline(always)]
    fn flipped(self) -> u32 {
        // What `flip_signs` does to each half of a word.
        self ^ (1 << 31)
    }

    #[inline(always)]
    fn get(line: &Words, lane: usize) -> u32 {
        half(line.get(lane / 2), lane)
    }

    #[inline(always)]
    fn set(line: &Words, lane: usize, key: u32) {
        let shift = lane % 2 * 32;
        let other = line.get(lane / 2) & !(u64::from(u32::MAX) << shift);
        line.set(lane / 2, other | u64::from(key) << shift);
    }

    #[inline(always)]
    fn load(line: &Words) -> [u32; 16] {
        let words = line.load();
        std::array::from_fn(|lane| half(words[lane / 2], lane))
    }

    #[inline(always)]
    fn store(line: &Words, lanes: &[u32; 16]) {
        let lane = |at: usize| u64::from(lanes[at]);
        line.store(&std::array::from_fn(|word| {
            lane(2 * word) | lane(2 * word + 1) << 32
        }));
    }

    #[inline(always)]
    fn beyond(self, direction: Direction) -> Option<u32> {
        match direction {
            Direction::Forward => self.checked_add(1),
            Direction::Reverse => self.checked_sub(1),
        }
    }
}
