//! Which blocks of the file are in use, and since when.
//!
//! A page is never written where it was: it goes to a free block. A block is free when nothing
//! refers to it: not the page table as it is now, not one that a crash may leave (that which was
//! published last, or since then those whose root a full disk refused), and not one that a
//! checkpoint is about to publish. One bit each.

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
    /// What the published table refers to, and those since then whose root a full disk refused.
    pub(crate) published: Bits,
    /// What a checkpoint under way will publish.
    pub(crate) snapshot: Bits,
    /// What was given back to the file system already, or never got space of it.
    holes: Bits,
    /// The disk has space up to here, reserved behind the end of the file, but for the holes.
    reserved: u32,
    /// Free blocks below that, holes not counted: writing to them needs no space.
    backed: u32,
    /// Whether the disk refused space, so that blocks are taken where it has some, and kept.
    pub(crate) starved: bool,
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
            reserved: end.max(ROOTS),
            ..Self::default()
        }
    }

    /// Free blocks to which a write needs no space of the disk.
    pub(crate) fn backed(&self) -> u32 {
        self.backed
    }

    /// Counts the [backed](Self::backed) blocks anew.
    pub(crate) fn count_backed(&mut self) {
        let free = |word: u32| {
            let first = word * 64;
            let mut free = !self.used_word(word as usize) & !self.holes.word(word as usize);
            if first < ROOTS {
                free &= u64::MAX << (ROOTS - first);
            }
            if self.reserved < first + 64 {
                free &= (1 << (self.reserved - first)) - 1;
            }
            free.count_ones()
        };
        self.backed = (0..self.reserved.div_ceil(64)).map(free).sum();
    }

    /// Where the next blocks can be reserved, behind all that have space.
    pub(crate) fn reserved_end(&self) -> u32 {
        self.reserved
    }

    /// The disk has space for so many blocks more behind [`reserved_end`](Self::reserved_end).
    pub(crate) fn add_reserved(&mut self, blocks: u32) {
        for block in self.reserved..self.reserved + blocks {
            self.holes.clear(block);
        }
        self.reserved += blocks;
        self.backed += blocks;
    }

    /// The file was cut at its end: nothing is reserved behind it any more.
    pub(crate) fn end_reserved(&mut self) {
        self.reserved = self.end;
        self.count_backed();
    }

    /// The file has only so many blocks. Free ones behind them, which its root counts, were cut off
    /// after that root was written: they have no space.
    pub(crate) fn cut_to(&mut self, blocks: u32) {
        if blocks < self.end {
            self.end = blocks.max(ROOTS);
            self.end_reserved();
        }
    }

    /// A write to a block that was taken met a full disk.
    pub(crate) fn give_unwritten(&mut self, block: u32) {
        self.give(block);
        self.backed -= u32::from(self.is_backed(block));
        self.holes.set(block);
        self.starved = true;
    }

    /// Whether a block is free and has space.
    fn is_backed(&self, block: u32) -> bool {
        block < self.reserved && self.is_free(block) && !self.holes.get(block)
    }

    /// Calls up to so many backed blocks used, the lowest ones, and says which: they are neither
    /// cut off nor punched out until they are given again.
    pub(crate) fn keep_backed(&mut self, most: u32) -> Vec<u32> {
        let backed = (ROOTS..self.reserved).filter(|&block| self.is_backed(block));
        let kept: Vec<u32> = backed.take(most as usize).collect();
        for &block in &kept {
            self.current.set(block);
            self.backed -= 1;
            // What is behind the end has space only as long as the file is not cut.
            self.end = self.end.max(block + 1);
        }
        kept
    }

    /// Blocks in use and, where the disk refused space, those that have none.
    fn refused_word(&self, index: usize) -> u64 {
        let holes = if self.starved {
            self.holes.word(index)
        } else {
            0
        };
        self.used_word(index) | holes
    }

    fn used_word(&self, index: usize) -> u64 {
        self.current.word(index) | self.published.word(index) | self.snapshot.word(index)
    }

    pub(crate) fn is_free(&self, block: u32) -> bool {
        block >= ROOTS && self.used_word(block as usize / 64) >> (block % 64) & 1 == 0
    }

    /// Takes the lowest free block; of those that have space, where the disk has no more.
    pub(crate) fn take(&mut self) -> u32 {
        let mut block = self.lowest;
        while self.refused_word(block as usize / 64) >> (block % 64) & 1 == 1 {
            let index = block as usize / 64;
            let left = !self.refused_word(index) >> (block % 64) << (block % 64);
            block = if left == 0 {
                (index as u32 + 1) * 64
            } else {
                index as u32 * 64 + left.trailing_zeros()
            };
        }
        self.backed -= u32::from(self.is_backed(block));
        self.current.set(block);
        self.holes.clear(block);
        if !self.starved {
            self.lowest = block + 1;
        }
        self.end = self.end.max(block + 1);
        self.reserved = self.reserved.max(self.end);
        block
    }

    /// The table as it is now does not refer to a block any more.
    pub(crate) fn give(&mut self, block: u32) {
        let was_used = self.current.get(block);
        self.current.clear(block);
        if self.is_free(block) {
            self.lowest = self.lowest.min(block);
            self.backed += u32::from(was_used && self.is_backed(block));
        }
    }

    /// What is in use now is what a checkpoint will publish, but for what it still writes.
    pub(crate) fn begin_snapshot(&mut self) {
        self.snapshot = self.current.clone();
    }

    /// What a checkpoint will publish does without a block.
    pub(crate) fn leave_out(&mut self, block: u32) {
        let was_used = self.snapshot.get(block);
        self.snapshot.clear(block);
        if was_used && self.is_free(block) {
            self.lowest = self.lowest.min(block);
            self.backed += u32::from(self.is_backed(block));
        }
    }

    /// The snapshot was published: what only the one before referred to is free.
    pub(crate) fn publish(&mut self) {
        self.published = std::mem::take(&mut self.snapshot);
        self.lowest = ROOTS;
        self.count_backed();
    }

    /// The snapshot may be on the disk beside the published one, until another is published.
    pub(crate) fn keep_snapshot(&mut self) {
        let snapshot = std::mem::take(&mut self.snapshot);
        self.published.add(&snapshot);
    }

    /// The snapshot will not be published.
    pub(crate) fn abandon(&mut self) {
        self.snapshot = Bits::default();
        self.lowest = ROOTS;
        self.count_backed();
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
            self.backed -= 1;
        }
        runs
    }

    /// A run was dealt with; `punched` says whether it is a hole now.
    pub(crate) fn end_hole(&mut self, run: Range<u32>, punched: bool) {
        for block in run {
            self.give(block);
            if punched {
                self.backed -= u32::from(self.is_backed(block));
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
        blocks.begin_snapshot();
        blocks.give(3);
        blocks.keep_snapshot();
        blocks.abandon();
        assert_eq!(
            blocks.take(),
            6,
            "a snapshot that may be on the disk needs 3"
        );
        blocks.give(6);
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

    #[test]
    fn blocks_with_space_are_counted() {
        let mut blocks = Blocks::new(0);
        let (mut random, mut taken) = (1_u64, Vec::new());
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (what, which) = (random >> 33 & 31, (random >> 40) as usize);
            match what {
                0 => {
                    blocks.abandon();
                    blocks.begin_snapshot();
                }
                1 => blocks.publish(),
                2 => {
                    if which % 2 == 0 {
                        blocks.keep_snapshot();
                    }
                    blocks.abandon();
                }
                3 => {
                    blocks.trim();
                    blocks.end_reserved();
                }
                4 => {
                    for run in blocks.begin_holes() {
                        blocks.end_hole(run, which % 2 == 0);
                    }
                }
                5 => blocks.add_reserved(which as u32 % 9),
                6..16 if !taken.is_empty() => {
                    let block = taken.swap_remove(which % taken.len());
                    match what {
                        6 => blocks.give_unwritten(block),
                        7..10 => {
                            blocks.give(block);
                            blocks.leave_out(block);
                        }
                        _ => blocks.give(block),
                    }
                }
                16 => {
                    let kept = blocks.keep_backed(which as u32 % 5);
                    kept.into_iter().for_each(|block| blocks.give(block));
                }
                _ => taken.push(blocks.take()),
            }
            let counted = blocks.backed();
            blocks.count_backed();
            assert_eq!(counted, blocks.backed(), "after {what}");
        }
    }
}
