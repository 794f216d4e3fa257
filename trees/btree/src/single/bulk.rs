//! Building a tree from sorted pairs, to a chosen fill.
//!
//! Pairs wait until the next one would fill their leaf beyond what was asked for; only then are
//! the leaf's fences known, and so what its keys leave out. The leaf is written, an empty one
//! begins to its right, and nodes above split near their end instead of in the middle. Once a
//! leaf is dense, pairs are inserted: its right neighbours begin without moving anything, too.

use hedgerow_index::NotAscending;

use super::{BTree, PagePath};
use crate::configuration::Configuration;
use crate::node::key::shortest_between;
use crate::node::layout::{Kind, Layout, Payload, record_size};
use crate::node::leaf::FormOf;
use crate::node::page::PageNumber;
use crate::node::page::{Image, shared};
use crate::node::plan::{Content, Plan, Planned, first_leaf};
use crate::node::slotted::Comparison;
use crate::node::split::SplitPoint;

/// Pairs that wait for their leaf to be full.
#[derive(Default)]
struct Waiting {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

fn inline(bytes: &[u8]) -> Payload<'_> {
    Payload {
        kind: Kind::Inline,
        bytes,
    }
}

impl Waiting {
    fn bytes_of<C: Configuration>(key: &[u8], value: &[u8], prefix: usize) -> usize {
        let slot = Comparison::<C>::SIDE + 2;
        record_size::<Comparison<C>>(key.len() - prefix, inline(value)) + slot
    }

