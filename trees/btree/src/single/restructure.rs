//! Splits and merges: [restructurings](crate::restructure) of pages that one writer has for itself.

use hedgerow_pages::{PageId, Pages, Resident, ResidentPage, Result};

use super::{BTree, PagePath};
use crate::configuration::Configuration;
use crate::node::layout::Payload;
use crate::node::page::PageNumber;
use crate::node::slotted::Comparison;
use crate::node::split::SplitPoint;
use crate::restructure::{Above, NodePath, NodeRef, Restructuring};

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Restructures, and counts what came of it.
    fn restructure<R>(
        &mut self,
        what: impl FnOnce(&mut Restructuring<'_, C, PAGE, Resident<PAGE>>) -> Result<R>,
    ) -> R {
        let mut nodes = Restructuring::new(self.pages.provider_mut(), &());
        let result = what(&mut nodes);
        self.conversions.absorb(&nodes.conversions);
        result.unwrap_or_else(|stop| panic!("{stop}"))
    }

    /// The page as a provider names it: a latch of it, and a snapshot.
    fn latch(&self, page: PageNumber) -> ResidentPage {
        let latch = self.pages.provider().exclusive(PageId(page));
        latch.unwrap_or_else(|_| unreachable!("nobody else has the page"))
    }

    /// The leaf of a key and the path to it, as a restructuring takes them.
    fn path_of_nodes(
        &self,
        root: PageNumber,
        key: &[u8],
    ) -> (NodePath<ResidentPage>, NodeRef<ResidentPage>) {
        let node = |page: PageNumber| NodeRef {
            id: PageId(page),
            snapshot: self.latch(page),
        };
        let mut path = PagePath::new();
        let leaf = self.path_into(root, key, &mut path);
        let path = path.into_iter().map(|(page, index)| (node(page), index));
        (path.collect(), node(leaf))
    }

    /// Makes room on the path to `key`. To be called until the leaf takes the record.
    pub(super) fn make_room(&mut self, root: PageNumber, key: &[u8], payload: Payload<'_>) {
        let (path, leaf) = self.path_of_nodes(root, key);
        self.restructure(|nodes| nodes.make_room(&path, leaf, key, payload));
    }

    /// Merges nodes on the path to `key`, from its leaf upwards as long as there is reason to. When
    /// inner nodes merge, empty leaves of both may be left below one, so it tries again.
    pub(super) fn merge_towards(&mut self, root: PageNumber, key: &[u8]) {
        loop {
            let (path, leaf) = self.path_of_nodes(root, key);
            let merges = self.restructure(|nodes| {
                nodes.merge_path(&path, leaf)?;
                Ok(nodes.merges)
            });
            if merges == 0 {
                return;
            }
        }
    }

    /// Puts a level between the root and its content. The root keeps its number.
    pub(super) fn grow_root(&mut self, root: PageNumber) {
        let (latch, page) = (self.latch(root), self.pages.page(root).clone());
        self.restructure(|nodes| nodes.raise_root(latch, page));
    }

    /// Splits `page`, the child `index` of `parent`, which has room for the separator.
    pub(super) fn split_node(
        &mut self,
        page: PageNumber,
        parent: PageNumber,
        index: usize,
        cut: &SplitPoint,
    ) {
        let latch = self.latch(parent);
        let above = Above { latch, index };
        let (latch, page) = (self.latch(page), self.pages.page(page).clone());
        self.restructure(|nodes| nodes.split_node(latch, above, &page, cut));
    }

    /// Whether an inner node has room for one more separator.
    pub(super) fn has_room_for(&self, parent: PageNumber, separator: &[u8]) -> bool {
        self.pages.page(parent).takes_child::<C>(separator)
    }

    /// The leaf of `key`; the inner nodes and children's indices on the way there are appended to
    /// a path.
    pub(super) fn path_into(
        &self,
        root: PageNumber,
        key: &[u8],
        path: &mut PagePath,
    ) -> PageNumber {
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

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::configuration::Fingerprint;
    use crate::node::plan::Planned;

    /// Halves are made before anything refers to them: a wrong plan panics and loses no record.
    #[test]
    fn a_split_into_a_half_without_room_changes_no_node() {
        let mut tree = BTree::<Fingerprint, 1024>::default();
        // As many as fit: as slots with heads they would not.
        let keys: Vec<[u8; 3]> = (0..124).map(|n| [n; 3]).collect();
        for key in &keys {
            assert!(tree.insert(key, &[]));
        }
        let root = tree.root;
        assert!(!tree.pages.page(root).is_inner(), "a leaf has room for all");
        tree.grow_root(root);
        let leaf = tree.pages.page(root).upper_child() as PageNumber;
        tree.pages.page_mut(leaf).order::<Fingerprint>();
        let mut cut = SplitPoint::new(keys.len(), vec![200]);
        cut.left = Some(Planned::Comparison.into());
        let split = catch_unwind(AssertUnwindSafe(|| tree.split_node(leaf, root, 0, &cut)));
        assert!(split.is_err(), "there is no room");
        assert_eq!(tree.pages.page(root).count(), 0, "no separator");
        for key in &keys {
            assert_eq!(tree.get(key, <[u8]>::len), Some(0), "{key:?}");
        }
    }
}
