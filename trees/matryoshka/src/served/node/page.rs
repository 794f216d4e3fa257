//! A page: header, order, routing, and leaf lines with their words, in at most 8 KiB. Of 64-bit
//! keys:
//!
//! ```text
//! 0    version 8 │ capacity 4 │ placement 4 │ lines in use 8 │ keys 8
//! 64   order: the slots of leaf lines in key order, one byte each, then the free slots
//! 128  routing: one line of samples, eight lines of separators
//! 704  leaf lines, 64 bytes of keys and 64 bytes of words each
//! ```
//!
//! (8192 - 704) / 128 = 58 leaf lines. For 32-bit keys the routing ends at 384, and
//! (8192 - 384) / 192 = 40. A page is born with one of four capacities, each the most that fits a
//! size class of the pools; one that is full is replaced by a larger one.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_memory::{Placement, SizedPools, WrittenFields, prefetch_line};
use hedgerow_simd::Kernel;
use hedgerow_sync::VersionWord;

use super::leaf::{Leaf, Run};
use super::node_key::{Router, SharedNodeKey};
use super::words::Words;
use crate::planted::{PlantedBug, planted};

static PAGES: SizedPools = SizedPools::new("matryoshka page");

/// The most leaf lines of a page, of either width.
pub(crate) const MOST_LINES: usize = most_lines::<u64>();

/// The most leaf lines of a page.
pub(crate) const fn most_lines<L: SharedNodeKey>() -> usize {
    L::CAPACITIES[3]
}

/// Keys of each leaf line in a page that is built with room for more.
const fn keys_of_new_line<L: SharedNodeKey>() -> usize {
    L::LEAF * 3 / 4
}

/// A page.
#[repr(C, align(64))]
pub(crate) struct Page<L: SharedNodeKey> {
    pub(crate) version: VersionWord,
    capacity: u32,
    /// Where its memory comes from.
    pub(crate) placement: Placement,
    lines: AtomicU64,
    keys: AtomicU64,
    order: Words,
    routing: L::PageRouting,
    leaves: [Leaf<L>],
}

/// The part of a page whose size is known.
#[repr(C, align(64))]
struct SharedPageHeader<L: SharedNodeKey> {
    version: VersionWord,
    capacity: u32,
    placement: Placement,
    lines: AtomicU64,
    keys: AtomicU64,
    order: Words,
    routing: L::PageRouting,
}

// The page as it is drawn above, and its capacities: the most that fit a size class.
const _: () = {
    assert!(
        offset_of!(SharedPageHeader<u64>, capacity) == 8
            && offset_of!(SharedPageHeader<u64>, placement) == 12
            && offset_of!(SharedPageHeader<u64>, lines) == 16
            && offset_of!(SharedPageHeader<u64>, order) == 64
            && offset_of!(SharedPageHeader<u64>, routing) == 128
    );
    assert!(size_of::<SharedPageHeader<u64>>() == 704 && size_of::<Leaf<u64>>() == 128);
    assert!(size_of::<SharedPageHeader<u32>>() == 384 && size_of::<Leaf<u32>>() == 192);
    let (classes, mut at) = ([1280, 2560, 5120, 8192], 0);
    while at < classes.len() {
        assert!(u64::CAPACITIES[at] == (classes[at] - 704) / 128);
        assert!(u32::CAPACITIES[at] == (classes[at] - 384) / 192);
        at += 1;
    }
};

/// The position of a key in a page, or where it would be inserted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PagePosition {
    /// The leaf line, counted in key order.
    pub(crate) index: usize,
    /// Keys of that line below the key.
    pub(crate) rank: usize,
    pub(crate) found: bool,
}

fn bytes_of<L: SharedNodeKey>(capacity: usize) -> usize {
    size_of::<SharedPageHeader<L>>() + capacity * size_of::<Leaf<L>>()
}

/// The smallest capacity for so many lines, or the most.
fn capacity_for<L: SharedNodeKey>(lines: usize, most: usize) -> usize {
    let fits = L::CAPACITIES
        .into_iter()
        .find(|&capacity| capacity >= lines);
    fits.unwrap_or(most_lines::<L>()).min(most)
}

impl<L: SharedNodeKey> Page<L> {
    /// The page at an address.
    ///
    /// # Safety
    ///
    /// `address` came from [`build`](Self::build), and the page is not released during `'g`.
    #[inline(always)]
    pub(crate) unsafe fn at<'g>(address: usize) -> &'g Self {
        let head = std::ptr::with_exposed_provenance::<SharedPageHeader<L>>(address);
        // SAFETY: the page is alive; its capacity never changes, and `build` allocated as many
        // leaf lines behind the head, whose fields are those of `Page`.
        unsafe {
            let capacity = (*head).capacity as usize;
            &*(std::ptr::slice_from_raw_parts(head.cast::<()>(), capacity) as *const Self)
        }
    }

