//! The tree as an [`IntIndex`]: searches by order, scans, and the bulk load.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{BulkLoad, Direction, IntIndex, NotAscending, Statistics};
use hedgerow_memory::prefetch_line;

use crate::node_key::{KeyWidth, MapKey};
use crate::paper::node::form::{KeyPosition, PageForm};
use crate::paper::node::outer::OuterNode;
use crate::paper::strategy::Strategy;
use crate::paper::tree::find::{Ceiling, Floor, Get, Locate};
use crate::paper::tree::shrink::Remove;
use crate::paper::tree::{Insert, Matryoshka, OuterPath, tag, untag};

impl<K, V, S> IntIndex<K> for Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    type Value = V;

    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn get(&self, key: K) -> Option<V> {
        self.level.run(Get(self, key.to_node_key()))
    }

    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<V>)) {
        self.look_up(keys, read);
    }

    #[inline]
    fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.level.run(Insert(self, key.to_node_key(), value))
    }

    #[inline]
    fn remove(&mut self, key: K) -> Option<V> {
        self.level.run(Remove(self, key.to_node_key()))
    }

    #[inline]
    fn predecessor(&self, key: K) -> Option<(K, V)> {
        match self.level.run(Floor(self, key.to_node_key())) {
            Some((key, value)) => Some((K::from_node_key(key), value)),
            None => self.nearest(key, Direction::Reverse),
        }
    }

    #[inline]
    fn successor(&self, key: K) -> Option<(K, V)> {
        match self.level.run(Ceiling(self, key.to_node_key())) {
            Some((key, value)) => Some((K::from_node_key(key), value)),
            None => self.nearest(key, Direction::Forward),
        }
    }

    fn scan(
        &self,
        from: Bound<K>,
        direction: Direction,
        mut visit: impl FnMut(K, V) -> ControlFlow<()>,
    ) {
        let start = match (from, direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => key.to_node_key(),
            (Bound::Unbounded, Direction::Forward) => K::NodeKey::MIN,
            (Bound::Unbounded, Direction::Reverse) => K::NodeKey::MAX,
        };
        let skip = match from {
            Bound::Excluded(key) => Some(key.to_node_key()),
            _ => None,
        };
        let visit = |key: K::NodeKey, value| {
            if skip == Some(key) {
                return ControlFlow::Continue(());
            }
            visit(K::from_node_key(key), value)
        };
        let (path, spot) = self.level.run(Locate(self, start));
        let _ = match direction {
            Direction::Forward => self.ascend(path, spot, visit),
            Direction::Reverse => self.descend(path, spot, visit),
        };
    }

    fn statistics(&self) -> Statistics {
        crate::paper::tree::verify::statistics(self)
    }

    fn verify(&self) -> Result<(), String> {
        crate::paper::tree::verify::verify(self)
    }
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    /// The nearest pair in a direction, wherever it is: a scan that ends at once.
    #[cold]
    #[inline(never)]
    fn nearest(&self, key: K, direction: Direction) -> Option<(K, V)> {
        let mut found = None;
        self.scan(Bound::Included(key), direction, |key, value| {
            found = Some((key, value));
            ControlFlow::Break(())
        });
        found
    }

    /// Visits pairs upwards from a spot of the path's page on.
    fn ascend(
        &self,
        mut path: OuterPath,
        spot: KeyPosition,
        mut visit: impl FnMut(K::NodeKey, V) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // The first leaf needs no list of the page's leaves, and often is enough.
        let mut page = self.pages.get(path.page);
        let pairs = page.keys(spot.leaf).iter().zip(page.values(spot.leaf));
        for (&key, &value) in pairs.skip(spot.position) {
            visit(key, value)?;
        }
        let mut after = Some(spot.leaf);
        loop {
            let (leaves, count) = page.leaves();
            let leaves = &leaves[..count];
            let from = after.take().map_or(0, |leaf| position(leaves, leaf) + 1);
            if let Some(next) = self.sibling(&path, Direction::Forward) {
                self.pages.get(untag(next)).prefetch_scan();
            }
            for (at, &leaf) in leaves.iter().enumerate().skip(from) {
                if let Some(&soon) = leaves.get(at + 2) {
                    prefetch_line(page.keys(soon).as_ptr());
                    prefetch_line(page.values(soon).as_ptr());
                }
                let values = page.values(leaf);
                for (&key, &value) in page.keys(leaf).iter().zip(values) {
                    visit(key, value)?;
                }
            }
            if !self.advance(&mut path, Direction::Forward) {
                return ControlFlow::Continue(());
            }
            page = self.pages.get(path.page);
        }
    }

    /// Visits pairs downwards from a spot of the path's page on, beginning with its key if that
    /// is there.
    fn descend(
        &self,
        mut path: OuterPath,
        spot: KeyPosition,
        mut visit: impl FnMut(K::NodeKey, V) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut page = self.pages.get(path.page);
        let until = spot.position + usize::from(spot.found);
        let pairs = page.keys(spot.leaf).iter().zip(page.values(spot.leaf));
        for (&key, &value) in pairs.take(until).rev() {
            visit(key, value)?;
        }
        let mut before = Some(spot.leaf);
        loop {
            let (leaves, count) = page.leaves();
            let leaves = &leaves[..count];
            let until = before.take().map_or(count, |leaf| position(leaves, leaf));
            if let Some(next) = self.sibling(&path, Direction::Reverse) {
                self.pages.get(untag(next)).prefetch_scan();
            }
            for &leaf in leaves[..until].iter().rev() {
                let values = page.values(leaf);
                for (&key, &value) in page.keys(leaf).iter().zip(values).rev() {
                    visit(key, value)?;
                }
            }
            if !self.advance(&mut path, Direction::Reverse) {
                return ControlFlow::Continue(());
            }
            page = self.pages.get(path.page);
        }
    }
}

