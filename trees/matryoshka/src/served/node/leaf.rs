//! A leaf line of a page: up to seven keys, or fifteen of 32 bits, and the words beside them.
//!
//! The keys' line is the one of the single writer's pages (a count in byte 0, keys from lane 1
//! on), and [`Line`] does the work on it: who holds the latch loads the line, changes the copy and
//! stores it back. Words stand at the lanes of their keys.

use std::sync::atomic::Ordering;

use hedgerow_simd::Kernel;

use super::node_key::{SharedNodeKey, line_of};
use super::words::Words;
use crate::line::Line;

/// The most keys of a line, of either width.
pub(crate) const MOST_KEYS: usize = 15;

/// Keys and their words.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Leaf<L: SharedNodeKey> {
    keys: Words,
    words: L::Beside,
}

/// Pairs on their way between lines: two lines' worth.
#[derive(Debug)]
pub(crate) struct Run<L> {
    pairs: [(L, u64); 2 * MOST_KEYS],
    count: usize,
}

impl<L: SharedNodeKey> Run<L> {
    pub(crate) fn new() -> Self {
        Self {
            pairs: [(L::MIN, 0); 2 * MOST_KEYS],
            count: 0,
        }
    }

    pub(crate) fn append(&mut self, leaf: &Leaf<L>) {
        for at in 0..leaf.count() {
            self.pairs[self.count] = leaf.pair(at);
            self.count += 1;
        }
    }

    pub(crate) fn insert(&mut self, at: usize, pair: (L, u64)) {
        self.pairs.copy_within(at..self.count, at + 1);
        self.pairs[at] = pair;
        self.count += 1;
    }

    pub(crate) fn pairs(&self) -> &[(L, u64)] {
        &self.pairs[..self.count]
    }
}

impl<L: SharedNodeKey> Leaf<L> {
    pub(crate) fn empty() -> Self {
        Self {
            keys: line_of::<L>(&L::EMPTY),
            words: L::no_words(),
        }
    }

    /// The keys' line as the single writer's code knows it; see [`SharedNodeKey::load`].
    #[inline(always)]
    fn line(&self) -> Line<L> {
        Line(L::load(&self.keys))
    }

    /// Keys in the line; at most as many as fit even when torn.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        ((self.keys.get(0) & 0xff) as usize).min(L::LEAF)
    }

    /// Keys below `key`, and whether the next one is `key`.
    #[inline(always)]
    pub(crate) fn find<N: Kernel>(&self, key: L) -> (usize, bool) {
        let rank = (L::below_shared::<N>(&self.keys.0, key) >> 1).count_ones() as usize;
        let found = rank < self.count() && L::get(&self.keys, 1 + rank) == key;
        (rank, found)
    }

    #[inline(always)]
    pub(crate) fn key(&self, at: usize) -> L {
        L::get(&self.keys, 1 + at)
    }

    #[inline(always)]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.words.as_ref()[1 + at].load(Ordering::Acquire)
    }

    pub(crate) fn pair(&self, at: usize) -> (L, u64) {
        (self.key(at), self.word(at))
    }

    #[inline(always)]
    pub(crate) fn set_word(&self, at: usize, word: u64) {
        self.words.as_ref()[1 + at].store(word, Ordering::Release);
    }

    /// Puts a pair at `at` of a line that is not full.
    #[inline(always)]
    pub(crate) fn insert(&self, at: usize, key: L, word: u64) {
        let mut line = self.line();
        for lane in (1 + at..1 + line.count().min(L::LEAF - 1)).rev() {
            self.set_word(lane, self.word(lane - 1));
        }
        self.set_word(at, word);
        line.leaf_insert(at, key);
        L::store(&self.keys, &line.0);
    }

    #[inline(always)]
    pub(crate) fn remove(&self, at: usize) {
        let mut line = self.line();
        for lane in 1 + at..line.count().min(L::LEAF) {
            self.set_word(lane - 1, self.word(lane));
        }
        line.leaf_remove(at);
        L::store(&self.keys, &line.0);
    }

    /// Replaces everything.
    pub(crate) fn write(&self, pairs: &[(L, u64)]) {
        for (at, pair) in pairs.iter().enumerate() {
            self.set_word(at, pair.1);
        }
        let line = Line::<L>::leaf(pairs.iter().map(|pair| pair.0));
        L::store(&self.keys, &line.0);
    }

    /// Checks the count and the padding; the keys.
    pub(crate) fn verify(&self) -> Result<Vec<L>, String> {
        let line = self.line();
        let keys = line.leaf_keys();
        if line.count() != keys.len() {
            return Err(format!("a count of {}", line.count()));
        }
        if line.0.as_ref()[1 + keys.len()..]
            .iter()
            .any(|&lane| lane != L::MAX)
        {
            return Err("a key behind the last".to_owned());
        }
        Ok(keys.to_vec())
    }

    /// Prefetches keys and words.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        hedgerow_memory::prefetch_line(&self.keys);
        for words in self.words.as_ref().chunks(8) {
            hedgerow_memory::prefetch_line(words.as_ptr());
        }
    }
}
