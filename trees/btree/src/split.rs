//! How nodes divide and unite (§2).
//!
//! A leaf divides near its median, at the place of the shortest separator among a sixteenth of
//! its keys; an inner node gives one of its keys to its parent. Two neighbours unite when three
//! quarters of each are unused, or when one holds nothing and the other can take its range.
//!
//! Records are at most `2 × STEM` bytes and fences at most one `STEM`, where eight stems fill a
//! page: so any three records fit beside any two fences, and a full node has enough of them to
//! divide. The separator of a leaf is never longer than a key that the half loses, so halves fit.

use crate::configuration::{Configuration, Leaves};
use crate::page::{Image, Tag, shared};
use crate::pages::{PageNumber, Pages};
use crate::slotted::{Comparison, Kind, Layout, Payload, record_size};
use crate::tree::{BTree, Path};

/// Where a node divides: the first index of the right half (or the key that moves up), and the
/// key between.
pub(crate) struct Cut {
    at: usize,
    separator: Vec<u8>,
}

impl<const PAGE: usize> Image<PAGE> {
    /// Chooses the cut of an ordered leaf of two records or more.
    fn cut_leaf<C: Configuration>(&self) -> Cut {
        let count = self.count();
        let width = (count / 16).max(1);
        let first = (count - 1 - width) / 2;
        let last = first + width;
        let (mut low, mut key) = (Vec::new(), Vec::new());
        self.node_key::<C>(first, &mut low);
        self.node_key::<C>(last, &mut key);
        let len = shared(&low, &key);
        for at in first + 1..=last {
            self.node_key::<C>(at, &mut key);
            if key.get(len) != low.get(len) {
                key.truncate(len + 1);
                return Cut { at, separator: key };
            }
        }
        unreachable!("the last key of the range differs from the first there")
    }

    /// Chooses the key of an inner node that moves up: the shortest near the median.
    fn cut_inner<C: Configuration>(&self) -> Cut {
        let count = self.count();
        let width = count / 16;
        let first = (count - width) / 2;
        let at = (first..=(first + width).min(count - 1))
            .min_by_key(|&index| self.leaf_record::<C>(index).key_len)
            .expect("a full node has keys");
        let mut separator = Vec::new();
        self.node_key::<C>(at, &mut separator);
        Cut { at, separator }
    }
}

