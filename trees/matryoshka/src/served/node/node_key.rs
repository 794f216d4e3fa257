//! What the nodes that threads share ask of their keys, and of the separators of such keys.
//!
//! [`width`](super::width) answers for keys of 32 and of 64 bits, [`routing`](super::routing) for
//! their separators.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;

use hedgerow_index::Direction;
use hedgerow_simd::{Kernel, SharedLine};

use super::words::Words;
use crate::node_key::KeyWidth;

/// A key's encoded form in a map for many threads: `u32` or `u64`.
pub trait SharedNodeKey: KeyWidth {
    /// The words beside the keys of a leaf line, each at the lane of its key.
    type Beside: AsRef<[AtomicU64]> + Debug;
    /// The separators of a page.
    type PageRouting: Router<Self>;
    /// The separators of an inner node.
    type InnerRouting: Router<Self>;
    /// Leaf lines of the sizes of pages, the last the most: with their heads they fill classes of
    /// 1,280, 2,560, 5,120 and 8,192 bytes.
    const CAPACITIES: [usize; 4];
    /// Zeros beside a leaf line.
    fn no_words() -> Self::Beside;
    /// A bit for every lane below `key`.
    fn below_shared<N: Kernel>(line: &SharedLine, key: Self) -> u32;
    /// How many lanes of lines of flipped keys are below `key`.
    fn count_flipped<N: Kernel, const LINES: usize>(
        lines: [&SharedLine; LINES],
        key: Self,
    ) -> usize;
    /// A key as lines of separators hold it, and the key of one.
    fn flipped(self) -> Self;
    /// The lane of a line.
    fn get(line: &Words, lane: usize) -> Self;
    /// Changes one lane. The caller holds the latch.
    fn set(line: &Words, lane: usize, key: Self);
    /// All lanes. Consistent only for who holds the latch, or validates afterwards.
    fn load(line: &Words) -> Self::Lanes;
    /// Changes all lanes.
    fn store(line: &Words, lanes: &Self::Lanes);
    /// The key after this one in a direction.
    fn beyond(self, direction: Direction) -> Option<Self>;
}

/// A line of words with these lanes.
pub(crate) fn line_of<L: SharedNodeKey>(lanes: &L::Lanes) -> Words {
    let line = Words::new([0; 8]);
    L::store(&line, lanes);
    line
}

/// Separators of one size of node, for keys of one width.
pub trait Router<L>: Debug {
    /// Lines that a search reads before the line of separators.
    const SAMPLE_LINES: usize;
    /// The most separators.
    const ROOM: usize;
    /// These separators.
    fn new(separators: impl IntoIterator<Item = L>) -> Self;
    /// The child that is responsible for `key`.
    fn route<N: Kernel>(&self, key: L) -> usize;
    /// A separator.
    fn get(&self, at: usize) -> L;
    /// Changes one separator, and the sample that repeats it.
    fn set(&self, at: usize, separator: L);
    /// Puts a separator among the first `count`.
    fn insert(&self, count: usize, at: usize, separator: L);
    /// Takes one of the first `count` separators out.
    fn remove(&self, count: usize, at: usize);
    /// Checks that the first `count` separators ascend, that nothing follows them, and that samples
    /// repeat what they should.
    fn verify(&self, count: usize) -> Result<(), String>;
}
