//! How nodes unite (§2).
//!
//! Two neighbours become one when three quarters of each are unused, or when one holds nothing
//! and the other can take its range.

use crate::configuration::Configuration;
use crate::page::{Image, Tag};
use crate::pages::{PageNumber, Pages};
use crate::plan::{Content, Plan};
use crate::slotted::{Comparison, Kind, Payload};
use crate::split::child_bytes;
use crate::tree::BTree;

impl<C: Configuration, const PAGE: usize, P: Pages<PAGE>> BTree<C, PAGE, P> {
    /// Whether a removal left a node so empty that it may unite with a neighbour.
    pub(crate) fn sparse(image: &Image<PAGE>) -> bool {
        let (free, whole) = image.node_free::<C>();
        4 * free >= 3 * whole || image.count() == 0
    }

    /// Unites nodes on the way to `key`, from its leaf upwards as long as there is reason to.
    pub(crate) fn unite_towards(&mut self, root: PageNumber, key: &[u8]) {
        let (mut page, mut path) = self.path_to(root, key);
        while let Some((parent, mut index)) = path.pop() {
            if !Self::sparse(self.pages.page(page)) {
                break;
            }
            let before = self.pages.page(parent).count();
            // An empty leaf may have waited on either side for this one to shrink.
            loop {
                let count = self.pages.page(parent).count();
                if index < count && self.unite(parent, index) {
                    continue;
                }
                if index == 0 || !self.unite(parent, index - 1) {
                    break;
                }
                index -= 1;
            }
            if self.pages.page(parent).count() == before {
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
        let united = if inner {
            let mut separator = Vec::new();
            above.node_key::<C>(index, &mut separator);
            unite_inner::<C, PAGE>(left, &separator, right)
        } else {
            self.unite_leaves(left_page, right_page)
        };
        let Some(united) = united else {
            return false;
        };
        *self.pages.page_mut(left_page) = united;
        self.drop_right(parent, index);
        true
    }

    /// Takes out the child `index + 1`, whose range the child `index` has got.
    pub(crate) fn drop_right(&mut self, parent: PageNumber, index: usize) {
        let above = self.pages.page_mut(parent);
        let left = above.child::<Comparison<C>>(index);
        let right = above.child::<Comparison<C>>(index + 1);
        above.remove::<Comparison<C>>(index);
        above.set_child::<Comparison<C>>(index, left);
        self.pages.release(right);
    }

    fn unite_leaves(&mut self, left: PageNumber, right: PageNumber) -> Option<Image<PAGE>> {
        self.pages.page_mut(left).order::<C>();
        self.pages.page_mut(right).order::<C>();
        let (left, right) = (self.pages.page(left), self.pages.page(right));
        let parts = [
            (left, 0..left.all_places::<C>()),
            (right, 0..right.all_places::<C>()),
        ];
        let content = Content {
            lower: left.lower(),
            upper: right.upper(),
            parts: &parts,
        };
        let main = if left.count() > 0 { left } else { right };
        let stays_dense = [left, right]
            .iter()
            .all(|image| image.count() == 0 || image.is_dense());
        let dense = stays_dense.then(|| content.dense::<C>()).flatten();
        let plan: Plan = dense.or_else(|| content.slotted_that_fits::<C>(main.counter()))?;
        self.conversions.by_keys(main.form::<C>(), plan.form.form());
        let mut image = Image::zeroed();
        content.build::<C>(plan, &mut image);
        Some(image)
    }
}

/// One inner node of two and the separator between them, if they fit.
fn unite_inner<C: Configuration, const PAGE: usize>(
    left: &Image<PAGE>,
    separator: &[u8],
    right: &Image<PAGE>,
) -> Option<Image<PAGE>> {
    let mut image = Image::<PAGE>::zeroed();
    image.reset(Tag::Inner, left.lower(), right.upper(), C::PREFIX);
    let prefix = image.prefix_len();
    let bytes = |image: &Image<PAGE>| -> usize {
        let grown = image.prefix_len() - prefix;
        let sizes = (0..image.count())
            .map(|index| child_bytes::<C>(image.leaf_record::<C>(index).key_len + grown));
        sizes.sum()
    };
    let need = bytes(left) + bytes(right) + child_bytes::<C>(separator.len() - prefix);
    if need > image.free::<Comparison<C>>() {
        return None;
    }
    image.append::<Comparison<C>>(left, 0..left.count());
    let child = (left.upper_child() as PageNumber).to_le_bytes();
    let payload = Payload {
        kind: Kind::Inline,
        bytes: &child,
    };
    let done = image.insert::<Comparison<C>>(image.count(), &separator[prefix..], payload);
    debug_assert!(done, "counted above");
    image.append::<Comparison<C>>(right, 0..right.count());
    image.set_upper_child(right.upper_child());
    Some(image)
}