/// The layout of a new leaf.
pub(crate) fn new_leaf_tag<C: Configuration>() -> Tag {
    match C::LEAVES {
        Leaves::Comparison => Tag::Comparison,
        Leaves::Fingerprint => Tag::Fingerprint,
    }
}

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> BTree<C, PAGE, P> {
    /// Divides one node on the way to `key`: the leaf, or the lowest node above it whose parent
    /// has room. To be called until the leaf has room.
    pub(crate) fn divide_towards(&mut self, root: PageNumber, key: &[u8]) {
        let (mut page, mut path) = self.path_to(root, key);
        self.pages.page_mut(page).order::<C>();
        loop {
            let Some((parent, index)) = path.pop() else {
                return self.grow_root(root);
            };
            let image = self.pages.page(page);
            let cut = if image.is_inner() {
                image.cut_inner::<C>()
            } else {
                image.cut_leaf::<C>()
            };
            let above = self.pages.page(parent);
            let payload = Payload {
                kind: Kind::Inline,
                bytes: &[0; 4],
            };
            let len = cut.separator.len() - above.prefix_len();
            let need = record_size::<Comparison<C>>(len, payload) + Comparison::<C>::SIDE + 2;
            if above.free::<Comparison<C>>() >= need {
                return self.divide(page, parent, index, &cut);
            }
            page = parent;
        }
    }

    /// The leaf of `key`, and the inner nodes and children's indices on the way there.
    pub(crate) fn path_to(&self, root: PageNumber, key: &[u8]) -> (PageNumber, Path) {
        let mut path = Path::new();
        let page = self.path_into(root, key, &mut path);
        (page, path)
    }

    /// [`path_to`](Self::path_to), appended to a path.
    pub(crate) fn path_into(&self, root: PageNumber, key: &[u8], path: &mut Path) -> PageNumber {
        let mut page = root;
        loop {
            let image = self.pages.page(page);
            if !image.is_inner() {
                return page;
            }
            let (child, index) = image.child_for::<Comparison<C>>(key);
            path.push((page, index));
            page = child;
        }
    }

    /// Puts a level between the root and its content. The root keeps its number.
    fn grow_root(&mut self, root: PageNumber) {
        let below = self.pages.allocate();
        *self.pages.page_mut(below) = self.pages.page(root).clone();
        let image = self.pages.page_mut(root);
        image.reset(Tag::Inner, &[], &[], C::PREFIX);
        image.set_upper_child(below as usize);
    }

    /// Divides `page`, the child `index` of `parent`, which has room for the separator.
    fn divide(&mut self, page: PageNumber, parent: PageNumber, index: usize, cut: &Cut) {
        let right = self.pages.allocate();
        let old = self.pages.page(page).clone();
        let (count, inner) = (old.count(), old.is_inner());
        let tag = if inner {
            Tag::Inner
        } else {
            new_leaf_tag::<C>()
        };
        let image = self.pages.page_mut(page);
        image.reset(tag, old.lower(), &cut.separator, C::PREFIX);
        image.copy_records::<C>(&old, 0..cut.at);
        if inner {
            image.set_upper_child(old.child::<Comparison<C>>(cut.at) as usize);
        }
        let image = self.pages.page_mut(right);
        image.reset(tag, &cut.separator, old.upper(), C::PREFIX);
        image.copy_records::<C>(&old, cut.at + usize::from(inner)..count);
        image.set_upper_child(old.upper_child());

        let above = self.pages.page_mut(parent);
        let payload = Payload {
            kind: Kind::Inline,
            bytes: &page.to_le_bytes(),
        };
        let suffix = &cut.separator[above.prefix_len()..];
        let done = above.insert::<Comparison<C>>(index, suffix, payload);
        debug_assert!(done, "the caller saw room");
        above.set_child::<Comparison<C>>(index + 1, right);
    }

    /// Whether a removal left a node so empty that it may unite with a neighbour.
    pub(crate) fn sparse(image: &Image<PAGE>) -> bool {
        let (free, whole) = image.node_free::<C>();
        4 * free >= 3 * whole
    }

    /// Unites nodes on the way to `key`, from its leaf upwards as long as there is reason to.
    pub(crate) fn unite_towards(&mut self, root: PageNumber, key: &[u8]) {
        let (mut page, mut path) = self.path_to(root, key);
        while let Some((parent, index)) = path.pop() {
            if !Self::sparse(self.pages.page(page)) {
                break;
            }
            let count = self.pages.page(parent).count();
            let done = (index < count && self.unite(parent, index))
                || (index > 0 && self.unite(parent, index - 1));
            if !done {
                break;
            }
            page = parent;
        }
        self.shrink_root(root);
    }

    /// Takes out levels whose only node is an only child.
    fn shrink_root(&mut self, root: PageNumber) {
        loop {
            let image = self.pages.page(root);
            if !image.is_inner() || image.count() > 0 {
                return;
            }
            let child = image.upper_child() as PageNumber;
            *self.pages.page_mut(root) = self.pages.page(child).clone();
            self.pages.release(child);
        }
    }

    /// Unites the children `index` and `index + 1`, if they are empty enough and fit.
    fn unite(&mut self, parent: PageNumber, index: usize) -> bool {
        let above = self.pages.page(parent);
        let left_page = above.child::<Comparison<C>>(index);
        let right_page = above.child::<Comparison<C>>(index + 1);
        let (left, right) = (self.pages.page(left_page), self.pages.page(right_page));
        let inner = left.is_inner();
        let empty = |image: &Image<PAGE>| !inner && image.count() == 0;
        let wanted = (Self::sparse(left) && Self::sparse(right)) || empty(left) || empty(right);
        if !wanted {
            return false;
        }
        let tag = if inner {
            Tag::Inner
        } else {
            new_leaf_tag::<C>()
        };
        let mut image = Image::<PAGE>::zeroed();
        image.reset(tag, left.lower(), right.upper(), C::PREFIX);
        let mut separator = Vec::new();
        let mut need =
            left.moved_bytes::<C>(image.prefix_len()) + right.moved_bytes::<C>(image.prefix_len());
        if inner {
            above.node_key::<C>(index, &mut separator);
            let payload = Payload {
                kind: Kind::Inline,
                bytes: &[0; 4],
            };
            let len = separator.len() - image.prefix_len();
            need += record_size::<Comparison<C>>(len, payload) + Comparison::<C>::SIDE + 2;
        }
        if need > image.node_free::<C>().0 {
            return false;
        }
        self.pages.page_mut(left_page).order::<C>();
        self.pages.page_mut(right_page).order::<C>();
        let (left, right) = (self.pages.page(left_page), self.pages.page(right_page));
        image.copy_records::<C>(left, 0..left.count());
        if inner {
            let child = (left.upper_child() as PageNumber).to_le_bytes();
            let payload = Payload {
                kind: Kind::Inline,
                bytes: &child,
            };
            let suffix = &separator[image.prefix_len()..];
            let done = image.insert::<Comparison<C>>(image.count(), suffix, payload);
            debug_assert!(done, "counted above");
        }
        image.copy_records::<C>(right, 0..right.count());
        image.set_upper_child(right.upper_child());
        *self.pages.page_mut(left_page) = image;
        self.pages.release(right_page);
        let above = self.pages.page_mut(parent);
        above.remove::<Comparison<C>>(index);
        above.set_child::<Comparison<C>>(index, left_page);
        true
    }
}
