//! How nodes divide (§2), and how a full leaf may become a dense one instead (§3.5).
//!
//! A leaf divides near its median, at the place of the shortest separator among a sixteenth of
//! its keys; an inner node gives one of its keys to its parent. Before a comparison leaf divides,
//! it becomes dense if it can; if only its lower half or more could, that is cut off.
//!
//! Records are at most `2 × STEM` bytes and fences at most one `STEM`, where eight stems fill a
//! page: so any three records fit beside any two fences, and a full node has enough of them to
//! divide. The separator of a leaf is never longer than a key that the half loses, so halves fit.

use crate::configuration::Configuration;
use crate::leaf::FormOf;
use crate::page::{Image, Tag, shared};
use crate::pages::{PageNumber, Pages};
use crate::plan::{Content, Plan, Planned};
use crate::slotted::{Comparison, Kind, Layout, Payload, record_size};
use crate::tree::{BTree, Path};

/// Where a node divides: the first place of the right half (or the key that moves up), and the
/// key between. Halves without a plan are slotted as suits them.
pub(crate) struct Cut {
    pub at: usize,
    pub separator: Vec<u8>,
    pub left: Option<Plan>,
    pub right: Option<Plan>,
}

impl Cut {
    pub(crate) fn new(at: usize, separator: Vec<u8>) -> Self {
        Self {
            at,
            separator,
            left: None,
            right: None,
        }
    }
}

impl<const PAGE: usize> Image<PAGE> {
    /// Chooses the cut of an ordered slotted leaf of two records or more.
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
                return Cut::new(at, key);
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
        Cut::new(at, separator)
    }

    /// Where to divide so that a record gets room.
    fn cut_for<C: Configuration>(&self, key: &[u8], payload: Payload<'_>) -> Cut {
        if self.is_inner() {
            return self.cut_inner::<C>();
        }
        match self.form::<C>() {
            FormOf::SemiDense | FormOf::FullyDense => self.cut_dense::<C>(key, payload),
            FormOf::Fingerprint => self.cut_leaf::<C>(),
            FormOf::Comparison => self
                .cut_partition::<C>()
                .unwrap_or_else(|| self.cut_leaf::<C>()),
        }
    }
}

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> BTree<C, PAGE, P> {
    /// Makes room on the way to `key`: gives its leaf another form, or divides the leaf or the
    /// lowest node above it whose parent has room. To be called until the leaf takes the record.
    pub(crate) fn make_room(&mut self, root: PageNumber, key: &[u8], payload: Payload<'_>) {
        let (mut page, mut path) = self.path_to(root, key);
        self.pages.page_mut(page).order::<C>();
        if C::LEAVES.dense() && self.reform(page, &path, key, payload) {
            return;
        }
        loop {
            let Some((parent, index)) = path.pop() else {
                return self.grow_root(root);
            };
            let image = self.pages.page(page);
            let cut = image.cut_for::<C>(key, payload);
            if self.has_room_for(parent, &cut.separator) {
                return self.divide(page, parent, index, &cut);
            }
            page = parent;
        }
    }

    /// Whether an inner node has room for one more separator.
    pub(crate) fn has_room_for(&self, parent: PageNumber, separator: &[u8]) -> bool {
        let above = self.pages.page(parent);
        let len = separator.len() - above.prefix_len();
        above.free::<Comparison<C>>() >= child_bytes::<C>(len)
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
    pub(crate) fn grow_root(&mut self, root: PageNumber) {
        let below = self.pages.allocate();
        *self.pages.page_mut(below) = self.pages.page(root).clone();
        let image = self.pages.page_mut(root);
        image.reset(Tag::Inner, &[], &[], C::PREFIX);
        image.set_upper_child(below as usize);
    }

    /// Divides `page`, the child `index` of `parent`, which has room for the separator.
    pub(crate) fn divide(&mut self, page: PageNumber, parent: PageNumber, index: usize, cut: &Cut) {
        let right = self.pages.allocate();
        if self.pages.page(page).is_inner() {
            self.divide_inner(page, right, cut);
        } else {
            self.divide_leaf(page, right, cut);
        }
        self.put_child(parent, index, page, &cut.separator, right);
    }

    /// Puts a separator into the node above, which has room: `left` is its child `index`, and
    /// `right` becomes the next.
    pub(crate) fn put_child(
        &mut self,
        parent: PageNumber,
        index: usize,
        left: PageNumber,
        separator: &[u8],
        right: PageNumber,
    ) {
        let above = self.pages.page_mut(parent);
        let payload = Payload {
            kind: Kind::Inline,
            bytes: &left.to_le_bytes(),
        };
        let suffix = &separator[above.prefix_len()..];
        let done = above.insert::<Comparison<C>>(index, suffix, payload);
        debug_assert!(done, "the caller saw room");
        above.set_child::<Comparison<C>>(index + 1, right);
    }

    fn divide_inner(&mut self, page: PageNumber, right: PageNumber, cut: &Cut) {
        let old = self.pages.page(page).clone();
        let image = self.pages.page_mut(page);
        image.reset(Tag::Inner, old.lower(), &cut.separator, C::PREFIX);
        image.append::<Comparison<C>>(&old, 0..cut.at);
        image.set_upper_child(old.child::<Comparison<C>>(cut.at) as usize);
        let image = self.pages.page_mut(right);
        image.reset(Tag::Inner, &cut.separator, old.upper(), C::PREFIX);
        image.append::<Comparison<C>>(&old, cut.at + 1..old.count());
        image.set_upper_child(old.upper_child());
    }

    fn divide_leaf(&mut self, page: PageNumber, right: PageNumber, cut: &Cut) {
        let old = self.pages.page(page).clone();
        let places = old.all_places::<C>();
        let (form, counter) = (old.form::<C>(), old.counter());
        if old.is_dense() {
            self.conversions.overruns += u64::from(cut.at == 0 || cut.at == places);
        } else {
            self.conversions.partitions += u64::from(cut.left.is_some());
        }
        // Where the old form is one of both slotted ones, halves fit it for sure.
        let plan = |content: Content<'_, PAGE>| {
            let same = if form == FormOf::Fingerprint {
                Planned::Fingerprint
            } else {
                Planned::Comparison
            };
            let keep = Plan {
                form: same,
                counter,
            };
            content.slotted_that_fits::<C>(counter).unwrap_or(keep)
        };
        let parts = [(&old, 0..cut.at)];
        let content = Content {
            lower: old.lower(),
            upper: &cut.separator,
            parts: &parts,
        };
        if cut.at == places && old.is_dense() {
            // Nothing moves.
            self.pages.page_mut(page).set_upper(&cut.separator);
        } else {
            let plan = cut.left.unwrap_or_else(|| plan(content));
            if cut.at > 0 {
                self.conversions.by_keys(form, plan.form.form());
            }
            content.build::<C>(plan, self.pages.page_mut(page));
        }
        let parts = [(&old, cut.at..places)];
        let content = Content {
            lower: &cut.separator,
            upper: old.upper(),
            parts: &parts,
        };
        let plan = cut.right.unwrap_or_else(|| plan(content));
        if cut.at < places {
            self.conversions.by_keys(form, plan.form.form());
        }
        content.build::<C>(plan, self.pages.page_mut(right));
    }
}

/// Bytes that a separator takes in an inner node, with its child.
pub(crate) fn child_bytes<C: Configuration>(len: usize) -> usize {
    let payload = Payload {
        kind: Kind::Inline,
        bytes: &[0; 4],
    };
    record_size::<Comparison<C>>(len, payload) + Comparison::<C>::SIDE + 2
}