    /// A new page of ascending pairs in so many leaf lines, with room for more as far as `most`
    /// allows; its address.
    pub(crate) fn build(
        placement: Placement,
        pairs: &[(L, u64)],
        lines: usize,
        most: usize,
    ) -> usize {
        let lines = lines.max(pairs.len().div_ceil(L::LEAF)).clamp(1, most);
        let capacity = capacity_for::<L>(lines + lines / 4 + 1, most);
        let part =
            |line: usize| &pairs[pairs.len() * line / lines..pairs.len() * (line + 1) / lines];
        let separators = (0..lines - 1).map(|line| part(line).last().map_or(L::MIN, |pair| pair.0));
        let head = SharedPageHeader {
            version: VersionWord::new(true, false),
            capacity: capacity as u32,
            placement,
            lines: AtomicU64::new(lines as u64),
            keys: AtomicU64::new(pairs.len() as u64),
            order: Words::new(std::array::from_fn(|word| {
                u64::from_le_bytes(std::array::from_fn(|byte| (8 * word + byte) as u8))
            })),
            routing: L::PageRouting::new(separators),
        };
        let block = PAGES.allocate(placement, bytes_of::<L>(capacity)).as_ptr();
        // SAFETY: the block is new, aligned to 64 (its size is a multiple), and has room for the
        // head and `capacity` leaf lines behind it.
        unsafe {
            block.cast::<SharedPageHeader<L>>().write(head);
            let leaves = block
                .add(size_of::<SharedPageHeader<L>>())
                .cast::<Leaf<L>>();
            for line in 0..capacity {
                leaves.add(line).write(Leaf::empty());
                if line < lines {
                    (*leaves.add(line)).write(part(line));
                }
            }
        }
        block.expose_provenance()
    }

    /// A new page of ascending pairs, three quarters full lines where there is room.
    pub(crate) fn build_with_room(placement: Placement, pairs: &[(L, u64)], most: usize) -> usize {
        let lines = pairs.len().div_ceil(keys_of_new_line::<L>());
        Self::build(placement, pairs, lines.min(most * 4 / 5), most)
    }

    /// Gives a page's memory back.
    ///
    /// # Safety
    ///
    /// `address` came from [`build`](Self::build), and nobody uses the page any more.
    pub(crate) unsafe fn release(address: usize) {
        // SAFETY: the page is alive until the release below.
        let page = unsafe { Self::at(address) };
        let (placement, bytes) = (page.placement, bytes_of::<L>(page.capacity()));
        let block = std::ptr::with_exposed_provenance_mut::<u8>(address);
        if let Some(block) = NonNull::new(block) {
            // SAFETY: allocated by `build` with this size, and this is its last use.
            unsafe { PAGES.release(placement, block, bytes) }
        }
    }

    /// Leaf lines that there is room for.
    #[inline(always)]
    fn capacity(&self) -> usize {
        self.capacity as usize
    }

    pub(crate) fn bytes(&self) -> usize {
        self.placement.block_bytes(bytes_of::<L>(self.capacity()))
    }

    /// Bytes of what a search reads before the leaf line.
    pub(crate) fn bytes_before_leaves(&self) -> usize {
        size_of::<SharedPageHeader<L>>()
    }

    /// What updates write: all but the capacity and the placement.
    pub(crate) fn written_fields(&self) -> WrittenFields {
        let order = offset_of!(SharedPageHeader<L>, order);
        WrittenFields::NONE
            .and_field::<VersionWord>(offset_of!(SharedPageHeader<L>, version))
            .and_field::<AtomicU64>(offset_of!(SharedPageHeader<L>, lines))
            .and_field::<AtomicU64>(offset_of!(SharedPageHeader<L>, keys))
            .and(order..bytes_of::<L>(self.capacity()))
    }

    /// Prefetches what a search reads before the leaf line.
    #[inline(always)]
    pub(crate) fn prefetch(address: usize) {
        let head = std::ptr::with_exposed_provenance::<SharedPageHeader<L>>(address);
        for line in 0..size_of::<SharedPageHeader<L>>() / 64 {
            prefetch_line(head.cast::<u8>().wrapping_add(64 * line));
        }
    }

    /// Leaf lines in use; at least one, and at most as many as there are, even when torn.
    #[inline(always)]
    pub(crate) fn lines(&self) -> usize {
        (self.lines.load(Ordering::Relaxed) as usize).clamp(1, self.capacity())
    }

