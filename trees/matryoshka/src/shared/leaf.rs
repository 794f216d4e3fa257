//! A leaf line of a page: up to seven keys, and the words beside them.
//!
//! The keys' line is the one of the single writer's pages (a count in byte 0, keys from lane 1
//! on), and [`Line`] does the work on it: who holds the latch loads the line, changes the copy and
//! stores it back. Words stand at the lanes of their keys.

use hedgerow_simd::Kernel;

use super::words::Words;
use crate::lane::Lane;
use crate::line::Line;

/// Keys of a line.
pub(crate) const LEAF: usize = <u64 as Lane>::LEAF;

/// Keys and their words.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Leaf {
    keys: Words,
    words: Words,
}

/// Pairs on their way between lines: two lines' worth.
#[derive(Debug)]
pub(crate) struct Run {
    pairs: [(u64, u64); 2 * LEAF],
    count: usize,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self {
            pairs: [(0, 0); 2 * LEAF],
            count: 0,
        }
    }

    pub(crate) fn append(&mut self, leaf: &Leaf) {
        for at in 0..leaf.count() {
            self.pairs[self.count] = leaf.pair(at);
            self.count += 1;
        }
    }

    pub(crate) fn insert(&mut self, at: usize, pair: (u64, u64)) {
        self.pairs.copy_within(at..self.count, at + 1);
        self.pairs[at] = pair;
        self.count += 1;
    }

    pub(crate) fn pairs(&self) -> &[(u64, u64)] {
        &self.pairs[..self.count]
    }
}

impl Leaf {
    pub(crate) fn empty() -> Self {
        Self {
            keys: Words::new(Line::<u64>::EMPTY.0),
            words: Words::new([0; 8]),
        }
    }

    /// Keys in the line; at most [`LEAF`] even when torn.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        ((self.keys.get(0) & 0xff) as usize).min(LEAF)
    }

    /// Keys below `key`, and whether the next one is `key`.
    #[inline(always)]
    pub(crate) fn find<N: Kernel>(&self, key: u64) -> (usize, bool) {
        let rank = (N::below_shared(&self.keys.0, key) >> 1).count_ones() as usize;
        let found = rank < self.count() && self.keys.get(1 + rank) == key;
        (rank, found)
    }

    #[inline(always)]
    pub(crate) fn key(&self, at: usize) -> u64 {
        self.keys.get(1 + at)
    }

    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.words.get(1 + at)
    }

    pub(crate) fn pair(&self, at: usize) -> (u64, u64) {
        (self.key(at), self.word(at))
    }

    #[inline(always)]
    pub(crate) fn set_word(&self, at: usize, word: u64) {
        self.words.set(1 + at, word);
    }

    /// Puts a pair at `at` of a line that is not full.
    #[inline(always)]
    pub(crate) fn insert(&self, at: usize, key: u64, word: u64) {
        let mut line = self.keys.line();
        for lane in (1 + at..1 + line.count().min(LEAF - 1)).rev() {
            self.words.set(lane + 1, self.words.get(lane));
        }
        self.set_word(at, word);
        line.leaf_insert(at, key);
        self.keys.store(&line.0);
    }

    #[inline(always)]
    pub(crate) fn remove(&self, at: usize) {
        let mut line = self.keys.line();
        for lane in 1 + at..line.count().min(LEAF) {
            self.words.set(lane, self.words.get(lane + 1));
        }
        line.leaf_remove(at);
        self.keys.store(&line.0);
    }

    /// Replaces everything.
    pub(crate) fn write(&self, pairs: &[(u64, u64)]) {
        for (at, pair) in pairs.iter().enumerate() {
            self.set_word(at, pair.1);
        }
        let line = Line::<u64>::leaf(pairs.iter().map(|pair| pair.0));
        self.keys.store(&line.0);
    }

    /// Checks the count and the padding; the keys.
    pub(crate) fn verify(&self) -> Result<Vec<u64>, String> {
        let line = self.keys.line();
        let keys = line.leaf_keys();
        if line.count() != keys.len() {
            return Err(format!("a count of {}", line.count()));
        }
        if line.0[1 + keys.len()..]
            .iter()
            .any(|&lane| lane != u64::MAX)
        {
            return Err("a key behind the last".to_owned());
        }
        Ok(keys.to_vec())
    }

    /// Asks for keys and words.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        hedgerow_simd::prefetch_line(&self.keys);
        hedgerow_simd::prefetch_line(&self.words);
    }
}
