//! Scans in both directions, through layers.
//!
//! A scan keeps the path from the root, so that after a leaf it goes on at its parent; only a
//! layer is entered by recursion. The key is put together in one buffer: the layers above, the
//! page's prefix, the record's head and tail.

use std::ops::{Bound, ControlFlow, Range};

use hedgerow_index::Direction;

use crate::configuration::Configuration;
use crate::overflow;
use crate::pages::{PageNumber, Pages};
use crate::slotted::{Comparison, Kind};
use crate::tree::{BTree, Chain, layer_root};

/// Where a scan begins: at a bound's key, or at the end of the key space.
#[derive(Debug, Clone, Copy)]
struct Start<'k> {
    key: &'k [u8],
    inclusive: bool,
}

/// A record's value by where it is.
enum Value {
    Here(Range<usize>),
    Chained(Chain),
    Layer(PageNumber),
}

type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> BTree<C, PAGE, P> {
    /// Visits pairs in key order, starting at `from`, until `visit` breaks or keys end.
    ///
    /// With [`Direction::Forward`], `from` is a lower bound; with [`Direction::Reverse`] an upper
    /// bound. Leaves with fingerprints are sorted on the way, which is why this takes the tree.
    pub fn scan(
        &mut self,
        from: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) {
        let start = match from {
            Bound::Included(key) => Some(Start {
                key,
                inclusive: true,
            }),
            Bound::Excluded(key) => Some(Start {
                key,
                inclusive: false,
            }),
            Bound::Unbounded => None,
        };
        let mut key = Vec::with_capacity(256);
        let _ = match direction {
            Direction::Forward => self.scan_layer::<true>(self.root, &mut key, start, &mut visit),
            Direction::Reverse => self.scan_layer::<false>(self.root, &mut key, start, &mut visit),
        };
    }

    /// The edge leaf of the tree, or that of the start, with the path to it.
    fn enter<const FORWARD: bool>(
        &self,
        root: PageNumber,
        start: Option<Start<'_>>,
    ) -> (PageNumber, Vec<(PageNumber, usize)>) {
        match start {
            Some(start) => self.path_to(root, Self::cut(start.key).stem),
            None => {
                let mut path = Vec::new();
                (self.edge::<FORWARD>(root, &mut path), path)
            }
        }
    }

    /// Goes down at the edge where a scan begins.
    fn edge<const FORWARD: bool>(
        &self,
        mut page: PageNumber,
        path: &mut Vec<(PageNumber, usize)>,
    ) -> PageNumber {
        loop {
            let image = self.pages.page(page);
            if !image.is_inner() {
                return page;
            }
            let index = if FORWARD { 0 } else { image.count() };
            path.push((page, index));
            page = image.child::<Comparison<C>>(index);
        }
    }

    /// The leaf after (or before) the one that `path` led to.
    fn next_leaf<const FORWARD: bool>(
        &self,
        path: &mut Vec<(PageNumber, usize)>,
    ) -> Option<PageNumber> {
        while let Some((page, index)) = path.pop() {
            let image = self.pages.page(page);
            let next = if FORWARD {
                Some(index + 1).filter(|&next| next <= image.count())
            } else {
                index.checked_sub(1)
            };
            if let Some(next) = next {
                path.push((page, next));
                return Some(self.edge::<FORWARD>(image.child::<Comparison<C>>(next), path));
            }
        }
        None
    }

    /// Scans one layer, whose keys all begin with what `key` holds.
    fn scan_layer<const FORWARD: bool>(
        &mut self,
        root: PageNumber,
        key: &mut Vec<u8>,
        start: Option<Start<'_>>,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let base = key.len();
        let (mut page, mut path) = self.enter::<FORWARD>(root, start);
        let mut start = start;
        loop {
            self.pages.page_mut(page).order::<C>();
            self.scan_leaf::<FORWARD>(page, key, start.take(), visit)?;
            key.truncate(base);
            match self.next_leaf::<FORWARD>(&mut path) {
                Some(next) => page = next,
                None => return ControlFlow::Continue(()),
            }
        }
    }

    /// Scans one leaf in order. Its first record may be the stem of the start, of which only a
    /// part is wanted.
    fn scan_leaf<const FORWARD: bool>(
        &mut self,
        page: PageNumber,
        key: &mut Vec<u8>,
        start: Option<Start<'_>>,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let image = self.pages.page(page);
        let base = key.len();
        key.extend_from_slice(image.prefix());
        let prefix = key.len();
        let count = image.count();
        // What is left to visit, and the record that the start cuts through.
        let (mut left, mut cut) = (0..count, None);
        if let Some(start) = start {
            let stem = Self::cut(start.key);
            let (index, equal) = image.lower_bound::<C>(stem.stem);
            let keep = equal && (stem.rest.is_some() || start.inclusive);
            let split = index + usize::from(equal && (keep != FORWARD));
            left = if FORWARD { split..count } else { 0..split };
            if keep && let Some(rest) = stem.rest {
                let inclusive = start.inclusive;
                cut = Some((
                    index,
                    Start {
                        key: rest,
                        inclusive,
                    },
                ));
            }
        }
        loop {
            let Some(index) = (if FORWARD {
                left.next()
            } else {
                left.next_back()
            }) else {
                key.truncate(base);
                return ControlFlow::Continue(());
            };
            let image = self.pages.page(page);
            key.truncate(prefix);
            image.push_leaf_suffix::<C>(index, key);
            let record = image.leaf_record::<C>(index);
            let payload = image.payload(record);
            let value = match payload.kind {
                Kind::Inline => Value::Here(record.value_at..record.value_at + record.value_len),
                Kind::Layer => Value::Layer(layer_root(payload)),
                _ => Value::Chained(Chain::read(payload)),
            };
            if let Value::Here(range) = value {
                visit(key, image.slice(range))?;
                continue;
            }
            let from = cut.filter(|cut| cut.0 == index).map(|cut| cut.1);
            self.scan_value::<FORWARD>(value, key, from, visit)?;
        }
    }

    /// Visits what lies outside a leaf: a chain or a layer.
    fn scan_value<const FORWARD: bool>(
        &mut self,
        value: Value,
        key: &mut Vec<u8>,
        from: Option<Start<'_>>,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let chain = match value {
            Value::Layer(root) => return self.scan_layer::<FORWARD>(root, key, from, visit),
            Value::Chained(chain) => chain,
            Value::Here(_) => unreachable!("visited by the caller"),
        };
        let bytes = overflow::load(&self.pages, chain.first, chain.len);
        let (rest, value) = bytes.split_at(chain.key_len);
        let wanted = from.is_none_or(|from| {
            let beyond = if FORWARD {
                rest > from.key
            } else {
                rest < from.key
            };
            beyond || (from.inclusive && rest == from.key)
        });
        if wanted {
            key.extend_from_slice(rest);
            visit(key, value)?;
        }
        ControlFlow::Continue(())
    }
}
