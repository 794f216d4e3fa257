//! The tree as an [`IntIndex`]: searches by order, scans, and the bulk load.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{BulkLoad, Direction, IntIndex, IntKey, NotAscending, Statistics};
use hedgerow_simd::prefetch_line;

use crate::lane::Lane;
use crate::outer::Inner;
use crate::page::{NONE, Page};
use crate::shrink::Remove;
use crate::strategy::Strategy;
use crate::tree::{Get, Insert, Locate, Matryoshka, Place, tag};

impl<K, V, S> IntIndex<K> for Matryoshka<K, V, S>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    type Value = V;

    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn get(&self, key: K) -> Option<V> {
        self.level.run(Get(self, key.encode()))
    }

    fn get_many(&self, keys: &[K], read: impl FnMut(usize, Option<V>)) {
        crate::get_many::get_many(self, keys, read);
    }

    #[inline]
    fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.level.run(Insert(self, key.encode(), value))
    }

    #[inline]
    fn remove(&mut self, key: K) -> Option<V> {
        self.level.run(Remove(self, key.encode()))
    }

    fn predecessor(&self, key: K) -> Option<(K, V)> {
        self.nearest(key, Direction::Reverse)
    }

    fn successor(&self, key: K) -> Option<(K, V)> {
        self.nearest(key, Direction::Forward)
    }

    fn scan(
        &self,
        from: Bound<K>,
        direction: Direction,
        mut visit: impl FnMut(K, V) -> ControlFlow<()>,
    ) {
        let start = match (from, direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => key.encode(),
            (Bound::Unbounded, Direction::Forward) => K::Encoded::MIN,
            (Bound::Unbounded, Direction::Reverse) => K::Encoded::MAX,
        };
        let skip = match from {
            Bound::Excluded(key) => Some(key.encode()),
            _ => None,
        };
        let visit = |key: K::Encoded, value| {
            if skip == Some(key) {
                return ControlFlow::Continue(());
            }
            visit(K::decode(key), value)
        };
        let place = self.level.run(Locate(self, start));
        let _ = match direction {
            Direction::Forward => self.ascend(&place, visit),
            Direction::Reverse => self.descend(&place, start, visit),
        };
    }

    fn statistics(&self) -> Statistics {
        crate::verify::statistics(self)
    }

    fn verify(&self) -> Result<(), String> {
        crate::verify::verify(self)
    }
}

impl<K, V, S> Matryoshka<K, V, S>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    fn nearest(&self, key: K, direction: Direction) -> Option<(K, V)> {
        let mut found = None;
        self.scan(Bound::Included(key), direction, |key, value| {
            found = Some((key, value));
            ControlFlow::Break(())
        });
        found
    }

    /// Visits pairs upwards from a place on.
    fn ascend(
        &self,
        place: &Place,
        mut visit: impl FnMut(K::Encoded, V) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // The first leaf needs no list of the page's leaves, and often is enough.
        let mut page = self.pages.get(place.page);
        let pairs = page.line(place.slot).leaf_keys().iter();
        for (&key, &value) in pairs.zip(page.values(place.slot)).skip(place.position) {
            visit(key, value)?;
        }
        let mut after = Some(place.slot);
        loop {
            let (leaves, count) = page.leaves();
            let leaves = &leaves[..count];
            let from = match after.take() {
                Some(slot) => leaves
                    .iter()
                    .position(|&leaf| leaf == slot)
                    .map_or(0, |at| at + 1),
                None => 0,
            };
            if page.head.next != NONE {
                prefetch_line(&raw const self.pages.get(page.head.next).head);
            }
            for (at, &slot) in leaves.iter().enumerate().skip(from) {
                if let Some(&soon) = leaves.get(at + 2) {
                    prefetch_line(page.line(soon));
                    prefetch_line(page.values(soon).as_ptr());
                }
                let keys = page.line(slot).leaf_keys();
                for (&key, &value) in keys.iter().zip(page.values(slot)) {
                    visit(key, value)?;
                }
            }
            if page.head.next == NONE {
                return ControlFlow::Continue(());
            }
            page = self.pages.get(page.head.next);
        }
    }

    /// Visits pairs downwards from a place on, starting at `from` itself if it is there.
    fn descend(
        &self,
        place: &Place,
        from: K::Encoded,
        mut visit: impl FnMut(K::Encoded, V) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut page = self.pages.get(place.page);
        let keys = page.line(place.slot).leaf_keys();
        let until = place.position + usize::from(keys.get(place.position) == Some(&from));
        let pairs = keys.iter().zip(page.values(place.slot)).take(until);
        for (&key, &value) in pairs.rev() {
            visit(key, value)?;
        }
        let mut before = Some(place.slot);
        loop {
            let (leaves, count) = page.leaves();
            let leaves = &leaves[..count];
            let until = match before.take() {
                Some(slot) => leaves.iter().position(|&leaf| leaf == slot).unwrap_or(0),
                None => count,
            };
            for &slot in leaves[..until].iter().rev() {
                let keys = page.line(slot).leaf_keys();
                for (&key, &value) in keys.iter().zip(page.values(slot)).rev() {
                    visit(key, value)?;
                }
            }
            if page.head.previous == NONE {
                return ControlFlow::Continue(());
            }
            page = self.pages.get(page.head.previous);
        }
    }
}