    /// Bytes of a leaf of these pairs that leaves out a prefix.
    fn bytes<C: Configuration>(&self, prefix: usize) -> usize {
        let sizes = self
            .pairs
            .iter()
            .map(|(key, value)| Self::bytes_of::<C>(key, value, prefix));
        sizes.sum()
    }
}

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Replaces the contents by pairs whose keys must ascend strictly. Leaves are filled up to
    /// `fill` (from 0.1 to 1; more or less is taken for these), dense ones always.
    ///
    /// # Errors
    ///
    /// [`NotAscending`] when keys do not ascend; the tree is empty afterwards.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        pairs: impl IntoIterator<Item = (K, V)>,
        fill: f64,
    ) -> Result<(), NotAscending> {
        *self = Self::with_placement(self.pages.placement());
        let fill = fill.clamp(0.1, 1.0);
        let mut waiting = Waiting::default();
        let mut last: Option<Vec<u8>> = None;
        // The lower fence of the leaf that pairs wait for, and the bytes that they take there
        // when they leave out `prefix`.
        let (mut lower, mut prefix, mut bytes) = (Vec::new(), 0, 0);
        for (position, (key, value)) in pairs.into_iter().enumerate() {
            let (key, value) = (key.as_ref(), value.as_ref());
            if last.as_deref().is_some_and(|last| last >= key) {
                *self = Self::with_placement(self.pages.placement());
                return Err(NotAscending { position });
            }
            last.get_or_insert_default().clear();
            last.get_or_insert_default().extend_from_slice(key);
            let long = !Self::cut(key).fits(value, Self::KEY_PREFIX_BYTES);
            if long || !self.waits(key, &waiting, fill) {
                self.flush(&mut waiting, None, fill);
                self.insert(key, value);
                continue;
            }
            if waiting.pairs.is_empty() {
                lower = self.pages.page(self.last_leaf()).lower().to_vec();
                (prefix, bytes) = (usize::MAX, 0);
            }
            let in_common = if C::PREFIX { shared(&lower, key) } else { 0 };
            if in_common < prefix {
                prefix = in_common;
                bytes = waiting.bytes::<C>(prefix);
            }
            let more = Waiting::bytes_of::<C>(key, value, prefix);
            let whole =
                PAGE - Comparison::<C>::BODY - lower.len() - key.len().min(Self::KEY_PREFIX_BYTES);
            if !waiting.pairs.is_empty() && bytes + more > (whole as f64 * fill) as usize {
                self.flush(&mut waiting, Some(key), fill);
                if !self.waits(key, &waiting, fill) {
                    self.insert(key, value);
                    continue;
                }
                lower = self.pages.page(self.last_leaf()).lower().to_vec();
                prefix = if C::PREFIX { shared(&lower, key) } else { 0 };
                bytes = 0;
            }
            bytes += Waiting::bytes_of::<C>(key, value, prefix);
            waiting.pairs.push((key.to_vec(), value.to_vec()));
        }
        self.flush(&mut waiting, None, fill);
        Ok(())
    }

    /// Whether a pair waits for the last leaf, which must be empty, rather than be inserted. One
    /// of slots that insertions have half filled is closed first.
    fn waits(&mut self, key: &[u8], waiting: &Waiting, fill: f64) -> bool {
        let page = self.last_leaf();
        let image = self.pages.page(page);
        let (free, whole) = image.node_free::<C>();
        // Insertions may have begun the last leaf ahead of the keys that they put (`runs`).
        if *key < *image.lower() {
            return false;
        }
        if image.count() == 0 || !waiting.pairs.is_empty() {
            return !image.is_dense();
        }
        if image.is_dense() || 2 * free > whole {
            return false;
        }
        let (mut low, last) = (Vec::new(), image.count() - 1);
        self.pages.page_mut(page).order::<C>();
        let image = self.pages.page(page);
        image.node_key::<C>(last, &mut low);
        let separator = shortest_between(&low, key);
        // A leaf that insertions filled may lack the room for an upper fence.
        let closed = Content {
            lower: image.lower(),
            upper: &separator,
            parts: &[(image, 0..image.count())],
        };
        let Some(plan) = closed.slotted_that_fits::<C>(image.counter()) else {
            return false;
        };
        self.begin_right(&separator, fill, Some(plan));
        true
    }

    fn last_leaf(&self) -> PageNumber {
        self.edge::<false>(self.root, &mut Vec::new())
    }

    /// Writes the pairs that wait into the last leaf, which is empty; if another key is to come,
    /// in a leaf of its own to the right, unless the last leaf is dense then.
    fn flush(&mut self, waiting: &mut Waiting, next: Option<&[u8]>, fill: f64) {
        let Some((low, _)) = waiting.pairs.last() else {
            return;
        };
        let separator = next.map(|next| shortest_between(low, next));
        let upper = separator.as_deref().unwrap_or(&[]);
        let lower = self.pages.page(self.last_leaf()).lower().to_vec();
        let mut image = Image::<PAGE>::zeroed();
        image.begin::<C>(Planned::Comparison.into(), &lower, upper);
        for (key, value) in &waiting.pairs {
            let suffix = &key[image.prefix_len()..];
            if !image.insert::<Comparison<C>>(image.count(), suffix, inline(value)) {
                // They leave out less than they would have with other separators.
                for (key, value) in waiting.pairs.drain(..) {
                    self.insert(&key, &value);
                }
                return;
            }
        }
        self.len += waiting.pairs.len();
        waiting.pairs.clear();
        let dense = self.install(&image, upper);
        if let Some(separator) = separator
            && !dense
        {
            self.begin_right(&separator, fill, None);
        }
    }

    /// Makes the last leaf one of these records, in the form that suits them, and says whether
    /// it is a dense one. Between fences it is closed; a dense one stays open.
    fn install(&mut self, image: &Image<PAGE>, upper: &[u8]) -> bool {
        let parts = [(image, 0..image.count())];
        let open = Content {
            lower: image.lower(),
            upper: &[],
            parts: &parts,
        };
        let page = self.last_leaf();
        let most = (image.node_free::<C>().1) / 2;
        let enough = image.node_free::<C>().0 < most;
        let dense = open.dense::<C>().filter(|_| enough);
        if let Some(plan) = dense {
            self.conversions
                .by_keys(FormOf::Comparison, plan.form.form());
            open.build::<C>(plan, self.pages.page_mut(page));
            return true;
        }
        let closed = Content { upper, ..open };
        let plan = closed
            .slotted_that_fits::<C>(first_leaf::<C>().counter)
            .unwrap_or(Planned::Comparison.into());
        closed.build::<C>(plan, self.pages.page_mut(page));
        false
    }

    /// Begins an empty leaf to the right of the last one. That gets the separator as its upper
    /// fence, and a form in which it has room for that; or it has this fence already.
    fn begin_right(&mut self, separator: &[u8], fill: f64, closing: Option<Plan>) {
        loop {
            let mut path = Vec::new();
            let page = self.edge::<false>(self.root, &mut path);
            let Some(&(parent, index)) = path.last() else {
                self.grow_root(self.root);
                continue;
            };
            if self.has_room_for(parent, separator) {
                if closing.is_some() {
                    let places = self.pages.page(page).all_places::<C>();
                    let mut cut = SplitPoint::new(places, separator.to_vec());
                    cut.left = closing;
                    return self.split_node(page, parent, index, &cut);
                }
                let right = self.pages.allocate();
                let leaf = self.pages.page_mut(right);
                leaf.begin::<C>(first_leaf::<C>(), separator, &[]);
                return self.put_child(parent, index, page, separator, right);
            }
            self.split_above(&path, fill);
        }
    }

    /// Splits the lowest full node of the right edge whose parent has room.
    fn split_above(&mut self, path: &PagePath, fill: f64) {
        for level in (0..path.len()).rev() {
            let Some(above) = level.checked_sub(1) else {
                return self.grow_root(self.root);
            };
            let (node, (parent, index)) = (path[level].0, path[above]);
            let image = self.pages.page(node);
            let at = (image.count() as f64 * fill) as usize;
            let mut separator = Vec::new();
            let at = at.clamp(1, image.count() - 1);
            image.node_key::<C>(at, &mut separator);
            if self.has_room_for(parent, &separator) {
                return self.split_node(node, parent, index, &SplitPoint::new(at, separator));
            }
        }
    }
}
