//! Inner nodes of the outer tree: up to 511 separators and 512 children, in 106 cache lines.
//!
//! ```text
//! top       1 line    the last separator of each line of samples
//! samples   8 lines   the last separator of each line (2 of them with 32-bit keys)
//! lines    64 lines   separators (32 of them with 32-bit keys)
//! children            numbers of nodes or pages, and a count
//! ```
//!
//! A search compares lines, and no branch depends on a key. [`Sampled`] compares all samples at
//! once, then one line: two cache misses after one another. [`Blocked`] descends a line a level
//! as FAST does (the report's proposal D): three, but three lines in all instead of six. A binary
//! search among as many separators has five or more. [`SampledOrBlocked`] is the one of the two
//! that takes fewer instructions: with 32-bit keys, whose samples are two lines at most, all at
//! once. A strategy uses as many lines as its fan-out asks for.
//!
//! A node has one separator less than its lines have places: the last place holds the greatest
//! integer, so that the child of a key is always beside its line's.
//!
//! A node changes in place: lines of separators pass their last on to the next, a few vector
//! instructions each. Nodes are no power of two long, so that the tops of all nodes do not meet
//! in the same few cache sets, as those of 4 KiB nodes do.

use hedgerow_memory::prefetch_line;
use hedgerow_simd::Kernel;

use crate::line::Line;
use crate::node_key::NodeKey;
use crate::paper::strategy::Strategy;

/// The most children of a node.
pub(crate) const MOST_CHILDREN: usize = 512;

/// The most lines of separators, reached with 64-bit keys.
const LINES: usize = 64;
/// The most lines of samples.
const SAMPLES: usize = 8;

/// An inner node. Places without a separator hold the greatest integer.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct OuterNode<L: NodeKey> {
    top: Line<L>,
    samples: [Line<L>; SAMPLES],
    lines: [Line<L>; LINES],
    children: [u32; MOST_CHILDREN],
    count: u32,
}

// The node as it is drawn above.
const _: () = {
    assert!(size_of::<Line<i64>>() == 64 && size_of::<OuterNode<i64>>() == 106 * 64);
    assert!(size_of::<OuterNode<i32>>() == 106 * 64);
};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Sampled {}
    impl Sealed for super::Blocked {}
    impl Sealed for super::SampledOrBlocked {}
    impl Sealed for super::Branching {}
    impl Sealed for super::BranchFree {}
}

/// How the line of a key is found within a node.
pub trait Search: sealed::Sealed + Send + Sync + 'static {
    /// The most lines of samples that are all compared; more are found by the top line.
    const MOST_SAMPLED: usize;
    /// How separators are halved, where no samples are looked at.
    const HALVING: Option<Halving> = None;
}

/// A binary search, as the report has it: both separators that may be next are prefetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halving {
    /// With a branch that nothing foretells.
    Branching,
    /// By arithmetic.
    BranchFree,
}

/// A binary search with a branch (§9.2, before proposal C).
#[derive(Debug, Clone, Copy)]
pub struct Branching;

impl Search for Branching {
    const MOST_SAMPLED: usize = 0;
    const HALVING: Option<Halving> = Some(Halving::Branching);
}

/// A binary search without one (proposal C).
#[derive(Debug, Clone, Copy)]
pub struct BranchFree;

impl Search for BranchFree {
    const MOST_SAMPLED: usize = 0;
    const HALVING: Option<Halving> = Some(Halving::BranchFree);
}

/// All samples at once.
#[derive(Debug, Clone, Copy)]
pub struct Sampled;

impl Search for Sampled {
    const MOST_SAMPLED: usize = SAMPLES;
}

/// One line a level.
#[derive(Debug, Clone, Copy)]
pub struct Blocked;

impl Search for Blocked {
    const MOST_SAMPLED: usize = 1;
}

/// All samples at once where they are two lines, one line a level where they are more.
#[derive(Debug, Clone, Copy)]
pub struct SampledOrBlocked;

impl Search for SampledOrBlocked {
    const MOST_SAMPLED: usize = 2;
}

