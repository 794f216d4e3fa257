//! The report's page, as the tree sees it: [`PageForm`] for [`NestedPage`].

use hedgerow_memory::prefetch_line;
use hedgerow_simd::Kernel;

use crate::key_bounds::KeyBounds;
use crate::node_key::NodeKey;
use crate::paper::node::form::{Inserted, KeyPosition, PageForm, equal, inside};
use crate::paper::node::page::{MOST_LEVELS, NestedPage, most_leaves};
use crate::paper::strategy::Strategy;

impl<L: NodeKey, V: Copy + Default, S: Strategy> PageForm<L, V, S> for NestedPage<L, V> {
    const CAPACITY: usize = most_leaves(S::SLOTS, L::INNER + 1) * L::LEAF;
    const STEPS: usize = MOST_LEVELS;

    fn build(pairs: &[(L, V)]) -> Self {
        Self::build::<S>(pairs, V::default())
    }

    #[inline(always)]
    fn key_count(&self) -> usize {
        usize::from(self.head.keys)
    }

    #[inline(always)]
    fn tag(&self) -> u32 {
        u32::from(self.head.root)
    }

    #[inline(always)]
    fn prefetch(&self, tag: u32) {
        prefetch_line(&raw const self.head);
        prefetch_line(self.line(tag as u8));
    }

    #[inline(always)]
    fn prefetch_scan(&self) {
        prefetch_line(&raw const self.head);
    }

    #[inline(always)]
    fn find<N: Kernel>(&self, key: L) -> KeyPosition {
        let path = self.path::<N, S>(key);
        let leaf = self.leaf_of(&path);
        prefetch_line(self.values(leaf).as_ptr());
        PageForm::<L, V, S>::find_in::<N>(self, leaf, key)
    }

    #[inline(always)]
    fn insert<N: Kernel>(&mut self, key: L, value: V) -> Inserted<V> {
        if S::has_fences() && self.head.stale {
            self.renew_fences::<S>();
        }
        let path = self.path::<N, S>(key);
        let leaf = self.leaf_of(&path);
        let spot = PageForm::<L, V, S>::find_in::<N>(self, leaf, key);
        if spot.found {
            let place = &mut self.values_mut(leaf)[spot.position];
            return Inserted::Replaced(std::mem::replace(place, value));
        }
        if self.insert::<S>(&path, spot.position, key, value) {
            return Inserted::New;
        }
        // Lines that are not full can be packed closer together.
        let len = usize::from(self.head.keys);
        if len >= <Self as PageForm<L, V, S>>::CAPACITY * 3 / 4 {
            return Inserted::Full;
        }
        let mut pairs = Vec::with_capacity(len);
        PageForm::<L, V, S>::pairs(self, &mut pairs);
        *self = Self::build::<S>(&pairs, V::default());
        let path = self.path::<N, S>(key);
        let position = self.line(self.leaf_of(&path)).leaf_rank::<N>(key);
        if self.insert::<S>(&path, position, key, value) {
            Inserted::New
        } else {
            Inserted::Full
        }
    }

    #[inline(always)]
    fn remove<N: Kernel>(&mut self, key: L) -> Option<V> {
        if S::has_fences() && self.head.stale {
            self.renew_fences::<S>();
        }
        let path = self.path::<N, S>(key);
        let leaf = self.leaf_of(&path);
        let spot = PageForm::<L, V, S>::find_in::<N>(self, leaf, key);
        spot.found.then(|| {
            let value = self.values(leaf)[spot.position];
            self.remove(&path, spot.position);
            value
        })
    }

    #[inline(always)]
    fn enter(&self) -> u8 {
        self.head.root
    }

    #[inline(always)]
    fn step<N: Kernel>(&self, step: usize, at: u8, key: L) -> u8 {
        if step >= usize::from(self.head.height) {
            return at;
        }
        let line = self.line(at);
        let below = line.child(line.route::<N>(key));
        prefetch_line(self.line(below));
        prefetch_line(self.values(below).as_ptr());
        below
    }

    #[inline(always)]
    fn find_in<N: Kernel>(&self, leaf: u8, key: L) -> KeyPosition {
        let line = self.line(leaf);
        let position = line.leaf_rank::<N>(key);
        KeyPosition {
            leaf,
            position,
            found: line.leaf_keys().get(position) == Some(&key),
        }
    }

    fn leaves(&self) -> ([u8; 64], usize) {
        self.leaves()
    }

    #[inline(always)]
    fn keys(&self, leaf: u8) -> &[L] {
        self.line(leaf).leaf_keys()
    }

    #[inline(always)]
    fn values(&self, leaf: u8) -> &[V] {
        self.values(leaf)
    }

    fn verify(&self, bounds: KeyBounds<L>) -> Result<usize, String> {
        let mut seen = 1_u64;
        let (root, height) = (self.head.root, self.head.height);
        let keys = lines(self, root, height, bounds, &mut seen)?;
        equal("its count of keys", usize::from(self.head.keys), keys)?;
        equal("its bitmap", self.head.used, seen)?;
        let used = seen.count_ones() as usize - 1;
        if used > S::SLOTS {
            return Err(format!("{used} lines are in use"));
        }
        let fenced = usize::from(self.head.fenced);
        if fenced > 0 {
            let root = self.line(root).unpack();
            let keys = &self.head.fence_keys.as_ref()[..root.count];
            let slots = &self.head.fence_slots[..fenced];
            equal("fences", fenced, root.count + 1)?;
            equal("fence keys", keys, &root.keys[..root.count])?;
            equal("fence slots", slots, &root.children[..fenced])?;
        }
        Ok(keys)
    }
}

/// Checks the lines below `slot`; how many keys they hold.
fn lines<L: NodeKey, V: Copy>(
    page: &NestedPage<L, V>,
    slot: u8,
    height: u8,
    bounds: KeyBounds<L>,
    seen: &mut u64,
) -> Result<usize, String> {
    if !(1..=63).contains(&slot) || *seen & 1 << slot != 0 {
        return Err(format!("line {slot} is reached twice, or is none"));
    }
    *seen |= 1 << slot;
    let line = page.line(slot);
    if height == 0 {
        let keys = line.leaf_keys();
        equal("a leaf's count", line.count(), keys.len())?;
        let padding = &line.0.as_ref()[1 + keys.len()..];
        if padding.iter().any(|&lane| lane != L::MAX) {
            return Err(format!("leaf {slot} has a key behind its last"));
        }
        inside(keys, bounds).map_err(|problem| format!("leaf {slot}: {problem}"))?;
        if page.head.height > 0 && keys.is_empty() {
            return Err(format!("leaf {slot} is empty"));
        }
        return Ok(keys.len());
    }
    let node = line.unpack();
    let keys = line.separators();
    equal("an inner line's count", line.count(), keys.len())?;
    if keys.is_empty() {
        return Err(format!("inner line {slot} has one child"));
    }
    inside(keys, bounds).map_err(|problem| format!("inner line {slot}: {problem}"))?;
    let mut found = 0;
    for (index, &child) in node.children[..=node.count].iter().enumerate() {
        let bounds = bounds.of_child(keys, index);
        found += lines(page, child, height - 1, bounds, seen)?;
    }
    Ok(found)
}
