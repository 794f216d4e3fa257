//! Scans in both directions, through layers.
//!
//! A scan keeps the path from the root, so that after a leaf it goes on at its parent; only a
//! layer is entered by recursion. The key is put together in one buffer, which the tree keeps:
//! the layers above, the page's prefix once, then each record's head and tail over those of the
//! one before.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, KeyBound};

use super::{BTree, PagePath};
use crate::configuration::Configuration;
use crate::node::key::layer_root;
use crate::node::layout::Kind;
use crate::node::leaf::End;
use crate::node::page::PageNumber;
use crate::node::slotted::{Comparison, SLACK};

/// A value that is not in its leaf.
enum Value {
    /// The rest of a key, of so many bytes, and a value.
    Chained(Vec<u8>, usize),
    Layer(PageNumber),
}

/// Where a scan puts keys together, below a layer or a key prefix.
struct KeyBuffer<'k> {
    bytes: &'k mut Vec<u8>,
    /// So many bytes at its start are those of the layers above.
    base: usize,
}

impl KeyBuffer<'_> {
    /// The buffer for what begins with its first `base` bytes.
    #[inline(always)]
    fn below(&mut self, base: usize) -> KeyBuffer<'_> {
        let bytes = &mut *self.bytes;
        KeyBuffer { bytes, base }
    }
}

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
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
        let start = KeyBound::of(from);
        let mut key = std::mem::take(&mut self.scan_key);
        let mut path = std::mem::take(&mut self.scan_path);
        let (path_of, visit) = (&mut path, &mut visit);
        let (bytes, base) = (&mut key, 0);
        let buffer = KeyBuffer { bytes, base };
        let _ = match direction {
            Direction::Forward => {
                self.scan_layer::<true, _>(self.root, buffer, path_of, start, visit)
            }
            Direction::Reverse => {
                self.scan_layer::<false, _>(self.root, buffer, path_of, start, visit)
            }
        };
        (self.scan_key, self.scan_path) = (key, path);
    }

    /// The edge leaf of the tree, or that of the start; the path to it is left in `path`.
    fn enter<const FORWARD: bool>(
        &self,
        root: PageNumber,
        start: Option<KeyBound<'_>>,
        path: &mut PagePath,
    ) -> PageNumber {
        path.clear();
        match start {
            Some(start) => self.path_into(root, Self::cut(start.key).key_prefix, path),
            None => self.edge::<FORWARD>(root, path),
        }
    }

    /// Goes down at the edge where a scan begins.
    pub(super) fn edge<const FORWARD: bool>(
        &self,
        mut page: PageNumber,
        path: &mut PagePath,
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
    fn next_leaf<const FORWARD: bool>(&self, path: &mut PagePath) -> Option<PageNumber> {
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

    /// Scans one layer, whose keys all begin with the first `base` bytes of `key`.
    fn scan_layer<const FORWARD: bool, V>(
        &mut self,
        root: PageNumber,
        mut key: KeyBuffer<'_>,
        path: &mut PagePath,
        mut start: Option<KeyBound<'_>>,
        visit: &mut V,
    ) -> ControlFlow<()>
    where
        V: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        let room = key.base + Self::KEY_PREFIX_BYTES + SLACK;
        if key.bytes.len() < room {
            key.bytes.resize(room, 0);
        }
        let mut page = self.enter::<FORWARD>(root, start, path);
        loop {
            self.count_scan(page);
            self.pages.page_mut(page).order::<C>();
            self.scan_leaf::<FORWARD, V>(page, key.below(key.base), start.take(), visit)?;
            match self.next_leaf::<FORWARD>(path) {
                Some(next) => page = next,
                None => return ControlFlow::Continue(()),
            }
        }
    }

    /// Scans one leaf in order. Its first record may be the key prefix of the start, of which
    /// only a part is wanted.
    fn scan_leaf<const FORWARD: bool, V>(
        &mut self,
        page: PageNumber,
        mut key: KeyBuffer<'_>,
        start: Option<KeyBound<'_>>,
        visit: &mut V,
    ) -> ControlFlow<()>
    where
        V: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        let image = self.pages.page(page);
        let (mut left, cut) = image.range_from::<C, FORWARD>(start, Self::KEY_PREFIX_BYTES);
        loop {
            let image = self.pages.page(page);
            let end = image.walk::<C, FORWARD, V>(left.clone(), key.bytes, key.base, visit);
            let (place, len, record) = match end {
                End::Visited => return ControlFlow::Continue(()),
                End::Stopped => return ControlFlow::Break(()),
                End::NotInline {
                    place,
                    key_len,
                    record,
                } => (place, key_len, record),
            };
            let payload = image.payload(record);
            let value = match payload.kind {
                Kind::Layer => Value::Layer(layer_root(payload)),
                _ => {
                    let (bytes, key_len) = self.load_chain(payload);
                    Value::Chained(bytes, key_len)
                }
            };
            let from = cut.filter(|cut| cut.0 == place).map(|cut| cut.1);
            self.scan_elsewhere::<FORWARD, V>(value, key.below(len), from, visit)?;
            left = if FORWARD {
                place + 1..left.end
            } else {
                left.start..place
            };
        }
    }

    /// Visits what lies outside a leaf, a chain or a layer, under the key prefix with which the
    /// buffer begins.
    fn scan_elsewhere<const FORWARD: bool, V>(
        &mut self,
        value: Value,
        key: KeyBuffer<'_>,
        from: Option<KeyBound<'_>>,
        visit: &mut V,
    ) -> ControlFlow<()>
    where
        V: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        let (bytes, key_len) = match value {
            Value::Layer(root) => {
                let path = &mut PagePath::new();
                return self.scan_layer::<FORWARD, V>(root, key, path, from, visit);
            }
            Value::Chained(bytes, key_len) => (bytes, key_len),
        };
        let (rest, value) = bytes.split_at(key_len);
        if from.is_none_or(|from| from.admits_from(rest, Direction::of(FORWARD))) {
            let whole = key.base + rest.len();
            if key.bytes.len() < whole {
                key.bytes.resize(whole, 0);
            }
            key.bytes[key.base..whole].copy_from_slice(rest);
            visit(&key.bytes[..whole], value)?;
        }
        ControlFlow::Continue(())
    }
}