impl<L: NodeKey> Default for OuterNode<L> {
    fn default() -> Self {
        Self::new(&[], &[])
    }
}

/// Lines of samples that a strategy uses.
const fn sample_lines_of<L: NodeKey, S: Strategy>() -> usize {
    (S::FAN_OUT - 1).div_ceil(L::LANES).div_ceil(L::LANES)
}

impl<L: NodeKey> OuterNode<L> {
    /// Lines of separators, and of their samples, that there is room for.
    const LINES: usize = MOST_CHILDREN / L::LANES;
    const SAMPLES: usize = Self::LINES.div_ceil(L::LANES);

    /// A node of these separators and one child more.
    pub(crate) fn new(keys: &[L], children: &[u32]) -> Self {
        let padding = Line(L::PADDING);
        let mut node = Self {
            top: padding,
            samples: [padding; SAMPLES],
            lines: [padding; LINES],
            children: [0; MOST_CHILDREN],
            count: keys.len() as u32,
        };
        for (line, some) in node.lines.iter_mut().zip(keys.chunks(L::LANES)) {
            line.0.as_mut()[..some.len()].copy_from_slice(some);
        }
        node.sample_from(0);
        node.children[..children.len()].copy_from_slice(children);
        node
    }

    /// Renews the samples of line `first` and of all behind it. The last line that a node can
    /// have needs none: what is above all others is in it.
    fn sample_from(&mut self, first: usize) {
        for line in first..Self::LINES - 1 {
            let last = self.lines[line].0.as_ref()[L::LANES - 1];
            self.samples[line / L::LANES].0.as_mut()[line % L::LANES] = last;
        }
        for samples in first / L::LANES..Self::SAMPLES - 1 {
            let last = self.samples[samples].0.as_ref()[L::LANES - 1];
            self.top.0.as_mut()[samples] = last;
        }
    }

    /// Which child is responsible for `key`.
    #[inline(always)]
    pub(crate) fn route<N: Kernel, S: Strategy>(&self, key: L) -> usize {
        if let Some(halving) = S::Search::HALVING {
            return self.halve::<S>(halving, key);
        }
        let line = self.sampled::<N, S>(key);
        // The child's number is in one line of few, already known: it comes beside the separators.
        self.prefetch_children(line);
        self.route_in::<N>(line, key)
    }

    /// The line of separators for `key`; prefetches it, and the children that it leads to.
    #[inline(always)]
    pub(crate) fn line_of<N: Kernel, S: Strategy>(&self, key: L) -> usize {
        let line = match S::Search::HALVING {
            Some(halving) => self.halve::<S>(halving, key) / L::LANES,
            None => self.sampled::<N, S>(key),
        };
        prefetch_line(&raw const self.lines[line % LINES]);
        self.prefetch_children(line);
        line
    }

    #[inline(always)]
    fn prefetch_children(&self, line: usize) {
        prefetch_line(self.children.as_ptr().wrapping_add(line * L::LANES));
    }

    /// Separators below `key`, by a binary search. Places without a separator take part in it:
    /// their number is in a line that a search needs for nothing else.
    #[inline(always)]
    fn halve<S: Strategy>(&self, halving: Halving, key: L) -> usize {
        let line = |index: usize| &self.lines[index / L::LANES % LINES];
        let (mut low, mut high) = (0, S::FAN_OUT - 1);
        while low < high {
            let middle = (low + high) / 2;
            prefetch_line(line((low + middle) / 2));
            prefetch_line(line((middle + 1 + high) / 2));
            let below = line(middle).0.as_ref()[middle % L::LANES] < key;
            match halving {
                // What is opaque cannot be made a conditional move.
                Halving::Branching if below => {
                    std::hint::black_box(());
                    low = middle + 1;
                }
                Halving::Branching => high = middle,
                Halving::BranchFree => {
                    let mask = usize::from(below).wrapping_neg();
                    low += (middle + 1 - low) & mask;
                    high = high.wrapping_add(middle.wrapping_sub(high) & !mask);
                }
            }
        }
        low
    }

