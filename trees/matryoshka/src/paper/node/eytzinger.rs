//! A page whose sub-tree is laid out breadth first, without links (the report's §12.4.2).
//!
//! ```text
//! head    | keys | leaves |                        64
//! root    | count | separators |                   64   slot 1
//! leaves  | leaf 0 | leaf 1 | …                 n × 64   slots 2 … n + 1
//! values  | of leaf 0 | of leaf 1 | …
//! ```
//!
//! With 32-bit keys the root has 15 separators and 16 children, 240 keys in all; with 64-bit
//! keys 7 and 8, 56 keys. Where child `i` lies needs no load, so all are prefetched together with
//! the root; a parent keeps their number in the page's tag. What this costs: children lie dense
//! and in order, so a leaf that overflows has the whole page written anew.

use std::mem::offset_of;

use hedgerow_memory::prefetch_line;
use hedgerow_simd::Kernel;

use crate::key_bounds::KeyBounds;
use crate::line::Line;
use crate::node_key::NodeKey;
use crate::paper::node::form::{Inserted, KeyPosition, PageForm, equal, inside};
use crate::paper::strategy::Strategy;

/// A page of a root and its leaves.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct EytzingerPage<L: NodeKey, V: Copy> {
    head: EytzingerHeader,
    root: Line<L>,
    leaves: L::Values<Line<L>>,
    values: L::Values<L::Values<V>>,
}

// The page as it is drawn above.
const _: () = {
    assert!(offset_of!(EytzingerPage<i64, i64>, root) == 64);
    assert!(offset_of!(EytzingerPage<i64, i64>, leaves) == 128);
    assert!(offset_of!(EytzingerPage<i64, i64>, values) == 128 + 8 * 64);
    assert!(offset_of!(EytzingerPage<i32, i32>, values) == 128 + 16 * 64);
};

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct EytzingerHeader {
    keys: u16,
    leaves: u8,
}

impl<L: NodeKey, V: Copy + Default> EytzingerPage<L, V> {
    /// The most leaves under a root, which takes a slot itself.
    const fn most_leaves<S: Strategy>() -> usize {
        if S::SLOTS - 1 < L::LEAF + 1 {
            S::SLOTS - 1
        } else {
            L::LEAF + 1
        }
    }

    #[inline(always)]
    fn leaf(&self, leaf: usize) -> &Line<L> {
        &self.leaves.as_ref()[leaf]
    }

    /// A page of these pairs in so many leaves, evenly.
    fn dense(pairs: &[(L, V)], leaves: usize) -> Self {
        let mut page = Self {
            head: EytzingerHeader {
                keys: pairs.len() as u16,
                leaves: leaves as u8,
            },
            root: Line::EMPTY,
            leaves: L::values(Line::EMPTY),
            values: L::values(L::values(V::default())),
        };
        for leaf in 0..leaves {
            let some = &pairs[pairs.len() * leaf / leaves..pairs.len() * (leaf + 1) / leaves];
            page.leaves.as_mut()[leaf] = Line::leaf(some.iter().map(|pair| pair.0));
            let values = page.values.as_mut()[leaf].as_mut();
            for (place, pair) in values.iter_mut().zip(some) {
                *place = pair.1;
            }
            if leaf + 1 < leaves {
                page.root.leaf_insert(leaf, some[some.len() - 1].0);
            }
        }
        page
    }

    /// Lays the page out anew in so many leaves.
    fn lay_out<S: Strategy>(&mut self, leaves: usize) {
        let mut pairs = Vec::with_capacity(usize::from(self.head.keys));
        PageForm::<L, V, S>::pairs(self, &mut pairs);
        *self = Self::dense(&pairs, leaves);
    }

    #[inline(always)]
    fn put(&mut self, spot: KeyPosition, key: L, value: V) {
        let leaf = usize::from(spot.leaf);
        self.leaves.as_mut()[leaf].leaf_insert(spot.position, key);
        L::push_value(&mut self.values.as_mut()[leaf], spot.position, value);
        self.head.keys += 1;
    }

    /// Whether a leaf that lost a key is to go: it is empty, or fits into a neighbour.
    fn is_underfull(&self, leaf: usize) -> bool {
        let count = self.leaf(leaf).count();
        let fits = |other: usize| {
            other < usize::from(self.head.leaves) && self.leaf(other).count() + count <= L::LEAF
        };
        self.head.leaves > 1
            && count < L::LEAF / 2
            && (count == 0 || fits(leaf.wrapping_sub(1)) || fits(leaf + 1))
    }
}

impl<L: NodeKey, V: Copy + Default, S: Strategy> PageForm<L, V, S> for EytzingerPage<L, V> {
    const CAPACITY: usize = Self::most_leaves::<S>() * L::LEAF;
    const STEPS: usize = 1;

    fn build(pairs: &[(L, V)]) -> Self {
        let roomy = pairs.len().div_ceil(L::LEAF * 3 / 4).max(1);
        Self::dense(pairs, roomy.min(Self::most_leaves::<S>()))
    }