/// Where a leaf stands among its page's.
fn position(leaves: &[u8], leaf: u8) -> usize {
    let found = leaves.iter().position(|&other| other == leaf);
    found.unwrap_or(0)
}

impl<K, V, S> BulkLoad<K> for Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    fn bulk_load(&mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<(), NotAscending> {
        self.clear();
        let unfinished = Unfinished(self);
        unfinished.0.load(pairs)?;
        std::mem::forget(unfinished);
        Ok(())
    }
}

/// A map that is being loaded: empty again if that is refused or ends in a panic.
struct Unfinished<'m, K: MapKey, V: Copy + Default, S: Strategy>(&'m mut Matryoshka<K, V, S>);

impl<K, V, S> Drop for Unfinished<'_, K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    /// Loads pairs into the empty map.
    fn load(&mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<(), NotAscending> {
        let each = Self::CAPACITY * 7 / 8;
        // Nodes and, for each, what is at or above all of its keys and below the next node's.
        let mut level: Vec<(K::NodeKey, u32)> = Vec::new();
        let mut run: Vec<(K::NodeKey, V)> = Vec::with_capacity(each);
        let mut last = None;
        for (position, (key, value)) in pairs.into_iter().enumerate() {
            if last.is_some_and(|last| last >= key) {
                return Err(NotAscending { position });
            }
            last = Some(key);
            let key = key.to_node_key();
            if run.len() == each {
                let last = level.last().map(|page| untag(page.1));
                level.push((key.before(), self.append_page(&run, last)));
                run.clear();
            }
            run.push((key, value));
            self.len += 1;
        }
        let last = level.last().map(|page| untag(page.1));
        level.push((K::NodeKey::MAX, self.append_page(&run, last)));
        if S::SUPERPAGES && level.len() > 1 {
            level = self.append_superpages(level);
            self.height = 1;
        }
        while level.len() > 1 {
            level = self.append_level(&level);
            self.height += 1;
        }
        self.root = level[0].1;
        Ok(())
    }
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: MapKey,
    V: Copy + Default,
    S: Strategy,
{
    /// A page of these pairs behind page `last`; its tagged number.
    fn append_page(&mut self, pairs: &[(K::NodeKey, V)], last: Option<u32>) -> u32 {
        let page = S::Page::build(pairs);
        let number = match last {
            // The empty tree's page becomes the first.
            None => {
                let number = untag(self.root);
                *self.pages.get_mut(number) = page;
                number
            }
            Some(last) => self.allocate_behind(last, &page),
        };
        tag(number, page.tag())
    }

    fn append_level(&mut self, below: &[(K::NodeKey, u32)]) -> Vec<(K::NodeKey, u32)> {
        let nodes = below.len().div_ceil(S::FAN_OUT);
        let mut level = Vec::with_capacity(nodes);
        for node in 0..nodes {
            let some = &below[below.len() * node / nodes..below.len() * (node + 1) / nodes];
            let bounds: Vec<K::NodeKey> = some.iter().map(|child| child.0).collect();
            let children: Vec<u32> = some.iter().map(|child| child.1).collect();
            let inner = OuterNode::new(&bounds[..some.len() - 1], &children);
            level.push((bounds[some.len() - 1], self.inner.allocate(&inner)));
        }
        level
    }
}
