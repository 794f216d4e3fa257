//! Where the nodes of a tree lie, for whoever inspects layouts.

use hedgerow_memory::{PlacedNode, VisitNodes, WrittenFields};

use crate::configuration::Configuration;
use crate::node::border::{LAYER, SUFFIX};
use crate::node::{Border, Interior, NODE_BYTES, Node, SuffixBag};
use crate::release::root_at_rest;
use crate::tree::{Masstree, layer_root};
use crate::value::Value;

/// Kinds of border nodes by their width; of full ones those with inline suffixes are longer.
const fn border_kind(width: usize) -> &'static str {
    match width {
        2 => "border of 2",
        6 => "border of 6",
        _ => "border",
    }
}

/// Border nodes, interior nodes, external suffix bags, and blocks of values. A layer's root has the
/// border node that names it as its parent.
impl<V: Value, C: Configuration> VisitNodes for Masstree<V, C> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
        let _guard = C::read(&self.entry);
        let mut nodes: Vec<(*mut Node, Option<usize>)> = vec![(self.root(), None)];
        while let Some((node, parent)) = nodes.pop() {
            let address = Some(node.addr());
            // SAFETY: reached under the guard through links read under it.
            if unsafe { (*node).version.stable() }.is_border() {
                // SAFETY: as above, and a border node.
                let border = unsafe { &*node.cast::<Border>() };
                self.visit_border(border, parent, visit, &mut |layer| {
                    // SAFETY: a layer pointer read under the guard.
                    nodes.push((unsafe { root_at_rest(layer) }, address));
                });
            } else {
                visit(&PlacedNode {
                    kind: "interior",
                    address: node.addr(),
                    bytes: NODE_BYTES,
                    search_fields: 0..NODE_BYTES,
                    written_fields: Interior::WRITTEN,
                    parent,
                });
                // SAFETY: as above, and not a border node.
                let interior = unsafe { &*node.cast::<Interior>() };
                let children = (0..=interior.count()).map(|index| interior.child(index));
                nodes.extend(children.map(|child| (child, address)));
            }
        }
    }
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    /// Visits a border node, its bag and its values; `layer` sees the layers that it names.
    fn visit_border(
        &self,
        border: &Border,
        parent: Option<usize>,
        visit: &mut dyn FnMut(&PlacedNode),
        layer: &mut dyn FnMut(*mut Node),
    ) {
        let address = std::ptr::from_ref(border).addr();
        let bytes = border.block_bytes();
        visit(&PlacedNode {
            kind: border_kind(border.width()),
            address,
            bytes,
            search_fields: 0..bytes - border.inline_suffix_bytes(),
            written_fields: border.written_fields(),
            parent,
        });
        let bag = border.external_bag();
        // SAFETY: an external bag is alive as long as the guard's pin.
        if let Some(lines) = unsafe { bag.as_ref() }.map(SuffixBag::lines) {
            let bytes = SuffixBag::block_bytes(lines);
            visit(&PlacedNode {
                kind: "suffixes",
                address: bag.addr(),
                bytes,
                search_fields: 0..bytes,
                written_fields: SuffixBag::written_fields(bytes),
                parent: Some(address),
            });
        }
        let version = border.version.stable();
        let permutation = border.permutation();
        for slot in (0..permutation.count()).map(|index| permutation.slot(index)) {
            let (length, value) = (border.length(slot), border.value(slot));
            if length != border.length(slot) || !border.version.validate(version) {
                continue; // a writer is here: this slot may be anything
            }
            if length == LAYER {
                layer(layer_root(value));
            } else if length <= SUFFIX && V::OWNING {
                // SAFETY: a validated read of a live slot under the guard.
                let bytes = unsafe { V::owned_bytes(value) };
                visit(&PlacedNode {
                    kind: "value",
                    address: value as usize,
                    bytes,
                    search_fields: 0..bytes,
                    // Another value is another block.
                    written_fields: WrittenFields::NONE,
                    parent: Some(address),
                });
            }
        }
    }
}