    #[inline(always)]
    fn key_count(&self) -> usize {
        usize::from(self.head.keys)
    }

    #[inline(always)]
    fn tag(&self) -> u32 {
        u32::from(self.head.leaves)
    }

    #[inline(always)]
    fn prefetch(&self, tag: u32) {
        prefetch_line(&raw const self.head);
        prefetch_line(&raw const self.root);
        for leaf in self.leaves.as_ref().iter().take(tag as usize) {
            prefetch_line(leaf);
        }
    }

    #[inline(always)]
    fn prefetch_scan(&self) {
        PageForm::<L, V, S>::prefetch(self, L::LANES as u32);
    }

    #[inline(always)]
    fn find<N: Kernel>(&self, key: L) -> KeyPosition {
        let leaf = self.root.leaf_rank::<N>(key);
        prefetch_line(self.values.as_ref()[leaf].as_ref().as_ptr());
        PageForm::<L, V, S>::find_in::<N>(self, leaf as u8, key)
    }

    #[inline(always)]
    fn insert<N: Kernel>(&mut self, key: L, value: V) -> Inserted<V> {
        let mut spot = PageForm::<L, V, S>::find::<N>(self, key);
        if spot.found {
            let place = &mut self.values.as_mut()[usize::from(spot.leaf)].as_mut()[spot.position];
            return Inserted::Replaced(std::mem::replace(place, value));
        }
        if self.leaf(usize::from(spot.leaf)).count() == L::LEAF {
            let most = Self::most_leaves::<S>();
            let leaves = most.min(usize::from(self.head.leaves) + 1);
            if usize::from(self.head.keys) > leaves * (L::LEAF - 1) {
                return Inserted::Full;
            }
            self.lay_out::<S>(leaves);
            spot = PageForm::<L, V, S>::find::<N>(self, key);
        }
        self.put(spot, key, value);
        Inserted::New
    }

    #[inline(always)]
    fn remove<N: Kernel>(&mut self, key: L) -> Option<V> {
        let spot = PageForm::<L, V, S>::find::<N>(self, key);
        if !spot.found {
            return None;
        }
        let leaf = usize::from(spot.leaf);
        let value = self.values.as_ref()[leaf].as_ref()[spot.position];
        self.leaves.as_mut()[leaf].leaf_remove(spot.position);
        L::pull_value(&mut self.values.as_mut()[leaf], spot.position);
        self.head.keys -= 1;
        if self.is_underfull(leaf) {
            self.lay_out::<S>(usize::from(self.head.leaves) - 1);
        }
        Some(value)
    }

    #[inline(always)]
    fn enter(&self) -> u8 {
        0
    }

    #[inline(always)]
    fn step<N: Kernel>(&self, _: usize, _: u8, key: L) -> u8 {
        let leaf = self.root.leaf_rank::<N>(key);
        prefetch_line(self.leaf(leaf));
        prefetch_line(self.values.as_ref()[leaf].as_ref().as_ptr());
        leaf as u8
    }

    #[inline(always)]
    fn find_in<N: Kernel>(&self, leaf: u8, key: L) -> KeyPosition {
        let line = self.leaf(usize::from(leaf));
        let position = line.leaf_rank::<N>(key);
        KeyPosition {
            leaf,
            position,
            found: line.leaf_keys().get(position) == Some(&key),
        }
    }

    fn leaves(&self) -> ([u8; 64], usize) {
        let leaves = usize::from(self.head.leaves);
        (std::array::from_fn(|leaf| leaf as u8), leaves)
    }

    #[inline(always)]
    fn keys(&self, leaf: u8) -> &[L] {
        self.leaf(usize::from(leaf)).leaf_keys()
    }

    #[inline(always)]
    fn values(&self, leaf: u8) -> &[V] {
        self.values.as_ref()[usize::from(leaf)].as_ref()
    }

    fn verify(&self, bounds: KeyBounds<L>) -> Result<usize, String> {
        let leaves = usize::from(self.head.leaves);
        if leaves == 0 || leaves > Self::most_leaves::<S>() {
            return Err(format!("there are {leaves} leaves"));
        }
        equal("separators", self.root.count(), leaves - 1)?;
        let separators = self.root.leaf_keys();
        inside(separators, bounds)?;
        let mut found = 0;
        for leaf in 0..leaves {
            let line = self.leaf(leaf);
            let keys = line.leaf_keys();
            equal("a leaf's count", line.count(), keys.len())?;
            if line.0.as_ref()[1 + keys.len()..]
                .iter()
                .any(|&lane| lane != L::MAX)
            {
                return Err(format!("leaf {leaf} has a key behind its last"));
            }
            if leaves > 1 && keys.is_empty() {
                return Err(format!("leaf {leaf} is empty"));
            }
            inside(keys, bounds.of_child(separators, leaf))
                .map_err(|problem| format!("leaf {leaf}: {problem}"))?;
            found += keys.len();
        }
        equal("its count of keys", usize::from(self.head.keys), found)?;
        Ok(found)
    }
}