    #[inline(always)]
    pub(crate) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed) as usize
    }

    fn add_keys(&self, change: i64) {
        let keys = self.keys.load(Ordering::Relaxed);
        self.keys
            .store(keys.wrapping_add_signed(change), Ordering::Relaxed);
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> usize {
        (self.order.get(index / 8 % 8) >> (index % 8 * 8)) as usize & 0xff
    }

    /// The leaf line at `index` in key order.
    #[inline(always)]
    pub(crate) fn leaf(&self, index: usize) -> &Leaf<L> {
        &self.leaves[self.slot(index).min(self.capacity() - 1)]
    }

    /// The leaf line that is responsible for `key`.
    #[inline(always)]
    pub(crate) fn route<N: Kernel>(&self, key: L) -> usize {
        self.routing.route::<N>(key)
    }

    /// Where `key` is or belongs.
    #[inline(always)]
    pub(crate) fn find<N: Kernel>(&self, key: L) -> PagePosition {
        let index = self.route::<N>(key);
        let (rank, found) = self.leaf(index).find::<N>(key);
        PagePosition { index, rank, found }
    }

    #[inline(always)]
    pub(crate) fn word(&self, position: &PagePosition) -> u64 {
        self.leaf(position.index).word(position.rank)
    }

    /// The word of `key`, if it is there.
    #[inline(always)]
    pub(crate) fn get<N: Kernel>(&self, key: L) -> Option<u64> {
        let leaf = self.leaf(self.route::<N>(key));
        let (rank, found) = leaf.find::<N>(key);
        found.then(|| leaf.word(rank))
    }

    /// Changes the word of a key that is there: one store, no mark, no reader disturbed.
    #[inline(always)]
    pub(crate) fn set_word(&self, position: &PagePosition, word: u64) {
        self.leaf(position.index).set_word(position.rank, word);
    }

    /// A neighbour of the leaf line at `index` that is not full.
    fn neighbour_with_room(&self, index: usize) -> Option<usize> {
        let near = [index.wrapping_sub(1), index + 1];
        near.into_iter()
            .find(|&near| near < self.lines() && self.leaf(near).count() < L::LEAF)
    }

    /// Whether a key can be put there. The caller holds the latch.
    #[inline(always)]
    pub(crate) fn has_room(&self, position: &PagePosition) -> bool {
        self.leaf(position.index).count() < L::LEAF
            || self.lines() < self.capacity()
            || self.neighbour_with_room(position.index).is_some()
    }

    /// Whether a page of a larger capacity can replace this one.
    pub(crate) fn can_grow(&self, most: usize) -> bool {
        self.capacity() < most
    }

    /// Tells readers that keys move. The caller holds the latch.
    #[inline(always)]
    fn mark_changing(&self) {
        if !planted(PlantedBug::ChangeNotMarked) {
            self.version.mark_inserting();
        }
    }

    /// Tells threads that read the page, or wait for its latch, that other pages have replaced it.
    /// The caller holds the latch.
    pub(crate) fn mark_replaced(&self) {
        if !planted(PlantedBug::ReplacedNotMarked) {
            self.version.mark_deleted();
        }
    }

    /// Puts a new key at a position that has room. The caller holds the latch.
    #[inline(always)]
    pub(crate) fn insert(&self, position: &PagePosition, key: L, word: u64) {
        self.mark_changing();
        self.add_keys(1);
        let leaf = self.leaf(position.index);
        if leaf.count() < L::LEAF {
            leaf.insert(position.rank, key, word);
        } else {
            self.insert_into_full(position, (key, word));
        }
    }

    #[inline(never)]
    fn insert_into_full(&self, position: &PagePosition, pair: (L, u64)) {
        let (index, lines) = (position.index, self.lines());
        let mut run = Run::new();
        if lines < self.capacity() {
            run.append(self.leaf(index));
            run.insert(position.rank, pair);
            // Ascending inserts leave full lines behind.
            let last = index + 1 == lines && position.rank == L::LEAF;
            let cut = if last { L::LEAF } else { L::LEAF.div_ceil(2) };
            let (low, high) = run.pairs().split_at(cut);
            self.insert_slot(index + 1);
            self.routing.insert(lines - 1, index, low[cut - 1].0);
            self.leaf(index).write(low);
            self.leaf(index + 1).write(high);
            self.lines.store(lines as u64 + 1, Ordering::Relaxed);
        } else if let Some(near) = self.neighbour_with_room(index) {
            let left = near.min(index);
            run.append(self.leaf(left));
            run.append(self.leaf(left + 1));
            let before = if left == index {
                0
            } else {
                self.leaf(left).count()
            };
            run.insert(before + position.rank, pair);
            self.redistribute(left, &run);
        } else {
            unreachable!("the caller asked for room");
        }
    }

    /// Writes the pairs of `run` evenly into the leaf line at `left` and its right neighbour.
    fn redistribute(&self, left: usize, run: &Run<L>) {
        let (low, high) = run.pairs().split_at(run.pairs().len().div_ceil(2));
        self.leaf(left).write(low);
        self.leaf(left + 1).write(high);
        self.routing.set(left, low[low.len() - 1].0);
    }

    /// Removes the key at a position. The caller holds the latch.
    #[inline(always)]
    pub(crate) fn remove(&self, position: &PagePosition) {
        self.mark_changing();
        self.add_keys(-1);
        let leaf = self.leaf(position.index);
        leaf.remove(position.rank);
        if leaf.count() < L::LEAF / 2 {
            self.merge(position.index);
        }
    }

    /// Merges the leaf line at `index` with a neighbour if they fit, with room left over; an empty
    /// line always goes.
    #[inline(never)]
    fn merge(&self, index: usize) {
        let lines = self.lines();
        for left in [index.wrapping_sub(1), index] {
            let right = left.wrapping_add(1);
            if left >= lines || right >= lines {
                continue;
            }
            let mut run = Run::new();
            run.append(self.leaf(left));
            run.append(self.leaf(right));
            if run.pairs().len() > keys_of_new_line::<L>() && self.leaf(index).count() > 0 {
                continue;
            }
            self.leaf(left).write(run.pairs());
            self.leaf(right).write(&[]);
            self.remove_slot(right);
            self.routing.remove(lines - 1, left);
            self.lines.store(lines as u64 - 1, Ordering::Relaxed);
            return;
        }
    }

    fn slots(&self) -> [u8; 64] {
        let mut slots = [0; 64];
        for (eight, word) in slots.chunks_exact_mut(8).zip(self.order.load()) {
            eight.copy_from_slice(&word.to_le_bytes());
        }
        slots
    }

    fn set_slots(&self, slots: &[u8; 64]) {
        for (lane, eight) in slots.as_chunks::<8>().0.iter().enumerate() {
            self.order.set(lane, u64::from_le_bytes(*eight));
        }
    }

    /// Moves the first free slot to `index`.
    fn insert_slot(&self, index: usize) {
        let mut slots = self.slots();
        slots[index..=self.lines()].rotate_right(1);
        self.set_slots(&slots);
    }

    /// Makes the slot at `index` the first free one.
    fn remove_slot(&self, index: usize) {
        let mut slots = self.slots();
        slots[index..self.lines()].rotate_left(1);
        self.set_slots(&slots);
    }

    /// All pairs in key order. The caller holds the latch, or looks at the version before and
    /// after.
    pub(crate) fn pairs(&self) -> Vec<(L, u64)> {
        let mut pairs = Vec::with_capacity(self.keys());
        for index in 0..self.lines() {
            let leaf = self.leaf(index);
            pairs.extend((0..leaf.count()).map(|at| leaf.pair(at)));
        }
        pairs
    }

    /// Checks everything; how many keys there are. Keys lie above `low` and at or below `high`.
    pub(crate) fn verify(&self, low: Option<L>, high: Option<L>) -> Result<usize, String> {
        let lines = self.lines.load(Ordering::Relaxed) as usize;
        if lines == 0 || lines > self.capacity() {
            return Err(format!("{lines} leaf lines of {}", self.capacity()));
        }
        self.routing.verify(lines - 1)?;
        let mut seen = self.slots()[..self.capacity()].to_vec();
        seen.sort_unstable();
        if !seen
            .iter()
            .enumerate()
            .all(|(at, &slot)| at == usize::from(slot))
        {
            return Err(format!("slots {seen:?} are no permutation"));
        }
        let (mut count, mut last) = (0, low);
        for index in 0..lines {
            let keys = self.leaf(index).verify();
            let keys = keys.map_err(|problem| format!("leaf line {index}: {problem}"))?;
            if keys.is_empty() && lines > 1 {
                return Err(format!("leaf line {index} is empty"));
            }
            for key in keys {
                if last.is_some_and(|last| last >= key) || high.is_some_and(|high| key > high) {
                    return Err(format!("leaf line {index}: key {key:?} is out of order"));
                }
                last = Some(key);
                count += 1;
            }
            if index + 1 < lines {
                let separator = self.routing.get(index);
                if last.is_some_and(|last| last > separator) {
                    return Err(format!("leaf line {index} is above its separator"));
                }
                last = Some(separator);
            }
        }
        if count != self.keys() {
            return Err(format!("{count} keys, counted as {}", self.keys()));
        }
        Ok(count)
    }
}