    /// How many lines' last separators are below `key`.
    #[inline(always)]
    fn sampled<N: Kernel, S: Strategy>(&self, key: L) -> usize {
        let used = const { sample_lines_of::<L, S>() };
        if used > S::Search::MOST_SAMPLED {
            let samples = self.top.rank::<N>(key);
            samples * L::LANES + self.samples[samples % SAMPLES].rank::<N>(key)
        } else {
            L::count_all::<N>(self.samples[..used].iter().map(|line| &line.0), key)
        }
    }

    /// Which child is responsible for `key`, by the line that [`line_of`](Self::line_of) found.
    #[inline(always)]
    pub(crate) fn route_in<N: Kernel>(&self, line: usize, key: L) -> usize {
        line * L::LANES + self.lines[line % LINES].rank::<N>(key)
    }

    #[inline(always)]
    pub(crate) fn child(&self, index: usize) -> u32 {
        self.children[index % MOST_CHILDREN]
    }

    #[inline(always)]
    pub(crate) fn set_child(&mut self, index: usize, child: u32) {
        self.children[index] = child;
    }

    /// Separators.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// Separator `index`.
    pub(crate) fn key(&self, index: usize) -> L {
        self.lines[index / L::LANES].0.as_ref()[index % L::LANES]
    }

    pub(crate) fn set_key(&mut self, index: usize, key: L) {
        self.lines[index / L::LANES].0.as_mut()[index % L::LANES] = key;
        self.sample_from(index / L::LANES);
    }

    /// Puts `child` behind child `index`, with `key` between them; there is room.
    pub(crate) fn insert(&mut self, index: usize, key: L, child: u32) {
        let count = self.count();
        let (first, mut position, mut carried) = (index / L::LANES, index % L::LANES, key);
        for line in &mut self.lines[first..=count / L::LANES] {
            carried = L::push_in(&mut line.0, position, carried);
            position = 0;
        }
        self.sample_from(first);
        self.children.copy_within(index + 1..=count, index + 2);
        self.children[index + 1] = child;
        self.count += 1;
    }

    /// Removes separator `index` and the child behind it.
    pub(crate) fn remove(&mut self, index: usize) {
        let count = self.count();
        let (first, last) = (index / L::LANES, (count - 1) / L::LANES);
        for line in first..=last {
            let next = self.lines.get(line + 1).filter(|_| line < last);
            let carried = next.map_or(L::MAX, |next| next.0.as_ref()[0]);
            let position = if line == first { index % L::LANES } else { 0 };
            L::pull_out(&mut self.lines[line].0, position, carried);
        }
        self.sample_from(first);
        self.children.copy_within(index + 2..=count, index + 1);
        self.count -= 1;
    }

    pub(crate) fn keys(&self) -> Vec<L> {
        let lanes = self.lines.iter().flat_map(|line| line.0.as_ref());
        lanes.copied().take(self.count()).collect()
    }

    pub(crate) fn children(&self) -> &[u32] {
        &self.children[..=self.count()]
    }

    /// Prefetches the lines that a search reads first.
    #[inline(always)]
    pub(crate) fn prefetch<S: Strategy>(&self) {
        let used = const { sample_lines_of::<L, S>() };
        if S::Search::HALVING.is_some() {
            prefetch_line(&raw const self.lines[(S::FAN_OUT - 1) / 2 / L::LANES % LINES]);
            return;
        }
        if used > S::Search::MOST_SAMPLED {
            prefetch_line(&raw const self.top);
            return;
        }
        for line in &self.samples[..used] {
            prefetch_line(line);
        }
    }

    /// Whether samples are what they should be.
    pub(crate) fn verify_samples(&self) -> Result<(), String> {
        let fresh = Self::new(&self.keys(), self.children());
        let lanes = |node: &Self| -> Vec<L> {
            let lines = node.samples.iter().chain(&node.lines);
            let lines = std::iter::once(&node.top).chain(lines);
            lines.flat_map(|line| line.0.as_ref()).copied().collect()
        };
        if lanes(self) == lanes(&fresh) {
            Ok(())
        } else {
            Err("an inner node's samples do not match its separators".to_owned())
        }
    }
}
