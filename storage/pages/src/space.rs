//! Which blocks of the file are in use, and since when.
//!
//! A page is never written where it was: it goes to a free block. A block is free when nothing
//! refers to it: not the page table as it is now, not the one that was published last (which is
//! what a crash leaves), and not one that a checkpoint is about to publish. One bit each.

use std::ops::Range;

/// Bits that grow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn get(&self, index: u32) -> bool {
        self.word(index as usize / 64) >> (index % 64) & 1 == 1
    }

    fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, index: u32) {
        let word = index as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (index % 64);
    }

    pub(crate) fn clear(&mut self, index: u32) {
        if let Some(word) = self.0.get_mut(index as usize / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    pub(crate) fn add(&mut self, other: &Bits) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    /// How many are set.
    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// How many are set that are not set in others.
    pub(crate) fn count_without(&self, others: &Bits) -> u32 {
        let words = self.0.iter().enumerate();
        words
            .map(|(i, word)| (word & !others.word(i)).count_ones())
            .sum()
    }

    /// The set bits, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let set = |(i, &word): (usize, &u64)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| i as u32 * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(set)
    }
}

/// Blocks before the first that pages may take: the two roots.
pub(crate) const ROOTS: u32 = 2;

/// Free runs of at least this many blocks are given back to the file system.
const HOLE_BLOCKS: u32 = 8;

/// The blocks of a file.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// What the page table refers to now, and what is being written.
    pub(crate) current: Bits,
    /// What the published table refers to.
    pub(crate) published: Bits,
    /// What a checkpoint under way will publish.
    pub(crate) snapshot: Bits,
    /// What was given back to the file system already.
    holes: Bits,
    /// No block below this one is free.
    lowest: u32,
    /// Blocks of the file, used or not.
    pub(crate) end: u32,
}

impl Blocks {
    /// A file that has nothing but its roots.
    pub(crate) fn new(end: u32) -> Self {
        Self {
            lowest: ROOTS,
            end: end.max(ROOTS),
            ..Self::default()
        }
    }

    fn used_word(&self, index: usize) -> u64 {
        self.current.word(index) | self.published.word(index) | self.snapshot.word(index)
    }

    pub(crate) fn is_free(&self, block: u32) -> bool {
        block >= ROOTS && self.used_word(block as usize / 64) >> (block % 64) & 1 == 0
    }

    /// Takes the lowest free block.
    pub(crate) fn take(&mut self) -> u32 {
        let mut block = self.lowest;
        while !self.is_free(block) {
            let index = block as usize / 64;
            let left = !self.used_word(index) >> (block % 64) << (block % 64);
            block = if left == 0 {
                (index as u32 + 1) * 64
            } else {
                index as u32 * 64 + left.trailing_zeros()
            };
        }
        self.current.set(block);
        self.holes.clear(block);
        self.lowest = block + 1;
        self.end = self.end.max(block + 1);
        block
    }

    /// The table as it is now does not refer to a block any more.
    pub(crate) fn give(&mut self, block: u32) {
        self.current.clear(block);
        if self.is_free(block) {
            self.lowest = self.lowest.min(block);
        }
    }

    /// What is in use now is what a checkpoint will publish, but for what it still writes.
    pub(crate) fn begin_snapshot(&mut self) {
        self.snapshot = self.current.clone();
    }

    /// The snapshot was published: what only the one before referred to is free.
    pub(crate) fn publish(&mut self) {
        self.published = std::mem::take(&mut self.snapshot);
        self.lowest = ROOTS;
    }

    /// The snapshot will not be published.
    pub(crate) fn abandon(&mut self) {
        self.snapshot = Bits::default();
        self.lowest = ROOTS;
    }

    /// Cuts the free end off: the number of blocks that the file needs.
    pub(crate) fn trim(&mut self) -> u32 {
        while self.end > ROOTS && self.is_free(self.end - 1) {
            self.end -= 1;
        }
        self.end
    }

    /// Takes the long free runs that still occupy the disk, to be punched out of the file and
    /// then [returned](Self::end_hole).
    pub(crate) fn begin_holes(&mut self) -> Vec<Range<u32>> {
        let mut runs = Vec::new();
        let mut start = None;
        for block in ROOTS..=self.end {
            let wanted = block < self.end && self.is_free(block) && !self.holes.get(block);
            match (wanted, start) {
                (true, None) => start = Some(block),
                (false, Some(from)) => {
                    if block - from >= HOLE_BLOCKS {
                        runs.push(from..block);
                    }
                    start = None;
                }
                _ => {}
            }
        }
        for block in runs.iter().cloned().flatten() {
            self.current.set(block);
        }
        runs
    }

    /// A run was dealt with; `punched` says whether it is a hole now.
    pub(crate) fn end_hole(&mut self, run: Range<u32>, punched: bool) {
        for block in run {
            self.give(block);
            if punched {
                self.holes.set(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_free_when_no_table_needs_it() {
        let mut blocks = Blocks::new(0);
        assert_eq!([blocks.take(), blocks.take(), blocks.take()], [2, 3, 4]);
        blocks.begin_snapshot();
        blocks.give(3);
        assert_eq!(blocks.take(), 5, "the snapshot needs 3");
        blocks.publish();
        blocks.give(5);
        assert_eq!(blocks.take(), 5, "3 is published");
        blocks.begin_snapshot();
        blocks.publish();
        assert_eq!(blocks.take(), 3);
        let many: Vec<u32> = (0..200).map(|_| blocks.take()).collect();
        assert_eq!(many, (6..206).collect::<Vec<_>>());
        (100..206).for_each(|block| blocks.give(block));
        assert_eq!(blocks.trim(), 100);
        (20..60).for_each(|block| blocks.give(block));
        let runs = blocks.begin_holes();
        assert_eq!((runs.len(), &runs[0]), (1, &(20..60)));
        assert_eq!(blocks.take(), 100, "what is being punched is not free");
        blocks.end_hole(20..60, true);
        assert!(blocks.begin_holes().is_empty());
        assert_eq!(blocks.take(), 20);
    }
}
