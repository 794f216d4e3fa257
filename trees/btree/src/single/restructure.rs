//! Splits, merges, conversions and widenings of the tree for one writer.

use super::{BTree, Path};
use crate::configuration::Configuration;
use crate::node::densify::{NEIGHBOURS, Taken};
use crate::node::page::PageNumber;
use crate::node::plan::Planned;
use crate::node::slotted::{Comparison, Payload};
use crate::node::split::SplitPoint;

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Makes room on the way to `key`: gives its leaf another form, or splits the leaf or the
    /// lowest node above it whose parent has room. To be called until the leaf takes the record.
    pub(super) fn make_room(&mut self, root: PageNumber, key: &[u8], payload: Payload<'_>) {
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
                return self.split_node(page, parent, index, &cut);
            }
            page = parent;
        }
    }

    /// Whether an inner node has room for one more separator.
    pub(super) fn has_room_for(&self, parent: PageNumber, separator: &[u8]) -> bool {
        self.pages.page(parent).takes_child::<C>(separator)
    }

    /// The leaf of `key`, and the inner nodes and children's indices on the way there.
    pub(super) fn path_to(&self, root: PageNumber, key: &[u8]) -> (PageNumber, Path) {
        let mut path = Path::new();
        let page = self.path_into(root, key, &mut path);
        (page, path)
    }

    /// [`path_to`](Self::path_to), appended to a path.
    pub(super) fn path_into(&self, root: PageNumber, key: &[u8], path: &mut Path) -> PageNumber {
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
    pub(super) fn grow_root(&mut self, root: PageNumber) {
        let below = self.pages.allocate();
        *self.pages.page_mut(below) = self.pages.page(root).clone();
        self.pages.page_mut(root).become_root_above::<C>(below);
    }

    /// Splits `page`, the child `index` of `parent`, which has room for the separator.
    pub(super) fn split_node(
        &mut self,
        page: PageNumber,
        parent: PageNumber,
        index: usize,
        cut: &SplitPoint,
    ) {
        let right = self.pages.allocate();
        let old = self.pages.page(page).clone();
        old.left_half::<C>(cut, self.pages.page_mut(page), &mut self.conversions);
        old.right_half::<C>(cut, self.pages.page_mut(right), &mut self.conversions);
        self.put_child(parent, index, page, &cut.separator, right);
    }

    /// Puts a separator into the node above, which has room: `left` is its child `index`, and
    /// `right` becomes the next.
    pub(super) fn put_child(
        &mut self,
        parent: PageNumber,
        index: usize,
        left: PageNumber,
        separator: &[u8],
        right: PageNumber,
    ) {
        let above = self.pages.page_mut(parent);
        above.insert_child::<C>(index, left, separator, right);
    }
}

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Gives a leaf that cannot take a record another form, if that may help.
    pub(super) fn reform(
        &mut self,
        page: PageNumber,
        path: &[(PageNumber, usize)],
        key: &[u8],
        payload: Payload<'_>,
    ) -> bool {
        let Some(plan) = self.pages.page(page).reformed::<C>(key, payload) else {
            return false;
        };
        let old = self.pages.page(page).clone();
        let image = self.pages.page_mut(page);
        image.rebuild::<C>(&old, plan, &mut self.conversions);
        if let (Planned::FullyDense(_), Some(&(parent, index))) = (plan.form, path.last()) {
            self.widen(parent, index);
        }
        true
    }

    /// Lets a leaf that became fully dense take records of its right neighbours.
    fn widen(&mut self, parent: PageNumber, mut index: usize) {
        for _ in 0..NEIGHBOURS {
            if index == self.pages.page(parent).count() {
                return;
            }
            let above = self.pages.page(parent);
            let left_page = above.child::<Comparison<C>>(index);
            let right_page = above.child::<Comparison<C>>(index + 1);
            let (left, right) = (self.pages.page(left_page), self.pages.page(right_page));
            match left.taking_from::<C>(right) {
                Taken::Nothing => return,
                Taken::All(left) => {
                    *self.pages.page_mut(left_page) = left;
                    self.drop_right(parent, index);
                    self.conversions.widened += 1;
                }
                Taken::Part { left, right, fence } => {
                    let above = self.pages.page_mut(parent);
                    if !above.move_separator::<C>(index, &fence) {
                        return;
                    }
                    *self.pages.page_mut(left_page) = left;
                    *self.pages.page_mut(right_page) = right;
                    self.conversions.to_dense += 1;
                    index += 1;
                }
            }
        }
    }
}

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Merges nodes on the way to `key`, from its leaf upwards as long as there is reason to. When
    /// inner nodes merge, empty leaves of both may be left below one, so it tries again.
    pub(super) fn merge_towards(&mut self, root: PageNumber, key: &[u8]) {
        while self.merge_upwards(root, key) {}
    }

    /// Does so once, and says whether inner nodes merged.
    fn merge_upwards(&mut self, root: PageNumber, key: &[u8]) -> bool {
        let mut inner = false;
        let (mut page, mut path) = self.path_to(root, key);
        while let Some((parent, mut index)) = path.pop() {
            if !self.pages.page(page).sparse::<C>() {
                break;
            }
            let before = self.pages.page(parent).count();
            // An empty leaf may have waited on either side for this one to shrink.
            loop {
                let count = self.pages.page(parent).count();
                if index < count && self.merge(parent, index) {
                    continue;
                }
                if index == 0 || !self.merge(parent, index - 1) {
                    break;
                }
                index -= 1;
            }
            // The only child of a node has neighbours below that one's.
            if before > 0 && self.pages.page(parent).count() == before {
                break;
            }
            inner |= self.pages.page(page).is_inner() && self.pages.page(parent).count() < before;
            page = parent;
        }
        self.shrink_root(root);
        inner
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

    /// Merges the children `index` and `index + 1`, if they are empty enough and fit.
    fn merge(&mut self, parent: PageNumber, index: usize) -> bool {
        let above = self.pages.page(parent);
        let left_page = above.child::<Comparison<C>>(index);
        let right_page = above.child::<Comparison<C>>(index + 1);
        let (left, right) = (self.pages.page(left_page), self.pages.page(right_page));
        if !left.may_merge::<C>(right) {
            return false;
        }
        self.pages.page_mut(left_page).order::<C>();
        self.pages.page_mut(right_page).order::<C>();
        let above = self.pages.page(parent);
        let (left, right) = (self.pages.page(left_page), self.pages.page(right_page));
        let merged = left.merged::<C>(above, index, right, &mut self.conversions);
        let Some(merged) = merged else {
            return false;
        };
        *self.pages.page_mut(left_page) = merged;
        self.drop_right(parent, index);
        true
    }

    /// Takes out the child `index + 1`, whose range the child `index` has got.
    pub(super) fn drop_right(&mut self, parent: PageNumber, index: usize) {
        let right = self.pages.page_mut(parent).remove_child::<C>(index);
        self.pages.release(right);
    }
}
