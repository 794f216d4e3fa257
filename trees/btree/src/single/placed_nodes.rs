//! Where the pages of a tree lie, for whoever inspects layouts.

use hedgerow_memory::{PlacedNode, VisitNodes, WrittenFields};

use super::BTree;
use crate::configuration::Configuration;
use crate::node::key::layer_root;
use crate::node::layout::Kind;
use crate::node::leaf::FormOf;
use crate::node::page::{HEADER, PageNumber};
use crate::node::slotted::Comparison;

/// Inner pages and leaves by their form; of each a search reads the header, and then what its form
/// wants. The writer puts records, slots and heads anywhere in a page. Overflow pages, which only
/// long values have, are no nodes.
impl<C: Configuration, const PAGE: usize> VisitNodes for BTree<C, PAGE> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        let mut open: Vec<(PageNumber, Option<usize>)> = vec![(self.root, None)];
        while let Some((page, parent)) = open.pop() {
            let image = self.pages.page(page);
            let address = std::ptr::from_ref(image).addr();
            let kind = match image.form::<C>() {
                _ if image.is_inner() => "inner",
                FormOf::Comparison => "comparison leaf",
                FormOf::Fingerprint => "fingerprint leaf",
                FormOf::SemiDense => "semi-dense leaf",
                FormOf::FullyDense => "fully dense leaf",
            };
            visit(&PlacedNode {
                kind,
                address,
                bytes: PAGE,
                search_fields: 0..HEADER,
                written_fields: WrittenFields::NONE.and(0..PAGE),
                parent,
            });
            if image.is_inner() {
                let children = (0..=image.count()).map(|index| image.child::<Comparison<C>>(index));
                open.extend(children.map(|child| (child, Some(address))));
                continue;
            }
            for index in image.all_taken::<C>() {
                let payload = image.payload(image.leaf_record::<C>(index));
                if payload.kind == Kind::Layer {
                    open.push((layer_root(payload), Some(address)));
                }
            }
        }
    }
}