impl<K, V, S> BulkLoad<K> for Matryoshka<K, V, S>
where
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    fn bulk_load(&mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Result<(), NotAscending> {
        self.clear();
        let each = Page::<K::Encoded, V>::capacity::<S>() * 7 / 8;
        let mut level: Vec<(K::Encoded, u32)> = Vec::new();
        let mut run: Vec<(K::Encoded, V)> = Vec::with_capacity(each);
        let mut last = None;
        for (position, (key, value)) in pairs.into_iter().enumerate() {
            if last.is_some_and(|last| last >= key) {
                self.clear();
                return Err(NotAscending { position });
            }
            last = Some(key);
            if run.len() == each {
                level.push(self.append_page(&run, level.last().map(|page| page.1)));
                run.clear();
            }
            run.push((key.encode(), value));
            self.len += 1;
        }
        level.push(self.append_page(&run, level.last().map(|page| page.1)));
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
    K: IntKey<Encoded: Lane>,
    V: Copy + Default,
    S: Strategy,
{
    /// A page behind `previous` (a tagged number); its greatest key and tagged number.
    fn append_page(
        &mut self,
        pairs: &[(K::Encoded, V)],
        previous: Option<u32>,
    ) -> (K::Encoded, u32) {
        let mut page = Page::build::<S>(pairs, V::default());
        let number = match previous.map(crate::tree::untag) {
            // The empty tree's page becomes the first.
            None => {
                let number = crate::tree::untag(self.root);
                *self.pages.get_mut(number) = page;
                number
            }
            Some(previous) => {
                page.head.previous = previous;
                let number = self.pages.allocate(&page);
                self.pages.get_mut(previous).head.next = number;
                number
            }
        };
        let greatest = pairs.last().map_or(K::Encoded::MAX, |pair| pair.0);
        (greatest, tag(number, page.head.root))
    }

    fn append_level(&mut self, below: &[(K::Encoded, u32)]) -> Vec<(K::Encoded, u32)> {
        let nodes = below.len().div_ceil(S::FAN_OUT);
        let mut level = Vec::with_capacity(nodes);
        for node in 0..nodes {
            let some = &below[below.len() * node / nodes..below.len() * (node + 1) / nodes];
            let greatest: Vec<K::Encoded> = some.iter().map(|child| child.0).collect();
            let children: Vec<u32> = some.iter().map(|child| child.1).collect();
            let inner = Inner::new(&greatest[..some.len() - 1], &children);
            level.push((greatest[some.len() - 1], self.inner.allocate(&inner)));
        }
        level
    }
}
